package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Rules of who may vote (protocol 4.4) that could be broken without any other
// directed test noticing.

// Two hosts that were set up for another number of voters agree with nobody on a
// roster of fewer.
func TestAProposalOfAnotherSize(t *testing.T) {
	n := storyOf(t, 1, Config{Expect: 5}, 2, 3)
	n.hears(n.actor(3).roster(wire.Proposed, 1, 1, 2, 3))
	n.expects("send n3 ROSTER_ACK verdict=hold version=0")
}

// Whoever sees more than are expected proposes nobody: who is to be left out is not
// its to say.
func TestNobodyProposesTooMany(t *testing.T) {
	n := storyOf(t, 4, Config{Expect: 3}, 1, 2, 3)
	n.waits(10 * time.Second)
	n.forgets()
	for _, sent := range n.sent {
		if sent.Frame.Kind == wire.Roster {
			t.Fatalf("proposes %v", &sent.Frame)
		}
	}
}

// What a voter accepted never formed: its leader has the roster that did, of the
// same version, and the voter takes it.
func TestAProposalThatNeverFormedIsReplaced(t *testing.T) {
	n := storyOf(t, 1, Config{Expect: 3}, 2, 3)
	n.hearsAndForgets(n.actor(3).roster(wire.Proposed, 1, 1, 2, 3))
	n.meets(4)
	behind := n.actor(3).heartbeat(1)
	behind.RosterVersion = 1
	n.hearsAndForgets(behind)
	if ack := n.lastTo(3, wire.HeartAck); ack.AckFlags != wire.RosterBehind {
		t.Errorf("does not say that it knows of no roster that holds: %v", &ack)
	}
	n.hears(n.actor(3).roster(wire.Formed, 1, 2, 3, 4))
	n.expects("save roster=1/3", "send n3 ROSTER_ACK verdict=accept version=1")
}

// A node that is in no roster keeps none: it says that it knows none until there is
// a place for it. A witness says so too, an observer has no place to take.
func TestWhoIsOutsideKeepsNoRoster(t *testing.T) {
	for part, want := range map[Part]uint8{Voter: wire.KnowsNoRoster, Witness: wire.KnowsNoRoster, Observer: 0} {
		n := storyOf(t, 1, Config{Expect: 3, Part: part}, 2, 3, 4)
		beat := n.actor(4).heartbeat(1)
		beat.RosterVersion = 1
		n.hearsAndForgets(beat)
		n.hears(n.actor(4).roster(wire.Formed, 1, 2, 3, 4))
		n.expects("send n4 ROSTER_ACK verdict=not-voter version=0")
		beat = n.actor(4).heartbeat(1)
		beat.RosterVersion = 1
		n.hearsAndForgets(beat)
		if ack := n.lastTo(4, wire.HeartAck); ack.AckFlags != want {
			t.Errorf("part %d says %d of its roster, want %d", part, ack.AckFlags, want)
		}
	}
}

// A change that was held back is of an epoch that has ended, though its leader leads
// again: it made none of it in its present one.
func TestAChangeOfAnEpochThatIsOver(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.follows(3, 1)
	late := n.actor(3).roster(wire.Formed, 17, 1, 3)
	n.hearsAndForgets(n.actor(3).heartbeat(2))
	n.hears(late)
	n.expects("send n3 ROSTER_ACK verdict=not-voter version=1")
	early := n.actor(3).roster(wire.Formed, 49, 1, 3) // of an epoch that it was not heard to lead in
	early.Epoch = n.actor(3).epoch(3)
	n.hears(early)
	n.expects("send n3 ROSTER_ACK verdict=not-voter version=1")
}

// A voter completes no change of a leader that it has given up, whomever it will
// follow.
func TestMended19_NoWordForALeaderThatIsLost(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.follows(3, 1)
	n.givesUp()
	n.hears(n.actor(3).roster(wire.Formed, 17, 1, 3))
	n.expects("send n3 ROSTER_ACK verdict=not-voter version=1")
}

// A voter that has granted a higher epoch completes no change of the leader that it
// followed before, though it knows no newer one yet.
func TestMended19_NoWordForALeaderThatWasLeft(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.follows(3, 1)
	n.waits(401 * time.Millisecond)
	n.forgets()
	n.hears(n.actor(2).claims(2))
	n.expects("save vote=2/n2", "→ wait", "send n2 COORD_ACK verdict=accept")
	n.hears(n.actor(3).roster(wire.Formed, 17, 1, 3))
	n.expects("send n3 ROSTER_ACK verdict=not-voter version=1")
}

// growing gives host 3, which leads three voters where four are expected, each of
// which has acknowledged it but the fourth.
func growing(t *testing.T) *story {
	t.Helper()
	n := voterOf(t, 3, Saved{}, 1, 2)
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
	return n
}

// A change that adds a voter needs a majority of the new voters too, which is more
// than one of the old.
func TestAnAdmissionNeedsBothMajorities(t *testing.T) {
	n := growing(t)
	n.acksWith(4, wire.KnowsNoRoster)
	n.expectsSome("save roster=17/4")
	n.hasRoster(1)
	n.happens(Command{Verb: Forget, Force: true, To: hostID(2), Token: 5})
	n.expects("reply " + ErrRosterPending.Error())
	n.hasRoster(4)
	n.happens(Command{Verb: Forget, Force: true, To: hostID(2), Token: 5})
	n.expectsSome("save roster=18/3")
}

// A newcomer whose word is late is not taken in: the leader would need one more, and
// lose its lease by that.
func TestAnAdmissionDoesNotCostTheLease(t *testing.T) {
	n := growing(t)
	late := n.actor(4).replies(wire.Heartbeat, wire.Frame{Kind: wire.HeartAck, Epoch: n.node.epoch, AckFlags: wire.KnowsNoRoster})
	for range 6 {
		n.waits(50 * time.Millisecond)
		n.acks(1)
	}
	n.hears(late)
	n.expects()
	n.is(Lead)
}

// A roster that is full has no place for anybody.
func TestAFullRosterTakesNobodyIn(t *testing.T) {
	n := growing(t)
	n.node.cfg.Expect = 3
	n.acksWith(4, wire.KnowsNoRoster)
	n.expects()
}

// A leader first confirms the roster that it found, and that takes a moment in which a
// voter can fall silent. It makes the change that was waiting only if it would keep its
// lease by that.
func TestAConfirmedRosterIsNotChangedAtThePriceOfTheLease(t *testing.T) {
	n := voterOf(t, 5, Saved{}, 1, 2, 3, 4)
	n.leadsVoters(1, 2)
	beats := func(times int) { // host 2 is silent, and host 4 makes a majority of five with host 1
		for range times {
			n.waits(50 * time.Millisecond)
			n.forgets()
			n.acks(1)
			n.forgets()
			n.acks(4)
			n.forgets()
		}
	}
	beats(4)
	n.happens(Command{Verb: Forget, Force: true, To: hostID(4), Token: 5})
	n.expectsSome("save roster=16/5")
	beats(2)
	n.hasRoster(1)
	n.hasRoster(4)
	n.expects("reply " + ErrRosterPending.Error())
	n.is(Lead)
}
