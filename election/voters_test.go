package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// ruling is a's answer to the node's latest claim.
func (a *actor) ruling(verdict wire.AckVerdict, remain uint32) wire.Frame {
	return a.replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, AckVerdict: verdict, Remain: remain, Epoch: a.s.node.epoch})
}

// A claimant that asks whether it may learns from one voter that a leader is
// heard: it follows, and asks nobody for a promise (R7).
func TestAVoterHearsALeader(t *testing.T) {
	t.Run("that it may follow", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.canvassed()
		n.hears(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.LeaderAlive, Flags: wire.Fresh, Epoch: n.actor(2).epoch(4)}))
		n.expects("elect → follow leader=n2 epoch=4/n2 cause=told-of-leader")
		n.hears(n.actor(2).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes})) // too late
		n.expects("ignored late-reply")
	})
	t.Run("that it knows nothing of", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.canvassed()
		n.hears(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.LeaderAlive, Flags: wire.Fresh,
			Epoch: wire.Epoch{Counter: 4, Owner: hostID(9)}}))
		n.expects()
		n.hears(n.actor(2).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.LeaderAlive, Flags: wire.Fresh,
			Epoch: wire.Epoch{Counter: 4, Owner: hostID(9)}}))
		n.expects("elect → stagger cause=no-quorum")
	})
}

// Nothing that the asker knows talks a voter out of a leader that it hears: neither a
// later epoch, nor the version of a roster, which the question carries where a challenge
// carries the counter that failed.
func TestAQuestionEndsNoLeader(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.follows(3, 4)
	question := n.actor(2).canvasses()
	question.Epoch, question.FailedCounter = n.actor(3).epoch(4), 1<<30
	n.hears(question)
	n.expects("send n2 ANSWER verdict=leader-alive")
	question = n.actor(2).canvasses()
	question.Epoch = n.actor(2).epoch(9)
	n.hears(question)
	n.expects("send n2 ANSWER verdict=leader-alive")
}

// A voter that is bound says for how long, and a question changes nothing.
func TestABoundVoterSaysForHowLong(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.hearsAndForgets(n.actor(3).claims(1))
	n.waits(100 * time.Millisecond)
	n.hears(n.actor(2).canvasses())
	n.expects("send n2 ANSWER verdict=leased eta=301ms")
	n.hears(n.actor(3).canvasses()) // the promise is its own
	n.expects("send n3 ANSWER verdict=yes")
	n.hears(n.actor(3).claims(1))
	n.expects("send n3 COORD_ACK verdict=accept")
}

// Somebody asks for votes while the leader is known by hearsay alone: that is as
// good as a doubt of our own.
func TestAQuestionCastsDoubt(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.happens(LeaderReported{n.actor(3).epoch(1)})
	n.expects("start → follow leader=n3 cause=told-of-leader")
	n.hears(n.actor(2).canvasses())
	n.expects("send n2 ANSWER verdict=yes", "follow → suspect cause=challenged", "send n2 PROBE purpose=opinion", "send n3 PROBE purpose=leader")
}

// A claim is judged by whose it is, by its counter and by how much it asks for.
func TestClaimsThatAreNotGranted(t *testing.T) {
	t.Run("of another's epoch", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		f := n.actor(2).claims(1)
		f.Epoch.Owner = hostID(3)
		n.hears(f)
		n.expects("ignored resigned-epoch")
	})
	t.Run("that was taken back", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		n.hearsAndForgets(n.actor(3).claims(1))
		taken := n.actor(3).says(wire.Frame{Kind: wire.Resign, Epoch: n.actor(3).epoch(1), Reason: wire.Abandoned})
		n.hears(taken)
		n.expects("send n3 RESIGN_ACK", "wait → elect cause=leader-resigned", "send n3 ELECTION")
		n.hears(n.actor(3).claims(1)) // a copy that was under way
		n.expects("ignored resigned-epoch")
	})
	t.Run("below the leader that is heard", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		n.follows(3, 5)
		n.hears(n.actor(2).claims(4))
		n.expects("send n2 COORD_ACK epoch=5/n3 verdict=stale flags=fresh")
	})
	t.Run("for longer than any disk needs", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		f := n.actor(3).claims(1)
		f.Lease = uint32((n.node.cfg.LongestLease() + maxGrant + time.Millisecond).Milliseconds())
		n.hears(f)
		n.expects("send n3 COORD_ACK verdict=not-voter") // or one frame could bind it for a minute
		f = n.actor(3).claims(1)
		f.Lease = uint32((n.node.cfg.LongestLease() + maxGrant).Milliseconds())
		n.hears(f)
		n.expects("save vote=1/n3", "start → wait", "send n3 COORD_ACK verdict=accept")
	})
}

// Whoever is granted an epoch above the leader's has overruled it: that leader is
// not followed any more, and not waited for.
func TestAGrantEndsALeaderKnownByHearsay(t *testing.T) {
	t.Run("another's", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		n.happens(LeaderReported{n.actor(3).epoch(1)})
		n.forgets()
		n.hears(n.actor(2).claims(2))
		n.expects("save vote=2/n2", "follow → wait cause=awaiting-better", "send n2 COORD_ACK verdict=accept")
		if n.node.lostLeader.id != hostID(3) {
			t.Errorf("%v counts as gone", n.node.lostLeader.id.Short())
		}
		n.hears(n.actor(2).heartbeat(2))
		n.expects("wait → follow leader=n2 epoch=2/n2")
	})
	t.Run("its own", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		n.happens(LeaderReported{n.actor(3).epoch(1)})
		n.forgets()
		n.hears(n.actor(3).claims(2))
		n.expects("save vote=2/n3", "follow → wait", "send n3 COORD_ACK verdict=accept")
		if !n.node.lostLeader.id.IsZero() {
			t.Errorf("%v counts as gone", n.node.lostLeader.id.Short())
		}
	})
}

// A witness votes and never stands: it grants, and waits as an observer.
func TestAWitnessGrants(t *testing.T) {
	n := voterWith(t, 1, Config{Part: Witness}, Saved{}, 2, 3)
	n.happens(LeaderReported{n.actor(3).epoch(1)})
	n.expects("observe → follow leader=n3")
	n.hears(n.actor(2).claims(2))
	n.expects("save vote=2/n2", "follow → observe cause=awaiting-better", "send n2 COORD_ACK verdict=accept")
	n.hears(n.actor(2).heartbeat(2))
	n.expects("observe → follow leader=n2")
}

// The disk fails at the grant: no answer goes out, and what the step would have
// shown of the state is shown all the same.
func TestAWitnessCannotWriteItsVote(t *testing.T) {
	n := voterWith(t, 1, Config{Part: Witness}, Saved{}, 2, 3)
	n.happens(LeaderReported{n.actor(3).epoch(1)})
	n.forgets()
	n.saveFails(func(s Saved) bool { return !s.Vote.IsZero() })
	n.hears(n.actor(2).claims(2))
	n.expects("observe → observe cause=awaiting-better")
	if !n.disk.Vote.IsZero() {
		t.Errorf("vote %v", n.disk.Vote)
	}
}

// A claim that promises to another stand in the way of is taken back as soon as
// every voter has had its four tries, and is made again when they have ended; not
// each time at full length, as for a slow disk.
func TestAClaimThatPromisesStopIsTakenBack(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	n.hears(n.actor(1).ruling(wire.AckLeased, 900))
	n.expects()
	for n.node.state == Claiming {
		n.forgets()
		n.waits(5 * time.Millisecond)
	}
	n.expects("send n1 RESIGN reason=abandoned", "send n2 RESIGN reason=abandoned", "claim → stagger cause=promised")
	if took := n.now.Sub(n.zero) - 2*time.Second; took >= 300*time.Millisecond {
		t.Errorf("after %v", took)
	}
	n.waits(850 * time.Millisecond)
	n.expects()
	n.waits(100 * time.Millisecond)
	n.forgets()
	n.is(Elect)
}

// Voters that say that the claimant is none of theirs are not asked again, and
// their word is no grant.
func TestAClaimOutsideTheVotersRosters(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	for _, number := range []int{1, 2} {
		n.hears(n.actor(number).ruling(wire.NotVoter, 0))
		n.expects("ignored not-a-voter")
	}
	n.is(Claiming)
	n.waits(399 * time.Millisecond)
	n.expects() // nobody is asked
	n.is(Claiming)
}

// A grant that was worth nothing any more when it came shows how slow that
// voter's disk is, or how far that is: the next copy of the claim asks for as much more
// (M10, M40).
func TestMended10_ALateGrantTeaches(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	asked := n.actor(1).ruling(wire.Accept, 0)
	n.waits(395 * time.Millisecond)
	n.forgets()
	n.hears(asked)
	n.expects("ignored late-reply")
	n.is(Claiming)
	n.waits(5 * time.Millisecond)
	n.expects("save", "send n1 COORDINATOR epoch=1/n3 lease=1195ms", "send n2 COORDINATOR epoch=1/n3 lease=1195ms")
}

// Voters behind slow lines are still being asked when the claim is due: the
// copies of the old question end, and the new one takes their place.
func TestMended10_AClaimIsRepeatedToSlowVoters(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	for _, p := range n.node.peers {
		p.rtt = rtt{}
		p.rtt.sample(300*time.Millisecond, n.now, weatherFor)
	}
	n.claimed(1)
	n.waits(799 * time.Millisecond)
	n.forgets()
	n.waits(time.Millisecond)
	n.expects("send n1 COORDINATOR epoch=1/n3 lease=800ms", "send n2 COORDINATOR epoch=1/n3 lease=800ms")
	open := 0
	for _, x := range n.node.exchanges {
		if x.frame.Kind == wire.Coordinator {
			open++
		}
	}
	if open != 2 {
		t.Errorf("%d questions are open for two voters", open)
	}
}

// One slow sync is not held against the disk for ever.
func TestMended10_AQuickDiskIsTrustedAgain(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.happens(DiskTimed{600 * time.Millisecond})
	n.happens(DiskTimed{5 * time.Millisecond})
	if slow := n.node.grantLength(); slow < 1400*time.Millisecond {
		t.Errorf("forgot the slow sync at once: asks for %v", slow)
	}
	for range 50 {
		n.happens(DiskTimed{5 * time.Millisecond})
	}
	if quick := n.node.grantLength(); quick > 420*time.Millisecond {
		t.Errorf("still asks for %v", quick)
	}
}

// A voter missed the word that the first roster holds. Once it hears that
// roster's leader, and that leader's own word, it knows.
func TestAVoterThatMissedTheWord(t *testing.T) {
	n := storyOf(t, 1, Config{Expect: 3}, 2, 3)
	n.hears(n.actor(3).roster(wire.Proposed, 1, 1, 2, 3))
	n.forgets()
	beat := n.actor(3).heartbeat(1)
	beat.RosterVersion = 1
	n.hearsAndForgets(beat)
	n.is(Follow)
	n.hearsAndForgets(n.actor(3).roster(wire.Formed, 1, 1, 2, 3))
	if r := n.disk.Roster; !r.Formed || r.Version != 1 || len(r.IDs) != 3 {
		t.Errorf("roster on disk: %+v", r)
	}
}

// A leader took in a host and was gone before the host heard of it. The roster may need
// its vote: as with Raft, whoever asks judges who is a voter (sim, seed 5000001362).
func TestAVoterThatWasTakenInVotesBeforeItKnows(t *testing.T) {
	n := storyOf(t, 1, Config{Expect: 3}, 2, 3)
	question, claim := n.actor(3).canvasses(), n.actor(3).claims(6)
	question.RosterVersion, claim.RosterVersion = 81, 81
	n.hears(question)
	n.expects("send n3 ANSWER verdict=yes")
	n.hears(claim)
	n.expects("save vote=6/n3", "start → wait", "send n3 COORD_ACK verdict=accept")
}
