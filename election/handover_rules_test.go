package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Rules of giving up and taking over (protocol 4.6) that could be broken without
// any other directed test noticing.

// The become hook that a short leadership interrupts ends late, and so may the lose
// hook of the leadership before: neither says that nothing runs any more (I18).
func TestI18_OnlyTheEndOfItsLoseHookEndsALeadership(t *testing.T) {
	n := leading(t)
	was := n.node.epoch
	n.happens(Command{Verb: HandOver, To: hostID(2), Token: 4})
	n.forgets()
	n.hears(n.actor(2).ready(true))
	n.expects("lead → stopping", "stop hook", "lose hook")
	n.happens(HookEnded{Hook: Become, Epoch: was})
	n.expects()
	n.happens(HookEnded{Hook: Lose, Epoch: wire.Epoch{Counter: was.Counter - 1, Owner: hostID(3)}, OK: true})
	n.expects()
	n.is(Stopping)
}

// A successor that has not heard of the epoch yet would take the RESIGN of it for
// one of an epoch that never was.
func TestASuccessorKnowsTheEpoch(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.hears(n.actor(3).says(wire.Frame{Kind: wire.Prepare, Flags: wire.AckReq, Epoch: n.actor(3).epoch(2)}))
	n.expects("send n3 READY ready=false")
	n.hears(n.actor(3).says(wire.Frame{Kind: wire.Prepare, Flags: wire.AckReq, Epoch: n.actor(3).epoch(1)}))
	n.expects("send n3 READY ready=true")
}

// A RESIGN of an epoch that nobody announced would silence its owner until its
// counter has come so far.
func TestCE8_NoTombstoneForWhatNeverWas(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.hears(n.actor(1).resigns(900))
	n.expects("send n1 RESIGN_ACK", "ignored unknown-epoch")
	n.hears(n.actor(1).heartbeat(2))
	n.expects("follow → follow leader=n1 epoch=2/n1")
}

// An old RESIGN that was held back does not lower the tombstone of a newer one.
func TestCE8_ATombstoneOnlyRises(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 5)
	late, old := n.actor(3).heartbeat(5), n.actor(3).resigns(4)
	n.hearsAndForgets(n.actor(3).resigns(5))
	n.hearsAndForgets(old)
	n.hears(late)
	n.expects("ignored resigned-epoch")
}

// The successor lost its disk, or its link, after it had said that it is ready: it
// leaves the turn to others.
func TestR11_ASuccessorThatCannotLeadAnyMore(t *testing.T) {
	for name, spoils := range map[string]Event{"disk": SaveFailed{}, "link": LinkChanged{Up: false}} {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		n.happens(spoils)
		n.forgets()
		resigned := n.actor(3).resigns(1)
		resigned.Successor = hostID(2)
		n.hearsAndForgets(resigned)
		if n.node.state != Observe || n.node.saved.MaxCounter != 1 {
			t.Errorf("%s: %s with counter %d", name, n.node.state, n.node.saved.MaxCounter)
		}
	}
}

// A named successor has a head start, even before a node that is better: else both
// would claim.
func TestASuccessorHasAHeadStart(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	start := n.node.successorHeadStart()
	if start < syncAllowance+2*rtoFloor {
		t.Errorf("a head start of %v", start)
	}
	resigned := n.actor(3).resigns(1)
	resigned.Successor = hostID(1)
	n.hears(resigned)
	n.expects("send n3 RESIGN_ACK", "follow → stagger")
	n.now = n.now.Add(start - time.Millisecond)
	n.happens(Tick{})
	n.expects()
	n.is(Stagger)
}

// A voter that is stopped waits for its leader to go first, and no longer: service
// managers count the seconds.
func TestAVoterGoesWhenItsLeaderHasResigned(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.follows(3, 1)
	n.happens(Command{Verb: Leave, Token: 1})
	n.expects()
	lets := n.actor(3).heartbeat(1)
	lets.Flags |= wire.Draining
	n.hears(lets)
	n.expects()
	n.hearsAndForgets(n.actor(3).resigns(1))
	n.is(Observe)
}

// Whoever lost its lease listens for one lease before it stands: others may have a
// leader by now.
func TestWhoLostItsLeaseListensForALease(t *testing.T) {
	n := leading(t)
	n.waits(time.Second)
	n.forgets()
	n.is(Stopping)
	n.loseHookEnds()
	n.forgets()
	n.is(Stagger)
	since := n.node.since
	n.waits(n.node.cfg.Lease - time.Millisecond)
	n.forgets() // RESIGN is repeated
	if n.node.state != Stagger || n.node.since != since {
		t.Errorf("stood for election within a lease: %s since %v", n.node.state, n.node.since.Sub(since))
	}
}

// Who steps down stays out of it for a lease at least, or it would be its own
// successor.
func TestAHoldDownLastsALease(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: StepDown, For: time.Millisecond, Token: 4})
	n.forgets()
	n.hears(n.actor(2).ready(true))
	n.forgets()
	if held := n.node.Status().Held.Sub(n.now); held < n.node.cfg.Lease {
		t.Errorf("held for %v", held)
	}
}

// A leader that is stopped while it hands over to the one that its operator named
// goes in any case, and to anybody.
func TestWhoStopsHandsOverToAnybody(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: HandOver, To: hostID(1), Token: 4})
	n.expects("send n1 PREPARE")
	n.happens(Command{Verb: Leave, Token: 7})
	n.expects()
	n.hears(n.actor(1).ready(false))
	n.expects("send n2 PREPARE")
}
