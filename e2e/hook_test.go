package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/control"
)

// Hooks that misbehave delay nothing: the heartbeats go on, nobody else begins
// to lead, and when the leader dies in the middle of it all the next one takes
// over as quickly as ever.
func TestBadHooksDelayNothing(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	tests := []struct {
		name, body string
		others     []string // further options
	}{
		{name: "hangs", body: "sleep 1000"},
		{name: "ignores TERM", body: "trap '' TERM; sleep 1000"},
		{name: "forks 100 children", body: "for i in $(seq 100); do sleep 1000 & done; sleep 2"},
		{name: "prints 20 MB", body: "head -c 20000000 /dev/zero | tr '\\0' 'x' | fold -w 100; sleep 1"},
		{name: "notification hangs", body: "sleep 2", others: []string{"--on-leader-change", "sleep 1000", "--on-member-change", "sleep 1000"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3, append(tt.others, "--hook-timeout", "3s", "--hook-grace", "200ms")...)
			best, next := l.best(), l.next()
			best.onBecome = tt.body
			l.start()
			l.eventually("the hook has begun", patience, func() error { return l.began(best) })
			l.agreeLoosely(best)
			begun := transitions(l.hosts)
			l.eventually("the hook has ended", patience, func() error {
				s, err := best.status()
				if err == nil && (s.LastHook == nil || s.LastHook.Event != "become-leader") {
					err = fmt.Errorf("it runs")
				}
				return err
			})
			l.agreeLoosely(best)
			l.led(best)
			if now := transitions(l.hosts); !slices.Equal(now, begun) {
				t.Errorf("meanwhile: %v, before: %v", now, begun)
			}
			l.eventually("nothing is left of the hook", patience, func() error {
				if left := processesIn(best.ns); tt.others == nil && len(left) != 1 {
					return fmt.Errorf("%d processes run on %s", len(left), best)
				}
				return nil
			})
			best.kill()
			l.agreeOn(next)
			l.gap(on(best, isKilled), on(next, becomeBegin))
		})
	}
}

// began is an error until h's become hook has begun.
func (l *lan) began(h *host) error {
	if l.journal.last(h, becomeBegin).epoch == 0 {
		return fmt.Errorf("no become hook on %s", h)
	}
	return nil
}

// agreeLoosely waits until all follow leader, ready or not.
func (l *lan) agreeLoosely(leader *host) {
	l.t.Helper()
	for _, h := range l.running() {
		l.eventually(fmt.Sprintf("%s follows %s", h, leader), patience, func() error {
			s, err := h.status()
			if err == nil && (s.Leader == nil || s.Leader.Name != leader.name) {
				err = fmt.Errorf("it is %s, %s", s.State, s.Cause)
			}
			return err
		})
	}
}

// transitions lists what changed on these hosts so far, as their agents tell it.
func transitions(hosts []*host) []string {
	var out []string
	for _, h := range hosts {
		for _, e := range h.events(0) {
			if e.Type == "transition" {
				out = append(out, fmt.Sprintf("%s %s (%s, epoch %d)", h, e.Text, e.Cause, epochOf(e)))
			}
		}
	}
	return out
}

func epochOf(e control.Event) uint64 {
	if e.Epoch == nil {
		return 0
	}
	return e.Epoch.Counter
}

// A leadership that ends while its become hook runs kills it, and the lose hook
// runs then.
func TestStopDuringBecomeHook(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3, "--hook-grace", "200ms")
	best, next := l.best(), l.next()
	best.onBecome = "sleep 1000"
	l.start()
	l.eventually("the hook has begun", patience, func() error { return l.began(best) })
	l.agreeLoosely(best)
	if code := best.stop(); code != 0 {
		t.Errorf("the agent exited with %d, expected 0", code)
	}
	l.agreeOn(next)
	if l.journal.last(best, becomeEnd).epoch != 0 {
		t.Errorf("the become hook went on to its end")
	}
	l.journal.order(on(best, becomeBegin), on(best, loseBegin).because("stopped"), on(best, loseEnd), on(next, becomeBegin).because("handed-over"))
	if left := processesIn(best.ns); len(left) > 0 {
		t.Errorf("processes %v were left behind on %s", left, best)
	}
}

// The agent is killed while its become hook runs. The next start ends what is
// left of that hook, runs the lose hook, and only then joins.
func TestKilledDuringBecomeHook(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, next := l.best(), l.next()
	best.onBecome = "sleep 1000"
	l.start()
	l.eventually("the hook has begun", patience, func() error { return l.began(best) })
	l.agreeLoosely(best)
	best.kill()
	l.agreeOn(next)
	if len(processesIn(best.ns)) == 0 {
		t.Errorf("the hook died with its agent: this test tests nothing")
	}
	best.onBecome = ""
	best.start()
	l.agreeOn(best)
	if left := processesIn(best.ns); len(left) != 1 {
		t.Errorf("processes %v run on %s, expected the agent alone", left, best)
	}
	l.journal.order(on(best, becomeBegin), on(best, isKilled), on(best, isStarted),
		on(best, loseBegin).because("unclean-restart"), on(best, loseEnd), on(next, loseEnd), on(best, becomeBegin))
}

// A planned change waits for a lose hook that takes longer than the lease.
func TestSlowLoseHookHoldsUpTheNext(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, next := l.best(), l.next()
	for _, h := range l.hosts {
		h.onLose = "sleep 1.5"
	}
	l.start()
	l.agreeOn(best)
	if code := best.stop(); code != 0 {
		t.Errorf("the agent exited with %d, expected 0", code)
	}
	l.agreeOn(next)
	l.journal.order(on(best, loseBegin), on(best, loseEnd), on(next, becomeBegin).because("handed-over"))
	l.gap(on(best, loseEnd), on(next, becomeBegin))
	if took := l.journal.last(best, loseEnd).at.Sub(l.journal.last(best, loseBegin).at); took < 1400*time.Millisecond {
		t.Errorf("the lose hook took %v, expected its 1.5 s", took)
	}
}
