package election

import (
	"testing"
	"time"
)

// The agent, too, may have a leader step down; its reason is the cause.
func TestStepDownWithACause(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: StepDown, For: time.Minute, Cause: HookFailed, Token: 4})
	n.expects("send n2 PREPARE")
	n.hears(n.actor(2).ready(true))
	n.expects("lead → stopping cause=hook-failed", "stop hook", "lose hook cause=hook-failed")
	if held := n.node.Status().Held; held.Sub(n.now) != time.Minute {
		t.Errorf("held until %v", held)
	}
}

// A leader whose guard has released everything ends its leadership at once, whoever
// follows, and may stand again.
func TestAbdicate(t *testing.T) {
	n := leading(t)
	was := n.node.epoch
	n.happens(Command{Verb: Abdicate, Cause: AgentFrozen, Token: 4})
	n.expects("lead → stopping cause=agent-frozen", "stop hook", "lose hook cause=agent-frozen", "reply ok")
	n.happens(HookEnded{Hook: Lose, Epoch: was, OK: true})
	n.forgets()
	if s := n.node.Status(); !s.Held.IsZero() || s.State == Lead {
		t.Errorf("state %v, held until %v", s.State, s.Held)
	}
}

// Whoever does not lead has nothing to give up.
func TestAbdicateWithoutLeading(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.happens(Command{Verb: Abdicate, Token: 4})
	n.expects("reply ok")
	n.is(Start)
}
