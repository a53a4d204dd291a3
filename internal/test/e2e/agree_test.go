package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// patience bounds every wait. A cut may last until the next attempt to join,
// half a minute at most (protocol 2.5); the rest is for slow machines.
const patience = 45 * time.Second

// start starts the agents of these hosts, or of all. The best listens first: on a busy machine
// another would have led before it may.
func (l *lan) start(hosts ...*host) {
	l.t.Helper()
	if len(hosts) == 0 {
		hosts = l.hosts
	}
	for i, h := range slices.Backward(hosts) {
		h.start()
		if i == len(hosts)-1 && i > 0 {
			l.eventually(h.name+" listens", patience, func() error { _, err := h.status(); return err })
		}
	}
}

// running gives the hosts with an agent.
func (l *lan) running() []*host {
	return slices.DeleteFunc(slices.Clone(l.hosts), func(h *host) bool { return h.agent == nil })
}

// except gives the hosts with an agent but these.
func (l *lan) except(but ...*host) []*host {
	return slices.DeleteFunc(l.running(), func(h *host) bool { return slices.Contains(but, h) })
}

// best is the host with the highest priority.
func (l *lan) best() *host { return l.hosts[len(l.hosts)-1] }

// next is the second best.
func (l *lan) next() *host { return l.hosts[len(l.hosts)-2] }

// agree waits until these hosts, or all that run an agent, name one and the same
// leader in one and the same epoch, and it says so too and has run its hook.
func (l *lan) agree(among ...*host) *host {
	l.t.Helper()
	if len(among) == 0 {
		among = l.running()
	}
	var leader *host
	l.eventually(fmt.Sprintf("%v agree", among), patience, func() (err error) {
		leader, err = leaderOf(among)
		return err
	})
	l.t.Logf("%s leads", leader)
	return leader
}

// agreeOn waits until these hosts, or all that run an agent, agree on leader.
func (l *lan) agreeOn(leader *host, among ...*host) {
	l.t.Helper()
	if len(among) == 0 {
		among = l.running()
	}
	l.eventually(fmt.Sprintf("%v agree on %s", among, leader), patience, func() error {
		found, err := leaderOf(among)
		if err == nil && found != leader {
			err = fmt.Errorf("%s leads", found)
		}
		return err
	})
}

// leaderOf gives the leader that all of these hosts agree on.
func leaderOf(hosts []*host) (*host, error) {
	var leader *host
	var first control.Status
	for i, h := range hosts {
		s, err := h.status()
		switch {
		case err != nil:
			return nil, err
		case s.Leader == nil:
			return nil, fmt.Errorf("%s knows no leader (%s, %s)", h, s.State, s.Cause)
		case s.LeaderIsSelf && !s.Ready:
			return nil, fmt.Errorf("%s leads but is not ready", h)
		case s.LeaderIsSelf:
			leader = h
		}
		if i == 0 {
			first = s
		}
		if s.Leader.ID != first.Leader.ID || s.Epoch != first.Epoch {
			return nil, fmt.Errorf("%s follows %s in epoch %d, %s follows %s in epoch %d",
				hosts[0], first.Leader.Name, first.Epoch.Counter, h, s.Leader.Name, s.Epoch.Counter)
		}
	}
	if leader == nil {
		return nil, errors.New("none of them leads")
	}
	return leader, nil
}

// steady watches for d that these hosts, or all that run an agent, keep leader
// and that no hook runs.
func (l *lan) steady(leader *host, d time.Duration, among ...*host) {
	l.t.Helper()
	if len(among) == 0 {
		among = l.running()
	}
	hooks := len(l.journal.becomes())
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		found, err := leaderOf(among)
		if err != nil {
			l.t.Fatalf("%s did not keep the leadership: %v", leader, err)
		}
		if found != leader {
			l.t.Fatalf("%s did not keep the leadership: %s leads", leader, found)
		}
	}
	if becomes := l.journal.becomes(); len(becomes) != hooks {
		l.t.Fatalf("%v began to lead in a quiet time", becomes[hooks:])
	}
}

// rested waits until all that run an agent have had the same leader for d. On a busy machine one may lose its lease before.
func (l *lan) rested(d time.Duration) (leader *host) {
	l.t.Helper()
	since := time.Now()
	l.eventually(fmt.Sprintf("one host leads for %v", d), patience, func() error {
		found, err := leaderOf(l.running())
		if found != leader || err != nil {
			leader, since = found, time.Now()
		}
		if led := time.Since(since); err == nil && led < d {
			err = fmt.Errorf("%s has led for %v", leader, led)
		}
		return err
	})
	return leader
}

// led fails the test unless exactly these hosts began to lead, in this order.
func (l *lan) led(hosts ...*host) {
	l.t.Helper()
	var want []string
	for _, h := range hosts {
		want = append(want, h.name)
	}
	if got := l.journal.becomes(); !slices.Equal(got, want) {
		l.t.Fatalf("become-leader hooks ran on %v, expected %v", got, want)
	}
}

// gap logs how long it took from one record to another.
func (l *lan) gap(from, to step) {
	l.t.Helper()
	begun := time.Duration(-1)
	for _, r := range l.journal.read() {
		switch {
		case r.Node == from.node && r.What == from.what:
			begun = r.At
		case r.Node == to.node && r.What == to.what && begun >= 0:
			l.t.Logf("from %s %s to %s %s: %v", from.node, from.what, to.node, to.what, (r.At - begun).Round(100*time.Microsecond))
			return
		}
	}
}

// eachSize runs a test on a small and on a larger LAN at the same time.
func eachSize(t *testing.T, test func(t *testing.T, hosts int)) {
	needsLAN(t)
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d hosts", n), func(t *testing.T) {
			t.Parallel()
			test(t, n)
		})
	}
}
