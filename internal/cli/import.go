package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/keepalived"
	"github.com/bully-agent/bully-agent/internal/unit"
)

var importCommand = command{
	name: "import", usage: "make a configuration of another program's",
	subcommands: []command{importKeepalivedCommand},
}

var importKeepalivedCommand = command{
	name: "keepalived", usage: "make agent.toml of a keepalived.conf",
	args: "FILE", maxArgs: 1,
	about: `Reads FILE and what it includes. Each vrrp_instance becomes an agent; those of a vrrp_sync_group become one, which has
		the addresses of all. Without --out the configuration is printed. With it agent.toml is written into DIR, or NAME.toml
		for each of several agents, readable by all. Only a file that sets nothing, as packages install one, is replaced. Each line
		that no agent has, or not quite the same, is named on standard error, with what to do instead, and at the end the commands
		that come next. Nothing else on this host is changed, and nothing is run.

		Exit codes: 0 done; 2 usage; 6 a file is there already, nothing was written; 7 FILE cannot be read, or is no
		keepalived.conf.`,
	examples: []string{
		program + " import keepalived /etc/keepalived/keepalived.conf",
		program + " import keepalived --out /etc/bully-agent /etc/keepalived/keepalived.conf",
	},
	options: []option{
		{name: "out", value: "DIR", usage: "write files there", fallback: "print them"},
		{name: "id", value: "ID", usage: "lines with @ID are for this one: keepalived's --config-id", fallback: "this host's name"},
	},
	action: importKeepalived,
}

func importKeepalived(c *call) error {
	path := c.Args().First()
	if path == "" {
		return usage("see "+c.path+" --help", "FILE is missing: expected a keepalived.conf")
	}
	if c.IsSet("out") && c.String("out") == "" {
		return usage("", "--out is empty: expected a directory")
	}
	agents, notes, err := convert(path, c.configID())
	if err != nil {
		return &failure{code: exitConfig, err: err}
	}
	files := make(map[string]string, len(agents))
	var names []string
	for _, a := range agents {
		name := "agent.toml"
		if len(agents) > 1 {
			name = a.Name + ".toml"
		}
		names, files[name] = append(names, name), a.TOML(path)
	}
	if c.IsSet("out") {
		err = c.writeImported(c.String("out"), names, files)
	} else {
		err = c.printImported(names, files)
	}
	if err != nil {
		return err
	}
	c.noteImported(notes)
	c.noteForbidden(agents)
	if c.IsSet("out") {
		c.noteNext(c.String("out"), names, agents)
	}
	return nil
}

// configID is keepalived's: the first part of the host's name, if nobody says otherwise.
func (c *call) configID() string {
	if c.IsSet("id") {
		return c.String("id")
	}
	host, _ := os.Hostname() // none is nobody's
	id, _, _ := strings.Cut(host, ".")
	return id
}

func convert(path, id string) ([]keepalived.Agent, []keepalived.Note, error) {
	file, err := keepalived.Read(path, keepalived.Source{ID: id})
	if err != nil {
		return nil, nil, err
	}
	agents, err := keepalived.Convert(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return agents, keepalived.Notes(file), nil
}

// printImported shows the files, each under its name if there are several.
func (c *call) printImported(names []string, files map[string]string) error {
	var b strings.Builder
	for i, name := range names {
		if len(names) > 1 {
			fmt.Fprintf(&b, "%s# %s\n", strings.Repeat("\n", min(i, 1)), name)
		}
		b.WriteString(files[name])
	}
	return c.print(b.String())
}

// writeImported writes all of the files, or none.
func (c *call) writeImported(dir string, names []string, files map[string]string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return usage("make it first", "--out is %s: expected a directory that is there", config.Printable(dir))
	}
	before := make(map[string][]byte) // of files that set nothing, as packages install one
	for _, name := range names {
		path := filepath.Join(dir, name)
		empty, err := whatIsThere(path)
		if err != nil {
			return err
		}
		if empty != nil {
			before[path] = empty
		}
	}
	for i, name := range names {
		path := filepath.Join(dir, name)
		err := writeSettings(path, []byte(files[name]), before[path] != nil)
		if err == nil {
			continue
		}
		for _, written := range names[:i] {
			undo(filepath.Join(dir, written), before)
		}
		if errors.Is(err, os.ErrExist) { // somebody else was quicker
			return isThere(path)
		}
		undo(path, before) // its name may be there, and not last
		return fmt.Errorf("write %s: %w", path, err)
	}
	var b strings.Builder
	for _, name := range names {
		path := filepath.Join(dir, name)
		of := ""
		if len(names) > 1 {
			of = " -i " + strings.TrimSuffix(name, ".toml")
		}
		fmt.Fprintf(&b, "%s written: check it with %s%s config check %s\n", path, program, of, path)
	}
	return c.print(b.String())
}

// whatIsThere is the text of a file that sets nothing, and so can be replaced; nil: there is no file. Any other is refused.
func whatIsThere(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !info.Mode().IsRegular() || !config.SetsNothing(path) {
		return nil, isThere(path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return append([]byte{}, text...), nil
}

// writeSettings makes a file that every user can read, whoever makes it: the agent's user has to, and there is no key in it. A file that
// a group reads, as the packages' is, stays that group's.
func writeSettings(path string, text []byte, replace bool) error {
	write, mode, gid := durable.Create, fs.FileMode(0o644), os.Getegid()
	if replace {
		write = durable.ReplaceOf
		if info, err := os.Lstat(path); err == nil && os.Geteuid() == 0 {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Gid != 0 && info.Mode().Perm() == 0o640 {
				mode, gid = 0o640, int(stat.Gid)
			}
		}
	}
	if err := write(path, text, os.Geteuid(), gid); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// undo brings back what was there before.
func undo(path string, before map[string][]byte) {
	if text := before[path]; text != nil {
		_ = writeSettings(path, text, true)
		return
	}
	_ = durable.Remove(path)
}

func isThere(path string) error {
	return &failure{code: exitRefused, err: fmt.Errorf("%s is there already: nothing was written", path),
		hint: "it is not a file of comments alone: move it away, or give another --out"}
}

// noteNext says which commands come next, once join is written and the key is there.
func (c *call) noteNext(dir string, names []string, agents []keepalived.Agent) {
	var ports []string
	for _, a := range agents {
		ports = append(ports, strconv.Itoa(cmp.Or(a.Port, config.DefaultPort)))
	}
	fmt.Fprintf(c.err, "next, on every host, when join is written, the key is there, and UDP and TCP %s are open between the hosts:\n", strings.Join(ports, ", "))
	for _, name := range names {
		place := filepath.Join(filepath.Dir(defaultConfigFile), name)
		if here, err := filepath.Abs(filepath.Join(dir, name)); err == nil && here != place {
			fmt.Fprintf(c.err, "  install -m 0644 %s %s\n", config.Printable(here), place)
		}
	}
	units := make([]string, len(names))
	isLimited := false
	for i, name := range names {
		units[i] = program
		if len(names) > 1 {
			units[i] += "@" + strings.TrimSuffix(name, ".toml")
		}
		if file := rightsOf(agents[i]); file != "" {
			fmt.Fprintf(c.err, "  install -D -m 0644 %s /etc/systemd/system/%s.service.d/%s\n", file, units[i], filepath.Base(file))
			isLimited = true
		}
	}
	if isLimited {
		fmt.Fprintln(c.err, "  systemctl daemon-reload")
	}
	fmt.Fprintln(c.err, "  systemctl disable --now keepalived")
	for _, unit := range units {
		fmt.Fprintf(c.err, "  systemctl enable --now %s\n", unit)
	}
}

// rightsOf is the drop-in that gives a service what the hooks of its agent need; "": none. What
// keepalived's scripts do is not known, and they did it as root.
func rightsOf(a keepalived.Agent) string {
	switch {
	case a.HasScripts:
		return unit.RootHooks
	case a.HasAddresses:
		return unit.Addresses
	}
	return ""
}

// noteForbidden says of checks that will not do as a service what they did as root.
func (c *call) noteForbidden(agents []keepalived.Agent) {
	said := map[string]bool{}
	for _, a := range agents {
		for _, k := range a.Checks {
			cmd := config.Command{Shell: k.Command}
			for _, f := range unit.Packaged().Forbids(k.Command + scriptText(cmd)) {
				line := fmt.Sprintf("check %s: as a service %s: %s", k.Name, f.Text, f.Do)
				if rightsOf(a) != unit.RootHooks && !said[line] {
					fmt.Fprintln(c.err, config.Printable(line))
				}
				said[line] = true
			}
		}
	}
}

// noteImported says what is left to a person.
func (c *call) noteImported(notes []keepalived.Note) {
	left := 0
	for _, n := range notes {
		fmt.Fprintln(c.err, config.Printable(n.String()))
		if n.Left {
			left++
		}
	}
	fmt.Fprintf(c.err, "%d left out, %d changed\n", left, len(notes)-left)
}
