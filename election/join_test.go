package election

import (
	"testing"
	"time"
)

// A node holds no first election while its first join has no outcome, and none before it has settled. It waits for the
// outcome as long as a join may take, and no longer.
func TestAFirstElectionWaitsForTheFirstJoin(t *testing.T) {
	const never = time.Hour
	for name, c := range map[string]struct{ within, ended, want time.Duration }{
		"soon":           {3 * time.Second, 10 * time.Millisecond, 2 * time.Second},
		"late":           {3 * time.Second, 2500 * time.Millisecond, 2500 * time.Millisecond},
		"never":          {3 * time.Second, never, 3 * time.Second},
		"too late":       {3 * time.Second, 4 * time.Second, 3 * time.Second},
		"a short limit":  {time.Second, never, 2 * time.Second},
		"nobody says it": {0, never, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			n := storyOf(t, 3, Config{JoinWithin: c.within})
			last := c.want - time.Millisecond
			if c.ended <= last {
				n.waits(c.ended)
				n.happens(JoinEnded{})
				n.waits(last - c.ended)
			} else {
				n.waits(last)
			}
			n.is(Start)
			n.expects()
			if c.ended == c.want {
				n.waits(time.Millisecond)
				n.happens(JoinEnded{})
			} else {
				n.waits(2 * time.Millisecond)
			}
			if n.node.state == Start {
				t.Errorf("it listens still, %v after its start", n.now.Sub(n.zero))
			}
			n.forgets()
			if c.ended == 4*time.Second {
				n.waits(c.ended - c.want)
				n.forgets()
				n.happens(JoinEnded{})
				n.expects()
			}
		})
	}
}

// A node whose bar goes before its first join has an outcome runs for leader as soon as one that never had it.
func TestABarThatGoesBeforeTheFirstJoinHasEnded(t *testing.T) {
	n := storyOf(t, 3, Config{JoinWithin: 3 * time.Second})
	n.happens(Barred{Bar: BarCheck, On: true})
	n.forgets()
	n.waits(10 * time.Millisecond)
	n.happens(Barred{Bar: BarCheck, On: false})
	n.forgets()
	n.happens(JoinEnded{})
	n.waits(1989 * time.Millisecond)
	n.forgets()
	if n.node.state == Lead {
		t.Error("it leads before it has settled")
	}
	n.waits(200 * time.Millisecond)
	n.is(Lead)
	n.forgets()
}

// A better node that follows before its first join has an outcome waits for no more than its settle time, too.
func TestTheFirstJoinDelaysNoPreemption(t *testing.T) {
	for name, within := range map[string]time.Duration{"without": 0, "with": 3 * time.Second} {
		n := storyOf(t, 3, Config{JoinWithin: within, PreemptDelay: time.Second}, 1)
		n.hearsAndForgets(n.actor(1).heartbeat(1))
		n.is(Follow)
		if got := n.node.timers[preemptTimer].Sub(n.zero); got != 2*time.Second {
			t.Errorf("%s a first join it asks after %v", name, got)
		}
		n.forgets()
	}
}
