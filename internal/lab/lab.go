// Package lab runs a cluster of real agents on one host, does them harm, and watches what they make of it.
//
// The agents are child processes of the same program, each with a state directory and an address of its own: a port of
// 127.0.0.1, or as root a host with a cable that can be pulled (package netlab).
// Their hooks print into a FIFO (hookline.go, hookend.go), so that all that happens stands on one clock in one journal
// (journal.go), which in the end is judged (package verdict).
//
// A lab is driven by the keyboard (live.go), by a script (script.go, play.go), inflicts one kind of fault again and
// again and measures (measure.go), or does nothing and counts changes of leader (watch.go).
package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	secrets "github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/lab/netlab"
	"github.com/bully-agent/bully-agent/internal/lab/verdict"
	"github.com/bully-agent/bully-agent/internal/realtime"
)

// lab is one run of it. It owns the directory, the agents and the network, and takes them all away in close.
type lab struct {
	Options
	dir      string
	journal  *journal
	ear      *ear
	spawner  *spawner
	lan      *netlab.LAN // nil without --netns
	nodes    []*node     // n1 first
	web      *web        // nil without --page
	isJudged bool        // the report was printed
	hands    sync.Mutex  // held by the keyboard, or by who pressed a button, while that does something to a node
}

// Run runs a lab until its task is done, the user quits, a signal comes or ctx ends; then nothing of it runs any more.
// Its error has an ExitCode where that is not 1: 2 for options or a script that make no sense, 130 when it was
// interrupted. A broken promise is an error.
func Run(ctx context.Context, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	if err := hasRoom(o.Nodes, memoryAvailable()); err != nil {
		return err
	}
	o.fill()
	script, err := o.readScript()
	if err != nil {
		return err
	}
	// SIGPIPE too: a reader that has enough must not keep the lab from cleaning up.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	l := &lab{Options: o}
	defer l.close()
	if err := l.open(); err != nil {
		return err
	}
	err = l.drive(ctx, script)
	switch {
	case ctx.Err() == nil:
		return err
	case !l.isJudged:
		_ = l.report(findings{failed: errInterrupted}) // of what happened until now
	}
	return errInterrupted
}

var errInterrupted error = &exitError{ExitInterrupted, errors.New("interrupted, all agents of the lab are gone")}

// drive does what the lab was started for.
func (l *lab) drive(ctx context.Context, script []command) error {
	if !l.JSON && !l.isLive() {
		fmt.Fprintf(l.Out, "%s\n\n", l.title())
	}
	l.announce()
	if err := l.startAll(ctx); err != nil {
		return err
	}
	switch {
	case l.Fault != "":
		return l.measure(ctx)
	case l.Watch > 0:
		return l.watch(ctx)
	case l.Page:
		return l.present(ctx)
	case l.isLive():
		return l.live(ctx)
	}
	return l.play(ctx, script)
}

// readScript is the script to play: the user's, the built-in one, or nil for none.
func (o *Options) readScript() ([]command, error) {
	switch {
	case o.Script != "":
		f, err := os.Open(o.Script)
		if err != nil {
			return nil, usage("read script: %w", err)
		}
		defer f.Close()
		return parseScript(o.Script, f, o.Nodes, o.Netns)
	case o.Fault != "" || o.Watch > 0 || o.Page || o.isLive():
		return nil, nil
	}
	return parseScript("built-in script", strings.NewReader(defaultScript(o.best(), o.Nodes, o.Preempt)), o.Nodes, o.Netns)
}

// open makes everything but the processes.
func (l *lab) open() error {
	dir, err := os.MkdirTemp(l.place, "bully-lab-")
	if err != nil {
		return fmt.Errorf("open lab: %w", err)
	}
	l.dir = dir
	var show func(verdict.Record)
	if l.Fault == "" && !l.JSON && !l.isLive() {
		show = func(r verdict.Record) { fmt.Fprintln(l.Out, r) }
	}
	if err := os.WriteFile(filepath.Join(dir, emptyConfig), nil, 0o600); err != nil {
		return fmt.Errorf("open lab: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, keyFile), secrets.Ring{secrets.Generate(time.Now(), nil)}.Format(), 0o600); err != nil {
		return fmt.Errorf("open lab: %w", err)
	}
	if l.Page {
		b := newBoard(l)
		if l.web, err = openWeb(b, cmp.Or(l.PageAddr, defaultPage)); err != nil {
			return err
		}
		print := show
		show = func(r verdict.Record) {
			b.note(r)
			if print != nil {
				print(r)
			}
		}
	}
	l.journal = newJournal(show)
	l.favourWires()
	l.spawner = newSpawner()
	fifo := filepath.Join(dir, "hooks")
	if l.ear, err = openEar(fifo, l.journal, func(err error) { l.progress("%v\n", err) }); err != nil {
		return fmt.Errorf("open lab: %w", err)
	}
	addrs, hosts, err := l.openAddresses()
	if err != nil {
		return fmt.Errorf("open lab: %w", err)
	}
	for k := 1; k <= l.Nodes; k++ {
		if err := l.ear.watchEnds(nodeName(k)); err != nil {
			return fmt.Errorf("open lab: %w", err)
		}
		if err := l.addNode(k, addrs, hosts[k-1], fifo); err != nil {
			return fmt.Errorf("open lab: %w", err)
		}
	}
	return nil
}

// favourWires keeps busy processes, the lab's and others, from the wires in this process: frames would come late by more
// than the weather says. It must come before the spawner, which starts nobody so.
func (l *lab) favourWires() {
	if l.weather().IsFine() {
		return
	}
	if err := realtime.Enter(); err != nil {
		l.progress("whatever else this machine does slows down the cables too, so the weather may be worse than it says: %v\n", err)
	}
}

// openAddresses finds where the agents listen, and makes their hosts if they have any.
func (l *lab) openAddresses() (addrs []netip.AddrPort, hosts []*netlab.Host, err error) {
	if !l.Netns {
		addrs, err = freePorts(l.Nodes)
		return addrs, make([]*netlab.Host, l.Nodes), err
	}
	if l.lan, hosts, err = openLAN(l.Nodes, l.weather()); err != nil {
		return nil, nil, err
	}
	for k := 1; k <= l.Nodes; k++ {
		addrs = append(addrs, netip.AddrPortFrom(hostAddr(k), labPort))
	}
	return addrs, hosts, nil
}

// emptyConfig is read instead of the file of the agent that this host may have.
const emptyConfig = "agent.toml"

// keyFile holds the key of the lab's agents.
const keyFile = "key"

// mostSocket is the longest path of a unix socket (sun_path).
const mostSocket = 107

func (l *lab) addNode(k int, addrs []netip.AddrPort, host *netlab.Host, fifo string) error {
	dir := filepath.Join(l.dir, nodeName(k))
	socket := filepath.Join(dir, "agent.sock")
	if len(socket) > mostSocket {
		return fmt.Errorf("socket path %s has %d bytes: expected at most %d, set TMPDIR to a shorter directory", socket, len(socket), mostSocket)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	l.nodes = append(l.nodes, &node{name: nodeName(k), dir: dir, host: host, lab: l,
		client: control.Dial(socket), args: l.agentArgs(k, dir, socket, addrs, fifo)})
	return nil
}

// preemptDelay is shorter than the agent's default, so that one does not wait long for a bully to come back.
const preemptDelay = 200 * time.Millisecond

// agentArgs is the command line of the kth agent.
func (l *lab) agentArgs(k int, dir, socket string, addrs []netip.AddrPort, fifo string) []string {
	var others []string
	for i, a := range addrs {
		if i != k-1 {
			others = append(others, a.String())
		}
	}
	args := []string{"run",
		"--config", filepath.Join(l.dir, emptyConfig),
		"--name", nodeName(k), "--cluster", filepath.Base(l.dir), "--priority", strconv.Itoa(100 + k),
		"--bind", addrs[k-1].String(), "--advertise", addrs[k-1].String(), "--state-dir", dir, "--socket", socket,
		"--profile", l.Profile, "--settle", l.Settle.String(), "--preempt", l.Preempt, "--preempt-delay", preemptDelay.String(),
		"--scheduling", l.Scheduling, "--algorithm", l.Algorithm, "--expect", strconv.Itoa(l.Expect),
		"--on-become-leader", hookCommand(fifo), "--on-lose-leadership", loseCommand(fifo, l.LoseHook), "--log-level", "debug"}
	if len(others) > 0 {
		args = append(args, "--join", strings.Join(others, ","))
	}
	return append(append(args, l.trust()...), l.Extra...)
}

// trust is whom the agents take for members: who has the lab's key, or everybody.
func (l *lab) trust() []string {
	if l.Insecure {
		return []string{"--insecure"}
	}
	return []string{"--key", filepath.Join(l.dir, keyFile)}
}

func (l *lab) startAll(ctx context.Context) error {
	for _, n := range l.nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := n.start(); err != nil {
			return err
		}
	}
	return nil
}

// close ends all agents, then takes away all else that the lab made. It works on a lab that is open only in part.
func (l *lab) close() {
	if l.journal != nil {
		l.journal.mute() // the end of the lab is no part of the story
	}
	if l.web != nil {
		_ = l.web.listener.Close() // it may be closed already
	}
	for _, n := range l.nodes {
		n.kill()
	}
	for _, n := range l.nodes {
		n.await()
		awaitKeeper(n.dir)
	}
	if l.spawner != nil {
		l.spawner.close()
	}
	if l.ear != nil {
		l.ear.close()
	}
	l.lan.Close()
	if l.dir == "" {
		return
	}
	if l.Keep {
		l.progress("states and logs of the agents are in %s\n", l.dir)
		return
	}
	_ = os.RemoveAll(l.dir)
}

// progress tells the user what goes on, apart from the results.
func (l *lab) progress(format string, args ...any) { fmt.Fprintf(l.Err, format, args...) }

// node finds a node by its name, or the leader.
func (l *lab) node(name string) (*node, error) {
	if name == targetLeader {
		r, ok := l.leader()
		if !ok {
			return nil, errors.New("nobody leads")
		}
		name = r.Node
	}
	for _, n := range l.nodes {
		if n.name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no such node: %s", name)
}

// leader is the become record of the present leader; of several, the newest that can be reached.
func (l *lab) leader() (leader verdict.Record, ok bool) {
	for _, r := range l.journal.leading() {
		if n, err := l.node(r.Node); err == nil && n.reachable() {
			leader, ok = r, true
		}
	}
	return leader, ok
}

// reachable lists the nodes that should hear each other.
func (l *lab) reachable() []*node {
	var nodes []*node
	for _, n := range l.nodes {
		if n.reachable() {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// awake lists the nodes whose agents should answer.
func (l *lab) awake() []*node {
	var nodes []*node
	for _, n := range l.nodes {
		if n.running() && !n.isAsleep() {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// patience bounds each wait for an agreement. An agent's preempt delay grows up to a minute (protocol 2.5), and a healed
// cable may take half of one.
func (l *lab) patience() time.Duration { return 75*time.Second + 20*leases[l.Profile] }
