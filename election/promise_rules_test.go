package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Rules of what a voter owes (protocol 4.3, M5) that could be broken without any
// other directed test noticing.

// A claim that is repeated asks for longer than before (M10): that goes to disk too
// before it is promised, or a restart keeps silent for too short a time.
func TestMended05_ALongerPromiseIsSavedFirst(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.hearsAndForgets(n.actor(2).claims(1))
	again := n.actor(2).claims(1)
	again.Lease = 900
	n.hears(again)
	n.expects("save vote=1/n2", "send n2 COORD_ACK verdict=accept")
	if n.disk.LongestPromise != 900*time.Millisecond {
		t.Errorf("the longest promise on disk is %v", n.disk.LongestPromise)
	}
}

// The lease was made longer, and the first heartbeat after that is of an epoch that
// the disk has: what acknowledging it promises is on disk first all the same.
func TestMended05_ALongerLeaseIsSavedFirst(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3)
	epoch := n.actor(3).epoch(1)
	n = voterOf(t, 1, Saved{MaxCounter: 1, Accepted: epoch, LongestPromise: 100 * time.Millisecond}, 2, 3)
	n.showsAll = true
	n.hears(n.actor(3).heartbeat(1))
	n.expects("save", "start → follow", "send n3 HB_ACK")
	if n.disk.LongestPromise != 400*time.Millisecond {
		t.Errorf("the longest promise on disk is %v", n.disk.LongestPromise)
	}
}

// What a save that failed should have kept is saved before the next heartbeat is
// acknowledged: that is the promise.
func TestMended05_NoPromiseFromMemory(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.showsAll = true
	n.saveFails(func(Saved) bool { return true })
	n.hears(n.actor(3).heartbeat(1))
	n.expects("follow → follow leader=n3") // and no acknowledgement
	n.hears(n.actor(3).heartbeat(1))
	n.expects("save", "send n3 HB_ACK")
}

// A disk that fails takes a save now and then. What the voter does not know to be on
// it is saved before it is acknowledged, whatever the disk did the last time.
func TestMended05_AFailingDiskHasTheCounter(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.showsAll = true
	n.happens(SaveFailed{State: n.disk})
	n.forgets()
	n.hears(n.actor(2).claims(1))
	n.expectsSome("save vote=1/n2")
	n.hears(n.actor(3).heartbeat(2))
	n.expects("save counter=2", "observe → follow leader=n3", "send n3 HB_ACK")
}

// takeover_delay binds a voter after a restart as it does before (M6).
func TestMended06_TakeoverDelayBindsARestartedVoter(t *testing.T) {
	n := voterWith(t, 1, Config{TakeoverDelay: 10 * time.Second}, Saved{LongestPromise: 400 * time.Millisecond}, 2, 3)
	n.waits(10 * time.Second)
	n.forgets()
	n.hears(n.actor(2).claims(1))
	n.expects("send n2 COORD_ACK verdict=hold")
	n.waits(time.Second)
	n.forgets()
	n.hearsAndForgets(n.actor(2).claims(1))
	if n.node.saved.Vote != n.actor(2).epoch(1) {
		t.Errorf("voted %v when the hold had ended", n.node.saved.Vote)
	}
}

// A claim asks for more than a lease, and its owner counts on that: the heartbeats
// that follow do not take it back.
func TestAHeartbeatShortensNoPromise(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	long := n.actor(2).claims(1)
	long.Lease = 2000
	n.hearsAndForgets(long)
	n.hearsAndForgets(n.actor(2).heartbeat(1))
	n.waits(1900 * time.Millisecond)
	n.forgets()
	n.hears(n.actor(3).claims(2))
	n.expects("send n3 COORD_ACK verdict=leased")
}

// A voter that was forgotten binds itself to nobody.
func TestWhoWasForgottenGrantsNothing(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.follows(3, 1)
	n.hearsAndForgets(n.actor(3).roster(wire.Formed, 17, 2, 3))
	n.waits(time.Second)
	n.forgets()
	n.hears(n.actor(2).claims(2))
	n.expects("send n2 COORD_ACK verdict=not-voter")
}
