package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/lab/netlab"
	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// node is one agent of the lab over all its lives: its name, address, state directory and host stay, its process comes
// and goes. The methods that change it are called by one goroutine at a time, the one that plays or has the hands; any may look.
type node struct {
	name   string
	args   []string // of the agent
	dir    string
	client *control.Client
	host   *netlab.Host // nil without --netns
	lab    *lab

	mu      sync.Mutex
	life    *life // the present or the last one; nil before the first
	asleep  bool
	severed bool
}

// life is one process of a node.
type life struct {
	process *os.Process
	asked   atomic.Bool   // the lab has sent it a signal to end
	gone    chan struct{} // closed when it has been reaped and its end has been told
	how     string        // valid once gone is closed
}

func (l *life) over() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

var errAlreadyRuns = errors.New("its agent runs already")

// start begins a new life.
func (n *node) start() error {
	if n.running() {
		return fmt.Errorf("start %s: %w", n.name, errAlreadyRuns)
	}
	log, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	defer log.Close()
	cmd := exec.Command(n.lab.Binary, n.args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, environment()
	if err := n.lab.spawner.start(cmd, n.host); err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	l := &life{process: cmd.Process, gone: make(chan struct{})}
	n.mu.Lock()
	n.life, n.asleep = l, false
	n.mu.Unlock()
	mark := n.lab.journal.mark()
	n.lab.ear.tell(n.name, verdict.Started, "pid "+strconv.Itoa(cmd.Process.Pid))
	go n.watch(cmd, l)
	_, err = n.lab.journal.await(context.Background(), mark, n.did(verdict.Started))
	return err
}

// watch reaps a life and tells its end the way the hooks tell theirs.
func (n *node) watch(cmd *exec.Cmd, l *life) {
	defer close(l.gone)
	_ = cmd.Wait() // its error is in the state
	l.how = cmd.ProcessState.String()
	n.lab.ear.tell(n.name, verdict.Exited, l.how)
}

// signal sends s to the running agent, and records it just before.
func (n *node) signal(s syscall.Signal, as verdict.What) (verdict.Record, error) {
	l := n.present()
	if l == nil || l.over() {
		return verdict.Record{}, fmt.Errorf("%s %s: its agent does not run", as, n.name)
	}
	if as == verdict.Killed || as == verdict.Stopped {
		l.asked.Store(true)
	}
	r := n.lab.journal.add(verdict.Record{Node: n.name, What: as})
	if err := l.process.Signal(s); err != nil {
		return r, fmt.Errorf("%s %s: %w", as, n.name, err)
	}
	n.mu.Lock()
	n.asleep = as == verdict.Paused
	n.mu.Unlock()
	return r, nil
}

// pull makes of the cable what the word says: cut, dropped or plugged in.
func (n *node) pull(to verdict.What) (r verdict.Record, err error) {
	if n.host == nil {
		return verdict.Record{}, usage("%s has no cable to pull: start the lab with --netns", n.name)
	}
	if to.IsCut() {
		r = n.lab.journal.add(verdict.Record{Node: n.name, What: to})
	}
	switch to {
	case verdict.Cut:
		err = n.host.Cut()
	case verdict.Dropped:
		err = n.host.Unplug()
	case verdict.Plugged:
		err = n.host.Plug()
	}
	if err != nil {
		return r, fmt.Errorf("cable of %s: %w", n.name, err)
	}
	if !to.IsCut() {
		r = n.lab.journal.add(verdict.Record{Node: n.name, What: to})
	}
	n.mu.Lock()
	n.severed = to.IsCut()
	n.mu.Unlock()
	return r, nil
}

// running reports whether the agent's process exists, asleep or awake.
func (n *node) running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life != nil && !n.life.over()
}

// reachable reports whether the others should hear the agent.
func (n *node) reachable() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life != nil && !n.life.over() && !n.asleep && !n.severed
}

// condition is the state of the process in a word or two, and its pid; 0 if it has none.
func (n *node) condition() (string, int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.life == nil:
		return "not started", 0
	case n.life.over():
		return n.life.how, 0
	case n.asleep:
		return "paused", n.life.process.Pid
	}
	return "running", n.life.process.Pid
}

func (n *node) isAsleep() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asleep
}

func (n *node) isSevered() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.severed
}

// crashed reports how the agent ended if nobody asked it to.
func (n *node) crashed() (how string, unasked bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life == nil || !n.life.over() || n.life.asked.Load() {
		return "", false
	}
	return n.life.how, true
}

// did selects the records of this node of one kind.
func (n *node) did(w verdict.What) func(verdict.Record) bool {
	return func(r verdict.Record) bool { return r.Node == n.name && r.What == w }
}

// kill ends the present life without a record: it is how a lab ends, not a fault.
func (n *node) kill() {
	if l := n.present(); l != nil {
		l.asked.Store(true)
		_ = l.process.Kill() // gone already: all the better
	}
}

// await returns when no process of the node runs.
func (n *node) await() {
	if l := n.present(); l != nil {
		<-l.gone
	}
}

func (n *node) present() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

func (n *node) logPath() string { return filepath.Join(n.dir, "log") }

// lastWords is the last line of the agent's log, for the moment when it does not start.
func (n *node) lastWords() string {
	text, err := os.ReadFile(n.logPath())
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return "it wrote no log"
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
