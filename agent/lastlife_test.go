package agent

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/wire"
)

const notYet = "this host cannot lead yet: the lose-leadership hook of epoch 1, which its last run left, has not ended"

// bothHang runs a test for both that may hang when the last life's leadership is ended.
func bothHang(t *testing.T, test func(t *testing.T, where string)) {
	for _, where := range []string{atRecover, atCleanUp} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, where) })
		})
	}
}

// beginsIn starts h, which takes part after that time at the latest.
func (c *cluster) beginsIn(h *testHost, most time.Duration) {
	c.t.Helper()
	began := time.Now()
	c.start(h)
	if took := time.Since(began); took > most {
		c.t.Errorf("%s began after %v, want %v at most", h.name, took, most)
	}
}

// A lose hook that the last life owes hangs. Its host is the second of three voters that is
// needed: it votes when the lease has ended, says why it does not stand, and stands when the
// hook has ended.
func TestAHangingLoseHookSilencesNoVoter(t *testing.T) {
	bothHang(t, func(t *testing.T, where string) {
		c := newCluster(t, 3)
		c.expecting(3)
		low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		log := top.logging()
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		c.kill(low)
		c.kill(top)
		goOn := top.hooks.hang(where)
		c.beginsIn(top, time.Second)
		c.agrees(mid)
		time.Sleep(5 * time.Minute)
		c.agrees(mid)
		s := top.agent.Status()
		if !hasNote(s, notYet) || s.HoldDownMS != 0 {
			t.Errorf("hold-down of %d ms, notes %q", s.HoldDownMS, s.Notes)
		}
		if log.with(notYet) != 1 {
			t.Errorf("the log says %d times why it does not stand", log.with(notYet))
		}
		expectRefusal(t, top.order("stand", nil), "busy", "nothing was changed", notYet)
		if saved := top.agent.seat.state.saved; saved.Promoted.Counter != 1 {
			t.Errorf("the disk holds %+v, and the hook of epoch 1 is due", saved)
		}
		goOn()
		c.agrees(top)
		time.Sleep(time.Second)
		if s := top.agent.Status(); len(s.Notes) != 0 || !s.Ready {
			t.Errorf("ready %v, notes %q", s.Ready, s.Notes)
		}
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 unclean-restart", "become-leader 3 handed-over")
		c.stopAll()
	})
}

// One that ends within the lease delays the start, as long as it takes, and nothing else.
func TestALoseHookThatEndsInTime(t *testing.T) {
	bothHang(t, func(t *testing.T, where string) {
		c := newCluster(t, 2)
		top := c.hosts[1]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		c.kill(top)
		goOn := top.hooks.hang(where)
		time.AfterFunc(100*time.Millisecond, goOn)
		c.beginsIn(top, 100*time.Millisecond)
		if s := top.agent.seat; s.isHeldBack || s.beside || !s.state.saved.Promoted.IsZero() {
			t.Errorf("held back %v, beside %v, on disk %+v", s.isHeldBack, s.beside, s.state.saved)
		}
		c.agrees(top)
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 unclean-restart", "become-leader 3 handed-over")
		c.stopAll()
	})
}

// One that fails in the end is tried again, as any other, and its host stands.
func TestALoseHookThatHangsAndFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		c.start(h)
		c.agrees(h)
		c.kill(h)
		goOn := h.hooks.hang(atCleanUp)
		h.fails("lose-leadership", errHook)
		c.start(h)
		time.Sleep(time.Minute)
		goOn()
		time.Sleep(time.Millisecond)
		h.warnsOf(t, "in 5s")
		c.agrees(h)
		c.stopAll()
	})
}

// An operator's hold-down lasts beside the clean-up: the longer of both counts, and it can
// be ended when the clean-up has.
func TestAHoldDownBesideTheLastLife(t *testing.T) {
	tests := map[string]func(c *cluster, low, top *testHost, goOn func()){
		"the hold-down is longer": func(c *cluster, low, top *testHost, goOn func()) {
			expectHeld(c.t, top, pairHold)
			goOn()
			time.Sleep(pairHold - 3*time.Minute)
			c.agrees(low)
			expectHeld(c.t, top, 3*time.Minute)
			time.Sleep(4 * time.Minute)
		},
		"the clean-up is longer": func(c *cluster, low, top *testHost, goOn func()) {
			time.Sleep(2 * pairHold)
			c.agrees(low)
			expectHeld(c.t, top, 0)
			if s := top.agent.Status(); !hasNote(s, "this host cannot lead yet: ") {
				c.t.Errorf("notes %q", s.Notes)
			}
			goOn()
		},
		"it is ended": func(c *cluster, _, top *testHost, goOn func()) {
			expectRefusal(c.t, top.order("stand", nil), "busy")
			expectHeld(c.t, top, pairHold)
			goOn()
			synctest.Wait()
			if err := top.order("stand", nil); err != nil {
				c.t.Error(err)
			}
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "it is ended" {
				t.Skip("minutes of a hold-down")
			}
			synctest.Test(t, func(t *testing.T) {
				c, low, top := newPair(t)
				c.kill(top)
				goOn := top.hooks.hang(atRecover)
				c.start(top)
				c.agrees(low)
				test(c, low, top, goOn)
				c.agrees(top)
				expectHeld(t, top, 0)
				time.Sleep(time.Minute)
				if s := top.agent.seat.state; s.hold != (hold{}) {
					t.Errorf("the disk holds %+v", s.hold)
				}
				c.stopAll()
			})
		})
	}
}

// An agent that is stopped beside its last life owes what that has left.
func TestStoppedBesideTheLastLife(t *testing.T) {
	bothHang(t, func(t *testing.T, where string) {
		c := newCluster(t, 2)
		top := c.hosts[1]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		c.kill(top)
		goOn := top.hooks.hang(where)
		c.start(top)
		c.agrees(c.hosts[0])
		top.stop()
		select {
		case err := <-top.done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("it does not stop")
		}
		top.agent = nil
		s := mustOpen(t, top.dir)
		if s.saved.Promoted.Counter != 1 {
			t.Errorf("the disk holds %+v, and the hook of epoch 1 is due", s.saved)
		}
		s.close()
		goOn()
		c.start(top)
		c.agrees(top)
		ran := slices.Compact(top.hooks.ran()) // the hook that was cut runs again
		if want := []string{"become-leader 1 boot", "lose-leadership 1 unclean-restart", "become-leader 3 handed-over"}; !slices.Equal(ran, want) {
			t.Errorf("ran %q, want %q", ran, want)
		}
		c.stopAll()
	})
}

// No keeper can be started, which turns out late: the agent says why and ends.
func TestNoKeeperBesideTheLastLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		h := c.hosts[1]
		c.start(c.hosts[0])
		h.hooks.noKeeper = errors.New("no room")
		goOn := h.hooks.hang(atRecover)
		c.start(h)
		time.Sleep(10 * time.Second)
		if s := h.agent.Status(); !hasNote(s, "this host cannot lead yet: its keeper does not run yet") {
			t.Errorf("notes %q", s.Notes)
		}
		goOn()
		err := <-h.done
		h.agent = nil
		var refusal *Refusal
		if !errors.Is(err, h.hooks.noKeeper) || errors.As(err, &refusal) {
			t.Errorf("it ended with %v, want the reason, and that another start may do better", err)
		}
		c.agrees(c.hosts[0])
		c.stopAll()
	})
}

// Should a node claim all the same, no become hook starts, and it does not go on leading.
func TestNoLeadershipBesideTheLastLife(t *testing.T) {
	bothHang(t, func(t *testing.T, where string) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		log := h.logging()
		c.start(h)
		c.agrees(h)
		c.kill(h)
		goOn := h.hooks.hang(where)
		c.start(h)
		h.agent.call(nil, func() { h.agent.seat.command(election.Command{Verb: election.Stand}, func(error) {}) })
		time.Sleep(10 * time.Second)
		if s := h.agent.Status(); s.Ready || log.with("become-leader hook not started, and leadership given up") == 0 {
			t.Errorf("ready %v", s.Ready)
		}
		goOn()
		c.agrees(h)
		time.Sleep(time.Minute)
		hasLost := false
		for _, line := range h.hooks.ran()[1:] {
			hasLost = hasLost || strings.Contains(line, "lose-leadership 1 unclean-restart")
			if !hasLost && strings.HasPrefix(line, "become-leader") {
				t.Errorf("ran %q", h.hooks.ran())
			}
		}
		if s := h.agent.Status(); !s.Ready || h.agent.seat.state.saved.Promoted == (wire.Epoch{}) {
			t.Errorf("ready %v, notes %q, on disk %+v", s.Ready, s.Notes, h.agent.seat.state.saved)
		}
		c.stopAll()
	})
}

// What concerns jobs waits, and people are told so, until nothing runs any more that the
// last life began; then they run, and no earlier run is lost.
func TestJobsBesideTheLastLife(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of jobs")
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		log := c.withJobs(time.Millisecond, someJob("tick", "@every 1s", nil))
		top := c.hosts[2]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		time.Sleep(time.Minute)
		c.kill(top)
		goOn := top.hooks.hang(atRecover)
		c.start(top)
		c.agrees(c.hosts[1])
		expectRefusal(t, top.order("job-pause", map[string]string{"job": "tick"}), "busy")
		time.Sleep(time.Minute)
		goOn()
		c.agrees(top)
		if err := top.order("job-pause", map[string]string{"job": "tick"}); err != nil {
			t.Error(err)
		}
		if err := top.order("job-resume", map[string]string{"job": "tick"}); err != nil {
			t.Error(err)
		}
		before := len(log.all())
		time.Sleep(time.Minute)
		if after := len(log.all()); after < before+30 || log.twice() != "" {
			t.Errorf("%d starts, %d before; twice %s", after, before, log.twice())
		}
		c.stopAll()
	})
}

// A life begins beside what the last one has left once two of its leases and the takeover delay
// have ended: among hosts that are far apart it may have asked for as much. For at_start alone
// nobody waits, so that this waits for one.
func TestReleasedAfterTheLongestLease(t *testing.T) {
	a := &agent{seat: &seat{}}
	a.cfg.Election = election.Config{Lease: 400 * time.Millisecond, TakeoverDelay: time.Second}
	if got, want := a.released(), lease.WaitLength(800*time.Millisecond)+time.Second; got != want {
		t.Errorf("it waits for %v, want %v", got, want)
	}
	a.seat.loseAtStart = true
	if got, want := a.released(), lease.WaitLength(400*time.Millisecond); got != want {
		t.Errorf("with at_start it waits for %v, want %v", got, want)
	}
}
