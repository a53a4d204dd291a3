package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/bully-agent/bully-agent/agent"
	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/rights"
	"github.com/bully-agent/bully-agent/wire"
)

// idOptions say whose id it is: what run would take here.
var idOptions = []option{
	jsonOption,
	{name: "state-dir", value: "DIR", usage: "the agent's state directory; BULLY_STATE_DIR names one too", fallback: "as for run"},
	{name: "cluster", value: "NAME", usage: "the agent's cluster, of a directory that is made", fallback: "as for run"},
	{name: "user", value: "NAME", usage: "the user that the agent gives up its rights for", fallback: "as for run"},
	configOption,
}

var idCommand = command{
	name: "id", usage: "print the id of this host, before its first start too",
	about: `The id follows from a key that the host makes once and keeps in its state directory; nothing shows that key. Where there is no
		state yet, the directory and the key are made as the first start makes them, for the agent's user. An agent may be running.`,
	examples:    []string{program + " id", program + " id --state-dir ./state"},
	options:     idOptions,
	subcommands: []command{idNewCommand, idKeepCommand},
	action:      showID,
}

var idNewCommand = command{
	name: "new", usage: "make this host a new one, with a new key",
	about: `For a machine that was cloned, a state that was restored from a backup, or a key that others may have read. The agent
		must be down. The new id has no vote and no place in a roster; epochs go on above those that this host knows, and what
		is due, hold-down and maintenance last. In quorum mode the old id is to be forgotten on the host that leads.`,
	examples: []string{program + " id new", program + " id new --yes"},
	options:  append([]option{{name: "yes", usage: "do not ask"}}, idOptions...),
	action:   newID,
}

var idKeepCommand = command{
	name: "keep", usage: "keep the id on another machine",
	about: `For a host whose disk is in another machine now, or whose machine-id has changed: an agent refuses to start there with its
		old state directory. The agent must be down. Where the directory is a copy or a backup, take a new id. Two hosts with one
		id, or a host that has forgotten its vote, break the promise of one leader.`,
	examples: []string{program + " id keep"},
	options:  idOptions,
	action:   keepID,
}

// idHere is what the commands of the id are about.
func (c *call) idHere() (*config.Config, error) {
	src := c.sourceHere()
	for _, name := range []string{"state-dir", "cluster", "user"} {
		if c.IsSet(name) {
			src.Flags[name] = []string{c.String(name)}
		}
	}
	cfg, err := config.Load(src)
	if err == nil && cfg.Node.StateDir == "" {
		return nil, usage("", "there is no home directory to look for a state in: name its directory with --state-dir")
	}
	return cfg, err
}

func showID(c *call) error {
	cfg, err := c.idHere()
	if err != nil {
		return err
	}
	id, err := agent.ReadID(cfg.Node.StateDir)
	var inTheWay *fs.PathError
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &failure{code: exitNo, err: fmt.Errorf("the id cannot be read: %w", err),
			hint: "ask as root or as the agent's user; " + program + " status --json has it, too"}
	case errors.Is(err, fs.ErrNotExist):
		if id, err = c.makeID(cfg); err == nil {
			fmt.Fprintf(c.err, "made a key in %s\n", config.Printable(cfg.Node.StateDir))
		}
	case errors.As(err, &inTheWay):
		return &failure{code: exitConfig, err: fmt.Errorf("the id cannot be read: %w", err), hint: "see --state-dir"}
	}
	if err != nil {
		return err
	}
	return c.printID(id, id.String())
}

func (c *call) makeID(cfg *config.Config) (wire.ID, error) {
	stopped, err := c.stopped(cfg)
	if err != nil {
		return wire.ID{}, err
	}
	return stopped.MakeID()
}

func newID(c *call) error {
	cfg, err := c.idHere()
	if err != nil {
		return err
	}
	stopped, err := c.stopped(cfg)
	if err != nil {
		return err
	}
	old, id, err := stopped.NewID(c.confirmNewID)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return c.printJSON(struct {
			ID  string `json:"id"`
			Old string `json:"old"`
		}{id.String(), old.String()})
	}
	return c.print(fmt.Sprintf("id %s, in place of %s\nnext, in quorum mode: %s forget %s, on the host that leads; then start this agent\n", id, old, program, old))
}

// confirmNewID asks whoever types, unless --yes has answered.
func (c *call) confirmNewID(old wire.ID) error {
	if c.Bool("yes") {
		return nil
	}
	fmt.Fprintf(c.err, "This host becomes a new one: id %s ends, with its vote and its place in the roster.\nType yes to go on.\n", old)
	answer, err := bufio.NewReader(io.LimitReader(c.in, 80)).ReadString('\n')
	switch answer = strings.TrimSpace(answer); {
	case answer == "yes":
		return nil
	case answer == "" && errors.Is(err, io.EOF):
		return usage("--yes does not ask", "nobody has answered: nothing was changed")
	}
	return &failure{code: exitNo, err: errors.New("not confirmed: nothing was changed")}
}

func keepID(c *call) error {
	cfg, err := c.idHere()
	if err != nil {
		return err
	}
	stopped, err := c.stopped(cfg)
	if err != nil {
		return err
	}
	id, err := stopped.KeepID()
	if err != nil {
		return err
	}
	return c.printID(id, fmt.Sprintf("id %s is this machine's now: start no agent with another copy of %s", id, cfg.Node.StateDir))
}

// stopped is the state directory of an agent that does not run. Root has become the user whose the state is, where that is
// known: the agent's start refuses what is another's.
func (c *call) stopped(cfg *config.Config) (agent.Stopped, error) {
	s := agent.Stopped{Dir: cfg.Node.StateDir, Cluster: cfg.Cluster}
	as, isApart, err := c.userOfState(cfg)
	switch {
	case err != nil:
		return s, err
	case as == nil:
		return s, nil
	case isApart:
		s.Apart = &agent.Apart{UID: as.UID, GID: as.GID, GiveUp: func() error { return rights.Become(*as) }}
		return s, nil
	}
	if err := makeFor(s.Dir, *as); err != nil {
		return s, &failure{code: exitConfig, err: fmt.Errorf("state directory: %w", err), hint: "see --state-dir"}
	}
	if err := rights.Become(*as); err != nil {
		return s, fmt.Errorf("become user %s: %w", as.Name, err)
	}
	return s, nil
}

// userOfState is as whom the agent writes its state, if not as whom this process is: the user that it gives up its rights
// for (isApart), the owner of the directory, or the service's user before the service has made the directory.
func (c *call) userOfState(cfg *config.Config) (as *rights.User, isApart bool, err error) {
	name, u := cfg.Node.User, c.service()
	isService := u != nil && filepath.Clean(cfg.Node.StateDir) == filepath.Join("/var/lib", config.OwnName(c.instance.name))
	if name == "" && isService && u.User() == "root" && u.KeyUser() != "root" {
		name = u.KeyUser() // BULLY_USER= of the unit
	}
	if name != "" {
		ac := agent.Config{}
		if err := setApart(&ac, name); err != nil {
			return nil, false, err
		}
		found, err := rights.Lookup(name)
		return &found, true, err
	}
	if os.Geteuid() != 0 {
		return nil, false, nil
	}
	info, err := os.Stat(cfg.Node.StateDir)
	if err == nil {
		stat := info.Sys().(*syscall.Stat_t)
		if stat.Uid == 0 {
			return nil, false, nil
		}
		return &rights.User{Name: nameOf(stat.Uid), UID: int(stat.Uid), GID: int(stat.Gid)}, false, nil
	}
	if !isService || u.User() == "root" {
		return nil, false, nil
	}
	found, err := rights.Lookup(u.User())
	return &found, false, err
}

func nameOf(uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	if found, err := user.LookupId(number); err == nil {
		return found.Username
	}
	return number
}

// makeFor makes a directory that is missing, as the service manager does at the first start.
func makeFor(dir string, as rights.User) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = os.Lchown(dir, as.UID, as.GID)
	}
	return err
}

// printID prints a line about the id, or with --json the id.
func (c *call) printID(id wire.ID, line string) error {
	if c.Bool("json") {
		return c.printJSON(struct {
			ID string `json:"id"`
		}{id.String()})
	}
	return c.print(line + "\n")
}
