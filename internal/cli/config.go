package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/rights"
	"github.com/bully-agent/bully-agent/internal/trust"
	"github.com/bully-agent/bully-agent/internal/vip"
)

var configCommand = command{
	name: "config", usage: "check or show the configuration",
	subcommands: []command{{
		name: "check", usage: "say each thing that is wrong with it",
		args: "[FILE]", maxArgs: 1,
		about: `Changes nothing. Checks FILE, or what run would read here: BULLY_CONFIG, else ` + defaultConfigFile + ` if it exists, or that of an instance.
			The BULLY_ variables of this environment count as they do for run. Prints ok and each job's next slot, or one line
			for each thing wrong, and exits 7. The agent, if it runs, is asked for the members: their own addresses are none for
			a become hook's vip add. Root is asking for the service, where its unit is installed: the check says whether its user, or
			that of --owner, can read the key. It also says which parts of resources, hooks, checks and
			jobs the unit forbids.`,
		examples: []string{program + " config check", program + " config check --owner bully-agent", program + " config check ./agent.toml", program + " config check --no-host ./agent.toml"},
		options:  []option{configOption, ownerOption, {name: "no-host", usage: "do not compare with this host: its addresses, hooks, directories and key"}},
		action:   checkConfig,
	}, {
		name: "show", operand: "config", usage: "print each setting and where it comes from",
		about: `The settings that run would use here with the same flags: by the flags, the BULLY_ variables of this environment, the file, and this
			host's name and addresses. It is a configuration file that gives the same; what would say more there than was said is
			commented out. An agent that runs keeps what it was started with: status says what waits for a restart. No key is
			in it; commands of hooks and jobs are.`,
		examples: []string{program + " config show", program + " config show --config ./agent.toml --json"},
		options:  append([]option{configOption, jsonOption}, settingOptions()...),
		action:   showConfig,
	}},
}

func showConfig(c *call) error {
	src, err := c.source()
	if err != nil {
		return err
	}
	cfg, err := config.Load(src)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return c.printJSON(struct {
			Settings  []config.Shown     `json:"settings"`
			Jobs      []config.ShownItem `json:"jobs"`
			Checks    []config.ShownItem `json:"checks"`
			Resources []config.ShownItem `json:"resources"`
		}{cfg.Shown(), cfg.ShownJobs(), cfg.ShownChecks(), cfg.ShownResources()})
	}
	return c.print(cfg.TOML())
}

func checkConfig(c *call) error {
	src, err := c.source()
	switch {
	case err != nil:
		return err
	case c.NArg() == 0:
	case c.IsSet(configOption.name):
		return usage("", "the file is named twice: by --config and as %s", strconv.Quote(c.Args().First()))
	case c.Args().First() == "":
		return usage("", `the name of the file is empty`)
	default:
		src.Path = c.Args().First()
	}
	cfg, err := config.Load(src)
	if err == nil && !c.Bool("no-host") {
		err = errors.Join(c.checkHere(cfg), checkState(cfg))
	}
	if err != nil {
		return err
	}
	cfg.Notes = append(cfg.Notes, joinsVirtual(cfg)...)
	if !c.Bool("no-host") {
		cfg.Notes = append(cfg.Notes, missingInterfaces(hookCommand(cfg.Hooks.OnBecomeLeader))...)
		cfg.Notes = append(cfg.Notes, cfg.Beside(src.Path, config.InstanceFiles())...)
		for _, f := range forbidden(c.service(), cfg) {
			cfg.Notes = append(cfg.Notes, f.Text+": "+f.Do)
		}
	}
	text := "ok"
	if src.Path == "" {
		text += ": no file, so defaults and environment"
	}
	for _, note := range slices.Concat(cfg.Notes, cfg.Passing) {
		text += "\nnote: " + note
	}
	for _, j := range cfg.Jobs {
		text += fmt.Sprintf("\njob %s: next %s, %s", j.Name, zoned(j.Schedule.Next(time.Now()).In(j.Schedule.Zone())), j.Schedule.Zone())
	}
	return c.print(text + "\n")
}

// joinsVirtual notes that join names what the become hook adds: that is another host's own address, mostly. It may be meant as the way
// to whoever leads.
func joinsVirtual(cfg *config.Config) (notes []string) {
	for _, entry := range cfg.Network.Join {
		at, err := netip.ParseAddrPort(entry)
		if err != nil {
			continue
		}
		if sparesOwners(hookCommand(cfg.Hooks.OnBecomeLeader), []vip.Owner{{Addr: at.Addr()}}) != nil {
			notes = append(notes, fmt.Sprintf("on_become_leader adds %s, which join names too: if it is a host's own address, two hosts would have it", at.Addr()))
		}
	}
	return notes
}

// missingInterfaces notes the interfaces that the become hook names to vip add and that are not here: a slip, unless the file is for
// another host, or the hook makes them.
func missingInterfaces(cmd hooks.Command) (notes []string) {
	for _, words := range trust.Arguments(cmd, "vip", "add") {
		name := interfaceAmong(words)
		var gone *vip.Complaint
		if name != "" && errors.As(vip.Look(name), &gone) && gone.Class == vip.Absent {
			notes = append(notes, fmt.Sprintf("on_become_leader runs vip add, and %s: %s", gone.What, gone.Remedy))
		}
	}
	return notes
}

// interfaceAmong is the word after the last address; "": there is none that a shell has not to expand first.
func interfaceAmong(words []string) (name string) {
	for i, word := range words[:max(len(words)-1, 0)] {
		if _, err := vip.Parse([]string{word}); err == nil {
			name = words[i+1]
		}
	}
	return name
}

// checkHere is what run would check, and as root whether the agent's user, if it is another, can read the key too.
func (c *call) checkHere(cfg *config.Config) error {
	o, err := c.keyOwner(cfg.Network.Key)
	if err != nil {
		return err
	}
	if o.name != "" {
		cfg.Look.KeyOwners = []uint32{uint32(o.uid)}
	}
	known := append(owners(cfg.Control.Socket), vip.Owner{Addr: cfg.Network.Advertise.Addr()})
	cfg.Look.Owners = known
	if err := checkHost(cfg, func(cmd hooks.Command) error { return sparesOwners(cmd, known) }); err != nil {
		return meantForOwner(err, cfg, o)
	}
	if os.Geteuid() != 0 || cfg.Network.Insecure {
		return nil
	}
	if o.name != "" && c.service().User() != "root" || c.IsSet("owner") {
		return readableBy(cfg, rights.User{Name: o.name, UID: o.uid, GID: o.gid})
	}
	if u, err := rights.Lookup(cfg.Node.User); cfg.Node.User != "" && err == nil { // run says of a user that there is none
		if err := readableBy(cfg, u); err != nil { // root reads it at the start, and nobody after that
			cfg.Notes = append(cfg.Notes, "a reload cannot take a changed key: "+err.Error())
		}
	}
	return nil
}

func readableBy(cfg *config.Config, u rights.User) error {
	if _, err := os.Lstat(cfg.Network.Key); err != nil || u.UID == 0 {
		return nil // without a key, which checkHost has let pass
	}
	return key.ReadableBy(cfg.Network.Key, u.Name, u.UID, u.GID)
}

// meantForOwner says to root, who finds a key of another user, how to ask for that user: a service's key, or the directory
// that it is in, must not become root's because root has looked at it.
func meantForOwner(err error, cfg *config.Config, o owner) error {
	uid, gone := uidOf(cfg.Network.Key)
	if o.name != "" || os.Geteuid() != 0 || gone != nil {
		return err
	}
	name := strconv.FormatUint(uint64(uid), 10)
	if u, unknown := user.LookupId(name); unknown == nil {
		name = u.Username
	}
	for _, bad := range keyErrors(err) {
		if its, gone := uidOf(bad.Anothers()); gone == nil && its == uid {
			bad.Mend = fmt.Sprintf("if the service runs as %s: %s config check --owner %s; if it runs as root: %s", name, program, name, bad.Mend)
		}
	}
	return err
}

func uidOf(path string) (uid uint32, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return info.Sys().(*syscall.Stat_t).Uid, nil
}

// keyErrors are those about the key's file that err is, or joins.
func keyErrors(err error) (all []*key.Error) {
	switch e := err.(type) {
	case *key.Error:
		return []*key.Error{e}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, keyErrors(one)...)
		}
	case interface{ Unwrap() error }:
		return keyErrors(e.Unwrap())
	}
	return all
}
