package agent

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// No clock makes a hold-down longer than it was asked for.
func TestAHoldDownIsBounded(t *testing.T) {
	end := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	h := hold{until: end, length: 10 * time.Minute}
	for _, c := range []struct {
		clock string
		wall  time.Time
		want  time.Duration
	}{
		{"right", end.Add(-4 * time.Minute), 4 * time.Minute},
		{"at its end", end, 0},
		{"after its end", end.Add(time.Hour), 0},
		{"set back by a month", end.AddDate(0, -1, 0), 10 * time.Minute},
		{"without a battery", time.Unix(0, 0), 10 * time.Minute},
		{"beyond what a duration holds", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 0},
	} {
		if got := h.left(c.wall); got != c.want {
			t.Errorf("clock %s: %v left, want %v", c.clock, got, c.want)
		}
	}
	if got := (hold{}).left(time.Unix(0, 0)); got != 0 {
		t.Errorf("no hold-down has %v left", got)
	}
}

// pairHold is the hold-down of a pair.
const pairHold = 12 * time.Minute

// newPair is a cluster of a host and a better one, which leads and has stepped
// down for pairHold.
func newPair(t *testing.T) (c *cluster, low, top *testHost) {
	c = newCluster(t, 2)
	low, top = c.hosts[0], c.hosts[1]
	for _, h := range c.hosts {
		c.start(h)
	}
	c.agrees(top)
	if err := top.order("step-down", map[string]string{"for": pairHold.String()}); err != nil {
		t.Fatal(err)
	}
	c.agrees(low)
	return c, low, top
}

// expectHeld: h says that it does not stand for about so long.
func expectHeld(t *testing.T, h *testHost, want time.Duration) {
	t.Helper()
	s := h.agent.Status()
	left := time.Duration(s.HoldDownMS) * time.Millisecond
	if left > want || left < want-time.Minute || hasNote(s, "this host stepped down and cannot lead before ") != (want > 0) {
		t.Errorf("hold-down of %v, want %v; notes %q", left, want, s.Notes)
	}
}

// step-down --for is on disk before it answers: neither a kill nor an orderly
// stop of the agent ends it early, and a restart does not begin it anew.
func TestAHoldDownOutlivesTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, low, top := newPair(t)
		c.kill(top) // at once
		c.start(top)
		time.Sleep(3 * time.Minute)
		c.agrees(low)
		expectHeld(t, top, pairHold-3*time.Minute)
		top.stop()
		<-top.done
		time.Sleep(3 * time.Minute)
		c.start(top)
		time.Sleep(time.Minute)
		c.agrees(low)
		expectHeld(t, top, pairHold-7*time.Minute)
		time.Sleep(pairHold - 6*time.Minute)
		c.agrees(top)
		expectHeld(t, top, 0)
		if h := top.agent.seat.state.hold; h != (hold{}) {
			t.Errorf("the disk holds %+v, which a clock that is set back would begin anew", h)
		}
		c.kill(top)
		c.start(top)
		c.agrees(top)
		expectHeld(t, top, 0)
		c.stopAll()
	})
}

// Only what an operator asked for is kept: an agent that stepped down of itself
// stands again when it is restarted.
func TestTheShortHoldDownIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		top := c.hosts[1]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		if err := top.order("step-down", nil); err != nil {
			t.Fatal(err)
		}
		if h := top.agent.seat.state.hold; h != (hold{}) {
			t.Errorf("the disk holds %+v", h)
		}
		c.stopAll()
	})
}

// Nor is it where an operator asks for another, and is refused.
func TestARefusedStepDownKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		top := c.hosts[1]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		top.agent.call(nil, func() {
			top.agent.seat.command(election.Command{Verb: election.StepDown, For: ledgerHold, Cause: election.DiskFailed}, func(error) {})
		})
		c.agrees(c.hosts[0])
		expectHeld(t, top, ledgerHold)
		expectRefusal(t, top.order("step-down", map[string]string{"for": "10m"}), "not_leader")
		if h := top.agent.seat.state.hold; h != (hold{}) {
			t.Errorf("the disk holds %+v", h)
		}
		c.stopAll()
	})
}

// stand ends a hold-down for this life and the next; where there is none it
// changes nothing.
func TestStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, low, top := newPair(t)
		if err := top.order("stand", nil); err != nil {
			t.Fatal(err)
		}
		expectHeld(t, top, 0)
		c.agrees(top) // its priority is the higher one
		if err := low.order("stand", nil); err != nil {
			t.Errorf("on a host that stands: %v", err)
		}
		c.kill(top)
		c.start(top)
		expectHeld(t, top, 0)
		c.agrees(top)
		c.stopAll()
	})
}

// A disk that takes no writes: step-down says that the time is not on it, and
// writes it when it can; stand changes nothing.
func TestAHoldDownThatCannotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, low, top := newPair(t)
		path := filepath.Join(top.dir, stateName)
		isAway := false
		fails := func() { isAway = true; _ = os.Rename(path, path+".away"); top.agent.seat.state.slots.Close() }
		heals := func() { isAway = false; _ = os.Rename(path+".away", path) }

		top.agent.call(nil, fails)
		expectRefusal(t, top.order("stand", nil), "disk_failed", "this host may not lead yet", "nothing was changed")
		expectHeld(t, top, pairHold)
		top.agent.call(nil, heals)
		time.Sleep(2 * diskRetry)
		if err := top.order("stand", nil); err != nil {
			t.Error(err)
		}
		c.agrees(top)

		// The node has handed over when its agent finds the disk full.
		ended := make(chan error, 1)
		top.agent.call(nil, func() {
			top.agent.seat.give(order{verb: election.StepDown, what: "step down", hold: time.Hour}, func(err error) { ended <- err })
		})
		for top.agent.Status().State != election.Follow.String() && len(ended) == 0 {
			top.agent.call(nil, func() {
				if s := top.agent.seat.node.Status(); s.State == election.Observe && !isAway {
					fails()
				}
			})
			time.Sleep(time.Microsecond)
		}
		expectRefusal(t, <-ended, "disk_failed", "this host stepped down, but")
		top.agent.call(nil, heals)
		time.Sleep(2 * diskRetry)
		c.kill(top)
		c.start(top)
		time.Sleep(time.Minute)
		c.agrees(low)
		expectHeld(t, top, time.Hour-time.Minute)
		c.stopAll()
	})
}
