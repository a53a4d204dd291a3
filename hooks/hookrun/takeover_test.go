package hookrun

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

func (g *rig) ordered(want string) {
	g.t.Helper()
	if got := strings.Join(g.lines("order"), " "); got != want {
		g.t.Errorf("in this order: %s\nwant: %s", got, want)
	}
}

// takesOver has the agent be silent, with a lease that ends so much later; 0: that has ended.
func (g *rig) takesOver(within time.Duration) {
	g.Renew(time.Now().Add(max(within, -1)))
	g.Tick()
}

// unasked takes the result that tells of a take-over.
func (g *rig) unasked(epoch uint64) {
	g.t.Helper()
	if res := g.wants(hooks.LoseLeadership, epoch, false, false); !res.Unasked || !res.TakenOver || res.Cause != "agent-died" {
		g.t.Errorf("result %+v", res)
	}
}

// The agent is dead: its lose hook runs, with the cause agent-died. One that was frozen
// and goes on hears of it, and its own wish for the hook runs it no second time.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"succeeds": "exit 0", "fails": "exit 3"} {
		t.Run(name, func(t *testing.T) {
			g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: "echo $BULLY_CAUSE:$BULLY_EPOCH >>order; " + end}, Config{})
			g.become(1)
			g.wants(hooks.BecomeLeader, 1, true, true)
			g.takesOver(0)
			g.unasked(1)
			g.rest()
			g.nothingMore()
			ran := len(g.lines("order"))
			g.lose(1)
			res := g.wants(hooks.LoseLeadership, 1, end == "exit 0", true)
			if !res.TakenOver || res.Unasked || res.Cause != "agent-died" || res.OK == (res.Exit == 3) {
				t.Errorf("result %+v", res)
			}
			if again := len(g.lines("order")); again != ran {
				t.Errorf("the hook ran %d times before the agent asked for it, and %d times after", ran-1, again-1)
			}
			ev := event(t, hooks.LoseLeadership, 1)
			ev.IsRedo = true
			g.Start(ev)
			if res := g.wants(hooks.LoseLeadership, 1, end == "exit 0", end != "exit 0"); res.TakenOver {
				t.Errorf("a further attempt, which what has failed needs: %+v", res)
			}
			g.takesOver(0)
		})
	}
}

// A become hook that runs is ended, one that waits for its next attempt makes none, and
// one that comes late, from an agent that was frozen before it sent it, does not start.
func TestTakeOverEndsTheBecomeHook(t *testing.T) {
	for name, become := range map[string]string{"runs": "exec sleep 1000", "is tried again": "exit 75"} {
		t.Run(name, func(t *testing.T) {
			g := setUpWith(t, scripts{hooks.BecomeLeader: note + become, hooks.LoseLeadership: note}, Config{}, patience)
			g.run()
			g.become(1)
			g.UntilFile("order")
			g.takesOver(0)
			results := []hooks.Result{g.result(), g.result()}
			slices.SortFunc(results, func(a, b hooks.Result) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
			if become, lose := results[0], results[1]; become.Kind != hooks.BecomeLeader || become.OK || !lose.Unasked {
				t.Errorf("results %+v", results)
			}
			g.rest()
			g.become(1)
			g.wants(hooks.BecomeLeader, 1, false, false)
			g.lose(1)
			g.wants(hooks.LoseLeadership, 1, true, true)
			g.ordered("become-leader:1 lose-leadership:1")
		})
	}
}

// A lose hook that is too slow for the lease is ended by then, and runs once more, with
// all its time: also one that the agent had asked for before it died.
func TestTakeOverIsBounded(t *testing.T) {
	t.Parallel()
	const slow = "echo $BULLY_CAUSE:$BULLY_ATTEMPT >>order; test $BULLY_ATTEMPT -gt 1 || { trap '' TERM; while :; do sleep 0.01; done; }"
	for name, isAsked := range map[string]bool{"nobody has asked": false, "the agent has": true} {
		t.Run(name, func(t *testing.T) {
			const bound = time.Second // in which a shell begins on any machine
			g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: slow}, Config{})
			g.become(1)
			g.wants(hooks.BecomeLeader, 1, true, true)
			first := "agent-died:1"
			if isAsked {
				first = "test:1"
				g.lose(1)
				g.Until("the lose hook", func() bool { return len(g.lines("order")) == 2 })
			}
			begun := time.Now()
			g.takesOver(bound)
			if !isAsked {
				g.unasked(1)
			}
			g.rest()
			if took := time.Since(begun); took < bound {
				t.Errorf("the second attempt was made %v after the take-over, want it after the bound of %v", took, bound)
			}
			if !isAsked {
				g.loseWithin(1, time.Millisecond) // cannot hurry what has ended
			}
			if res := g.wants(hooks.LoseLeadership, 1, true, true); !res.TakenOver {
				t.Errorf("result %+v", res)
			}
			g.ordered("become-leader:1 " + first + " agent-died:2")
		})
	}
}

// The agent had asked for the lose hook, which waits for the become hook to end, and then
// it died: both have ended when the take-over's bound has passed, and the lose hook runs
// once more after it.
func TestTakeOverBoundsWhatWaits(t *testing.T) {
	t.Parallel()
	const stubborn = "trap '' TERM; while :; do sleep 0.01; done"
	for name, within := range map[string]time.Duration{"with more time": patience, "with no bound": 0} {
		t.Run(name, func(t *testing.T) {
			const bound = 2 * time.Second // in which two shells begin on any machine
			g := startRig(t, scripts{hooks.BecomeLeader: note + stubborn,
				hooks.LoseLeadership: "echo $BULLY_CAUSE:$BULLY_ATTEMPT >>order; test $BULLY_ATTEMPT -gt 1 || { " + stubborn + "; }"}, Config{})
			g.become(1)
			g.Until("the become hook", func() bool { return len(g.lines("order")) == 1 })
			begun := time.Now()
			g.loseWithin(1, within)
			g.takesOver(bound)
			g.wants(hooks.BecomeLeader, 1, false, true)
			if took := time.Since(begun); took > patience/6 {
				t.Errorf("the become hook has ended after %v, want it before the bound of %v", took, bound)
			}
			if res := g.wants(hooks.LoseLeadership, 1, true, true); !res.TakenOver {
				t.Errorf("result %+v", res)
			}
			if took := time.Since(begun); took < bound || took > patience/3 {
				t.Errorf("the second attempt has ended after %v, want it soon after the bound of %v", took, bound)
			}
			g.ordered("become-leader:1 test:1 agent-died:2")
		})
	}
}

// An agent that goes on in the middle of it may know a later end of its lease: then the hook is over by that.
func TestTakeOverIsBoundByTheAgent(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note + "sleep 1000"}, Config{})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.takesOver(0)
	g.unasked(1)
	g.Until("the lose hook", func() bool { return len(g.lines("order")) == 2 })
	g.loseWithin(1, 100*time.Millisecond)
	if res := g.wants(hooks.LoseLeadership, 1, false, true); !res.TakenOver || res.IsRepeat {
		t.Errorf("result %+v", res)
	}
}

// An agent that goes on in the middle of it has the outcome of that, as often as it asks.
func TestTakeOverIsNotDoneAgain(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note + "read go <gate"}, Config{})
	g.mkfifo("gate")
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.takesOver(0)
	g.unasked(1)
	g.Until("the lose hook", func() bool { return len(g.lines("order")) == 2 })
	g.lose(1)
	g.open("gate")
	if res := g.wants(hooks.LoseLeadership, 1, true, true); !res.TakenOver || res.IsRepeat {
		t.Errorf("result %+v", res)
	}
	g.lose(1)
	if res := g.wants(hooks.LoseLeadership, 1, true, true); !res.TakenOver || !res.IsRepeat {
		t.Errorf("result %+v, want the same once more", res)
	}
	g.ordered("become-leader:1 lose-leadership:1")
}

// Notifications end with the agent, for good, and its leadership in its stead.
func TestTheAgentDies(t *testing.T) {
	g := startRig(t, scripts{hooks.LeaderChange: note + "exec sleep 1000", hooks.MemberChange: note, hooks.LoseLeadership: note}, Config{})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, false)
	g.Start(event(t, hooks.LeaderChange, 1))
	g.UntilFile("order")
	g.Start(event(t, hooks.MemberChange, 1))
	g.step(hooks.AgentDied{})
	g.unasked(1)
	g.await(g.lanes.IsAllAtRest)
	g.become(2) // nothing that comes after its death begins anything
	g.await(g.lanes.AtRest)
	g.nothingMore()
	g.ordered("leader-change:1 lose-leadership:1")
}

// What was taken over is not done again by the next life; what has failed is.
func TestCleanUpAfterATakeOver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end   string
		epoch uint64
		again bool
	}{
		"it was done":          {"exit 0", 7, false},
		"it has failed":        {"test $BULLY_CAUSE != agent-died", 7, true},
		"it was another epoch": {"exit 0", 8, true},
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note + tt.end}, Config{Dir: state})
			g.become(7)
			g.wants(hooks.BecomeLeader, 7, true, true)
			g.takesOver(0)
			g.rest()
			g.end()
			next := setUp(t, scripts{hooks.LoseLeadership: note}, Config{Dir: state})
			res := next.CleanUp(context.Background(), event(t, hooks.LoseLeadership, tt.epoch))
			ran := len(next.lines("order"))
			if tt.end != "exit 0" { // the leadership keeps its hook
				ran = len(g.lines("order")) - 4
			}
			if !res.OK || !res.Ran || res.TakenOver == tt.again || (ran > 0) != tt.again {
				t.Errorf("result %+v, ran %d", res, ran)
			}
			next.run()
			next.Until("the note to go", func() bool { _, err := os.Stat(next.hands.journal.path); return err != nil })
		})
	}
}

// A Runner whose process was killed is followed by another one in the same life of the
// agent: what ran is ended, and the leadership keeps its hooks.
func TestAdopt(t *testing.T) {
	state := t.TempDir()
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}, Config{Dir: state})
	g.become(7)
	g.wants(hooks.BecomeLeader, 7, true, true)
	g.hands.backlog.wait(patience)
	left, _ := orphanOf(t, event(t, hooks.BecomeLeader, 7), "exec sleep 1000") // as if of a second attempt

	next := setUp(t, scripts{hooks.LoseLeadership: "exit 1"}, Config{Dir: state})
	next.step(hooks.Adopted{Event: event(t, hooks.BecomeLeader, 7)})
	next.run()
	next.takesOver(0)
	next.unasked(7)
	next.rest()
	next.lose(7)
	next.wants(hooks.LoseLeadership, 7, true, true)
	if alive(left) {
		t.Error("the become hook still runs")
	}
	g.ordered("become-leader:7 lose-leadership:7")
}

// One that a Runner has ended in the agent's stead, and could not say so before it was killed, has ended: the next one says it.
func TestAdoptWhatWasTakenOver(t *testing.T) {
	state := t.TempDir()
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}, Config{Dir: state})
	g.become(7)
	g.wants(hooks.BecomeLeader, 7, true, true)
	g.takesOver(0)
	g.rest()
	g.end()
	next := setUp(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}, Config{Dir: state})
	next.step(hooks.Adopted{Event: event(t, hooks.BecomeLeader, 7)})
	next.run()
	next.unasked(7)
	next.become(7)
	next.wants(hooks.BecomeLeader, 7, false, false)
	next.lose(7)
	next.wants(hooks.LoseLeadership, 7, true, true)
	if again := next.lines("order"); len(again) > 0 {
		t.Errorf("it ran again: %q", again)
	}
}

// A leadership that was not begun is none to lose.
func TestAdoptWhatWasNotBegun(t *testing.T) {
	g := setUp(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}, Config{Dir: t.TempDir()})
	g.step(hooks.Adopted{Event: event(t, hooks.BecomeLeader, 7)})
	g.run()
	g.lose(7)
	g.wants(hooks.LoseLeadership, 7, true, false)
	g.takesOver(0)
}

// Nor is one lost unseen of which a journal that cannot be read says nothing: what it began, if it
// did, is ended, and its lose-leadership hook runs.
func TestAdoptByADamagedJournal(t *testing.T) {
	left, _ := orphanOf(t, event(t, hooks.BecomeLeader, 7), "exec sleep 1000")
	g := leavesFile(t, []byte("{"), scripts{hooks.LoseLeadership: note}, Config{})
	g.step(hooks.Adopted{Event: event(t, hooks.BecomeLeader, 7)})
	g.run()
	g.lose(7)
	g.wants(hooks.LoseLeadership, 7, true, true)
	if alive(left) {
		t.Error("the become hook still runs")
	}
}
