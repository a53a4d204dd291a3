package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// A promise holds for as long as the grant says, and one that has ended stays ended.

// The 64 numbers that a node remembers of a destination are used again: an old
// acknowledgement must not count from the sending of a newer frame.
func TestAnAcknowledgementOfAForgottenNumber(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(1)
	n.acks(1)
	n.forgets()
	late := n.actor(1).replies(wire.Heartbeat, wire.Frame{Kind: wire.HeartAck, Epoch: n.node.epoch})
	n.waits(100 * time.Millisecond)
	n.forgets()
	for range 64 {
		n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
	}
	end := n.node.leaseEnd()
	late.Seq = n.actor(1).seq + 1
	n.hears(late)
	n.expects("ignored late-ack")
	if renewed := n.node.leaseEnd().Sub(end); renewed != 0 {
		t.Errorf("it renewed the lease by %v", renewed)
	}
}

// A claimant that waits for a slow disk asks for more than the lease, and counts on it.
func TestAPromiseIsAsLongAsTheGrant(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	claim := n.actor(3).claims(1)
	claim.Lease = 2000
	n.hears(claim)
	n.expects("save vote=1/n3", "start → wait", "send n3 COORD_ACK verdict=accept")
	n.waits(time.Second)
	n.forgets()
	n.hears(n.actor(2).claims(2))
	n.expects("send n2 COORD_ACK verdict=leased remain=1001ms")
}

// A restarted voter may have promised a moment before, and its promise binds it for
// takeover_delay more.
func TestTheHoldHasTheTakeoverDelay(t *testing.T) {
	n := voterWith(t, 1, Config{TakeoverDelay: time.Second}, Saved{}, 2, 3)
	n.hears(n.actor(3).claims(1))
	n.expects("save vote=1/n3", "start → wait", "send n3 COORD_ACK verdict=accept")
	for _, now := range []time.Duration{0, time.Second, 2 * time.Second} { // the settings of the next life
		next := voterWith(t, 1, Config{TakeoverDelay: now}, n.disk, 2, 3)
		if least := 1400 * time.Millisecond; next.node.muteFor() < least {
			t.Errorf("with a delay of %v now it holds for %v, and was bound for up to %v", now, next.node.muteFor(), least)
		}
	}
}

// A late copy of a claim that its owner has given up must not bind anybody to it.
func TestAnAbandonedEpochStaysAbandoned(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.hears(n.actor(3).claims(1))
	n.forgets()
	n.hears(n.actor(3).resigns(1))
	n.forgets()
	n.hears(n.actor(3).claims(1))
	n.expects("ignored resigned-epoch")
	if bound := n.node.boundFor(hostID(2)); bound > 0 {
		t.Errorf("bound for %v to a claim that was given up", bound)
	}
}

// Who was told to wait for the end of a voter's hold asks again just then, before the
// voter's own timer: what it is granted must not pass for what the hold was kept for.
func TestAGrantAtTheEndOfTheHold(t *testing.T) {
	n := voterOf(t, 1, Saved{LongestPromise: 3 * time.Second}, 2, 3)
	n.sleeps(n.node.muteFor())
	claim := n.actor(3).claims(1)
	claim.Lease = 2000
	n.hears(claim)
	n.forgets()
	if got := n.lastTo(3, wire.CoordAck).AckVerdict; got != wire.Accept {
		t.Fatalf("answers %v", got)
	}
	if bound := n.node.boundFor(hostID(2)); n.disk.LongestPromise < bound {
		t.Errorf("bound for %v, and its disk says %v", bound, n.disk.LongestPromise)
	}
}
