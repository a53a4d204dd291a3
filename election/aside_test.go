package election

import (
	"testing"
	"time"
)

// Who stands aside stands for nothing, follows, and comes back when it may.
func TestStandAside(t *testing.T) {
	t.Run("a candidate lets be", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		n.happens(StandAside{On: true})
		n.waits(10 * time.Second)
		n.forgets()
		n.is(Observe)
		n.hears(n.actor(2).heartbeat(2))
		n.expects("observe → follow leader=n2")
	})
	t.Run("a follower does not stand when its leader is lost", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 2)
		n.follows(2, 1)
		n.happens(StandAside{On: true})
		n.happens(StandAside{On: true})
		n.expects()
		n.waits(10 * time.Second)
		n.forgets()
		n.is(Observe)
		n.happens(StandAside{On: false})
		n.expects("observe → stagger cause=stands-again")
		n.waits(10 * time.Second)
		n.forgets()
		n.is(Lead)
	})
	t.Run("a leader goes on", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		n.leads(1)
		n.happens(StandAside{On: true})
		n.expects()
		n.is(Lead)
	})
}
