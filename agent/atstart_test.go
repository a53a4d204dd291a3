package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

const startNote = "this host cannot lead yet: the lose-leadership hook of at_start has not ended"

// losesAtStart sets at_start, and a delay that nobody is to wait for.
func losesAtStart(cfg *Config) {
	cfg.LoseAtStart = true
	cfg.Election.TakeoverDelay = time.Minute
}

// With at_start every life of a host begins with one lose hook: the first, one after an orderly stop, and one after a kill,
// whose lose hook is due and runs once.
func TestAtStartLosesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		low.settings, top.settings = losesAtStart, losesAtStart
		c.start(low)
		c.start(top)
		c.agrees(top)
		top.expectHooks(t, "lose-leadership 0 started", "become-leader 1 boot")
		low.expectHooks(t, "lose-leadership 0 started")
		if s := top.agent.Status(); len(s.Notes) != 0 || !s.Ready || s.HoldDownMS != 0 {
			t.Errorf("ready %v, hold-down of %d ms, notes %q", s.Ready, s.HoldDownMS, s.Notes)
		}

		top.stop()
		if err := <-top.done; err != nil {
			t.Fatal(err)
		}
		c.start(top)
		c.agrees(top)
		c.kill(top)
		c.start(top)
		c.agrees(top)
		top.expectHooks(t, "lose-leadership 0 started", "become-leader 1 boot", "lose-leadership 1 stopped",
			"lose-leadership 0 started", "become-leader 3 handed-over", "lose-leadership 3 unclean-restart", "become-leader 5 handed-over")
		c.stopAll()
	})
}

// One that hangs silences no voter, whatever takeover_delay is: its host votes when a lease has ended, says why it does not
// stand, and stands when the hook has ended.
func TestAHookOfAtStartThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		mid, top := c.hosts[1], c.hosts[2]
		expect := top.settings
		top.settings = func(cfg *Config) {
			expect(cfg)
			cfg.LoseAtStart = true
		}
		for _, h := range c.hosts {
			with := h.settings
			h.settings = func(cfg *Config) {
				with(cfg)
				cfg.Election.TakeoverDelay = time.Minute
			}
		}
		top.hooks.set(func(f *fakeOutcomes) { f.keeper.Process = 1 })
		goOn := top.hooks.hang(atCleanUp)
		c.start(mid)
		c.beginsIn(top, time.Second)
		c.start(c.hosts[0])
		c.agrees(mid)
		time.Sleep(5 * time.Minute)
		c.agrees(mid)
		if s := top.agent.Status(); !hasNote(s, startNote) {
			t.Errorf("notes %q", s.Notes)
		}
		expectRefusal(t, top.order("stand", nil), "busy", "nothing was changed", startNote)
		goOn()
		c.agrees(top)
		if s := top.agent.Status(); len(s.Notes) != 0 {
			t.Errorf("notes %q", s.Notes)
		}
		if ran := top.hooks.ran(); len(ran) != 2 || ran[0] != "lose-leadership 0 started" {
			t.Errorf("it ran hooks %q", ran)
		}
		c.stopAll()
	})
}

// One that fails is tried again as any other, and its host stands meanwhile.
func TestAHookOfAtStartThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low := c.hosts[0]
		for _, h := range c.hosts {
			h.settings = losesAtStart
		}
		low.fails("lose-leadership", errHook)
		c.start(c.hosts[1])
		c.start(low)
		low.warnsOf(t, "in 5s")
		c.agrees(c.hosts[1])
		time.Sleep(6 * time.Second)
		low.hooks.set(func(f *fakeOutcomes) { delete(f.fail, hooks.LoseLeadership) })
		time.Sleep(time.Minute)
		ran := low.hooks.ran()
		if len(ran) < 3 || slices.ContainsFunc(ran, func(h string) bool { return h != "lose-leadership 0 started" }) {
			t.Errorf("it ran hooks %q", ran)
		}
		before := len(ran)
		time.Sleep(5 * time.Minute)
		if ran = low.hooks.ran(); len(ran) != before {
			t.Errorf("it ran once more after it had succeeded: %q", ran)
		}
		c.stopAll()
	})
}
