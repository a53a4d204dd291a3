package election

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// roster is a's ROSTER of these voters, in the epoch that the node follows.
func (a *actor) roster(phase wire.Phase, version uint32, ids ...int) wire.Frame {
	f := wire.Frame{Kind: wire.Roster, Phase: phase, Flags: wire.AckReq, RosterVersion: version, Count: uint8(len(ids)), Epoch: a.s.node.epoch}
	for i, number := range ids {
		f.Voters[i] = hostID(number)
	}
	return a.says(f)
}

// meets brings another member into the node's view.
func (s *story) meets(numbers ...int) {
	s.t.Helper()
	for _, number := range numbers {
		s.actors[number] = &actor{s: s, number: number, incarnation: 1, nonce: uint32(1000 * number)}
		s.happens(MemberChanged{s.actors[number].member(Alive)})
		s.forgets()
	}
}

// acksWith is acks with what the follower says of its roster.
func (s *story) acksWith(number int, flags uint8) {
	s.t.Helper()
	s.hears(s.actor(number).replies(wire.Heartbeat, wire.Frame{Kind: wire.HeartAck, Epoch: s.node.epoch, AckFlags: flags}))
}

// hasRoster: this host has the latest ROSTER that it was sent on disk.
func (s *story) hasRoster(number int) {
	s.t.Helper()
	s.hears(s.actor(number).replies(wire.Roster, wire.Frame{Kind: wire.RosterAck, AckVerdict: wire.Accept,
		RosterVersion: s.node.saved.Roster.Version}))
}

// hasConfirmed: the leader's roster is on disk under its own epoch already, as it
// is before a leader's first change.
func (s *story) hasConfirmed() {
	s.node.saved.Roster.Version = uint32(s.node.epoch.Counter * quorum.ChangesPerEpoch)
}

// A roster that names nobody twice, and enough, is all that makes two majorities
// of it overlap: anything else is dropped without a word, and never written down.
func TestAMalformedRosterIsDropped(t *testing.T) {
	for name, ids := range map[string][]int{
		"one voter twice": {1, 2, 2},
		"not in order":    {2, 1, 3},
		"nobody":          {},
		"one alone":       {1},
		"an empty id":     {0, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := storyOf(t, 1, Config{Expect: 3}, 2, 3)
			f := n.actor(3).roster(wire.Proposed, 1, ids...)
			if name == "an empty id" {
				f.Voters[0] = wire.ID{}
			}
			n.hears(f)
			n.expects("ignored roster-malformed")
		})
	}
}

// Available mode has no voters: a roster there must not come to mean something
// when the mode is changed later.
func TestARosterInAvailableMode(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3)
	n.hears(n.actor(3).roster(wire.Proposed, 1, 1, 2, 3))
	n.expects("ignored roster-without-quorum")
	n.hears(n.actor(3).heartbeat(1))
	n.expects("start → follow")
	if n.node.saved.Roster.Version != 0 {
		t.Errorf("roster %v", n.node.saved.Roster)
	}
}

// The word that the first roster holds may be lost or come twice: it is written
// down once, and acknowledged each time.
func TestTheWordThatTheRosterHolds(t *testing.T) {
	n := storyOf(t, 1, Config{Expect: 3}, 2, 3)
	n.hears(n.actor(3).roster(wire.Proposed, 1, 1, 2, 3))
	n.expects("save roster=1/3", "send n3 ROSTER_ACK verdict=accept version=1")
	n.hears(n.actor(3).roster(wire.Formed, 1, 1, 2, 3))
	n.expects("save roster=1/3", "send n3 ROSTER_ACK verdict=accept version=1")
	if !n.disk.Roster.Formed {
		t.Error("not on disk as formed")
	}
	n.hears(n.actor(3).roster(wire.Formed, 1, 1, 2, 3))
	n.expects("send n3 ROSTER_ACK verdict=accept version=1")
}

// A change comes from the leader that this voter follows, and from nobody else;
// one that it has already is acknowledged again, for the leader may have missed
// the first word.
func TestARosterIsChangedByItsLeaderAlone(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3, 4)
	n.follows(4, 1)
	n.hears(n.actor(3).roster(wire.Formed, 17, 1, 3, 4))
	n.expects("send n3 ROSTER_ACK verdict=not-voter version=1")
	for _, want := range [][]string{{"save roster=17/3", "send n4 ROSTER_ACK verdict=accept version=17"}, {"send n4 ROSTER_ACK verdict=accept version=17"}} {
		n.hears(n.actor(4).roster(wire.Formed, 17, 1, 3, 4))
		n.expects(want...)
	}
	n.hears(n.actor(4).roster(wire.Formed, 1, 1, 2, 3, 4)) // the past does not come back
	n.expects("send n4 ROSTER_ACK verdict=not-voter version=17")
}

// A host with a new disk sees as many as are expected and proposes them; but they
// have a roster. It is told so, stands for nothing from then on, and votes for
// nobody, or one host would have had two votes.
func TestANewDiskLearnsThatItIsOutside(t *testing.T) {
	n := storyOf(t, 3, Config{Expect: 3}, 1, 2)
	n.canvassed()
	n.hears(n.actor(1).replies(wire.Roster, wire.Frame{Kind: wire.RosterAck, AckVerdict: wire.NotVoter, RosterVersion: 1}))
	n.expects("elect → observe cause=no-roster")
	n.hears(n.actor(2).replies(wire.Roster, wire.Frame{Kind: wire.RosterAck, AckVerdict: wire.Accept})) // of a proposal that has ended
	n.expects()
	n.waits(10 * time.Second)
	n.expects()
	n.is(Observe)
	if s := n.node.Status(); !s.Outside || s.Roster.Version != 0 {
		t.Errorf("outside=%t, roster %v", s.Outside, s.Roster)
	}
	n.hears(n.actor(2).claims(1))
	n.expects("send n2 COORD_ACK verdict=not-voter flags=draining")
	n.hears(n.actor(2).heartbeat(1))
	n.expects("save", "observe → follow leader=n2")
}

// Who sees other members than the proposer says so and may agree later; that is
// no reason to stand aside.
func TestAProposalThatIsHeldUp(t *testing.T) {
	n := storyOf(t, 3, Config{Expect: 3}, 1, 2)
	n.canvassed()
	n.hears(n.actor(1).replies(wire.Roster, wire.Frame{Kind: wire.RosterAck, AckVerdict: wire.AckHold}))
	n.expects()
	n.is(Elect)
	n.waits(500 * time.Millisecond)
	n.forgets()
	n.hears(n.actor(1).replies(wire.Roster, wire.Frame{Kind: wire.RosterAck, AckVerdict: wire.Accept, RosterVersion: 1}))
	n.hearsAndForgets(n.actor(2).replies(wire.Roster, wire.Frame{Kind: wire.RosterAck, AckVerdict: wire.Accept, RosterVersion: 1}))
	if !n.disk.Roster.Formed {
		t.Error("not formed when both agreed")
	}
}

// What cannot be forgotten, in one plain sentence each, and nothing is written.
func TestForgetIsRefused(t *testing.T) {
	refuses := func(t *testing.T, n *story, to int, why error) {
		t.Helper()
		n.happens(Command{Verb: Forget, Force: true, To: hostID(to), Token: 5})
		n.expects("reply " + why.Error())
	}
	t.Run("in available mode", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		n.leads(1)
		refuses(t, n, 1, ErrNotQuorum)
	})
	t.Run("by a follower", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		n.follows(3, 1)
		refuses(t, n, 2, ErrNotLeader)
	})
	t.Run("a stranger, and itself", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.leadsVoters(1)
		n.meets(7)
		refuses(t, n, 7, ErrNotVoter)
		refuses(t, n, 3, ErrSelf)
	})
	t.Run("a voter that is alive", func(t *testing.T) {
		n := voterOf(t, 4, Saved{}, 1, 2, 3)
		n.leadsVoters(2, 3)
		n.happens(Command{Verb: Forget, To: hostID(1), Token: 5})
		n.expects("reply " + ErrVoterAlive.Error())
		n.happens(MemberChanged{n.actor(3).member(Dead)}) // but it was heard just now
		n.forgets()
		n.happens(Command{Verb: Forget, To: hostID(3), Token: 5})
		n.expects("reply " + ErrVoterAlive.Error())
		n.happens(MemberChanged{n.actor(1).member(Dead)})
		n.forgets()
		n.happens(Command{Verb: Forget, To: hostID(1), Token: 5})
		n.expects("save roster=16/4", "send n2 ROSTER version=16", "send n3 ROSTER version=16")
	})
	t.Run("the last but one", func(t *testing.T) {
		n := voterWith(t, 3, Config{}, Saved{}, 1, 2)
		n.node.saved.Roster.IDs = []wire.ID{hostID(1), hostID(3)}
		n.leadsVoters(1)
		refuses(t, n, 1, ErrRosterTooSmall)
	})
	t.Run("by a leader that is about to go", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.leadsVoters(1)
		n.waits(300 * time.Millisecond)
		n.forgets()
		n.is(Stopping)
		refuses(t, n, 2, ErrBusy)
	})
	t.Run("whom the lease rests on", func(t *testing.T) {
		n := voterOf(t, 5, Saved{}, 1, 2, 3, 4)
		n.leadsVoters(1, 2)
		n.hasConfirmed()
		refuses(t, n, 1, ErrRosterPending) // n2 alone acknowledges it, and of four one more must
		n.waits(50 * time.Millisecond)
		n.forgets()
		n.acks(3)
		n.expects()
		n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 6})
		n.expects("save roster=17/4", "send n1 ROSTER version=17", "send n2 ROSTER", "send n3 ROSTER", "send n4 ROSTER")
	})
}

// Leadership is lost while a change of the roster is on its way: the operator
// hears that it is not known to hold, once.
func TestForgetDuringALeadersLoss(t *testing.T) {
	n := voterOf(t, 4, Saved{}, 1, 2, 3)
	n.leadsVoters(2, 3)
	n.hasConfirmed()
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
	n.expects("save roster=17/3", "send n1 ROSTER version=17 phase=formed", "send n2 ROSTER", "send n3 ROSTER")
	n.hears(n.actor(2).heartbeat(9))
	n.expects("lead → stopping cause=superseded", "stop hook", "lose hook epoch=1/n4", "save counter=9 promoted=1/n4")
	n.happens(HookEnded{Hook: Lose, Epoch: n.node.reign.epoch, OK: true})
	n.expects("reply "+ErrLostMeanwhile.Error(), "stopping → follow leader=n2", "save promoted=none roster=17/3")
	n.hears(n.actor(3).replies(wire.Roster, wire.Frame{Kind: wire.RosterAck, AckVerdict: wire.Accept, RosterVersion: 17}))
	n.expects() // too late to be told twice
}

// The change holds before the lose hook has ended: then the operator hears that
// it was done, though the leader goes.
func TestForgetHoldsWhileItsLeaderStops(t *testing.T) {
	n := voterOf(t, 4, Saved{}, 1, 2, 3)
	n.leadsVoters(2, 3)
	n.hasConfirmed()
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
	n.forgets()
	n.hears(n.actor(2).heartbeat(9))
	n.forgets()
	n.is(Stopping)
	n.hasRoster(2)
	n.expects()
	n.hasRoster(3)
	n.expects("reply ok")
	n.happens(HookEnded{Hook: Lose, Epoch: n.node.reign.epoch, OK: true})
	n.expects("stopping → follow leader=n2", "save")
}

// A follower whose roster is older is sent the present one, once at a time, until
// it says that it has it.
func TestALeaderBringsAFollowersRosterUpToDate(t *testing.T) {
	n := voterOf(t, 4, Saved{}, 1, 2, 3)
	n.leadsVoters(2, 3)
	n.hasConfirmed()
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
	n.forgets()
	for _, number := range []int{2, 3} {
		n.hasRoster(number)
		n.forgets()
	}
	for range 20 { // n1, cut off for a while, is not even a voter any more
		n.waits(50 * time.Millisecond)
		n.forgets()
		n.acks(2)
		n.acks(3)
		n.forgets()
	}
	n.is(Lead)
	n.acksWith(1, wire.RosterBehind)
	n.expects("reached n1", "send n1 ROSTER version=17 phase=formed voters=n2,n3,n4")
	n.acksWith(1, wire.RosterBehind)
	n.expects() // it has been asked
	n.hasRoster(1)
	n.expects()
	n.acksWith(1, 0)
	n.expects()
}

// Sixteen versions belong to an epoch, so that no two leaders make the same one:
// the leader that has used them up refuses, and the next epoch starts afresh.
func TestVersionsOfOneEpochRunOut(t *testing.T) {
	n := voterOf(t, 4, Saved{}, 1, 2, 3)
	n.leadsVoters(2, 3)
	n.hasConfirmed()
	for change := range uint32(quorum.ChangesPerEpoch - 1) {
		n.waits(50 * time.Millisecond)
		n.forgets()
		n.acks(2)
		n.acks(3)
		n.forgets()
		if change%2 == 0 {
			n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
		} else {
			n.acksWith(1, wire.KnowsNoRoster) // back with a new disk
		}
		n.forgets()
		n.hasRoster(2)
		n.hasRoster(3)
		n.forgets()
		if got := n.disk.Roster.Version; got != 1*quorum.ChangesPerEpoch+1+change {
			t.Fatalf("change %d has version %d", change, got)
		}
	}
	n.happens(Command{Verb: Forget, Force: true, To: hostID(2), Token: 5})
	n.expects("reply " + ErrVersionsUsedUp.Error())
	if made := fmt.Sprintf(" %d times ", quorum.ChangesPerEpoch-1); !strings.Contains(ErrVersionsUsedUp.Error(), made) {
		t.Errorf("%q does not say%s", ErrVersionsUsedUp, made)
	}
	n.acksWith(1, wire.KnowsNoRoster) // nor is anybody taken in
	n.expects()
	if got := n.disk.Roster.Version; got >= 2*quorum.ChangesPerEpoch {
		t.Errorf("version %d belongs to the next epoch", got)
	}
}

// The next leader has numbers of its own, and can forget at once.
func TestTheNextEpochHasVersionsOfItsOwn(t *testing.T) {
	n := voterOf(t, 4, Saved{MaxCounter: 1}, 1, 2, 3)
	n.node.saved.Roster.Version = 31 // the last of epoch 1
	n.leadsVoters(2, 3)
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
	n.expects("save roster=32/4", "send n1 ROSTER version=32", "send n2 ROSTER", "send n3 ROSTER")
	n.hasRoster(2)
	n.expects()
	n.hasRoster(3)
	n.expects("save roster=33/3", "send n1 ROSTER version=33", "send n2 ROSTER", "send n3 ROSTER")
}

// A counter whose versions no frame can carry: a new epoch would not help, and the
// operator is not sent to make one.
func TestTheCounterIsTooHighForARoster(t *testing.T) {
	last := Saved{MaxCounter: quorum.LastChangeable - 1}
	n := voterOf(t, 3, last, 1, 2)
	n.leadsVoters(1)
	n.waits(50 * time.Millisecond)
	n.forgets()
	n.acks(1)
	n.acks(2)
	n.expects()
	if first, next := uint32(math.MaxUint32-15), n.node.nextVersion(); quorum.FirstVersion(n.node.epoch.Counter) != first || next != first+1 {
		t.Errorf("the last epoch's versions are %d and %d, want %d and %d", quorum.FirstVersion(n.node.epoch.Counter), next, first, first+1)
	}
	last.MaxCounter++
	n = voterOf(t, 3, last, 1, 2)
	n.leadsVoters(1)
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
	n.expects("reply " + ErrCounterTooHigh.Error())
	if limit := fmt.Sprint(quorum.LastChangeable); !strings.Contains(ErrCounterTooHigh.Error(), " "+limit+",") {
		t.Errorf("%q does not name %s", ErrCounterTooHigh, limit)
	}
}

// A free place is for a voter that is in no roster; an observer has none to take,
// and nobody is taken in twice.
func TestWhoIsTakenIn(t *testing.T) {
	n := voterOf(t, 4, Saved{}, 1, 2, 3)
	n.leadsVoters(2, 3)
	n.hasConfirmed()
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
	n.forgets()
	n.hasRoster(2)
	n.forgets()
	n.meets(7, 8)
	watching := n.actor(7).member(Alive)
	watching.Part = Observer
	n.happens(MemberChanged{watching})
	n.waits(200 * time.Millisecond)
	n.forgets()
	n.acks(2)
	n.acksWith(3, wire.RosterBehind) // all four copies to it were lost
	n.expects("send n3 ROSTER version=17")
	n.acksWith(8, wire.KnowsNoRoster) // not while a change is under way
	n.expects()
	n.hasRoster(3)
	n.expects("reply ok")
	n.acksWith(7, wire.KnowsNoRoster)
	n.expects()
	n.acksWith(8, wire.KnowsNoRoster)
	n.expects("save roster=18/4", "send n1 ROSTER version=18", "send n2 ROSTER", "send n3 ROSTER", "send n7 ROSTER", "send n8 ROSTER version=18 voters=n2,n3,n4,n8")
}

// The newcomer's host was cut off for a moment when it was taken in: the leader
// sends the roster again when it says that it knows none.
func TestATakenInVoterThatMissedIt(t *testing.T) {
	n := voterOf(t, 4, Saved{}, 1, 2, 3)
	n.leadsVoters(2, 3)
	n.hasConfirmed()
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
	n.forgets()
	n.hasRoster(2)
	n.hasRoster(3)
	n.expects("reply ok")
	n.meets(8)
	n.acksWith(8, wire.KnowsNoRoster)
	n.forgets()
	n.hasRoster(2)
	n.hasRoster(3)
	for range 20 { // all that was sent to n8 is lost
		n.waits(50 * time.Millisecond)
		n.forgets()
		n.acks(2)
		n.acks(3)
		n.forgets()
	}
	n.acksWith(8, wire.KnowsNoRoster)
	n.expects("send n8 ROSTER version=18 voters=n2,n3,n4,n8")
}

// A leader confirms the roster that it found under its own epoch before it changes
// anything: an earlier leader's change that few have cannot come back newer than
// its own. Meanwhile nothing else is changed, and it is done once.
func TestALeaderConfirmsTheRosterThatItFound(t *testing.T) {
	n := voterOf(t, 4, Saved{}, 1, 2, 3)
	n.leadsVoters(2, 3)
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
	n.expects("save roster=16/4", "send n1 ROSTER version=16 voters=n1,n2,n3,n4", "send n2 ROSTER version=16", "send n3 ROSTER version=16")
	n.happens(Command{Verb: Forget, Force: true, To: hostID(2), Token: 6})
	n.expects("reply " + ErrRosterPending.Error())
	n.hasRoster(2)
	n.expects() // two of four
	n.hasRoster(3)
	n.expects("save roster=17/3", "send n1 ROSTER version=17 voters=n2,n3,n4", "send n2 ROSTER version=17", "send n3 ROSTER version=17")
	n.hasRoster(2)
	n.expects()
	n.hasRoster(3)
	n.expects("reply ok")
	n.happens(Command{Verb: Forget, Force: true, To: hostID(2), Token: 6})
	n.expects("save roster=18/2", "send n1 ROSTER version=18", "send n2 ROSTER", "send n3 ROSTER")
}

// The roster is confirmed when its leader is about to go: then nothing is changed
// any more, and the operator hears that it was not.
func TestARosterIsConfirmedTooLate(t *testing.T) {
	n := voterOf(t, 4, Saved{}, 1, 2, 3)
	n.leadsVoters(2, 3)
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
	n.forgets()
	n.hears(n.actor(2).heartbeat(9))
	n.forgets()
	n.is(Stopping)
	n.hasRoster(2)
	n.expects()
	n.hasRoster(3)
	n.expects("reply " + ErrRosterPending.Error())
	if got := len(n.disk.Roster.IDs); got != 4 {
		t.Errorf("%d voters on disk, want all four", got)
	}
}
