package holder

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/control"
)

// lender is the agent's end of a lease that a holder follows.
type lender struct {
	*rig
	conn net.Conn
}

// lend gives both ends.
func (r *rig) lend() (*lender, *control.Tenure) {
	r.t.Helper()
	listener, err := net.Listen("unix", r.Path("sock"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = fmt.Fprint(conn, "HTTP/1.0 200 OK\r\n\r\n")
		accepted <- conn
	}()
	tenure, err := control.Dial(r.Path("sock")).HoldLease(r.t.Context(), time.Second, patience)
	if err != nil {
		r.t.Fatal(err)
	}
	l := &lender{rig: r, conn: <-accepted}
	r.t.Cleanup(func() { l.conn.Close() })
	return l, tenure
}

// lease is what a leader says.
func lease(until time.Time) control.Lease {
	return control.Lease{Leader: true, Ready: true, Epoch: control.Epoch(rigEpoch), Until: until.UnixNano()}
}

func (l *lender) say(news control.Lease) {
	l.t.Helper()
	text, _ := json.Marshal(news)
	if _, err := l.conn.Write(append(text, '\n')); err != nil {
		l.t.Fatal(err)
	}
}

// left reports when the other end has hung up.
func (l *lender) left() <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		_, _ = l.conn.Read(make([]byte, 1))
		close(gone)
	}()
	return gone
}

// follow starts a holder on a lease of the given length, whose starter renews nothing.
func (r *rig) follow(tenure *control.Tenure, script string, length time.Duration) *Holder {
	r.t.Helper()
	cfg := r.settings(script).config()
	cfg.Lease, cfg.Deadline, cfg.Records = tenure, clock().Add(length), NoRecords
	return r.start(cfg)
}

// The command lives as long as the agent says; its starter, which is as good as stopped
// here, has no part in that. When the leadership is over the command ends, and the agent
// then learns that nothing is left, whatever the starter still has open.
func TestHolderFollowsTheLease(t *testing.T) {
	const length = 500 * time.Millisecond
	r := newRig(t)
	agent, tenure := r.lend()
	defer tenure.Close()
	h := r.follow(tenure, "echo $$ >pid; exec sleep 1000", patience)
	gone := agent.left()
	r.PID("pid")
	agent.say(lease(now().Add(length)))
	first := now().Add(length)
	agent.say(lease(now().Add(patience)))
	r.Until("the end of the first lease", func() bool { return now().After(first) })
	if report := h.Report(); report.Stage != Running {
		t.Errorf("on a renewed lease: %v", report)
	}
	if isClosed(gone) {
		t.Error("the agent has no holder while the command runs")
	}
	over := lease(now().Add(patience))
	over.Leader, over.Cause = false, "stopped"
	agent.say(over)
	if report := r.wait(h); report.Cause != LeaseLost || report.Loss != "stopped" || report.Signal != int(unix.SIGTERM) {
		t.Errorf("%+v", report)
	}
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("the agent does not learn that nothing is left")
	}
}

// To the agent the holder is there while the command ends, for as long as that takes.
func TestTheHolderStaysUntilTheEnd(t *testing.T) {
	r := newRig(t)
	agent, tenure := r.lend()
	defer tenure.Close()
	s := r.settings("trap 'echo x >asked; until [ -e go ]; do sleep 0.01; done; exit 0' TERM; echo $$ >pid; while :; do sleep 0.01; done")
	s.Grace = patience
	cfg := s.config()
	cfg.Lease, cfg.Deadline, cfg.Records = tenure, clock().Add(2*patience), NoRecords
	h := r.start(cfg)
	gone := agent.left()
	r.PID("pid")
	over := lease(now().Add(2 * patience))
	over.Leader = false
	agent.say(over)
	r.UntilFile("asked")
	if isClosed(gone) {
		t.Error("the holder has left, and the command still ends")
	}
	if err := os.WriteFile(r.Path("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if report := r.wait(h); report.Cause != LeaseLost || report.Exit != 0 {
		t.Errorf("%+v", report)
	}
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("the holder does not leave")
	}
}

// What ends a command whose holder follows the lease.
func TestEndsOfAFollowedLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		news    func(a *lender)
		cause   string
		silent  bool
		signal  unix.Signal
		trapped bool // the command takes no notice of TERM
	}{
		"the agent dies":             {news: func(a *lender) { a.conn.Close() }, cause: AgentDied, signal: unix.SIGTERM},
		"it dies in mid-sentence":    {news: func(a *lender) { _, _ = a.conn.Write([]byte(`{"lea`)); a.conn.Close() }, cause: AgentDied, signal: unix.SIGTERM},
		"it says what is no lease":   {news: func(a *lender) { _, _ = a.conn.Write([]byte("HTTP\n")) }, cause: AgentDied, signal: unix.SIGTERM},
		"it never ends its sentence": {news: func(a *lender) { _, _ = a.conn.Write(make([]byte, 2*maxLine)) }, cause: AgentDied, signal: unix.SIGTERM},
		"it says nothing more": {news: func(a *lender) { a.say(lease(now().Add(200 * time.Millisecond))) },
			cause: AgentDied, silent: true, signal: unix.SIGKILL, trapped: true},
		"it leads in another epoch": {news: func(a *lender) {
			l := lease(now().Add(time.Hour))
			l.Epoch.Counter++
			a.say(l)
		}, cause: LeaseLost, signal: unix.SIGKILL, trapped: true},
		"it has no lease": {news: func(a *lender) { a.say(control.Lease{Epoch: control.Epoch(rigEpoch)}) },
			cause: LeaseLost, signal: unix.SIGKILL, trapped: true},
		"its hook is not done": {news: func(a *lender) {
			l := lease(now().Add(time.Hour))
			l.Ready = false
			a.say(l)
		}, cause: LeaseLost, signal: unix.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			agent, tenure := r.lend()
			defer tenure.Close()
			script := "echo $$ >pid; exec sleep 1000"
			if c.trapped {
				script = "trap '' TERM; echo $$ >pid; while :; do sleep 0.01; done"
			}
			h := r.follow(tenure, script, patience)
			r.PID("pid")
			c.news(agent)
			if report := r.wait(h); report.Cause != c.cause || report.Silent != c.silent || report.Signal != int(c.signal) || report.Err != "" {
				t.Errorf("%+v", report)
			}
		})
	}
}

// A renewed lease gives the command more time only while its starter lives; a shorter one leaves
// it less, whoever lives.
func TestAnOrphanedHolderGetsNoMoreTime(t *testing.T) {
	for _, tt := range []struct {
		name        string
		alive       bool
		says, wants int64
	}{
		{"longer", true, 20, 20},
		{"shorter", true, 5, 5},
		{"longer, the starter is dead", false, 20, 10},
		{"shorter, the starter is dead", false, 5, 5},
	} {
		text, _ := json.Marshal(lease(second(tt.says)))
		said := &follower{fd: -1, epoch: control.Epoch(rigEpoch), heard: append(text, '\n')} // and nothing more comes
		h := holding{alive: tt.alive, terms: Terms{Deadline: second(10)}, lease: said}
		h.follow()
		if h.terms.Deadline != second(tt.wants) || !h.asked.IsZero() {
			t.Errorf("%s: the deadline is %v, want %d (asked at %v)", tt.name, h.terms.Deadline, tt.wants, h.asked)
		}
	}
}

// A loss that is known before the command has started keeps it from starting.
func TestLostBeforeTheStart(t *testing.T) {
	r := newRig(t)
	agent, tenure := r.lend()
	defer tenure.Close()
	over := lease(now().Add(patience))
	over.Leader = false
	agent.say(over)
	h := r.follow(tenure, "echo x >ran", patience)
	if report := r.wait(h); report.Cause != LeaseLost || report.Group != 0 || r.Text("ran") != "" {
		t.Errorf("%+v, ran %q", report, r.Text("ran"))
	}
}

// If the holder is killed, the agent has its holder until whoever has started it has ended
// the rest.
func TestHolderOfALeaseKilled(t *testing.T) {
	r := newRig(t)
	agent, tenure := r.lend()
	gone := agent.left()
	h := r.follow(tenure, "setsid sleep 1000 & echo $$ >pid; sleep 1000", patience)
	r.PID("pid")
	if err := unix.Kill(r.awaitStarted(h).Holder, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.wait(h)
	if left := r.Living(); len(left) > 0 {
		t.Errorf("%d processes live", len(left))
	}
	if isClosed(gone) {
		t.Error("the agent's holder has left before its command had ended")
	}
	tenure.Close()
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("the agent's holder does not leave")
	}
}
