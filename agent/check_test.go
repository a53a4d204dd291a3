package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
)

func (h *testHost) has(all ...Check) {
	h.settings = func(cfg *Config) { cfg.Checks = all }
}

func (h *testHost) says(name string, state hooks.CheckState, why string) {
	h.hooks.say(hooks.CheckReport{Name: name, State: state, Why: why})
	synctest.Wait()
}

func web(penalty int) Check { return Check{Check: hooks.Check{Name: "web"}, Penalty: penalty} }

// A host with a check leads once that has passed, hands over when it fails, and comes back
// when it passes again; status, members and events tell so.
func TestACheckMovesTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		top.has(web(0))
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(low) // it waits for nobody whose check has not passed
		if s := top.agent.Status(); !hasNote(s, "check web has not passed yet, so this host cannot lead") || len(s.Bars) != 1 || s.Bars[0] != "check" {
			t.Errorf("bars %q, notes %q", s.Bars, s.Notes)
		}
		top.says("web", hooks.CheckPasses, "")
		c.agrees(top)
		top.says("web", hooks.CheckFails, "exit status 7: no route")
		c.agrees(low)
		time.Sleep(5 * time.Second)
		s := top.agent.Status()
		if !hasNote(s, "check web fails, so this host cannot lead: exit status 7: no route") || s.HoldDownMS > 0 {
			t.Errorf("held for %d ms, notes %q", s.HoldDownMS, s.Notes)
		}
		if len(s.Checks) != 1 || s.Checks[0].State != "fails" || s.Checks[0].Why != "exit status 7: no route" || s.Checks[0].OnFail != "ineligible" {
			t.Errorf("checks %+v", s.Checks)
		}
		if got, want := whatIs("check", top), "check web fails, for 5s: exit status 7: no route"; got != want {
			t.Errorf("explain says %q, want %q", got, want)
		}
		if past := top.agent.History(); len(past) < 2 || past[len(past)-2].Ended != "check-failed" {
			t.Errorf("history %+v", past)
		}
		if m := seenBy(low, top); !m.Draining {
			t.Errorf("%s has %+v", low.name, m)
		}
		top.says("web", hooks.CheckPasses, "")
		c.agrees(top)
		top.expectHooks(t, "become-leader 2 handed-over", "lose-leadership 2 check-failed", "become-leader 4 handed-over")
		c.stopAll()
	})
}

// whatIs is explain's text about something that keeps a host from leading.
func whatIs(about string, h *testHost) string {
	e, err := h.agent.Explain(context.Background(), "")
	if err != nil {
		return err.Error()
	}
	for _, r := range e.Reasons {
		if r.About == about && !r.OK {
			return r.Text
		}
	}
	return ""
}

// seenBy is how a host shows another.
func seenBy(h, other *testHost) control.Member {
	for _, m := range h.agent.Members() {
		if m.Name == other.name {
			return m
		}
	}
	return control.Member{}
}

// Where nobody else can lead the leader stays, and says that it is degraded. Who is well
// again takes over.
func TestACheckFailsEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		for _, h := range c.hosts {
			h.has(web(0))
			c.start(h)
			h.says("web", hooks.CheckPasses, "")
		}
		c.agrees(top)
		low.says("web", hooks.CheckFails, "down")
		time.Sleep(5 * time.Second)
		top.says("web", hooks.CheckFails, "down")
		time.Sleep(5 * time.Second)
		if s := top.agent.Status(); !s.LeaderIsSelf || !s.Degraded || !s.Ready || !hasNote(s, "degraded: ") {
			t.Errorf("leads %t, degraded %t, ready %t, notes %q", s.LeaderIsSelf, s.Degraded, s.Ready, s.Notes)
		}
		low.says("web", hooks.CheckPasses, "")
		c.agrees(low)
		c.stopAll()
	})
}

// A check may cost priority instead: the leader gives way to a better host, and is asked
// back when it is the best again.
func TestACheckCostsPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		low.priority, top.priority = 100, 120
		top.has(web(-50))
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		top.says("web", hooks.CheckFails, "slow")
		c.agrees(low)
		s := top.agent.Status()
		if s.Self.Priority != 70 || !hasNote(s, "check web fails, so the priority is 70 instead of 120: slow") || len(s.Bars) > 0 {
			t.Errorf("priority %d, bars %q, notes %q", s.Self.Priority, s.Bars, s.Notes)
		}
		top.says("web", hooks.CheckPasses, "")
		c.agrees(top)
		c.stopAll()
	})
}

// A reload that brings a check does not move a leader whose host is well, and one that
// takes it away lets its host lead.
func TestAReloadOfChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		top := c.hosts[1]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		reload := func(checks ...Check) {
			top.agent.calls <- func() { top.agent.reload(Reloaded{Priority: top.priority, Checks: checks}) }
			synctest.Wait()
		}
		reload(web(0))
		time.Sleep(5 * time.Second)
		top.expectHooks(t, "become-leader 1 boot")
		top.says("web", hooks.CheckFails, "down")
		c.agrees(c.hosts[0])
		reload()
		c.agrees(top)
		c.stopAll()
	})
}

// What another keeper does not know yet is not forgotten, and what it says of checks that
// are not configured any more means nothing.
func TestAnotherKeeperKnowsNothingYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		top := c.hosts[0]
		top.has(web(0))
		c.start(top)
		top.says("web", hooks.CheckPasses, "")
		c.agrees(top)
		top.says("web", hooks.CheckPending, "exit status 1")
		top.says("other", hooks.CheckFails, "")
		time.Sleep(5 * time.Second)
		if s := top.agent.Status(); !s.LeaderIsSelf || s.Degraded || len(s.Checks) != 1 {
			t.Errorf("%+v", s.Checks)
		}
		c.stopAll()
	})
}
