package sdnotify

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/agent"
)

func TestText(t *testing.T) {
	for want, now := range map[string]agent.Pulse{
		"leader, epoch 42, 3 of 3":            {Role: "leader", Leads: true, Leader: "alpha", Epoch: 42, Alive: 3, Members: 3},
		"follower of alpha, epoch 42, 2 of 3": {Role: "follower", Leader: "alpha", Epoch: 42, Alive: 2, Members: 3},
		"follower, no leader known, 1 of 1":   {Role: "follower", Alive: 1, Members: 1},
		"stopping, epoch 7, 2 of 2, lose hook runs": {Role: "follower", IsStopping: true, IsLosing: true, Leader: "alpha", Epoch: 7, Alive: 2,
			Members: 2},
		"letting go, epoch 7, 2 of 2":            {Role: "leader", LetsGo: true, Leader: "alpha", Epoch: 7, Alive: 2, Members: 2},
		"follower of a?READY=1, epoch 1, 2 of 2": {Role: "follower", Leader: "a\nREADY=1", Epoch: 1, Alive: 2, Members: 2},
	} {
		if got := Text(now); got != want {
			t.Errorf("%+v: %q, expected %q", now, got, want)
		}
	}
}

// What the service manager gets, on its own socket: a text when it is another, WATCHDOG for a turn that was due and for no
// other, and more time for as long as the lose hook runs.
func TestPulse(t *testing.T) {
	heard := listen(t)
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	t.Setenv("WATCHDOG_USEC", "3000000")
	p := NewPulse()
	if p.Every() != time.Second {
		t.Errorf("a pulse each %v", p.Every())
	}
	follower := agent.Pulse{Role: "follower", Leader: "alpha", Epoch: 1, Alive: 2, Members: 2}
	leader := agent.Pulse{Role: "leader", Leader: "beta", Leads: true, Epoch: 2, Alive: 1, Members: 2}
	due, losing := leader, leader
	due.IsDue, losing.IsStopping, losing.IsLosing = true, true, true
	for _, now := range []agent.Pulse{follower, follower, leader, due, losing, losing} {
		p.Take(now)
	}
	Stopping()
	want := []string{"STATUS=follower of alpha, epoch 1, 2 of 2", "STATUS=leader, epoch 2, 1 of 2", "WATCHDOG=1",
		"STATUS=stopping, epoch 2, 1 of 2, lose hook runs\nEXTEND_TIMEOUT_USEC=15000000", "EXTEND_TIMEOUT_USEC=15000000", "STOPPING=1"}
	var got []string
	for range want {
		got = append(got, heard())
	}
	if !slices.Equal(got, want) {
		t.Errorf("heard %q\nexpected %q", got, want)
	}
}

func TestNobodyWatches(t *testing.T) {
	heard := listen(t)
	t.Setenv("WATCHDOG_USEC", "")
	p := NewPulse()
	if p.Every() != pulseEvery {
		t.Errorf("a pulse each %v", p.Every())
	}
	p.Take(agent.Pulse{Role: "follower", IsDue: true, Alive: 1, Members: 1})
	if got := heard(); got != "STATUS=follower, no leader known, 1 of 1" {
		t.Errorf("heard %q", got)
	}
}

// A service manager that stands still, its queue full, holds up neither the loop nor an end; when it goes on it hears
// what it has missed.
func TestAServiceManagerThatStandsStill(t *testing.T) {
	heard := listen(t)
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	t.Setenv("WATCHDOG_USEC", "3000000")
	p, filled := NewPulse(), 0
	for ; send("X=1", 0); filled++ {
		if filled > 100000 {
			t.Fatal("the queue takes all")
		}
	}
	done := make(chan time.Duration, 1)
	go func() {
		began := time.Now()
		for range 100 {
			p.Take(agent.Pulse{Role: "follower", IsDue: true, Alive: 1, Members: 1})
		}
		done <- time.Since(began)
		Stopping()
		close(done)
	}()
	select {
	case took := <-done:
		t.Logf("a hundred pulses took %v", took)
		if took > 10*patience { // a loop that waited for each would take 100 times patience
			t.Errorf("a hundred pulses took %v", took)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the loop stands still")
	}
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the end stands still")
	}
	for range filled {
		if got := heard(); got != "X=1" {
			t.Fatalf("heard %q", got)
		}
	}
	p.Take(agent.Pulse{Role: "follower", IsDue: true, Alive: 1, Members: 1})
	if got := heard(); got != "STATUS=follower, no leader known, 1 of 1\nWATCHDOG=1" {
		t.Errorf("heard %q", got)
	}
}

// listen is a service manager; the function that it gives waits for the next message.
func listen(t *testing.T) (heard func() string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return func() string {
		t.Helper()
		_ = l.SetReadDeadline(time.Now().Add(10 * time.Second))
		b := make([]byte, 4096)
		n, err := l.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}
