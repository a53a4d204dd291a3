package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

const port = 7950

// host is one host of a LAN, with at most one agent running.
type host struct {
	lan      *lan
	name     string         // the node's name
	net      *netlab.Host   // its cable, and its namespace
	addr     netip.AddrPort // of its agent
	dir      string
	priority int
	join     []string // nil: all hosts of the LAN
	options  []string // further arguments of `run`
	onBecome string   // shell commands in the become hook, between its two lines
	onLose   string

	client *control.Client
	agent  *process // nil: none runs
}

// process is a running agent.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; err then says how
	err  error
}

func newHost(l *lan, speaks family, i int) *host {
	h := &host{lan: l, name: fmt.Sprintf("h%d", i), priority: 10 * i}
	h.dir = filepath.Join(l.dir, h.name)
	must(l.t, os.MkdirAll(filepath.Dir(h.socket()), 0o700))
	addr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 78, l.number, byte(i)}), 24)
	if speaks == ipv6 {
		addr = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x78, 7: l.number, 15: byte(i)}), 64)
	}
	var err error
	h.net, err = l.net.AddHost(h.name, addr)
	must(l.t, err)
	h.addr = netip.AddrPortFrom(addr.Addr(), port)
	h.client = control.Dial(h.socket())
	return h
}

func (h *host) String() string { return h.name }

func (h *host) socket() string  { return filepath.Join(h.dir, "run", "agent.sock") }
func (h *host) logPath() string { return filepath.Join(h.dir, "log") }

// arguments is what a user of this host would type. What has a default that
// suits is left out, so that the defaults are tested too.
func (h *host) arguments() []string {
	join := h.join
	if join == nil {
		for _, other := range h.lan.hosts {
			join = append(join, other.addr.String())
		}
	}
	args := []string{"run", "--cluster", "e2e", "--name", h.name, "--priority", strconv.Itoa(h.priority),
		"--state-dir", filepath.Join(h.dir, "state"), "--socket", h.socket(),
		"--settle", "1s", "--preempt-delay", "300ms", "--log-level", "debug",
		"--on-become-leader", h.lan.journal.hook(h.onBecome), "--on-lose-leadership", h.lan.journal.hook(h.onLose)}
	for _, seed := range join {
		args = append(args, "--join", seed)
	}
	return slices.Concat(args, h.lan.trust(), h.lan.options, h.options)
}

// command is one to be run on this host. `ip netns exec` ends in execve, so its pid is that of the command.
func (h *host) command(words ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", string(h.net.Namespace)}, words...)...)
}

// start starts the agent. It does not wait: agents start together.
func (h *host) start() {
	t := h.lan.t
	t.Helper()
	if h.agent != nil {
		t.Fatalf("start %s: an agent runs already", h)
	}
	log, err := os.OpenFile(h.logPath(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	defer log.Close()
	p := &process{done: make(chan struct{}), cmd: h.command(append([]string{h.lan.program()}, h.lan.suit(h.arguments())...)...)}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/"}, h.lan.env...) // no BULLY_* of ours
	h.lan.journal.note(h, isStarted)
	must(t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	h.agent = p
}

// signal sends one signal to the agent.
func (h *host) signal(s syscall.Signal) {
	h.lan.t.Helper()
	if err := h.agent.cmd.Process.Signal(s); err != nil {
		h.lan.t.Fatalf("send %v to the agent of %s: %v", s, h, err)
	}
}

// kill is kill -9. The host is told apart from a dead one by its kernel alone.
func (h *host) kill() {
	h.lan.t.Helper()
	h.lan.journal.note(h, isKilled)
	h.signal(syscall.SIGKILL)
	<-h.agent.done
	h.agent = nil
}

func (h *host) pause() {
	h.lan.t.Helper()
	h.lan.journal.note(h, isPaused)
	h.signal(syscall.SIGSTOP)
}

func (h *host) resume() {
	h.lan.t.Helper()
	h.lan.journal.note(h, isResumed)
	h.signal(syscall.SIGCONT)
}

// stop asks the agent to stop, as systemd does, and gives its exit code.
func (h *host) stop() int {
	h.lan.t.Helper()
	h.lan.journal.note(h, isStopped)
	h.signal(syscall.SIGTERM)
	return h.exits(20 * time.Second)
}

// exits waits for the agent's end and gives its exit code.
func (h *host) exits(bound time.Duration) int {
	h.lan.t.Helper()
	select {
	case <-h.agent.done:
	case <-time.After(bound):
		h.lan.t.Fatalf("the agent of %s has not ended within %v", h, bound)
	}
	code := h.agent.cmd.ProcessState.ExitCode()
	h.agent = nil
	return code
}

// stand has the agent do nothing any more, until it is ended; the test has ended.
func (h *host) stand() {
	if h.agent != nil {
		_ = h.agent.cmd.Process.Signal(syscall.SIGSTOP)
	}
}

// end ends the agent without ceremony.
func (h *host) end() {
	if h.agent == nil {
		return
	}
	h.lan.journal.note(h, isKilled)
	_ = h.agent.cmd.Process.Kill()
	<-h.agent.done
	h.agent = nil
}

// status asks the agent about itself. It fails while the agent starts.
func (h *host) status() (control.Status, error) {
	if h.agent == nil {
		return control.Status{}, errors.New(h.name + " runs no agent")
	}
	select {
	case <-h.agent.done:
		return control.Status{}, fmt.Errorf("the agent of %s has ended: %v", h, h.agent.err)
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := h.client.Status(ctx)
	if err != nil {
		return s, fmt.Errorf("ask %s: %w", h, err)
	}
	return s, nil
}

// events gives everything that happened on this agent after event since.
func (h *host) events(since uint64) []control.Event {
	h.lan.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var events []control.Event
	err := h.client.Events(ctx, since, false, func(e control.Event) error {
		events = append(events, e)
		return nil
	})
	if err != nil {
		h.lan.t.Fatalf("ask %s for its events: %v", h, err)
	}
	return events
}

// cli runs one command of the binary on this host, as a user would.
func (h *host) cli(args ...string) (stdout string, code int) {
	h.lan.t.Helper()
	cmd := h.command(append([]string{binary}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "BULLY_SOCKET=" + h.socket()}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.lan.t.Fatalf("run %v on %s: %v", args, h, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// wordsOfDoom finds what no agent may ever print, whatever is done to it.
func (h *host) wordsOfDoom() string {
	text, err := os.ReadFile(h.logPath())
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	must(h.lan.t, err)
	for _, words := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
		if i := bytes.Index(text, []byte(words)); i >= 0 {
			return string(text[i:min(len(text), i+4000)])
		}
	}
	return ""
}

// lastWords is the end of the agent's log.
func (h *host) lastWords() string {
	const lines = 80
	text, err := os.ReadFile(h.logPath())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
