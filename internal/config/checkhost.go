package config

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/advertise"
	"github.com/bully-agent/bully-agent/internal/discovery"
)

// CheckHost compares the configuration with the host: are the addresses here, do the hooks and the jobs' commands exist, can the directories
// be written? It changes nothing and opens no socket, so a port in use is found only by starting.
//
// The error joins one *Error for each thing wrong, as Load's does.
func (c *Config) CheckHost() error { return c.checkHost(thisHost()) }

func (c *Config) checkHost(h host) error {
	var problems []*Error
	check := func(key string, err *Error) {
		if err != nil {
			problems = append(problems, err.at(c.places[key], key))
		}
	}
	check("network.bind", checkBind(c.Network.Bind.Addr(), h))
	if !c.Network.Advertise.IsValid() || c.Network.Advertise.Addr().IsUnspecified() {
		check("network.advertise", wrong("%s is no address to reach a host at", c.Network.Advertise))
	}
	check("network.device", checkDevice(c.Network.Device, h))
	check("node.state_dir", checkDir(c.Node.StateDir))
	check("control.socket", c.checkSocketFile())
	c.checkHTTP(h, check)
	check("hooks.on_become_leader", c.checkCommand(c.Hooks.OnBecomeLeader))
	check("hooks.on_lose_leadership", c.checkCommand(c.Hooks.OnLoseLeadership))
	check("hooks.on_leader_change", c.checkCommand(c.Hooks.OnLeaderChange))
	check("hooks.on_member_change", c.checkCommand(c.Hooks.OnMemberChange))
	for _, program := range discovery.Programs(c.Network.Join) {
		check("network.join", c.checkCommand(Command{Argv: []string{program}}))
	}
	for i := range c.Jobs {
		if err := c.checkCommand(c.Jobs[i].Command); err != nil {
			problems = append(problems, err.at(c.Jobs[i].place("command"), jobName+".command"))
		}
	}
	for i := range c.Checks {
		if err := c.checkCommand(c.Checks[i].Command); err != nil {
			problems = append(problems, err.at(c.Checks[i].place("command"), checkName+".command"))
		}
	}
	problems = append(problems, c.checkResources(h)...)
	_, err := c.Ring()
	return errors.Join(joined(problems), err)
}

func checkBind(addr netip.Addr, h host) *Error {
	if addr.IsUnspecified() || addr.IsLoopback() { // all of 127.0.0.0/8 is here
		return nil
	}
	links, err := h.links()
	if err != nil {
		return wrong("the host's interfaces cannot be read: %s", err)
	}
	if interfaceOf(links, addr) != "" {
		return nil
	}
	var here []string
	for _, l := range links {
		for _, a := range l.Addrs {
			if advertise.IsRoutable(a) {
				here = append(here, a.String())
			}
		}
	}
	return wrong("%s is not an address of this host: expected one of %s", addr, cut(strings.Join(append(here, "0.0.0.0", "::"), ", ")))
}

func checkDevice(name string, h host) *Error {
	if name == "" {
		return nil
	}
	links, err := h.links()
	if err != nil {
		return wrong("the host's interfaces cannot be read: %s", err)
	}
	var here []string
	for _, l := range links {
		if l.Name == name {
			return nil
		}
		here = append(here, l.Name)
	}
	return wrong("%s is no interface of this host: expected one of %s", quote(name), cut(strings.Join(here, ", ")))
}

// checkDir asks whether the directory can be written, or made.
func checkDir(dir string) *Error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if parent := filepath.Dir(dir); parent != dir {
			return checkDir(parent)
		}
	case err != nil:
		return wrong("%s cannot be used: %s", quote(dir), bare(err))
	case !info.IsDir():
		return wrong("%s is not a directory: expected one that can be written", quote(dir))
	}
	// The effective user is what counts: unix.Access would ask for the real one.
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return wrong("%s cannot be written: %s", quote(dir), err).hint("it must be writable by uid %d", os.Geteuid())
	}
	return nil
}

// checkSocketFile lets the agent make the directories that are its own. In any other place a missing directory is a slip,
// and the commands would look for the agent elsewhere.
func (c *Config) checkSocketFile() *Error {
	socket := c.Control.Socket
	info, err := os.Stat(socket)
	if err == nil && info.Mode()&fs.ModeSocket == 0 {
		return wrong("%s exists and is not a socket: expected a free name", quote(socket))
	}
	dir := filepath.Dir(socket)
	isOurs := c.places["control.socket"].origin == fromDefault || dir == filepath.Dir(systemSocket(c.Instance)) ||
		socket == DefaultSocket(os.LookupEnv, c.Instance) ||
		dir == c.Node.StateDir
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && !isOurs {
		return wrong("there is no directory %s: expected one that exists", quote(dir)).hint("make it, or leave the socket's path out")
	}
	return checkDir(dir)
}

// checkCommand asks whether a hook could be started.
func (c *Config) checkCommand(cmd Command) *Error {
	switch {
	case cmd.IsZero():
		return nil
	case c.Look.Hook != nil:
		if err := c.Look.Hook(cmd); err != nil {
			return wrong("%s", err)
		}
		return nil
	case len(cmd.Argv) > 0:
		return checkExecutable(cmd.Argv[0])
	}
	if program := plainProgram(cmd.Shell); program != "" {
		return checkExecutable(program)
	}
	return nil
}

// plainProgram is the program that a shell line starts with, if that is an absolute path without anything that the
// shell would interpret; "" if only the shell can tell.
func plainProgram(line string) string {
	word := strings.TrimSpace(line)
	if i := strings.IndexAny(word, " \t\n"); i >= 0 {
		word = word[:i]
	}
	if !strings.HasPrefix(word, "/") || strings.ContainsAny(word, "|&;<>()$`\\\"'*?[]#~={}!") {
		return ""
	}
	return word
}

func checkExecutable(program string) *Error {
	if !strings.HasPrefix(program, "/") {
		if _, err := exec.LookPath(program); err != nil {
			return wrong("%s is not in PATH: expected a program", quote(program))
		}
		return nil
	}
	info, err := os.Stat(program)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return wrong("%s does not exist: expected a program", quote(program))
	case err != nil:
		return wrong("%s cannot be run: %s", quote(program), bare(err))
	case !info.Mode().IsRegular():
		return wrong("%s is not a file: expected a program", quote(program))
	}
	if err := unix.Faccessat(unix.AT_FDCWD, program, unix.X_OK, unix.AT_EACCESS); err != nil {
		return wrong("%s is not executable (mode %04o): expected a program", quote(program), info.Mode().Perm()).
			hint("chmod +x %s", program)
	}
	return nil
}

// bare drops the operation and the path that the message has already.
func bare(err error) error {
	var bad *fs.PathError
	if errors.As(err, &bad) {
		return bad.Err
	}
	return err
}
