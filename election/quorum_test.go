package election

import (
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// voterOf is host self of a formed roster of itself and the others, with the rest
// of what its disk holds.
func voterOf(t *testing.T, self int, saved Saved, others ...int) *story {
	t.Helper()
	return voterWith(t, self, Config{}, saved, others...)
}

func voterWith(t *testing.T, self int, cfg Config, saved Saved, others ...int) *story {
	t.Helper()
	ids := []wire.ID{hostID(self)}
	for _, number := range others {
		ids = append(ids, hostID(number))
	}
	slices.SortFunc(ids, wire.ID.Compare)
	saved.Incarnation = 1
	saved.Roster = Roster{Version: 1, Formed: true, IDs: ids}
	cfg.Expect = len(ids)
	n := storyFrom(t, self, cfg, saved, others...)
	n.forgets()
	return n
}

// claims is a's CLAIM of the epoch counter/a.
func (a *actor) claims(counter uint64) wire.Frame {
	return a.says(wire.Frame{Kind: wire.Coordinator, Phase: wire.Claim, Flags: wire.AckReq, Epoch: a.epoch(counter),
		Lease: 400, RosterVersion: a.s.node.saved.Roster.Version})
}

// canvasses is a's question whether this voter would grant it an epoch.
func (a *actor) canvasses() wire.Frame {
	return a.says(wire.Frame{Kind: wire.Canvass, Flags: wire.AckReq, Reason: wire.NoLeader,
		RosterVersion: a.s.node.saved.Roster.Version})
}

func (a *actor) resigns(counter uint64) wire.Frame {
	return a.says(wire.Frame{Kind: wire.Resign, Flags: wire.AckReq, Epoch: a.epoch(counter), Reason: wire.Transfer})
}

// canvassed brings the node, which must be the best, to ask the voters.
func (s *story) canvassed() {
	s.t.Helper()
	s.waits(2 * time.Second)
	s.forgets()
	s.is(Elect)
}

// claimed brings the node to claim, granted by nobody yet but itself.
func (s *story) claimed(by ...int) {
	s.t.Helper()
	s.canvassed()
	for _, number := range by {
		s.hears(s.actor(number).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
		s.forgets()
	}
	s.is(Claiming)
}

func (s *story) grants(number int) {
	s.t.Helper()
	s.hears(s.actor(number).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: s.node.epoch}))
}

// A reply cache would answer a copy of a CLAIM with a grant that has been
// overtaken meanwhile; and a claim that comes to nothing must not use up numbers.
func TestMended03_ClaimsAreJudgedAfresh(t *testing.T) {
	t.Run("a copy of a granted claim", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		n.hears(n.actor(2).claims(1))
		n.expects("save vote=1/n2", "start → wait", "send n2 COORD_ACK epoch=1/n2 verdict=accept")
		n.hears(n.actor(2).claims(1)) // while the promise runs it is renewed, without the disk
		n.expects("send n2 COORD_ACK epoch=1/n2 verdict=accept")
		n.waits(401 * time.Millisecond)
		n.forgets()
		n.hears(n.actor(3).claims(2))
		n.hearsAndForgets(n.actor(2).claims(1))
	})
	t.Run("after another was granted", func(t *testing.T) {
		n := voterOf(t, 1, Saved{MaxCounter: 2, Vote: wire.Epoch{Counter: 2, Owner: hostID(3)}}, 2, 3)
		n.hears(n.actor(2).claims(1))
		n.expects("send n2 COORD_ACK epoch=2/n3 verdict=stale")
		n.hears(n.actor(2).claims(2))
		n.expects("send n2 COORD_ACK epoch=2/n3 verdict=stale") // one owner to a counter, for ever (I4)
		n.hears(n.actor(2).claims(3))
		n.expects("save vote=3/n2", "start → wait", "send n2 COORD_ACK epoch=3/n2 verdict=accept")
	})
	t.Run("a refused claim uses up no counter", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		n.hearsAndForgets(n.actor(3).claims(1))
		n.hears(n.actor(2).claims(9))
		n.expects("send n2 COORD_ACK epoch=9/n2 verdict=leased remain=401ms")
		if n.node.saved.MaxCounter != 1 {
			t.Errorf("the refused claim raised the counter to %d", n.node.saved.MaxCounter)
		}
	})
}

// A claimant that forgot that it is a voter itself would count its own grant
// while it is bound to another.
func TestMended04_SelfIsAVoter(t *testing.T) {
	t.Run("bound to another, it waits", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.waits(1950 * time.Millisecond)
		n.forgets()
		n.hears(n.actor(2).claims(1))
		n.forgets()
		n.hears(n.actor(2).says(wire.Frame{Kind: wire.Resign, Epoch: n.actor(2).epoch(7), Reason: wire.Abandoned})) // of another epoch
		n.forgets()
		n.node.becomeElecting(BetterSilent)
		n.waits(300 * time.Millisecond)
		for _, s := range n.sent {
			if s.Frame.Kind == wire.Canvass {
				t.Fatal("it asked for votes while its own was given away")
			}
		}
		n.forgets()
		n.waits(120 * time.Millisecond)
		n.expects("send n1 CANVASS flags=ack-req", "send n2 CANVASS flags=ack-req", "send n2 CANVASS attempt=1", "send n1 CANVASS attempt=1")
	})
	t.Run("granting a better claimant ends its own claim", func(t *testing.T) {
		n := voterOf(t, 2, Saved{}, 1, 3)
		n.happens(MemberChanged{n.actor(3).member(Dead)})
		n.forgets()
		n.waits(2 * time.Second)
		n.forgets()
		n.hears(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
		n.forgets()
		n.is(Claiming)
		n.hears(n.actor(3).claims(2))
		n.expects("send n1 RESIGN epoch=1/n2 reason=abandoned", "send n3 RESIGN epoch=1/n2", "save vote=2/n3",
			"claim → wait", "send n3 COORD_ACK epoch=2/n3 verdict=accept")
		n.grants(1) // comes too late
		n.expects()
	})
	t.Run("a worse claimant waits for ours", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.claimed(1)
		n.hears(n.actor(2).claims(2))
		n.expects("send n2 COORD_ACK epoch=2/n2 verdict=leased")
	})
	t.Run("a higher epoch ends its claim", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.claimed(1)
		n.hears(n.actor(2).heartbeat(5))
		n.forgets()
		n.is(Follow)
		n.grants(1)
		n.expects()
		n.is(Follow)
	})
}

// A restarted voter does not know whom it promised what, nor for how long its
// former configuration promised it.
func TestMended05_HoldAfterARestart(t *testing.T) {
	t.Run("for the longest promise ever made", func(t *testing.T) {
		n := voterOf(t, 1, Saved{LongestPromise: 2 * time.Second}, 2, 3)
		n.hears(n.actor(3).claims(1))
		n.expects("send n3 COORD_ACK verdict=hold remain=2041ms")
		n.hears(n.actor(3).canvasses())
		n.expects("send n3 ANSWER verdict=hold eta=2041ms")
		n.hears(n.actor(3).heartbeat(1)) // heartbeats are acknowledged all the same
		n.expects("save", "start → follow leader=n3")
		n.waits(2050 * time.Millisecond)
		n.forgets()
		n.hears(n.actor(3).claims(2))
		n.expects("save vote=2/n3", "→ wait", "send n3 COORD_ACK verdict=accept")
	})
	t.Run("a disk that was slow once costs one start", func(t *testing.T) {
		n := voterOf(t, 1, Saved{LongestPromise: 2 * time.Second}, 2, 3)
		n.hearsAndForgets(n.actor(3).heartbeat(1))
		n.waits(2035 * time.Millisecond)
		n.forgets()
		if n.disk.LongestPromise != 2*time.Second {
			t.Errorf("the disk holds a longest promise of %v while one of the life before may run", n.disk.LongestPromise)
		}
		n.waits(10 * time.Millisecond)
		n.forgets()
		if n.disk.LongestPromise != 400*time.Millisecond {
			t.Errorf("the disk holds a longest promise of %v, the next start would wait as long", n.disk.LongestPromise)
		}
	})
	t.Run("a first life has promised nothing", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		n.hears(n.actor(3).claims(1))
		n.expects("save vote=1/n3", "start → wait", "send n3 COORD_ACK verdict=accept")
		if n.disk.LongestPromise != 400*time.Millisecond {
			t.Errorf("the disk holds a longest promise of %v before the grant goes out", n.disk.LongestPromise)
		}
	})
	t.Run("other settings get neither grant nor acknowledgement", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		for _, f := range []wire.Frame{n.actor(3).claims(1), n.actor(3).canvasses(), n.actor(3).heartbeat(1)} {
			f.ConfigHash++
			n.hears(f)
			n.expects("ignored config-mismatch")
		}
	})
}

// A delay that only the claimant keeps protects nothing from a claimant without it.
func TestMended06_TakeoverDelayBindsTheVoters(t *testing.T) {
	n := voterWith(t, 1, Config{TakeoverDelay: time.Second}, Saved{}, 2, 3)
	n.hearsAndForgets(n.actor(3).heartbeat(1))
	n.waits(1300 * time.Millisecond)
	n.forgets()
	n.hears(n.actor(2).claims(2))
	n.expects("send n2 COORD_ACK verdict=leased remain=101ms")
	n.hears(n.actor(3).resigns(1)) // the old leader's own word ends it
	n.forgets()
	n.hears(n.actor(2).claims(2))
	n.expects("save vote=2/n2", "stagger → wait", "send n2 COORD_ACK verdict=accept")
}

// If those who leave were no longer counted, a rolling restart would end with one
// voter that leads alone.
func TestMended08_LeavingIsNotForgetting(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	n.grants(1)
	n.forgets()
	n.is(Lead)
	for _, number := range []int{1, 2} {
		n.hears(n.actor(number).says(wire.Frame{Kind: wire.Leave}))
		n.forgets()
	}
	if got := n.node.needAcks(); got != 1 {
		t.Errorf("%d acknowledgements needed after two of three left, want 1", got)
	}
	n.waits(time.Second)
	n.forgets()
	n.is(Stopping)
}

// With syncs of 600 ms and grants of 400 ms nobody would ever lead.
func TestMended10_SlowDisks(t *testing.T) {
	t.Run("a claim asks for two syncs more", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.happens(DiskTimed{600 * time.Millisecond})
		n.canvassed()
		n.hears(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
		n.expects("save vote=1/n3", "elect → claim", "send n1 COORDINATOR lease=1600ms", "send n2 COORDINATOR lease=1600ms")
	})
	t.Run("grants that come late are asked for again, for the same epoch", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.claimed(1)
		n.waits(399 * time.Millisecond)
		n.forgets()
		n.sleeps(10 * time.Millisecond)
		n.grants(1)
		n.forgets()
		n.waits(10 * time.Millisecond)
		n.forgets()
		if n.node.state != Claiming || n.node.epoch.Counter != 1 {
			t.Fatalf("%s in epoch %v after a late grant", n.node.state, n.node.epoch)
		}
	})
}

// A host that stepped down must not be waited for, and must not block others.
func TestMended17_HoldDown(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	n.grants(1)
	n.forgets()
	n.happens(Command{Verb: StepDown, For: 10 * time.Second, Token: 9})
	n.expects("send n2 PREPARE")
	n.hears(n.actor(2).replies(wire.Prepare, wire.Frame{Kind: wire.Ready, IsReady: true}))
	n.forgets()
	n.happens(HookEnded{Hook: Lose, Epoch: n.node.reign.epoch, OK: true})
	n.forgets()
	n.hears(n.actor(1).says(wire.Frame{Kind: wire.Election, Flags: wire.AckReq, Reason: wire.NoLeader}))
	n.expects("send n1 ANSWER verdict=ineligible flags=draining")
	n.hears(n.actor(1).canvasses()) // it votes all the same
	n.expects("send n1 ANSWER verdict=yes flags=draining")
	n.hears(n.actor(2).claims(2))
	n.expects("save vote=2/n2", "send n2 COORD_ACK verdict=accept")
	n.hears(n.actor(2).heartbeat(2))
	n.expects("observe → follow leader=n2", "reply ok")
	n.waits(100 * time.Millisecond)
	n.forgets()
}

// A grant is on disk before it is sent, and none is sent if it cannot be.
func TestVotesAreDurable(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.hears(n.actor(3).claims(1))
	n.expects("save vote=1/n3", "start → wait", "send n3 COORD_ACK verdict=accept")
	n.happens(SaveFailed{State: n.disk})
	n.forgets()
	n.hears(n.actor(3).claims(1)) // what memory says of the vote is not on disk
	n.expects("save vote=1/n3", "send n3 COORD_ACK verdict=accept")
}

// Whom a RESIGN frees: those bound to that very epoch (CE8).
func TestResignFreesItsEpochOnly(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.hearsAndForgets(n.actor(3).heartbeat(1))
	n.hearsAndForgets(n.actor(3).heartbeat(2))
	n.hearsAndForgets(n.actor(3).resigns(1))
	n.hears(n.actor(2).claims(3))
	n.expects("send n2 COORD_ACK verdict=leased")
	n.hearsAndForgets(n.actor(3).resigns(2))
	n.hears(n.actor(3).heartbeat(2)) // a late one binds nobody again
	n.expects("ignored resigned-epoch")
	n.hears(n.actor(2).claims(3))
	n.expects("save vote=3/n2", "stagger → wait", "send n2 COORD_ACK verdict=accept")
}

// Who is asked and who counts comes from the roster alone.
func TestOnlyTheRosterVotes(t *testing.T) {
	t.Run("a stranger's claim and question", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		n.actors[7] = &actor{s: n, number: 7, incarnation: 1, nonce: 7000}
		n.happens(MemberChanged{n.actor(7).member(Alive)})
		n.expects()
		n.hears(n.actor(7).claims(1))
		n.expects("send n7 COORD_ACK verdict=not-voter")
		n.hears(n.actor(7).canvasses())
		n.expects("send n7 ANSWER verdict=ineligible")
	})
	t.Run("a stranger's grant", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.actors[7] = &actor{s: n, number: 7, incarnation: 1, nonce: 7000}
		n.happens(MemberChanged{n.actor(7).member(Alive)})
		n.claimed(1)
		n.node.reign.lease.Renew(hostID(7), n.now, time.Second)
		n.node.checkClaim()
		n.waits(5 * time.Millisecond) // it would lead with its next step
		n.forgets()
		n.is(Claiming)
	})
	t.Run("without a roster nobody grants", func(t *testing.T) {
		n := storyOf(t, 1, Config{Expect: 3}, 2, 3)
		n.hears(n.actor(3).claims(1))
		n.expects("send n3 COORD_ACK verdict=not-voter")
		n.hears(n.actor(3).canvasses())
		n.expects("send n3 ANSWER verdict=ineligible")
	})
	t.Run("an older roster's claimant", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		n.node.saved.Roster.Version = 33
		f := n.actor(3).claims(1)
		f.RosterVersion = 1
		n.hears(f)
		n.expects("send n3 COORD_ACK verdict=not-voter")
	})
}

// A voter accepts one proposal in its life.
func TestOneRosterOnly(t *testing.T) {
	offer := func(a *actor, ids ...int) wire.Frame {
		f := wire.Frame{Kind: wire.Roster, Phase: wire.Proposed, RosterVersion: 1, Count: uint8(len(ids))}
		for i, number := range ids {
			f.Voters[i] = hostID(number)
		}
		return a.says(f)
	}
	n := storyOf(t, 1, Config{Expect: 3}, 2, 3)
	n.hears(offer(n.actor(3), 1, 3, 4))
	n.expects("send n3 ROSTER_ACK verdict=hold") // not whom we see
	n.hears(offer(n.actor(3), 1, 2, 3))
	n.expects("save roster=1/3", "send n3 ROSTER_ACK verdict=accept version=1")
	n.happens(MemberChanged{n.actor(2).member(Dead)})
	n.actors[4] = &actor{s: n, number: 4, incarnation: 1, nonce: 4000}
	n.happens(MemberChanged{n.actor(4).member(Alive)})
	n.hears(offer(n.actor(4), 1, 3, 4))
	n.expects("send n4 ROSTER_ACK verdict=not-voter version=1")
	n.hears(offer(n.actor(3), 1, 2, 3))
	n.expects("send n3 ROSTER_ACK verdict=accept version=1")
}

// A grant is worth what its own CLAIM asked for, not what a later copy did.
func TestAGrantIsWorthWhatWasAsked(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	early := n.actor(1).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch})
	asked := n.now
	n.happens(DiskTimed{2 * time.Second}) // the next copy asks for 4.4 s
	n.waits(401 * time.Millisecond)
	n.forgets()
	n.hears(early)
	n.forgets()
	if end := n.node.leaseEnd(); end.After(asked.Add(400 * time.Millisecond)) {
		t.Errorf("a promise of 400ms counts for %v", end.Sub(asked))
	}
	n.is(Claiming)
}

// While its own proposal is out, a node may accept another's: then its own must
// not form any more.
func TestAProposerAcceptsAnother(t *testing.T) {
	n := storyOf(t, 3, Config{Expect: 3}, 1, 2)
	n.canvassed()
	other := n.actor(2).says(wire.Frame{Kind: wire.Roster, Phase: wire.Proposed, RosterVersion: 1, Count: 3,
		Voters: [wire.MaxVoters]wire.ID{hostID(2), hostID(3), hostID(4)}})
	n.happens(MemberChanged{n.actor(1).member(Left)})
	n.actors[4] = &actor{s: n, number: 4, incarnation: 1, nonce: 4000}
	n.happens(MemberChanged{n.actor(4).member(Alive)})
	n.hears(other)
	n.expects("save roster=1/3", "send n2 ROSTER_ACK verdict=accept")
	for _, number := range []int{1, 2} {
		n.node.onRosterAck(n.node.peer(hostID(number)), &wire.Frame{Kind: wire.RosterAck, AckVerdict: wire.Accept, Round: n.roundOf(number)})
	}
	if r := n.node.saved.Roster; r.Formed || r.Has(hostID(1)) {
		t.Errorf("a roster of its own formed over the one it accepted: %v", r)
	}
	n.forgets()
}

// roundOf is the round of the latest ROSTER to this host.
func (s *story) roundOf(number int) uint32 {
	for _, sent := range slices.Backward(s.sent) {
		if sent.Frame.Kind == wire.Roster && sent.To == (&host{number: number}).addr() {
			return sent.Frame.Round
		}
	}
	return 0
}

// Once a majority has granted its claim, a leader need not mind the counter that a
// refusal of it names. It claims anew only for a voter that refuses its heartbeats.
func TestALateRefusalOfTheClaim(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.leadsVoters(1)
	stale := wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Epoch: wire.Epoch{Counter: 40}}
	n.hears(n.actor(2).replies(wire.Coordinator, stale))
	n.expects("ignored late-reply")
	n.is(Lead)
	n.hears(n.actor(2).replies(wire.Heartbeat, stale))
	n.expects("lead → stopping cause=re-minted", "stop hook", "lose hook cause=re-minted")
}

// A named successor is a voter too: if it has promised another meanwhile, or is
// mute after a restart, it waits like anybody.
func TestASuccessorIsBoundToo(t *testing.T) {
	n := voterOf(t, 1, Saved{LongestPromise: time.Second}, 2, 3)
	n.hearsAndForgets(n.actor(3).heartbeat(1))
	resign := n.actor(3).resigns(1)
	resign.Successor = hostID(1)
	n.hears(resign)
	n.expects("send n3 RESIGN_ACK", "follow → elect cause=handed-over")
	n.waits(900 * time.Millisecond)
	n.expects()
	n.waits(121 * time.Millisecond)
	n.expects("save", "send n2 CANVASS flags=ack-req", "send n3 CANVASS flags=ack-req") // like anybody now
}

// A voter that knows a higher counter must not cost a named successor its turn: the
// old leader, which has just let go, would be the first to stand again.
func TestANamedSuccessorClaimsAnew(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.hearsAndForgets(n.actor(3).heartbeat(1))
	resign := n.actor(3).resigns(1)
	resign.Successor = hostID(1)
	n.hearsAndForgets(resign)
	n.is(Claiming)
	n.hears(n.actor(2).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Epoch: wire.Epoch{Counter: 40}}))
	n.expects("save counter=41 vote=41/n1", "claim → claim epoch=41/n1 cause=claim-stale",
		"send n2 COORDINATOR epoch=41/n1", "send n3 COORDINATOR epoch=41/n1")
	n.grants(3)
	n.expects("save promoted=41/n1", "claim → lead epoch=41/n1 cause=handed-over", "become hook epoch=41/n1")
}

// One voter with a newer roster must not keep a majority without it from leading:
// the change that it knows of may have reached nobody else.
func TestANewerRosterOfFewStopsNobody(t *testing.T) {
	n := voterOf(t, 5, Saved{}, 1, 2, 3, 4)
	n.canvassed()
	n.hears(n.actor(4).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Stale}))
	n.hears(n.actor(3).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
	n.expects()
	n.hears(n.actor(2).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
	n.forgets()
	n.is(Claiming)
}

// What memory says of a proposal is acknowledged only when the disk has it.
func TestAProposalThatWasNotSaved(t *testing.T) {
	n := storyOf(t, 1, Config{Expect: 3}, 2, 3)
	offer := func() wire.Frame {
		return n.actor(3).says(wire.Frame{Kind: wire.Roster, Phase: wire.Proposed, RosterVersion: 1, Count: 3,
			Voters: [wire.MaxVoters]wire.ID{hostID(1), hostID(2), hostID(3)}})
	}
	n.saveFails(func(Saved) bool { return true })
	n.hears(offer())
	n.forgets()
	n.hears(offer())
	n.expects("save roster=1/3", "send n3 ROSTER_ACK verdict=accept")
}

// A leader's lease ends no later than its own promise: else, frozen past the one
// and not the other, it would grant another and leave Lead without its lose hook.
func TestALeaderIsBoundToItself(t *testing.T) {
	n := voterWith(t, 3, Config{Heartbeat: 20 * time.Millisecond, Lease: 160 * time.Millisecond, StopBudget: 10 * time.Millisecond}, Saved{}, 1, 2)
	n.happens(DiskTimed{Took: 300 * time.Millisecond})
	n.claimed(1)
	began := n.now
	n.waits(75 * time.Millisecond)
	n.forgets()
	n.grants(1) // of the latest copy of the claim, which asked for 760 ms
	n.forgets()
	n.is(Lead)
	if n.node.promise.Until.Before(n.node.quorumEnd()) {
		t.Errorf("the lease ends at %v, its own promise at %v", n.node.quorumEnd().Sub(began), n.node.promise.Until.Sub(began))
	}
	for _, at := range []time.Duration{700, 762, 840} {
		n.sleeps(began.Add(at * time.Millisecond).Sub(n.now))
		n.hears(n.actor(2).claims(uint64(at)))
		n.forgets()
		if n.node.state == Wait {
			t.Fatalf("at %v ms it grants another, and no lose hook ran", at)
		}
	}
}

// The loser of a duel for one counter acknowledges the winner: nobody else can
// ever be in force in it.
func TestTheLoserOfADuelFollows(t *testing.T) {
	n := voterOf(t, 2, Saved{MaxCounter: 6}, 1, 3)
	n.happens(MemberChanged{n.actor(3).member(Dead)})
	n.forgets()
	n.claimed(1)
	n.happens(MemberChanged{n.actor(3).member(Alive)})
	n.forgets()
	n.hearsAndForgets(n.actor(1).replies(wire.Coordinator,
		wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Flags: wire.Fresh, Epoch: n.actor(3).epoch(7)}))
	before := len(n.sent)
	n.hearsAndForgets(n.actor(3).heartbeat(7))
	n.is(Follow)
	if last := n.sent[len(n.sent)-1].Frame; len(n.sent) == before || last.Kind != wire.HeartAck {
		t.Errorf("its answer to the winner's heartbeat is %v", &last)
	}
	n.hears(n.actor(3).claims(7)) // a grant it is not: that counter was granted once
	n.expects("send n3 COORD_ACK verdict=stale")
}

// Who asks the voters and hears a late answer to something else has what voters have said meanwhile: it does not ask anew.
func TestASignOfLifeForgetsNoVoter(t *testing.T) {
	s := voterOf(t, 5, Saved{}, 1, 2, 3, 4)
	s.canvassed()
	s.hears(s.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
	slow := s.actor(3).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes})
	s.hears(s.actor(2).says(wire.Frame{Kind: wire.ProbeAck, Standing: wire.Candidate}))
	s.expects("ignored late-reply")
	s.hears(slow)
	s.forgets()
	s.is(Claiming)
}
