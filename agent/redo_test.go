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
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/keeper"
)

var errHook = errors.New("exit status 1")

// fails has hooks of the kind fail from now on, with a nil error no more.
func (h *testHost) fails(kind hooks.Kind, err error) {
	h.hooks.set(func(f *fakeOutcomes) {
		if f.fail == nil {
			f.fail = map[hooks.Kind]error{}
		}
		f.fail[kind] = err
	})
}

// A leader whose become hook fails hands over, and does not stand again for a
// minute.
func TestFailedBecomeStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		mid, top := c.hosts[1], c.hosts[2]
		top.fails(hooks.BecomeLeader, errHook)
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(mid)
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 hook-failed")
		s := top.agent.Status()
		if s.HoldDownMS < 50_000 || s.HoldDownMS > 60_000 || s.Degraded {
			t.Errorf("hold-down of %d ms, degraded %v", s.HoldDownMS, s.Degraded)
		}
		if s.LastHook == nil || s.LastHook.Event != "lose-leadership" {
			t.Errorf("last hook %+v", s.LastHook)
		}
		time.Sleep(30 * time.Second)
		c.agrees(mid)
		top.fails(hooks.BecomeLeader, nil)
		time.Sleep(35 * time.Second)
		c.agrees(top)
		if s := top.agent.Status(); !s.Ready {
			t.Errorf("not ready: %+v", s.Notes)
		}
		c.stopAll()
	})
}

// With nobody else a host leads on, degraded and not ready, and tries its hook again
// until it succeeds.
func TestDegradedLeaderTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		h.fails(hooks.BecomeLeader, errHook)
		c.start(h)
		c.agrees(h)
		time.Sleep(time.Second)
		s := h.agent.Status()
		if !s.Degraded || s.Ready || !s.LeaderIsSelf || !hasNote(s, "degraded: the become-leader hook failed once (exit status 1)") {
			t.Fatalf("degraded %v, ready %v, leads %v, notes %q", s.Degraded, s.Ready, s.LeaderIsSelf, s.Notes)
		}
		time.Sleep(3 * time.Minute)
		tried := h.hooks.attempts() // after 5, 10, 20, 40 and then 60 s
		if len(tried) < 5 || len(tried) > 8 || !slices.IsSorted(tried) || tried[0] != 0 || tried[len(tried)-1] != len(tried)-1 {
			t.Errorf("attempts %v", tried)
		}
		h.fails(hooks.BecomeLeader, nil)
		time.Sleep(time.Minute + time.Second)
		s = h.agent.Status()
		if s.Degraded || !s.Ready || s.Epoch.Counter != 1 || hasNote(s, "degraded") {
			t.Errorf("degraded %v, ready %v, epoch %d, notes %q", s.Degraded, s.Ready, s.Epoch.Counter, s.Notes)
		}
		was := len(h.hooks.ran())
		time.Sleep(3 * time.Minute)
		if now := len(h.hooks.ran()); now != was {
			t.Errorf("%d more hooks ran after the success", now-was)
		}
		c.stopAll()
	})
}

// Whoever comes to a degraded leader gets the leadership with the next failure.
func TestDegradedLeaderHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		top.fails(hooks.BecomeLeader, errHook)
		c.start(top)
		c.agrees(top)
		c.start(low)
		c.agrees(low)
		if s := top.agent.Status(); s.Degraded || hasNote(s, "degraded") {
			t.Errorf("degraded %v, notes %q", s.Degraded, s.Notes)
		}
		c.stopAll()
	})
}

// A lose hook that failed is shown, and tried again until it succeeds.
func TestFailedLoseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		for _, h := range c.hosts {
			h.settings = func(cfg *Config) { cfg.Election.Preempt = election.PreemptNever }
			c.start(h)
		}
		c.agrees(top)
		top.fails(hooks.LoseLeadership, errHook)
		if err := top.order("step-down", nil); err != nil {
			t.Fatal(err)
		}
		c.agrees(low)
		const note = "the lose-leadership hook of epoch 1 failed"
		if s := top.agent.Status(); !hasNote(s, note) {
			t.Errorf("notes %q", s.Notes)
		}
		time.Sleep(20 * time.Second)
		if ran := top.hooks.ran(); len(ran) < 3 || ran[len(ran)-1] != "lose-leadership 1 stepped-down" {
			t.Errorf("ran %q", ran)
		}
		if !slices.ContainsFunc(warnings(top), func(e control.Event) bool { return e.Cause == "lose-failed" && strings.Contains(e.Text, note) }) {
			t.Errorf("no event tells of it: %v", warnings(top))
		}
		top.fails(hooks.LoseLeadership, nil)
		time.Sleep(time.Minute)
		if s := top.agent.Status(); hasNote(s, note) {
			t.Errorf("notes %q", s.Notes)
		}
		was := len(top.hooks.ran())
		time.Sleep(2 * time.Minute)
		if now := len(top.hooks.ran()); now != was {
			t.Errorf("%d more hooks ran after the success", now-was)
		}
		c.stopAll()
	})
}

// A lose hook that the end of the lease has cut runs once more at once, with its own time:
// on a busy host it may not have come to its first line, and others lead already. Then it
// is tried again as any other. One that was hurried has two results, of one run.
func TestALoseHookThatWasCutIsTriedAgainAtOnce(t *testing.T) {
	for name, hurry := range map[string]func(f *fakeOutcomes){
		"not hurried": func(*fakeOutcomes) {},
		"hurried":     func(f *fakeOutcomes) { f.isHurried = true },
		"hurried, and it runs again when that is said once more": func(f *fakeOutcomes) {
			f.isHurried, f.repeated = true, time.Millisecond
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const takes = time.Second
				c := newCluster(t, 2)
				low, top := c.hosts[0], c.hosts[1]
				for _, h := range c.hosts {
					h.settings = func(cfg *Config) { cfg.Election.Preempt = election.PreemptNever }
					h.hooks.takes = takes
					c.start(h)
				}
				c.agrees(top)
				top.hooks.set(func(f *fakeOutcomes) { f.isCut = true })
				top.hooks.set(hurry)
				top.fails(hooks.LoseLeadership, errHook)
				if err := top.order("step-down", nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(takes / 2) // in which the hook runs again
				const again = "lose-leadership 1 stepped-down"
				top.expectHooks(t, "become-leader 1 boot", again, again)
				top.warnsOf(t, "at once")
				c.agrees(low)
				time.Sleep(takes)
				top.warnsOf(t, "at once", "in 5s")
				time.Sleep(redoFirst + takes)
				top.expectHooks(t, "become-leader 1 boot", again, again, again)
				top.warnsOf(t, "at once", "in 5s", "in 10s")
				if tried := top.hooks.attempts(); !slices.Equal(tried, []int{0, 0, 1, 2}) {
					t.Errorf("tried before: %v", tried)
				}
				top.fails(hooks.LoseLeadership, nil)
				time.Sleep(redoMost)
				if s := top.agent.Status(); hasNote(s, "the lose-leadership hook") {
					t.Errorf("notes %q", s.Notes)
				}
				c.stopAll()
			})
		})
	}
}

// warnsOf checks how often the agent has warned of a lose hook, and when it said that it is
// tried again.
func (h *testHost) warnsOf(t *testing.T, whens ...string) {
	t.Helper()
	var got []string
	for _, e := range warnings(h) {
		if _, when, ok := strings.Cut(e.Text, "it is tried again "); ok {
			got = append(got, when)
		}
	}
	if !slices.Equal(got, whens) {
		t.Errorf("it warned that the hook is tried again %q, want %q", got, whens)
	}
}

func warnings(h *testHost) []control.Event {
	events, _ := h.agent.Events(0)
	return slices.DeleteFunc(events, func(e control.Event) bool { return e.Type != "warning" })
}

// A host that leads again does not go on losing what it has.
func TestLeadingAgainEndsTheLoseHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		for _, h := range c.hosts {
			h.settings = func(cfg *Config) { cfg.Election.Preempt = election.PreemptNever }
			c.start(h)
		}
		c.agrees(top)
		top.fails(hooks.LoseLeadership, errHook)
		if err := top.order("step-down", nil); err != nil {
			t.Fatal(err)
		}
		c.agrees(low)
		c.kill(low)
		c.agrees(top)
		time.Sleep(5 * time.Minute)
		ran := top.hooks.ran()
		if last := ran[len(ran)-1]; !strings.HasPrefix(last, "become-leader 3 ") {
			t.Errorf("ran %q", ran)
		}
		if s := top.agent.Status(); hasNote(s, "the lose-leadership hook") {
			t.Errorf("notes %q", s.Notes)
		}
		c.stopAll()
	})
}

// A become hook that cannot be recorded was not started: the host steps down, says
// why, and stands again when the disk is well.
func TestUnrecordedBecome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		full := errors.New("no space left on device")
		top.fails(hooks.BecomeLeader, errors.Join(hooks.ErrNotRecorded, full))
		top.hooks.set(func(f *fakeOutcomes) { f.disk = full })
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(low)
		time.Sleep(time.Minute)
		c.agrees(low)
		s := top.agent.Status()
		if !slices.ContainsFunc(s.Notes, func(n string) bool { return strings.Contains(n, "cannot lead") && strings.Contains(n, full.Error()) }) {
			t.Errorf("notes %q", s.Notes)
		}
		if s.Cause != string(election.HeardLeader) && s.Cause != string(election.DiskFailed) {
			t.Errorf("cause %s", s.Cause)
		}
		top.fails(hooks.BecomeLeader, nil)
		top.hooks.set(func(f *fakeOutcomes) { f.disk = nil })
		c.agrees(top)
		time.Sleep(time.Second)
		if s := top.agent.Status(); !s.Ready || hasNote(s, "the state directory") {
			t.Errorf("ready %v, notes %q", s.Ready, s.Notes)
		}
		c.stopAll()
	})
}

// The keeper is told of each renewal, but not by a leader that nobody could take over
// from, which loses neither its hooks nor its jobs to a freeze; and not of a leadership's
// end: the keeper sees to that.
func TestKeeperIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		c.start(top)
		c.agrees(top)
		time.Sleep(time.Second)
		if last := lastLease(top); !last.IsZero() {
			t.Errorf("alone, the keeper was told of a deadline %v", last)
		}
		c.start(low)
		time.Sleep(5 * time.Second)
		if left := time.Until(lastLease(top)); left <= 0 || left > 400*time.Millisecond {
			t.Errorf("the keeper was told of a deadline in %v", left)
		}
		if err := top.order("step-down", map[string]string{"for": "1h"}); err != nil {
			t.Fatal(err)
		}
		c.agrees(low)
		if last := lastLease(top); last.IsZero() {
			t.Error("the end of the leadership took the deadline away")
		}
		c.stopAll()
	})
}

// A planned end that waits for holders renews the keeper's deadline, too: it may be
// frozen meanwhile.
func TestKeeperIsToldInAPlannedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		top := c.hosts[1]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		top.awaitLease(t, "it leads", mayAct)
		_, leave := top.agent.Enter(time.Minute)
		go func() { _ = top.order("step-down", map[string]string{"for": "1h"}) }()
		top.awaitLease(t, "the end is shown", func(l control.Lease) bool { return !l.Leader })
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			if left := time.Until(lastLease(top)); left <= 0 {
				t.Fatalf("the keeper's deadline passed %v ago", -left)
			}
		}
		leave(true)
		c.agrees(c.hosts[0])
		top.hooks.plans(t, 1)
		c.stopAll()
	})
}

// Nor does a leader that nobody could take over from have a deadline while it ends: what
// it has run may take its time.
func TestKeeperIsToldOfNoDeadlineAtALoneLeadersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		c.start(h)
		c.agrees(h)
		h.awaitLease(t, "it leads", mayAct)
		_, leave := h.agent.Enter(time.Minute)
		h.stop()
		time.Sleep(5 * time.Second)
		h.hooks.set(func(f *fakeOutcomes) {
			if len(f.told) == 0 || f.told[len(f.told)-1] != "ending" {
				t.Errorf("the keeper was told %q", f.told)
			}
		})
		if last := lastLease(h); !last.IsZero() {
			t.Errorf("the keeper was told of a deadline %v", last)
		}
		leave(true)
		c.stopAll()
	})
}

// An agent that stood still until its lease had ended, between the renewal of a planned end
// and what came next in the turn, has the lose hook hurried, and renews nothing after that:
// the keeper would watch over a leadership that is lost.
func TestNoRenewalAfterTheEndWasHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		top := c.hosts[1]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		top.awaitLease(t, "it leads", mayAct)
		_, leave := top.agent.Enter(time.Minute)
		go func() { _ = top.order("step-down", map[string]string{"for": "1h"}) }()
		top.awaitLease(t, "the end is shown", func(l control.Lease) bool { return !l.Leader })
		top.agent.calls <- func() {
			s := top.agent.seat
			top.hooks.set(func(f *fakeOutcomes) { f.takesLong = time.Second })
			s.diskTook = time.Millisecond // so that the node steps once more
			s.step(election.Tick{})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		top.hooks.set(func(f *fakeOutcomes) {
			if last := f.told[len(f.told)-1]; last != "lose-leadership lease-expired" {
				t.Errorf("the keeper was told %q", f.told)
			}
		})
		leave(true)
		c.agrees(c.hosts[0])
		c.stopAll()
	})
}

func lastLease(h *testHost) (last time.Time) {
	h.hooks.set(func(f *fakeOutcomes) { last = f.leases[len(f.leases)-1] })
	return last
}

// In quorum mode a leader that is cut off is one that others may replace.
func TestKeeperIsToldInQuorumMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for _, h := range c.hosts {
			h.settings = func(cfg *Config) { cfg.Election.Expect = 3 }
			c.start(h)
		}
		c.agrees(c.hosts[2])
		time.Sleep(time.Second)
		if left := time.Until(lastLease(c.hosts[2])); left <= 0 {
			t.Errorf("the keeper was told of a deadline in %v", left)
		}
		c.stopAll()
	})
}

// The keeper has ended a leadership that this agent still believes in: it is not
// ready from then on, gives up, and may lead again under a new epoch.
func TestKeeperTookOverWhileLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		c.start(h)
		c.agrees(h)
		time.Sleep(time.Second)
		h.hooks.set(func(f *fakeOutcomes) { f.keeper = keeper.Status{Process: 7, Silent: true} })
		if s := h.agent.Status(); s.Ready || s.Keeper == nil || s.Keeper.Process != 7 {
			t.Errorf("ready %v, keeper %+v", s.Ready, s.Keeper)
		}
		h.hooks.results <- hooks.Result{Kind: hooks.LoseLeadership, Epoch: 1, Cause: "agent-died", OK: true, Ran: true, TakenOver: true, Unasked: true}
		h.hooks.set(func(f *fakeOutcomes) { f.keeper = keeper.Status{} })
		time.Sleep(10 * time.Second)
		h.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 agent-frozen", "become-leader 2 agent-frozen")
		if s := h.agent.Status(); !s.Ready || s.Epoch.Counter != 2 {
			t.Errorf("ready %v in epoch %d", s.Ready, s.Epoch.Counter)
		}
		c.stopAll()
	})
}

// The keeper was killed, and what it ran died with it: the leadership is given up in
// order, to somebody else if there is one.
func TestKeeperDiedWhileLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		c.start(top)
		c.agrees(top)
		died := hooks.Result{Kind: hooks.LoseLeadership, Epoch: 1, Exit: -1, Err: keeper.ErrDied, Unasked: true}
		top.hooks.results <- died
		time.Sleep(5 * time.Second)
		// Nobody else can lead: the next keeper is to have what this host has. It does not run the hook again.
		top.expectHooks(t, "become-leader 1 boot", "become-leader 1 keeper-died")
		c.start(low)
		time.Sleep(5 * time.Second)
		died.Epoch = top.agent.Status().Epoch.Counter
		top.hooks.results <- died
		time.Sleep(300 * time.Millisecond)
		c.agrees(low)
		top.expectHooks(t, "become-leader 1 boot", "become-leader 1 keeper-died", "lose-leadership 1 keeper-died")
		c.stopAll()
	})
}

// What the leader has is lost after it became ready: it hands over as if its become hook had failed, with a cause of its
// own; where nobody else can lead it is degraded, and has it begun again.
func TestWhatTheLeaderHasIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		c.start(top)
		c.agrees(top)
		time.Sleep(time.Second) // its become hook has succeeded
		lost := hooks.Result{Kind: hooks.BecomeLeader, Epoch: 1, Cause: "boot", Exit: -1, Resource: "web", IsLater: true, Err: errors.New("web has failed: deleted")}
		top.hooks.results <- lost
		time.Sleep(time.Second)
		if s := top.agent.Status(); s.Ready || !s.Degraded {
			t.Errorf("ready %v, degraded %v without what it is to have", s.Ready, s.Degraded)
		}
		time.Sleep(10 * time.Second)
		top.expectHooks(t, "become-leader 1 boot", "become-leader 1 boot")
		if s := top.agent.Status(); !s.Ready || s.Degraded {
			t.Errorf("ready %v, degraded %v after it has begun again", s.Ready, s.Degraded)
		}
		c.start(low)
		time.Sleep(5 * time.Second)
		lost.Epoch = top.agent.Status().Epoch.Counter
		top.hooks.results <- lost
		time.Sleep(300 * time.Millisecond)
		c.agrees(low)
		top.expectHooks(t, "become-leader 1 boot", "become-leader 1 boot", "lose-leadership 1 resource-failed")
		c.stopAll()
	})
}

// What begins and is lost again and again, such as a command that ends at once, is begun after pauses that grow, as what does not
// begin at all. After a minute with it the first pause is for it again.
func TestWhatIsLostAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		c.start(h)
		c.agrees(h)
		lost := hooks.Result{Kind: hooks.BecomeLeader, Epoch: 1, Cause: "boot", Exit: -1, Resource: "web", IsLater: true, Err: errors.New("web has failed: exit status 1")}
		for _, whole := range []time.Duration{time.Second, time.Second, time.Second, redoMost} { // that it is here
			time.Sleep(whole)
			h.hooks.results <- lost
			time.Sleep(21 * time.Second) // and it has begun again
		}
		h.warnsOf(t, "in 5s", "in 10s", "in 20s", "in 5s")
		c.stopAll()
	})
}

func TestKeeperIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		h.hooks.keeper = keeper.Status{Err: "no keeper runs: no room for processes"}
		c.start(h)
		c.agrees(h)
		time.Sleep(time.Second)
		s := h.agent.Status()
		if !s.Ready || s.Keeper == nil || s.Keeper.Error == "" || !hasNote(s, "no command can be run here") {
			t.Errorf("ready %v, keeper %+v, notes %q", s.Ready, s.Keeper, s.Notes)
		}
		c.stopAll()
	})
}

// What a lose hook of the last life owes is paid before anything else, and if it
// fails again, later.
func TestOwedLoseAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		h.hooks.owes = hooks.Epoch{Counter: 7, Owner: "of the last life"}
		c.start(h)
		c.agrees(h)
		h.expectHooks(t, "lose-leadership 7 unclean-restart", "become-leader 1 boot")
		c.stopAll()
	})
}

// What may be run again, and what is refused.
func TestRunHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		for _, h := range c.hosts {
			h.settings = func(cfg *Config) {
				cfg.Election.Preempt = election.PreemptNever
				cfg.Hooks.Commands = map[hooks.Kind]hooks.Command{hooks.BecomeLeader: {Shell: "true"}, hooks.LoseLeadership: {Shell: "true"}}
			}
			c.start(h)
		}
		c.agrees(top)
		run := func(h *testHost, event string) (control.HookRun, error) {
			return h.agent.RunHook(context.Background(), event)
		}
		_, err := run(low, "become-leader")
		expectRefusal(t, err, "refused", "this host does not lead", "run it on n2, which leads")
		_, err = run(top, "lose-leadership")
		expectRefusal(t, err, "refused", "this host leads", "step-down")
		_, err = run(low, "lose-leadership")
		expectRefusal(t, err, "refused", "has not led yet")
		_, err = run(low, "leader-change")
		expectRefusal(t, err, "refused", "no leader-change hook is configured")
		_, err = run(low, "rain")
		expectRefusal(t, err, "usage", `no event "rain"`)

		if got, err := run(top, "become-leader"); err != nil || !got.OK || got.Cause != hooks.CauseRequested || got.Epoch != 1 {
			t.Errorf("become on the leader: %+v, %v", got, err)
		}
		if err := top.order("step-down", nil); err != nil {
			t.Fatal(err)
		}
		c.agrees(low)
		top.fails(hooks.LoseLeadership, errHook)
		if got, err := run(top, "lose-leadership"); err != nil || got.OK || got.Error != "exit status 1" || got.Epoch != 1 {
			t.Errorf("lose on a former leader: %+v, %v", got, err)
		}
		if s := top.agent.Status(); s.Leader == nil || s.Leader.Name != "n1" {
			t.Errorf("it changed the leader: %+v", s.Leader)
		}
		top.expectHooks(t, "become-leader 1 boot", "become-leader 1 requested", "lose-leadership 1 stepped-down", "lose-leadership 1 requested")

		low.fails(hooks.BecomeLeader, errHook) // a leader whose hook fails by hand steps down, too
		if got, err := run(low, "become-leader"); err != nil || got.OK {
			t.Errorf("a failing become: %+v, %v", got, err)
		}
		c.agrees(top)
		c.stopAll()
	})
}
