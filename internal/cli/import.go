package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/keepalived"
)

var importCommand = command{
	name: "import", usage: "make a configuration of another program's",
	subcommands: []command{importKeepalivedCommand},
}

var importKeepalivedCommand = command{
	name: "keepalived", usage: "make agent.toml of a keepalived.conf",
	args: "FILE", maxArgs: 1,
	about: `Reads FILE and what it includes. Each vrrp_instance becomes an agent; those of a vrrp_sync_group become one, which has
		the addresses of all. Without --out the configuration is printed; with it agent.toml is written into DIR, or NAME.toml
		for each of several agents. What is there already is not touched. Each line that no agent has, or not quite the same, is
		named on standard error, with what to do instead. Nothing on this host is changed, and nothing is run.

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
	if err == nil {
		c.noteImported(notes)
	}
	return err
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
	for _, name := range names {
		if err := isFree(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for i, name := range names {
		path := filepath.Join(dir, name)
		err := durable.Create(path, []byte(files[name]), os.Geteuid(), os.Getegid())
		if err == nil {
			continue
		}
		for _, written := range names[:i] {
			_ = durable.Remove(filepath.Join(dir, written))
		}
		if errors.Is(err, os.ErrExist) { // somebody else was quicker
			return isThere(path)
		}
		return fmt.Errorf("write %s: %w", path, err)
	}
	var b strings.Builder
	for _, name := range names {
		path := filepath.Join(dir, name)
		fmt.Fprintf(&b, "%s written: check it with %s config check %s\n", path, program, path)
	}
	return c.print(b.String())
}

func isFree(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return isThere(path)
	}
	return nil
}

func isThere(path string) error {
	return &failure{code: exitRefused, err: fmt.Errorf("%s is there already: nothing was written", path), hint: "move it away, or give another --out"}
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
