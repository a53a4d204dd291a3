package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/wire"
)

// Rules of the leader's lease (protocol 4.5) that could be broken without any other
// directed test noticing.

// Of two hosts neither needs the other's acknowledgement; but one that was frozen
// past its lease lets go, since the other may lead (I15).
func TestI15_AFrozenLeaderOfAPair(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1)
	n.waits(3 * time.Second)
	n.forgets()
	n.is(Lead)
	n.sleeps(time.Second)
	n.happens(Tick{})
	n.expects("lead → stopping cause=lease-expired", "stop hook", "lose hook", "ignored frozen")
}

// The detector gave all others up before the leader froze. They may live and lead
// by now all the same: only who was alone before it froze goes on.
func TestI15_AFrozenLeaderThatHadOthers(t *testing.T) {
	n := leading(t)
	for _, number := range []int{1, 2} {
		n.happens(MemberChanged{n.actor(number).member(Dead)})
		n.forgets()
	}
	n.sleeps(time.Second)
	n.happens(Tick{})
	n.expects("lead → stopping cause=lease-expired", "stop hook", "lose hook", "ignored frozen")
}

// Others wait for the lease and takeover_delay by clocks that may be faster than the
// leader's: its lose hook has less than that by the drift of both.
func TestALoseHookHasTheDelayLessTheDrift(t *testing.T) {
	const delay = 10 * time.Second
	n := voterWith(t, 3, Config{TakeoverDelay: delay}, Saved{}, 1, 2)
	n.leadsVoters(1)
	end := n.node.leaseEnd()
	n.waits(end.Add(-n.node.cfg.StopBudget).Sub(n.now))
	for _, e := range n.pending {
		if h, isHook := e.(StartHook); isHook && h.By.After(end.Add(lease.LeaderLength(delay))) {
			t.Errorf("%v: %v too late for a slow clock", h, h.By.Sub(end.Add(lease.LeaderLength(delay))))
		}
	}
	n.forgets()
	n.is(Stopping)
}

// In quorum mode nothing but acknowledgements makes a lease: a roster that grows
// asks for one more, and gives nobody time that no voter has promised (I5).
func TestI5_AGrowingRosterForgivesNothing(t *testing.T) {
	n := voterWith(t, 3, Config{}, Saved{}, 1, 2)
	n.node.cfg.Expect = 4
	n.meets(4)
	n.leadsVoters(1)
	n.hasConfirmed()
	n.waits(50 * time.Millisecond)
	n.forgets()
	for _, number := range []int{1, 2} {
		n.acks(number)
		n.forgets()
	}
	end := n.node.leaseEnd()
	n.waits(40 * time.Millisecond)
	n.acksWith(4, wire.KnowsNoRoster)
	n.forgets()
	if len(n.node.saved.Roster.IDs) != 4 {
		t.Fatalf("voters: %v", n.node.saved.Roster.IDs)
	}
	if got := n.node.leaseEnd(); got.After(end) {
		t.Errorf("the lease ends %v later than before, and nobody has acknowledged", got.Sub(end))
	}
}

// Observers see no more than the leader does of who leads after it: their word
// counts neither for a claim nor for a lease.
func TestObserversMakeNoLease(t *testing.T) {
	n := storyOf(t, 3, Config{MinAcks: 1}, 1, 2)
	watcher := n.actor(2).member(Alive)
	watcher.Part = Observer
	n.happens(MemberChanged{watcher})
	n.forgets()
	n.waits(1990 * time.Millisecond)
	n.hearsAndForgets(n.actor(2).says(wire.Frame{Kind: wire.Query}))
	n.waits(10 * time.Millisecond)
	n.forgets()
	if n.node.state == Claiming || n.node.saved.MaxCounter > 0 {
		t.Errorf("claims, and nobody but an observer was heard")
	}
	n.hearsAndForgets(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Standing: wire.Starting}))
	n.is(Claiming)
	n.hearsAndForgets(n.actor(2).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch}))
	n.waits(time.Millisecond)
	n.is(Claiming)
	n.hearsAndForgets(n.actor(1).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch}))
	n.is(Lead)
}
