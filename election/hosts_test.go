package election

import (
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// lists gives the node a host list with these, and itself.
func (s *story) lists(numbers ...int) {
	s.t.Helper()
	s.happens(s.list(numbers...))
}

func (s *story) list(numbers ...int) HostsChanged {
	e := HostsChanged{IDs: []wire.ID{hostID(s.self)}, Digest: 42}
	for _, n := range numbers {
		e.IDs = append(e.IDs, hostID(n))
	}
	slices.SortFunc(e.IDs, wire.ID.Compare)
	return e
}

// showsList says that a member has a host list with that digest.
func (s *story) showsList(number int, digest uint64) {
	s.t.Helper()
	m := s.actor(number).member(Alive)
	m.List = digest
	s.happens(MemberChanged{m})
	s.forgets()
}

// Nothing is heard of a host that the list does not have, it is no candidate, and nobody counts it.
func TestS20_NothingOfAHostThatIsOutCounts(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2, 4)
	n.follows(2, 5)
	before := n.node.Outlook().Present
	n.lists(1, 2)
	if c, _ := n.node.Candidate(hostID(4)); c.Unfit != UnfitListed || n.node.Outlook().Present != before-1 || n.node.Outlook().Rank != 0 {
		t.Errorf("it counts as %v, %d are present, rank %d", c.Unfit, n.node.Outlook().Present, n.node.Outlook().Rank)
	}
	n.hears(n.actor(4).election(wire.Epoch{}))
	n.expects("ignored not-listed")
	n.hears(n.actor(4).coordinator(9))
	n.expects("ignored not-listed")
	n.happens(HostsChanged{})
	n.hears(n.actor(4).coordinator(9))
	n.expects("follow leader=n4", "send n4 COORD_ACK verdict=accept")
}

// A leader of two needs an acknowledgement; of one that is left none. It sends nothing to whom its list does not have.
func TestS20_NobodyWaitsForWhoIsOut(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(1)
	if need := n.node.Status().NeedAcks; need != 1 {
		t.Fatalf("of two it needs %d", need)
	}
	n.lists(1)
	n.forgets()
	if need := n.node.Status().NeedAcks; need != 0 {
		t.Errorf("of one it needs %d", need)
	}
	before := len(n.sent)
	n.waits(100 * time.Millisecond)
	n.forgets()
	for _, sent := range n.sent[before:] {
		if sent.To == (&host{number: 2}).addr() {
			t.Errorf("it sends %v", &sent.Frame)
		}
	}
}

// Nobody is told of a leader that its list does not have.
func TestS20_NobodyIsToldOfALeaderThatIsOut(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 4)
	n.lists(1)
	n.happens(LeaderReported{n.actor(4).epoch(9)})
	n.expects()
	n.happens(LeaderReported{n.actor(1).epoch(9)})
	n.expects("start → follow leader=n1 cause=told-of-leader")
}

// A leader that the list has lost is followed for half a second: its heartbeats are acknowledged, it may ask for a successor and
// resign, and nothing else that it says is taken. Then its lease is waited for, whatever it says.
func TestS20_ALeaderThatIsOutIsFollowedForAMoment(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 4)
	n.showsAll = true
	n.follows(4, 5)
	n.lists(1)
	n.hears(n.actor(4).heartbeat(5))
	n.expectsSome("send n4 HB_ACK")
	n.forgets()
	n.hears(n.actor(4).says(wire.Frame{Kind: wire.Prepare, Flags: wire.AckReq, Epoch: n.actor(4).epoch(5)}))
	n.expectsSome("send n4 READY")
	n.forgets()
	n.hears(n.actor(4).coordinator(6))
	n.expects("ignored not-listed")
	n.hears(n.actor(4).election(n.actor(4).epoch(5)))
	n.expects("ignored not-listed")
	for range 9 {
		n.waits(50 * time.Millisecond)
		n.forgets()
		n.hears(n.actor(4).heartbeat(5))
		n.expectsSome("send n4 HB_ACK")
		n.forgets()
	}
	n.waits(49 * time.Millisecond)
	n.forgets()
	n.hears(n.actor(4).heartbeat(5))
	n.expectsSome("send n4 HB_ACK")
	n.forgets()
	heard := n.now
	n.waits(time.Millisecond)
	n.expects("follow → stagger cause=not-listed")
	n.hears(n.actor(4).heartbeat(5))
	n.expects("ignored not-listed")
	n.hears(n.actor(4).says(wire.Frame{Kind: wire.Resign, Flags: wire.AckReq, Epoch: n.actor(4).epoch(5)}))
	n.expects("ignored not-listed")
	for n.node.state != Claiming && n.node.state != Elect && n.now.Sub(heard) < 5*time.Second {
		n.waits(time.Millisecond)
		n.forgets()
	}
	if waited := n.now.Sub(heard); waited < 400*time.Millisecond {
		t.Errorf("it claims %v after the last heartbeat of a leader with a lease of 400 ms", waited)
	}
}

// A leader that the list has lost and that has it again meanwhile goes on.
func TestS20_ALeaderThatIsListedAgainIsFollowed(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 4)
	n.follows(4, 5)
	n.lists(1)
	n.waits(100 * time.Millisecond)
	n.lists(1, 4)
	for range 20 {
		n.hears(n.actor(4).heartbeat(5))
		n.waits(50 * time.Millisecond)
	}
	n.expects()
	n.is(Follow)
}

// Whoever takes over from a leader that is out is followed, when the time of that one ends too.
func TestS20_WhoeverReplacesALeaderThatIsOutIsFollowed(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 4, 5)
	n.follows(4, 5)
	n.lists(1, 5)
	for range 2 * Parting / (50 * time.Millisecond) {
		n.hears(n.actor(5).heartbeat(6))
		n.forgets()
		n.is(Follow)
		n.waits(50 * time.Millisecond)
		n.forgets()
		n.is(Follow)
	}
}

// No voter grants the next epoch of a leader that its list has lost.
func TestS20_ALeaderThatIsOutGetsNoVote(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.follows(2, 5)
	n.lists(1)
	n.hears(n.actor(2).claims(6))
	n.expects("ignored not-listed")
}

// A leader that others have lost hands over; alone with nobody's acknowledgement needed it lets go.
func TestS20_ALeaderThatNobodyFollowsLetsGo(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1)
	n.waits(5 * time.Second)
	n.forgets()
	n.is(Lead)
	n.happens(Barred{Bar: BarListed, On: true})
	n.expects("send n1 PREPARE")
	n.waits(Parting - time.Millisecond)
	n.forgets()
	n.is(Lead)
	n.waits(time.Millisecond)
	n.expectsSome("lead → stopping cause=not-listed")
	n.forgets()
}

// A leader that others have lost, and that two hosts follow which do not relieve it, lets go when these are not there any more: from then
// on it needs nobody, and its lease would have no end.
func TestS20_ALeaderThatIsFollowedNoMoreLetsGo(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(1)
	n.happens(Barred{Bar: BarListed, On: true})
	n.acknowledges(1, 2*Parting, 0)
	n.is(Lead)
	for _, gone := range []int{1, 2} {
		n.forgets()
		n.happens(MemberChanged{n.actor(gone).member(Dead)})
	}
	for range 100 {
		n.forgets()
		if n.node.state != Lead {
			break
		}
		n.waits(10 * time.Millisecond)
	}
	n.forgets()
	if n.node.state != Stopping || n.node.cause != NotListed {
		t.Errorf("it is %v, cause %s, and needs %d", n.node.state, n.node.cause, n.node.Status().NeedAcks)
	}
}

// A leader that others have lost, and that is acknowledged by hosts alone which cannot lead, lets go: those who left it out have a leader
// of their own by now. In quorum mode a majority acknowledges it, so nobody else leads, and it goes on.
func TestS20_ALeaderThatNobodyCanRelieveLetsGo(t *testing.T) {
	for _, isQuorum := range []bool{false, true} {
		n := storyOf(t, 3, Config{}, 1, 2)
		if isQuorum {
			n = voterOf(t, 3, Saved{}, 1, 2)
			n.leadsVoters(1, 2)
		} else {
			n.leads(1)
		}
		for _, number := range []int{1, 2} {
			m := n.actor(number).member(Alive)
			m.Part = Witness
			n.happens(MemberChanged{m})
		}
		n.happens(Barred{Bar: BarListed, On: true})
		n.acknowledges(1, Parting-50*time.Millisecond, 0)
		n.is(Lead)
		for end := n.now.Add(2 * Parting); n.node.state == Lead && n.now.Before(end); {
			n.acknowledges(1, 50*time.Millisecond, 0)
		}
		n.forgets()
		if isQuorum {
			n.is(Lead)
		} else if n.node.state != Stopping || n.node.cause != NotListed {
			t.Errorf("it is %v, cause %s, and needs %d", n.node.state, n.node.cause, n.node.Status().NeedAcks)
		}
	}
}

// A check that fails has no such end: a leader that nobody can relieve goes on.
func TestS20_OtherBarsLetALeaderGoOn(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1)
	n.waits(5 * time.Second)
	n.forgets()
	n.happens(Barred{Bar: BarCheck, On: true})
	n.forgets()
	n.waits(10 * Parting)
	n.forgets()
	n.is(Lead)
}

// A leader takes nobody into the roster while a voter that is here has another list: it might leave that host out.
func TestS20_NobodyIsTakenInWhileListsDiffer(t *testing.T) {
	n := growing(t)
	n.lists(1, 2, 4)
	n.showsList(1, 7)
	n.acksWith(4, wire.KnowsNoRoster)
	n.expects()
	n.showsList(1, 0)
	n.showsList(2, 42)
	n.acks(1)
	n.acks(2)
	n.acksWith(4, wire.KnowsNoRoster)
	n.expectsSome("save roster=17/4")
	n.forgets()
}

// A voter that was forgotten is in no roster again until the leader's list names it: the list says who votes, where there is one.
func TestS20_AForgottenVoterThatIsListedIsTakenIn(t *testing.T) {
	n := growing(t)
	n.acksWith(4, wire.OutOfRoster)
	n.expects()
	n.lists(1, 2)
	n.acksWith(4, wire.OutOfRoster)
	n.expects("ignored not-listed")
	n.lists(1, 2, 4)
	n.acks(1)
	n.acks(2)
	n.acksWith(4, wire.OutOfRoster)
	n.expectsSome("save roster=17/4")
	n.forgets()
}

// A voter that was left out says so to the leader once it has the roster that leaves it out, and votes again in one that has it. An
// observer has no place to take.
func TestS20_AForgottenVoterSaysSo(t *testing.T) {
	for part, want := range map[Part]uint8{Voter: wire.OutOfRoster, Witness: wire.OutOfRoster, Observer: 0} {
		n := voterWith(t, 1, Config{Part: part}, Saved{}, 2, 3)
		n.follows(3, 1)
		acks := func(version uint32) uint8 {
			beat := n.actor(3).heartbeat(1)
			beat.RosterVersion = version
			n.hearsAndForgets(beat)
			return n.lastTo(3, wire.HeartAck).AckFlags
		}
		if got := acks(17); got != wire.RosterBehind {
			t.Errorf("part %d: of an older roster it says %d", part, got)
		}
		n.hears(n.actor(3).roster(wire.Formed, 17, 2, 3))
		n.expects("save roster=17/2", "send n3 ROSTER_ACK verdict=accept version=17")
		if got := acks(17); got != want {
			t.Errorf("part %d: of a roster that leaves it out it says %d, want %d", part, got, want)
		}
		n.hearsAndForgets(n.actor(3).roster(wire.Formed, 18, 1, 2, 3))
		if got, bars := acks(18), n.node.Status().Bars; got != 0 || bars.Has(BarRoster) {
			t.Errorf("part %d: in a roster again it says %d, bars %v", part, got, bars)
		}
	}
}

// A voter that is here and listed is not forgotten: it would be taken in again at once. One that is down is.
func TestS20_AListedVoterIsNotForgotten(t *testing.T) {
	n := voterOf(t, 4, Saved{}, 1, 2, 3)
	n.leadsVoters(2, 3)
	n.lists(1, 2, 3)
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
	n.expects("reply " + ErrVoterListed.Error())
	n.happens(MemberChanged{n.actor(1).member(Dead)})
	n.forgets()
	n.happens(Command{Verb: Forget, To: hostID(1), Token: 5})
	n.expectsSome("save roster=16/4")
	n.forgets()
}

// A voter that is out is forgotten once a majority has this leader's list, and no sooner; one that is down as well.
func TestS20_AMajorityOfListsForgets(t *testing.T) {
	n := voterOf(t, 5, Saved{}, 1, 2, 3, 4)
	n.leadsVoters(1, 2)
	n.hasConfirmed()
	beats := func(times int) {
		for range times {
			n.waits(50 * time.Millisecond)
			n.forgets()
			for _, number := range []int{1, 2, 3} {
				n.acks(number)
				n.forgets()
			}
		}
	}
	beats(3)
	n.lists(1, 2, 3)
	n.showsList(1, 42)
	n.showsList(2, 7)
	beats(10)
	if !n.disk.Roster.Has(hostID(4)) {
		t.Fatalf("two of five forget: %v", n.disk.Roster)
	}
	n.showsList(2, 42)
	beats(2)
	if n.disk.Roster.Has(hostID(4)) || len(n.disk.Roster.IDs) != 4 {
		t.Errorf("three of five do not forget: %v", n.disk.Roster)
	}
}
