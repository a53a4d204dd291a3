package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
)

// order gives h a command and waits for its end.
func (h *testHost) order(name string, args map[string]string) error {
	return h.agent.Command(context.Background(), name, args)
}

// expectRefusal: the command was refused with this code, and what it says has
// all the words.
func expectRefusal(t *testing.T, err error, code string, words ...string) {
	t.Helper()
	var refusal *control.APIError
	if !errors.As(err, &refusal) || refusal.Code != code {
		t.Errorf("got %v, want a refusal with code %s", err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q lacks %q", err, w)
		}
	}
}

// expectStill: h leads as before, in the same epoch, and no hook has run.
func (c *cluster) expectStill(h *testHost, epoch uint64) {
	c.t.Helper()
	s := h.agent.Status()
	if !s.LeaderIsSelf || s.Epoch.Counter != epoch {
		c.t.Errorf("%s is %s in epoch %d, want the leader of epoch %d still", h.name, s.State, s.Epoch.Counter, epoch)
	}
}

// A hand-over to somebody who cannot lead is refused in words, and changes
// nothing; so is a command to a host that does not lead.
func TestHandOverIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		watcher, follower, dead, top := c.hosts[0], c.hosts[1], c.hosts[3], c.hosts[4]
		watcher.settings = func(cfg *Config) { cfg.Election.Part = election.Observer }
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		for !slices.ContainsFunc(follower.agent.Members(), func(m control.Member) bool { return m.Name == dead.name }) {
			time.Sleep(10 * time.Millisecond) // the follower meets it by a session, maybe after it has met the leader
		}
		c.kill(dead)
		time.Sleep(20 * time.Second) // until memberlist has found it dead
		epoch := top.agent.Status().Epoch.Counter

		expectRefusal(t, top.order("handover", map[string]string{"to": "n4"}), "dead_member", "cannot hand over to n4", "does not answer")
		expectRefusal(t, top.order("handover", map[string]string{"to": "nobody"}), "unknown_member", "cannot hand over to nobody", "no such member: there is ")
		expectRefusal(t, top.order("handover", map[string]string{"to": "n1"}), "observer", "cannot hand over to n1", "cannot lead")
		expectRefusal(t, top.order("handover", map[string]string{"to": "n5"}), "self", "cannot hand over to n5", "this host itself")
		expectRefusal(t, top.order("handover", map[string]string{"to": top.agent.seat.state.ID.String()}), "self")
		expectRefusal(t, top.order("forget", map[string]string{"member": "n4"}), "not_quorum", "available mode")
		for name, args := range map[string]map[string]string{"handover": {"to": "n3"}, "step-down": nil, "forget": {"member": "n4"}} {
			err := follower.order(name, args)
			want := "not_leader"
			if name == "forget" {
				want = "not_quorum"
			}
			expectRefusal(t, err, want)
			if name != "forget" && err.Error() != "this host does not lead: run it on n5, which leads" {
				t.Errorf("%s on a follower says %q", name, err)
			}
		}
		c.expectStill(top, epoch)
		top.expectHooks(t, "become-leader 1 boot")
		c.stopAll()
	})
}

// What has no sense is refused before the election hears of it.
func TestOrdersThatMakeNoSense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.start(c.hosts[0])
		c.agrees(c.hosts[0])
		h := c.hosts[0]
		for _, bad := range []struct {
			name string
			args map[string]string
		}{
			{"handover", nil}, {"handover", map[string]string{"to": ""}}, {"forget", nil},
			{"handover", map[string]string{"to": "n1", "for": "1s"}}, {"step-down", map[string]string{"to": "n1"}},
			{"step-down", map[string]string{"for": "soon"}}, {"step-down", map[string]string{"for": "-1s"}},
			{"step-down", map[string]string{"for": "25h"}}, {"stand", map[string]string{"for": "1s"}},
		} {
			expectRefusal(t, h.order(bad.name, bad.args), "usage")
		}
		if err := h.order("leave", nil); !errors.Is(err, control.ErrUnsupported) {
			t.Errorf("leave: %v", err)
		}
		expectRefusal(t, h.order("step-down", nil), "nobody_ready", "cannot step down: nobody is ready")
		c.expectStill(h, 1)
		c.stopAll()
	})
}

// A hand-over is done when the other leads, and the lose hook has ended before
// its become hook starts. Stepping down keeps the host out for as long as was
// asked for, and says so.
func TestHandOverAndStepDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		for _, h := range c.hosts {
			h.settings = func(cfg *Config) { cfg.Election.Preempt = election.PreemptNever }
			c.start(h)
		}
		c.agrees(top)
		if err := top.order("handover", map[string]string{"to": "n1"}); err != nil {
			t.Fatal(err)
		}
		if s := top.agent.Status(); s.Leader == nil || s.Leader.Name != "n1" {
			t.Errorf("after the hand-over the old leader follows %+v", s.Leader)
		}
		c.agrees(low)
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 stepped-down")
		low.expectHooks(t, "become-leader 2 handed-over")

		// By the beginning of an id.
		if err := low.order("handover", map[string]string{"to": top.agent.seat.state.ID.String()[:8]}); err != nil {
			t.Fatal(err)
		}
		c.agrees(top)
		if err := top.order("step-down", map[string]string{"for": "1m"}); err != nil {
			t.Fatal(err)
		}
		c.agrees(mid)
		s := top.agent.Status()
		if s.HoldDownMS < 50_000 || s.HoldDownMS > 60_000 || !hasNote(s, "this host stepped down and cannot lead before ") {
			t.Errorf("hold-down of %d ms, notes %q", s.HoldDownMS, s.Notes)
		}
		c.kill(mid)
		c.agrees(low) // the best of those that may
		time.Sleep(time.Minute)
		if s := top.agent.Status(); s.HoldDownMS != 0 {
			t.Errorf("hold-down of %d ms after its end", s.HoldDownMS)
		}
		c.kill(low)
		c.agrees(top)
		c.stopAll()
	})
}

func hasNote(s control.Status, begin string) bool {
	for _, n := range s.Notes {
		if strings.HasPrefix(n, begin) {
			return true
		}
	}
	return false
}

// An agent that stops answers whoever still waits.
func TestCommandOfAnAgentThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		for _, h := range c.hosts {
			h.hooks.takes = time.Minute
			c.start(h)
		}
		c.agrees(c.hosts[1])
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- c.hosts[1].agent.Command(ctx, "step-down", nil) }()
		time.Sleep(time.Second)
		cancel() // as the server does
		expectRefusal(t, <-ended, "stopping")
		c.stopAll()
	})
}

// So it does whoever has asked it a question, which is looked into until the end.
func TestQuestionToAnAgentThatStops(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *agent) error{
		"doctor": func(ctx context.Context, a *agent) error { _, err := a.Examine(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			agents := onSockets(t, nil, "alpha")
			until(t, "alpha shows itself", func() bool { return agents["alpha"].shown.Load() != nil })
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // as the server does
			expectRefusal(t, ask(ctx, agents["alpha"]), "stopping")
		})
	}
}

// Machines that were cloned have one name: what people read tells them apart by their address.
func TestSeveralHostsWithOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		for _, h := range c.hosts {
			h.name = "debian"
			c.start(h)
		}
		low, top := c.hosts[0], c.hosts[2]
		c.agrees(top)
		time.Sleep(5 * time.Second)
		const all = "debian (10.0.0.1:7950), debian (10.0.0.2:7950), debian (10.0.0.3:7950)"
		expectRefusal(t, low.order("step-down", nil), "not_leader", "run it on debian (10.0.0.3:7950), which leads")
		var refusal *control.APIError
		if _, err := low.agent.Explain(t.Context(), "alpha"); !errors.As(err, &refusal) || refusal.Hint != "there is "+all {
			t.Errorf("who is unknown: %v", err)
		}
		if _, err := low.agent.Explain(t.Context(), "debian"); !errors.As(err, &refusal) || refusal.Code != "ambiguous" || refusal.Hint != giveID {
			t.Errorf("who is ambiguous: %v", err)
		}
		if got := strings.Join(votersOf(low.agent.Status()), ", "); got != all {
			t.Errorf("voters %s", got)
		}
		if answer, err := low.agent.OKToStop(t.Context()); err != nil || !strings.HasPrefix(answer.Text, "ok: debian (10.0.0.3:7950) leads") {
			t.Errorf("%+v, %v", answer, err)
		}
		c.stopAll()
	})
}
