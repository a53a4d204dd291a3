package cli

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/key"
)

var keyCommand = command{
	name: "key", usage: "make, show and replace the key that all hosts share",
	subcommands: []command{keyGenerateCommand, keyStatusCommand, keyRotateCommand, keyRevokeCommand},
}

// keyOptions say which file it is about.
var keyOptions = []option{
	{name: "key", value: "FILE", usage: "the key's file; BULLY_KEY names one too", fallback: "the file that run would read here"},
	configOption,
}

var ownerOption = option{name: "owner", value: "USER", usage: "the agent's user, if it is another than this one", fallback: "as root that of the service, if it is installed"}

var keyGenerateCommand = command{
	name: "generate", usage: "make a key, on the first host of a cluster",
	about: `Makes the file, which only its owner can read, and the directories that lead to it. Never over a file that is there. It
		prints how the key comes to the other hosts: all of a cluster need the same. A host that has it is a member.`,
	examples: []string{program + " key generate", program + " key generate --owner bully-agent"},
	options:  append([]option{ownerOption, {name: "if-missing", usage: "be content with a file that is there already and is right"}}, keyOptions...),
	action:   generateKey,
}

func generateKey(c *call) error {
	path, err := c.keyPath()
	if err != nil {
		return err
	}
	owner, err := c.keyOwner(path)
	if err != nil {
		return err
	}
	ring := key.Ring{key.Generate(time.Now(), nil)}
	switch err := key.Make(path, ring, owner.uid, owner.gid); {
	case err == nil:
	case !errors.Is(err, os.ErrExist):
		return err
	case owner.name != "" && !owner.has(path): // made by root to try it out, mostly, before there was a service
		return &failure{code: exitRefused, err: fmt.Errorf("%s: it is there already, and not %s's", path, owner.name),
			hint: fmt.Sprintf("if it is this cluster's key: chown %s %s", owner.name, key.Quoted(path))}
	case c.Bool("if-missing"):
		if ring, err = key.Read(path, uint32(owner.uid)); err != nil {
			return err
		}
		return c.print(fmt.Sprintf("%s has key %s already\n", path, ring[0].ID))
	default:
		return &failure{code: exitRefused, err: err}
	}
	whose := ""
	if owner.unit != "" {
		whose = fmt.Sprintf(", for user %s of %s", owner.name, owner.unit)
	}
	text := fmt.Sprintf("made key %s in %s%s\ncopy it to each other host of the cluster, then start the agents:\n", ring[0].ID, path, whose)
	shown := key.Quoted(path)
	text += fmt.Sprintf("  ssh HOST %s\n  scp -p %s HOST:%s\n", there("mkdir -p ", filepath.Dir(path)), shown, shown)
	if owner.name != "" {
		text += fmt.Sprintf("  ssh HOST %s\n", there("chown "+owner.name+" ", path))
	}
	return c.print(text)
}

// there is a command as ssh takes it, whose words another shell takes apart once more.
func there(command, path string) string {
	if quoted := key.Quoted(path); quoted != path {
		return key.Quoted(command + quoted)
	}
	return command + path
}

// keyPath is the file that run would read here.
func (c *call) keyPath() (string, error) {
	src := c.sourceHere()
	if c.IsSet("key") {
		src.Flags["key"] = []string{c.String("key")}
	}
	cfg, err := config.Load(src)
	if err != nil {
		return "", err
	}
	if cfg.Network.Key == "" {
		return "", usage("", "there is no home directory to look for a key in: name its file with --key")
	}
	return cfg.Network.Key, nil
}

// owner is whom a file is for; the name is empty unless it was given, or a unit gives it.
type owner struct {
	name     string
	uid, gid int
	unit     string // that names this user, where nobody has with --owner
}

// has reports whether a file is the owner's, or cannot be looked at.
func (o owner) has(path string) bool {
	var s unix.Stat_t
	return unix.Lstat(path, &s) != nil || int(s.Uid) == o.uid
}

func (c *call) keyOwner(path string) (owner, error) {
	o := owner{uid: os.Geteuid(), gid: os.Getegid()}
	if !c.IsSet("owner") {
		u := c.service()
		if its, is := serviceOwner(u, path); is {
			its.unit = u.Name
			return its, nil
		}
		return o, nil
	}
	found, err := user.Lookup(c.String("owner"))
	if err != nil {
		found, err = user.LookupId(c.String("owner"))
	}
	if err != nil {
		return o, usage("", "--owner is %s: expected a user of this host", strconv.Quote(c.String("owner")))
	}
	return userAsOwner(found)
}

func userAsOwner(u *user.User) (o owner, err error) {
	uid, err := strconv.Atoi(u.Uid)
	gid, bad := strconv.Atoi(u.Gid)
	return owner{name: u.Username, uid: uid, gid: gid}, errors.Join(err, bad)
}

var keyStatusCommand = command{
	name: "status", usage: "show the keys of this host, and which host has which",
	about: `Shows ids and days, never a key. The other hosts tell the agent that runs here which keys they have; without an agent only
		the file is shown.`,
	examples: []string{program + " key status", program + " key status --json"},
	options:  append([]option{ownerOption, jsonOption, socketOption}, keyOptions...),
	action: func(c *call) error {
		k, err := c.keys()
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return c.printJSON(k.status())
		}
		return c.print(c.keysText(k))
	},
}

// keys are a host's: of its file, and of its agent.
type keys struct {
	path  string
	ring  key.Ring
	agent *control.Keys // nil: none runs
	owner owner
}

// keys reads the file, and asks the agent if there is one.
func (c *call) keys() (k keys, err error) {
	if k.path, err = c.keyPath(); err != nil {
		return k, err
	}
	if k.owner, err = c.keyOwner(k.path); err != nil {
		return k, err
	}
	switch answer, err := c.client().Keys(c.Context.Context); {
	case err == nil:
		k.agent = &answer
	case !errors.Is(err, control.ErrUnreachable):
		return k, err
	}
	also := []uint32{uint32(k.owner.uid)}
	if k.agent != nil {
		also = append(also, uint32(k.agent.UID))
	}
	k.ring, err = key.Read(k.path, also...)
	return k, err
}

// hasCredential reports whether the agent has its keys from systemd, which copied them at the start.
func (k keys) hasCredential() bool {
	return k.agent != nil && k.agent.File != k.path && filepath.Base(k.agent.File) == config.Credential
}

// reload is how the agent comes to read the file again.
func (k keys) reload() string {
	if k.hasCredential() {
		return "systemctl restart bully-agent"
	}
	return program + " reload"
}

// others are the hosts that the agent knows, but this one and those named.
func (k keys) others(without ...string) (hosts []key.Host) {
	if k.agent == nil {
		return nil
	}
	for _, h := range k.agent.Hosts {
		if !h.Self && !slices.Contains(without, h.Name) {
			hosts = append(hosts, key.Host{Name: h.Name, IDs: parseIDs(h.Keys), Uses: parseIDs(h.Uses)})
		}
	}
	return hosts
}

// parseIDs leaves out what is none, which a later agent may say.
func parseIDs(text []string) (ids []key.ID) {
	for _, t := range text {
		if id, err := key.ParseID(t); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// keyStatus is what key status prints with --json.
type keyStatus struct {
	File  string        `json:"file"`
	Keys  []fileKey     `json:"keys"`  // in the file's order; the first begins
	Agent *control.Keys `json:"agent"` // null: none runs
}

type fileKey struct {
	ID   string `json:"id"`
	Made string `json:"made"` // day
}

func (k keys) status() keyStatus {
	s := keyStatus{File: k.path, Agent: k.agent, Keys: []fileKey{}}
	for _, one := range k.ring {
		s.Keys = append(s.Keys, fileKey{ID: one.ID.String(), Made: one.Made.Format(dayLayout)})
	}
	return s
}

func (c *console) keysText(k keys) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "KEY\tMADE\tIN %s\n", k.path)
	for i, one := range k.ring {
		what := "accepted"
		if i == 0 {
			what = "begins"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", one.ID, one.Made.Format(dayLayout), what)
	}
	_ = table.Flush()
	b.WriteString("\n")
	if k.agent == nil {
		return b.String() + "no agent answers here, so what other hosts have is not known\n"
	}
	table = tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HOST\tSTATUS\tKEYS")
	for _, h := range k.agent.Hosts {
		text := strings.Join(h.Keys, " ")
		if text == "" {
			text = "-"
		}
		if lacks := lacking(k.ring, h); len(h.Keys) > 0 && lacks != "" {
			text += ", " + c.painted(yellow, "lacks") + " " + lacks
		}
		if h.Self {
			text += ", this node"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", h.Name, h.Status, text)
	}
	_ = table.Flush()
	for _, note := range k.notes() {
		b.WriteString(c.painted(yellow, "note") + ": " + note + "\n")
	}
	return b.String()
}

// lacking are the keys of the ring that a host has not.
func lacking(ring key.Ring, h control.HostKeys) string {
	has := key.Ring{}
	for _, id := range parseIDs(h.Keys) {
		has = append(has, key.Key{ID: id})
	}
	var lacks []string
	for _, id := range ring.IDs() {
		if _, found := has.Find(id); !found {
			lacks = append(lacks, id.String())
		}
	}
	return strings.Join(lacks, " ")
}

// notes say what is odd about the keys, and what to do.
func (k keys) notes() (notes []string) {
	switch {
	case k.agent.Insecure:
		return []string{"the agent runs with --insecure and uses no key"}
	case len(k.agent.Keys) == 0:
		return []string{"the agent uses no key: restart it"}
	}
	if err := k.isTaken(); err != nil {
		notes = append(notes, err.Error())
	}
	if !k.agent.Sealed {
		notes = append(notes, "traffic is not sealed, so other hosts do not say which keys they have")
	}
	return notes
}
