package election

import (
	"testing"
	"time"
)

// armed gives a node that has nothing to wait for but these timers, each due in a
// second.
func armed(t *testing.T, which ...timer) *Node {
	t.Helper()
	n := storyOf(t, 2, Config{}, 1, 3).node
	n.timers, n.exchanges = timers{}, nil
	for _, w := range which {
		n.timers.arm(w, n.now.Add(time.Second))
	}
	return n
}

// What Deadline asks for, the step at that time disarms: else an agent would step
// without end, or never.
func TestEachTimerIsADeadlineAndExpires(t *testing.T) {
	names := map[string]bool{"": true}
	for which := range timerCount {
		if names[which.String()] {
			t.Errorf("timer %d is called %q, as another is", which, which)
		}
		names[which.String()] = true
		n := armed(t, which)
		at := n.Deadline()
		if !at.Equal(n.now.Add(time.Second)) {
			t.Errorf("%v: the deadline is %v from now", which, at.Sub(n.now))
			continue
		}
		n.due = at
		n.Step(at, Tick{})
		if n.timers[which].Equal(at) {
			t.Errorf("%v: still due after its step", which)
		}
	}
}

// A state's timers end with it, those of a leadership with that, and the others
// with neither.
func TestTimersEndWithWhatTheyBelongTo(t *testing.T) {
	var all []timer
	for which := range timerCount {
		all = append(all, which)
	}
	for _, c := range []struct {
		scope scope
		ends  func(*Node)
	}{
		{ofState, func(n *Node) { n.enter(Observe, Stopped) }},
		{ofReign, (*Node).endReign},
	} {
		n := armed(t, all...)
		c.ends(n)
		for _, which := range all {
			if isArmed, ends := n.timers.isArmed(which), timerTable[which].scope == c.scope; isArmed == ends {
				t.Errorf("scope %d ends: %v is armed: %t", c.scope, which, isArmed)
			}
		}
	}
}
