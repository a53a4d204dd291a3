package election

import (
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// starts brings a node that nobody led yet to its first turn.
func (s *story) starts() {
	s.t.Helper()
	for s.node.state != Elect && s.now.Sub(s.zero) < 3*time.Second {
		s.waits(5 * time.Millisecond)
		if s.node.state != Elect {
			s.forgets()
		}
	}
	s.is(Elect)
}

func (a *actor) ok(eta uint32) wire.Frame {
	return a.replies(wire.Election, wire.Frame{Kind: wire.Answer, Verdict: wire.OK, ETA: eta})
}

func (a *actor) ineligible() wire.Frame {
	return a.replies(wire.Election, wire.Frame{Kind: wire.Answer, Verdict: wire.Ineligible})
}

func (a *actor) nominates(flags wire.Flags) wire.Frame {
	return a.says(wire.Frame{Kind: wire.Nominate, Flags: wire.AckReq | flags, Reason: wire.LeaderFailed})
}

func TestCandidateSet(t *testing.T) {
	for _, tc := range []struct {
		name   string
		self   int
		others []int
		limit  int
		want   []int
	}{
		{"alone", 3, nil, 0, []int{3}},
		{"two", 1, []int{2}, 0, []int{2}},
		{"odd: rounded up", 1, []int{2, 3, 4, 5}, 0, []int{5, 4, 3}},
		{"even", 1, []int{2, 3, 4, 5, 6}, 0, []int{6, 5, 4}},
		{"this node in it", 5, []int{1, 2, 3, 4}, 0, []int{5, 4, 3}},
		{"bounded", 1, []int{2, 3, 4, 5}, 2, []int{5, 4}},
		{"a bound beyond the half changes nothing", 1, []int{2, 3, 4, 5}, 7, []int{5, 4, 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := storyOf(t, tc.self, Config{Algorithm: Enhanced, CandidateSet: tc.limit}, tc.others...)
			checkCandidates(t, n, tc.want...)
		})
	}
	t.Run("the leader just lost counts, the one that left does not", func(t *testing.T) {
		n := storyOf(t, 1, Config{Algorithm: Enhanced}, 2, 3, 4, 5)
		n.follows(5, 1)
		n.node.loseLeader(LeaderFailed, n.now)
		checkCandidates(t, n, 5, 4, 3)
		n.happens(MemberChanged{n.actor(5).member(Left)})
		n.forgets()
		checkCandidates(t, n, 4, 3)
	})
	t.Run("a leader lost long ago does not count", func(t *testing.T) {
		n := storyOf(t, 1, Config{Algorithm: Enhanced}, 2, 3, 4, 5)
		n.follows(5, 1)
		n.node.loseLeader(LeaderFailed, n.now)
		n.forgets()
		n.follows(4, 2)
		checkCandidates(t, n, 4, 3)
	})
	t.Run("nor who is outside the roster", func(t *testing.T) {
		n := storyOf(t, 1, Config{Algorithm: Enhanced, Expect: 3}, 2, 3, 4, 5)
		n.node.saved.Roster = Roster{Version: 1, Formed: true, IDs: []wire.ID{hostID(1), hostID(2), hostID(4)}}
		checkCandidates(t, n, 4, 2)
	})
	t.Run("who cannot lead does not count", func(t *testing.T) {
		n := storyOf(t, 1, Config{Algorithm: Enhanced}, 2, 3, 4)
		observer := n.actor(4).member(Alive)
		observer.Part = Observer
		n.happens(MemberChanged{observer})
		checkCandidates(t, n, 3, 2)
	})
}

func checkCandidates(t *testing.T, n *story, want ...int) {
	t.Helper()
	var got []int
	for _, id := range n.node.candidateSet() {
		got = append(got, int(id[0]))
	}
	if !slices.Equal(got, want) {
		t.Errorf("candidate set %v, want %v", got, want)
	}
}

func TestEnhancedStarter(t *testing.T) {
	t.Run("outside the set it asks the set, and names the best that answers", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Enhanced}, 1, 3, 4, 5)
		n.starts()
		n.expects("stagger → elect", "send n5 ELECTION", "send n4 ELECTION", "send n3 ELECTION")
		n.hears(n.actor(3).ok(0))
		n.hears(n.actor(4).ok(0)) // n5 may still answer
		n.hears(n.actor(5).ineligible())
		n.expects("elect → wait", "send n4 NOMINATE reason=boot")
	})
	t.Run("in the set it asks the better ones of it", func(t *testing.T) {
		n := storyOf(t, 3, Config{Algorithm: Enhanced}, 1, 2, 4, 5)
		n.starts()
		n.expects("stagger → elect", "send n5 ELECTION", "send n4 ELECTION")
		n.hears(n.actor(4).ineligible())
		n.hears(n.actor(5).ineligible())
		n.forgets()
		if n.node.contest.won == "" && n.node.state == Elect {
			t.Error("nobody better can lead, and the node does not claim")
		}
	})
	t.Run("outside the set it goes on to the better ones outside", func(t *testing.T) {
		n := storyOf(t, 1, Config{Algorithm: Enhanced}, 2, 3, 4, 5)
		n.starts()
		n.expects("stagger → elect", "send n5 ELECTION", "send n4 ELECTION", "send n3 ELECTION")
		for _, number := range []int{3, 4} {
			n.hears(n.actor(number).ineligible())
		}
		n.hears(n.actor(5).ineligible())
		n.expects("send n2 ELECTION")
		n.hears(n.actor(2).ok(0))
		n.expects("elect → wait", "send n2 NOMINATE")
	})
	t.Run("the best answers first: it is named at once, and the others are next in line", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Enhanced}, 1, 3, 4, 5)
		n.starts()
		n.forgets()
		n.hears(n.actor(5).ok(0))
		n.expects("elect → wait", "send n5 NOMINATE")
		n.hears(n.actor(3).ok(0))
		n.hears(n.actor(4).ok(40)) // at it or not, n5 is better
		n.is(Wait)
		n.happens(MemberChanged{n.actor(5).member(Left)})
		n.expects("wait → wait", "send n4 NOMINATE")
		n.happens(MemberChanged{n.actor(4).member(Left)})
		n.expects("wait → wait", "send n3 NOMINATE")
		n.happens(MemberChanged{n.actor(3).member(Left)})
		n.expects("wait → elect cause=better-silent", "save", "elect → claim", "send n1 COORDINATOR",
			"save", "claim → lead", "become hook") // with a single other no acknowledgement is needed
	})
	t.Run("who answered in an earlier round is not named in this one", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Enhanced}, 1, 3, 4, 5)
		n.starts()
		n.forgets()
		n.hears(n.actor(4).ok(0))
		n.node.becomeStaggering(BetterSilent, 0)
		n.starts()
		n.forgets()
		n.hears(n.actor(5).ineligible())
		n.hears(n.actor(3).ok(0))
		n.is(Elect) // n4 may still answer
	})
	t.Run("an answer with an eta ends the round", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Enhanced}, 1, 3, 4, 5)
		n.starts()
		n.forgets()
		n.hears(n.actor(4).ok(0))
		n.hears(n.actor(3).ok(60))
		n.expects("elect → wait")
		n.waits(95 * time.Millisecond) // eta + 2·RTO + 20 ms
		n.waits(10 * time.Millisecond)
		n.expects("send n3 QUERY")
	})
}

func TestEnhancedNamedNodeAnswers(t *testing.T) {
	named := func(t *testing.T) *story {
		n := storyOf(t, 2, Config{Algorithm: Enhanced}, 1, 3, 4)
		n.starts()
		n.forgets()
		n.hears(n.actor(3).ok(0))
		n.hears(n.actor(4).ok(0))
		n.expects("elect → wait", "send n4 NOMINATE")
		return n
	}
	cid := func(n *story, k wire.Knowledge, e wire.Epoch, remain uint32) wire.Frame {
		return n.actor(4).replies(wire.Nominate, wire.Frame{Kind: wire.Cid, Knowledge: k, Epoch: e, Remain: remain})
	}
	t.Run("it needs some time", func(t *testing.T) {
		n := named(t)
		n.hears(cid(n, wire.KnowsNone, wire.Epoch{}, 500))
		n.waits(535 * time.Millisecond)
		n.is(Wait)
		n.waits(10 * time.Millisecond)
		n.expects("send n4 QUERY")
	})
	t.Run("it leads", func(t *testing.T) {
		n := named(t)
		n.hears(cid(n, wire.Leads, n.actor(4).epoch(7), 300))
		n.expects("wait → follow leader=n4 epoch=7/n4")
	})
	t.Run("it knows who leads", func(t *testing.T) {
		n := named(t)
		n.hears(cid(n, wire.Knows, n.actor(3).epoch(7), 0))
		n.expects("wait → follow leader=n3 epoch=7/n3 cause=told-of-leader")
	})
	t.Run("it hears the leader that we gave up", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Enhanced}, 1, 3, 4)
		n.follows(4, 1)
		n.node.loseLeader(LeaderFailed, n.now)
		n.forgets()
		n.waits(25 * time.Millisecond)
		n.expects("stagger → elect", "send n3 ELECTION")
		n.hears(n.actor(3).ok(0))
		n.expects("elect → wait", "send n3 NOMINATE")
		n.hears(n.actor(3).replies(wire.Nominate, wire.Frame{Kind: wire.Cid, Knowledge: wire.Knows, Epoch: n.actor(4).epoch(1)}))
		n.expects("wait → follow leader=n4 epoch=1/n4 cause=peers-hear-leader")
	})
	t.Run("it does not", func(t *testing.T) {
		n := named(t)
		n.waits(55 * time.Millisecond) // three NOMINATEs, 7·RTO less a fifth
		n.expects("send n4 NOMINATE", "send n4 NOMINATE")
		for n.node.contest.helper != hostID(3) && n.now.Sub(n.zero) < 3*time.Second {
			n.waits(time.Millisecond)
			if n.node.contest.helper != hostID(3) {
				n.expects()
			}
		}
		n.expects("wait → wait", "send n3 NOMINATE")
	})
}

func TestEnhancedOffers(t *testing.T) {
	t.Run("a challenge starts no election, and puts our turn off once", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Enhanced}, 1, 3, 4)
		n.waits(2010 * time.Millisecond)
		n.forgets()
		n.hears(n.actor(1).election(wire.Epoch{}))
		n.expects("send n1 ANSWER verdict=ok eta=0ms")
		putOff := n.node.timers[stateTimer]
		if least := n.now.Add(n.node.roundLength()); putOff.Before(least) {
			t.Errorf("its turn comes at +%v, before the other's round can end", putOff.Sub(n.now))
		}
		n.waits(10 * time.Millisecond)
		n.hears(n.actor(1).election(wire.Epoch{}))
		n.expects("send n1 ANSWER verdict=ok eta=0ms")
		if n.node.timers[stateTimer] != putOff {
			t.Errorf("a second challenge moved its turn by %v", n.node.timers[stateTimer].Sub(putOff))
		}
	})
	t.Run("with a round of its own it goes on, and says so", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Enhanced}, 1, 3, 4)
		n.starts()
		n.forgets()
		n.hears(n.actor(1).election(wire.Epoch{}))
		n.expects("send n1 ANSWER verdict=ok eta=70ms")
		n.is(Elect)
	})
	t.Run("a leader that is not fresh is looked at", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Enhanced}, 1, 3)
		n.follows(3, 1)
		n.node.lastFromLeader = n.now.Add(-n.node.suspectTimeout())
		n.hears(n.actor(1).election(n.actor(3).epoch(1)))
		n.expects("send n1 ANSWER verdict=ok eta=0ms", "follow → suspect cause=challenged", "send n1 PROBE", "send n3 PROBE")
	})
	t.Run("a better starter's round survives, once", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Enhanced}, 1, 3, 4)
		n.starts()
		n.forgets()
		n.hears(n.actor(3).election(wire.Epoch{}))
		n.expects("send n3 ANSWER verdict=ineligible", "elect → wait")
		n.node.becomeElecting(BetterSilent)
		n.forgets()
		n.hears(n.actor(4).election(wire.Epoch{}))
		n.expects("send n4 ANSWER verdict=ineligible")
		n.is(Elect)
	})
	t.Run("but a claim that only waits for the old lease goes on", func(t *testing.T) {
		n := storyOf(t, 3, Config{Algorithm: Enhanced}, 1, 2, 4, 5)
		n.follows(5, 1)
		n.node.loseLeader(LeaderFailed, n.now.Add(150*time.Millisecond))
		n.forgets()
		n.hears(n.actor(1).nominates(0))
		n.forgets()
		n.hears(n.actor(4).election(n.actor(5).epoch(1)))
		n.expects("send n4 ANSWER verdict=ineligible")
		n.is(Elect)
	})
	t.Run("a wish to take over is no round", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Enhanced}, 1, 3)
		n.starts()
		n.forgets()
		f := n.actor(3).election(wire.Epoch{})
		f.Reason = wire.Preempt
		n.hears(f)
		n.expects("send n3 ANSWER verdict=ineligible")
		n.is(Elect)
	})
}

func TestEnhancedNominee(t *testing.T) {
	t.Run("claims", func(t *testing.T) {
		n := storyOf(t, 3, Config{Algorithm: Enhanced}, 1, 2, 4)
		n.starts()
		n.forgets()
		n.hears(n.actor(1).nominates(0))
		n.expects("save", "elect → claim cause=nominated", "send n1 COORDINATOR", "send n2 COORDINATOR", "send n4 COORDINATOR")
		n.hears(n.actor(2).nominates(0))
		n.expects("send n2 COORDINATOR")
	})
	t.Run("knows a leader", func(t *testing.T) {
		n := storyOf(t, 3, Config{Algorithm: Enhanced}, 1, 4)
		n.follows(4, 1)
		n.hears(n.actor(1).nominates(0))
		n.expects("send n1 CID epoch=1/n4 state=knows")
	})
	t.Run("has heard a better node: passes it on, once (M15)", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Enhanced}, 1, 3, 4)
		n.starts()
		n.forgets()
		n.hears(n.actor(4).says(wire.Frame{Kind: wire.Query}))
		n.expects("send n4 CID")
		n.hears(n.actor(1).nominates(0))
		n.expects("elect → wait", "send n4 NOMINATE flags=ack-req,hop", "send n1 CID state=none")
		n.hears(n.actor(1).nominates(0)) // its repetition changes nothing
		n.expects("send n1 CID state=none")
	})
	t.Run("was passed it on: claims", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Enhanced}, 1, 3, 4)
		n.starts()
		n.forgets()
		n.hears(n.actor(4).says(wire.Frame{Kind: wire.Query}))
		n.forgets()
		n.hears(n.actor(1).nominates(wire.Hop))
		n.forgets()
		n.is(Claiming)
	})
	t.Run("must wait for the old lease, and says how long", func(t *testing.T) {
		n := storyOf(t, 3, Config{Algorithm: Enhanced}, 1, 2, 4)
		n.follows(4, 1)
		n.node.loseLeader(LeaderFailed, n.now.Add(150*time.Millisecond))
		n.forgets()
		n.hears(n.actor(1).nominates(0))
		n.expects("stagger → elect", "send n1 CID state=none remain=150ms")
		n.waits(149 * time.Millisecond)
		n.waits(time.Millisecond)
		n.forgets()
		n.is(Claiming)
	})
	t.Run("doubts the leader itself", func(t *testing.T) {
		n := storyOf(t, 3, Config{Algorithm: Enhanced}, 1, 4)
		n.follows(4, 1)
		n.node.lastFromLeader = n.now.Add(-n.node.suspectTimeout())
		n.node.becomeSuspicious(LeaderSilent)
		n.forgets()
		n.hears(n.actor(1).nominates(0))
		n.expects("send n1 CID state=none")
		if !n.node.contest.prompted {
			t.Error("it will wait its turn though it was named")
		}
	})
	t.Run("cannot lead: keeps silent, and the next best is named", func(t *testing.T) {
		n := storyOf(t, 3, Config{Algorithm: Enhanced, Part: Observer}, 1, 4)
		n.hears(n.actor(1).nominates(0))
		n.expects("ignored nomination-declined")
	})
	t.Run("classic knows no nomination", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 4)
		n.hears(n.actor(1).nominates(0))
		n.expects("ignored kind-without-meaning")
	})
}
