package cli

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/peers"
	"github.com/bully-agent/bully-agent/internal/trust"
)

var asCommand = command{
	name: "as", usage: "call another program's script from a hook, as that program does",
	about: `For a hook: what hooks are told, in the words of the other program. SCRIPT takes the place of this process, so that its
		exit code is the hook's, and a hook that is ended ends it.`,
	subcommands: []command{asKeepalivedCommand, asUcarpCommand, asPatroniCommand, asSerfCommand},
}

// asExitCodes is what all of them say.
const asExitCodes = `

		Exit codes: SCRIPT's own; 2 usage, or this is no hook; 126 SCRIPT cannot be executed, or somebody else than root could
		change it and this is root; 127 it was not found.`

// asExample makes an example that a person can try: what a hook has is given by hand.
func asExample(words string) string { return program + " as " + words }

var asKeepalivedCommand = command{
	name: "keepalived", usage: "call a notify script of keepalived",
	args: "-- SCRIPT [ARGUMENT...]", maxArgs: math.MaxInt,
	about: `Calls SCRIPT with its arguments and INSTANCE, the name, the state, and the priority, as the option notify of
		keepalived.conf does; the standard input is empty. The state is MASTER for become-leader. For
		lose-leadership it is FAULT where a check fails, the link is lost or the disk takes nothing. It is STOP where a leading
		agent is stopped, else BACKUP.
		keepalived gives every host a first BACKUP: at_start = "lose" under [hooks] does.` + asExitCodes,
	examples: []string{asExample("keepalived -- /etc/keepalived/notify.sh"), asExample("keepalived --name VI_1 --priority 150 -- /etc/keepalived/notify.sh")},
	options: []option{
		{name: "name", value: "NAME", usage: "of the vrrp_instance or vrrp_sync_group", fallback: "the cluster's"},
		{name: "type", value: "TYPE", usage: "INSTANCE or GROUP", fallback: "INSTANCE"},
		{name: "priority", value: "N", usage: "0 to 65535", fallback: "this host's"},
	},
	action: asKeepalived,
}

var asUcarpCommand = command{
	name: "ucarp", usage: "call an upscript or a downscript of ucarp",
	args: "-- SCRIPT [ARGUMENT...]", maxArgs: math.MaxInt,
	about: `Calls SCRIPT with the interface, the shared address, and the extra parameter if there is one. The upscript belongs into
		on_become_leader, the downscript into on_lose_leadership. ucarp runs the downscript when it starts: at_start = "lose"
		under [hooks] does.` + asExitCodes,
	examples: []string{asExample("ucarp --interface eth0 --vip 192.168.1.50 -- /etc/vip-up.sh")},
	options: []option{
		{name: "vip", value: "ADDRESS", usage: "the shared address: ucarp's --addr"},
		{name: "interface", value: "NAME", usage: "ucarp's --interface", fallback: "the one in whose network the address is"},
		{name: "xparam", value: "VALUE", usage: "ucarp's --xparam"},
	},
	action: asUcarp,
}

var asPatroniCommand = command{
	name: "patroni", usage: "call a callback script of Patroni",
	args: "-- SCRIPT [ARGUMENT...]", maxArgs: math.MaxInt,
	about: `Calls SCRIPT with its arguments and the action, the role and the scope. become-leader is on_role_change primary;
		lose-leadership is on_stop primary where a leading agent is stopped, on_start replica at a start, else on_role_change
		replica.` + asExitCodes,
	examples: []string{asExample("patroni -- /etc/patroni/callback.sh"), asExample("patroni --scope main --primary master -- /etc/patroni/callback.sh")},
	options: []option{
		{name: "scope", value: "NAME", usage: "Patroni's scope", fallback: "the cluster's name"},
		{name: "primary", value: "WORD", usage: "the leader's role: before Patroni 4 it was master", fallback: "primary"},
	},
	action: asPatroni,
}

var asSerfCommand = command{
	name: "serf", usage: "call an event handler of serf",
	args: "-- SCRIPT [ARGUMENT...]", maxArgs: math.MaxInt,
	about: `Calls SCRIPT with SERF_EVENT, SERF_SELF_NAME, SERF_SELF_ROLE and a SERF_TAG_ for each tag. member-change is
		member-join, member-leave, member-failed or member-update, with the members on the standard input that are so now: name,
		address, role and tags, of which other hosts have none. The other hooks are a user event of their name, with the leader
		on the standard input and the epoch as SERF_USER_LTIME.` + asExitCodes,
	examples: []string{asExample("serf --tag role=web -- /etc/serf/handler.sh")},
	options:  []option{{name: "tag", value: "NAME=VALUE", usage: "a tag of this host", many: true}},
	action:   asSerf,
}

func asKeepalived(c *call) error {
	kind := c.String("type")
	switch {
	case kind == "":
		kind = "INSTANCE"
	case kind != "INSTANCE" && kind != "GROUP":
		return usage("", "--type is %s: expected INSTANCE or GROUP", strconv.Quote(kind))
	}
	if n, err := strconv.Atoi(c.String("priority")); c.IsSet("priority") && (err != nil || n < 0 || n > 65535) {
		return usage("", "--priority is %s: expected a number from 0 to 65535", strconv.Quote(c.String("priority")))
	}
	return c.callAs(func(t peers.Told) (peers.Call, error) {
		name := c.String("name")
		if name == "" {
			name = t.Cluster
		}
		return peers.Keepalived{Kind: kind, Name: name, Priority: c.String("priority")}.Call(t)
	})
}

func asUcarp(c *call) error {
	vip, err := netip.ParseAddr(c.String("vip"))
	switch {
	case !c.IsSet("vip"):
		return usage("see "+c.path+" --help", "--vip is missing: expected the address that ucarp has as --addr")
	case err != nil:
		return usage("", "--vip is %s: expected an address without a prefix, such as 192.168.1.50", strconv.Quote(c.String("vip")))
	}
	name := c.String("interface")
	if name == "" {
		if name = interfaceBeside(vip); name == "" {
			return usage("write --interface eth0", "--interface is missing, and no interface of this host is in the network of %s", vip)
		}
	}
	return c.callAs(peers.Ucarp{Interface: name, Address: c.String("vip"), Extra: c.String("xparam")}.Call)
}

// interfaceBeside is the interface that has another address of the same network; "" if none has.
func interfaceBeside(vip netip.Addr) string {
	all, _ := net.Interfaces() // none, if they cannot be read
	for _, i := range all {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			prefix, err := netip.ParsePrefix(a.String())
			if err == nil && prefix.Addr() != vip && prefix.Contains(vip) {
				return i.Name
			}
		}
	}
	return ""
}

func asPatroni(c *call) error {
	primary := c.String("primary")
	if primary == "" {
		primary = "primary"
	}
	return c.callAs(peers.Patroni{Scope: c.String("scope"), Primary: primary}.Call)
}

func asSerf(c *call) error {
	tags := map[string]string{}
	for _, tag := range c.StringSlice("tag") {
		name, value, ok := strings.Cut(tag, "=")
		if !ok || name == "" {
			return usage("", "--tag is %s: expected NAME=VALUE, such as role=web", strconv.Quote(tag))
		}
		tags[name] = value
	}
	return c.callAs(peers.Serf{Tags: tags}.Call)
}

// callAs has the script take the place of this process. It returns only if it could not.
func (c *call) callAs(translate func(peers.Told) (peers.Call, error)) error {
	if c.NArg() == 0 {
		return usage("see "+c.path+" --help", "the script is missing: expected %s [flags] -- SCRIPT [ARGUMENT...]", c.path)
	}
	told, err := peers.Read(os.Getenv, c.in)
	if err != nil {
		return usage(fmt.Sprintf("write it into on_become_leader and on_lose_leadership; %s hooks test lose-leadership tries it", program), "%w", err)
	}
	path, err := script(c.Args().First())
	if err != nil {
		return err
	}
	way, err := translate(told)
	if err != nil {
		return usage("see "+c.path+" --help", "%w", err)
	}
	argv := slices.Concat([]string{path}, c.Args().Tail(), way.Args)
	return execute(argv, way)
}

// script finds what is to be called, and looks at it as hooks do.
func script(name string) (path string, err error) {
	notFound := &failure{code: exitNotFound, err: fmt.Errorf("%s: no such script on this host", name)}
	path = name
	if !strings.Contains(name, "/") {
		if path, err = exec.LookPath(name); err != nil {
			return "", notFound
		}
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", notFound
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return "", notFound
	}
	if err := trust.Check(hooks.Command{Argv: []string{path}}); err != nil {
		return "", &failure{code: exitNotExecutable, err: err}
	}
	return path, nil
}

// execute becomes the script. Its standard input is a file in memory, which holds whatever there is to say, or nothing.
func execute(argv []string, way peers.Call) error {
	fail := func(err error) error {
		return &failure{code: exitNotExecutable, err: fmt.Errorf("%s: %w", argv[0], err)}
	}
	input, err := inMemory(way.Input)
	if err != nil {
		return fail(err)
	}
	defer input.Close()
	if err := standardInput(input); err != nil {
		return fail(err)
	}
	err = syscall.Exec(argv[0], argv, append(os.Environ(), way.Env...)) // execve's limits on open files are the caller's again
	if errors.Is(err, unix.ENOENT) {
		err = errors.New("the program that its first line names was not found")
	} else if errors.Is(err, unix.ENOEXEC) {
		err = errors.New("it is no program, and has no first line such as #!/bin/sh")
	}
	return fail(err)
}

// standardInput has a file be read by what takes the place of this process.
func standardInput(f *os.File) error {
	if f.Fd() == 0 { // this process had none
		_, err := unix.FcntlInt(0, unix.F_SETFD, 0)
		return err
	}
	return unix.Dup3(int(f.Fd()), 0, 0)
}

func inMemory(text []byte) (*os.File, error) {
	if len(text) == 0 {
		return os.Open(os.DevNull)
	}
	fd, err := unix.MemfdCreate("event", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "event")
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
