package election

import (
	"errors"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Rules that no other test here names: each was taken out (testdata/mutants) and
// the tests of this package, or the simulator's schedules, did not notice.

// Two agents of equal priority would each outrank the other, or neither would.
func TestEqualPrioritiesAreOrderedByID(t *testing.T) {
	for _, a := range []Algorithm{Classic, Enhanced, Smallest} {
		c := Config{Algorithm: a}
		if c.outranks(5, hostID(1), 5, hostID(2)) == c.outranks(5, hostID(2), 5, hostID(1)) {
			t.Errorf("%v: of two nodes with one priority not exactly one is the better", a)
		}
	}
}

// A leader that others tell of is expected, not heard.
func TestR8_ALeaderByHearsayMustBeHeard(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.happens(LeaderReported{n.actor(3).epoch(1)})
	n.expects("start → follow leader=n3 cause=told-of-leader")
	n.hears(n.actor(1).election(wire.Epoch{}))
	for _, s := range n.sent {
		if s.Frame.Verdict == wire.LeaderAlive || s.Frame.Flags&wire.Fresh != 0 {
			t.Errorf("vouches for a leader that it never heard: %v", s)
		}
	}
	n.forgets()
}

// Of two leaders that meet, the one with the lower epoch goes (CE7).
func TestR4_ALeaderThatHearsAHigherEpochStops(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(1)
	n.hears(n.actor(2).heartbeat(8))
	n.expects("lead → stopping cause=superseded", "stop hook epoch=1/n3", "lose hook epoch=1/n3")
}

// Users see no two hosts act: the successor hears of its turn when the lose hook
// has ended, and from then on it is its turn alone.
func TestI18_ResignComesAfterTheLoseHookAndNamesTheSuccessor(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(1)
	n.acks(1)
	n.forgets()
	n.happens(Command{Verb: HandOver, To: hostID(2), Token: 4})
	n.expects("send n2 PREPARE")
	n.hears(n.actor(2).replies(wire.Prepare, wire.Frame{Kind: wire.Ready, IsReady: true}))
	n.expects("lead → stopping", "stop hook epoch=1/n3", "lose hook epoch=1/n3")
	n.happens(HookEnded{Hook: Lose, Epoch: n.node.reign.epoch, OK: true})
	n.forgets()
	for _, to := range []int{1, 2} {
		resigned := n.lastTo(to, wire.Resign)
		if resigned.Epoch != (wire.Epoch{Counter: 1, Owner: hostID(3)}) || resigned.Successor != hostID(2) {
			t.Errorf("n%d is told %v", to, &resigned)
		}
	}
}

// lastTo is the latest frame of a kind that was sent to this host.
func (s *story) lastTo(number int, k wire.Kind) wire.Frame {
	s.t.Helper()
	for i := len(s.sent) - 1; i >= 0; i-- {
		if sent := s.sent[i]; sent.Frame.Kind == k && sent.To == (&host{number: number}).addr() {
			return sent.Frame
		}
	}
	s.t.Fatalf("n%d was not sent a %v", number, k)
	return wire.Frame{}
}

// A worse node must not take a running service away by asking for it.
func TestPreemptionIsForThosePolicyNames(t *testing.T) {
	for _, policy := range []Policy{PreemptPriority, PreemptAlways, PreemptNever} {
		n := storyOf(t, 3, Config{Preempt: policy}, 1, 2)
		n.leads(1)
		n.hears(n.actor(2).says(wire.Frame{Kind: wire.Election, Reason: wire.Preempt, Epoch: n.node.epoch, Flags: wire.AckReq}))
		n.forgets()
		if got := n.lastTo(2, wire.Answer).Verdict; got != wire.LeaderAlive || !n.node.reign.transfer.to.IsZero() {
			t.Errorf("preempt %v: a worse node is answered %v, and hand-over goes to %v", policy, got, n.node.reign.transfer.to.Short())
		}
	}
}

// A voter that has granted a higher epoch would prolong the lower one's lease.
func TestAVoterPromisesNothingBelowItsVote(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.hearsAndForgets(n.actor(3).heartbeat(1))
	n.waits(401 * time.Millisecond)
	n.forgets()
	n.hearsAndForgets(n.actor(2).claims(2))
	n.showsAll = true
	n.hears(n.actor(3).heartbeat(1)) // it is still the epoch's owner
	n.expects("send n3 COORD_ACK epoch=2/n2 verdict=stale")
	if n.node.promise.Epoch.Owner != hostID(2) {
		t.Errorf("bound to %v", n.node.promise.Epoch)
	}
}

// An epoch below one that led would pass for the newer leadership.
func TestAClaimBelowAKnownCounterIsRefused(t *testing.T) {
	n := voterOf(t, 1, Saved{MaxCounter: 5}, 2, 3)
	n.hears(n.actor(2).claims(4))
	n.expects("send n2 COORD_ACK verdict=stale")
}

// Voters that are bound are not asked to grant all the same, and what they answer
// is no grant.
func TestLeasedAndHoldAreObeyed(t *testing.T) {
	for _, verdict := range []wire.Verdict{wire.Leased, wire.Hold} {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.canvassed()
		for _, number := range []int{1, 2} {
			n.hears(n.actor(number).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: verdict, ETA: 300}))
			n.forgets()
		}
		n.waits(290 * time.Millisecond)
		n.forgets()
		if n.node.saved.MaxCounter != 0 || n.node.state != Stagger {
			t.Errorf("%v: %s with counter %d, 290 of 300 ms later", verdict, n.node.state, n.node.saved.MaxCounter)
		}
	}
	for _, verdict := range []wire.AckVerdict{wire.AckLeased, wire.AckHold} {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.claimed(1)
		for _, number := range []int{1, 2} {
			n.hears(n.actor(number).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, AckVerdict: verdict, Epoch: n.node.epoch, Remain: 300}))
			n.forgets()
		}
		n.waits(time.Millisecond) // whoever may lead does so with its next step
		n.forgets()
		if n.node.state == Lead {
			t.Errorf("leads by two answers of %v", verdict)
		}
	}
}

// A grant of an epoch that was given up binds its voter to nothing in force.
func TestAGrantCountsForItsEpochOnly(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	late := n.actor(2).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch})
	n.node.withdraw(ClaimUnheard)
	for n.node.state != Elect {
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	n.hears(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
	n.forgets()
	n.is(Claiming)
	n.hears(late)
	n.expects()
	n.is(Claiming)
}

// A host that is no voter may acknowledge what it likes.
func TestAStrangersGrantCountsForNothing(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.actors[7] = &actor{s: n, number: 7, incarnation: 1, nonce: 7000}
	n.happens(MemberChanged{n.actor(7).member(Alive)})
	n.claimed(1)
	n.node.reign.lease.Renew(hostID(7), n.now, time.Second)
	n.node.checkClaim()
	n.waits(time.Millisecond)
	n.is(Claiming)
}

// Two rosters of which each has a majority's word need have no voter in common.
func TestTheFirstRosterNeedsAllItsVoters(t *testing.T) {
	n := storyOf(t, 3, Config{Expect: 3}, 1, 2)
	n.waits(2 * time.Second)
	n.forgets()
	accepted := wire.Frame{Kind: wire.RosterAck, AckVerdict: wire.Accept, RosterVersion: 1}
	n.hears(n.actor(1).replies(wire.Roster, accepted))
	n.expects()
	if n.node.saved.Roster.Formed {
		t.Fatal("formed by two of three")
	}
	n.hears(n.actor(2).replies(wire.Roster, accepted))
	n.forgets()
	if !n.node.saved.Roster.Formed {
		t.Error("not formed by all three")
	}
}

// leadsVoters brings the node to lead by these voters' grants.
func (s *story) leadsVoters(by ...int) {
	s.t.Helper()
	s.claimed(by...)
	for _, number := range by {
		s.grants(number)
		s.forgets()
	}
	s.is(Lead)
}

// Majorities of rosters that differ by two voters need not overlap.
func TestTheRosterChangesByOneVoterAtATime(t *testing.T) {
	n := voterOf(t, 5, Saved{}, 1, 2, 3, 4)
	n.leadsVoters(3, 4)
	n.hasConfirmed()
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 1})
	n.forgets()
	n.happens(Command{Verb: Forget, Force: true, To: hostID(2), Token: 2})
	for _, e := range n.pending {
		if r, isReply := e.(Reply); isReply && !errors.Is(r.Err, ErrRosterPending) {
			t.Errorf("a second change while the first is pending: %v", r.Err)
		}
	}
	n.forgets()
	if len(n.node.saved.Roster.IDs) != 4 {
		t.Errorf("%d voters, want 4", len(n.node.saved.Roster.IDs))
	}
}

// Until a change is on disk at both majorities, voters that have not heard of it
// may grant by the old one.
func TestAChangeOfTheRosterNeedsBothMajorities(t *testing.T) {
	n := voterOf(t, 4, Saved{}, 1, 2, 3)
	n.leadsVoters(2, 3)
	n.hasConfirmed()
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 1})
	n.forgets()
	n.hears(n.actor(3).replies(wire.Roster, wire.Frame{Kind: wire.RosterAck, AckVerdict: wire.Accept, RosterVersion: n.node.saved.Roster.Version}))
	n.expects() // two of the three that are left have it, and only two of the old four
	for n.node.state == Lead && n.now.Sub(n.zero) < 5*time.Second {
		n.waits(20 * time.Millisecond)
		n.forgets()
		if n.node.state == Lead {
			n.acks(3) // one of two others by the new roster; the old one needs two
			n.forgets()
		}
	}
	n.is(Stopping)
}

// Nothing shows an epoch before the disk has it.
func TestI2_AnEpochIsSavedBeforeItIsShown(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.canvassed()
	n.hears(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
	saved := uint64(0)
	for _, e := range n.pending {
		switch e := e.(type) {
		case Save:
			saved = e.State.MaxCounter
		case Send:
			if e.Frame.Epoch.Counter > saved {
				t.Errorf("%v with counter %d on disk", e, saved)
			}
		case Transition:
			if e.Epoch.Counter > saved {
				t.Errorf("%v with counter %d on disk", e, saved)
			}
		}
	}
	n.forgets()
	n.is(Claiming)
}

// A leader that fell silent may lead until its lease has run out.
func TestNobodyClaimsDuringTheLease(t *testing.T) {
	n := storyOf(t, 2, Config{TakeoverDelay: 50 * time.Millisecond}, 1, 3)
	n.follows(3, 1)
	last := n.now
	for n.node.state != Claiming && n.now.Sub(last) < 5*time.Second {
		n.waits(time.Millisecond)
		n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
	}
	if after := n.now.Sub(last); after < 458*time.Millisecond || after > time.Second {
		t.Errorf("claims %v after the last heartbeat; lease and delay, for the fastest clock, take 458ms", after)
	}
}

// A voter that has lost its disk does not know whom it promised what, and grants
// nothing to anybody, however sure the claimant is of its roster.
func TestAVoterWithoutARosterGrantsNothing(t *testing.T) {
	n := storyOf(t, 1, Config{Expect: 3}, 2, 3)
	claim, question := n.actor(3).claims(1), n.actor(3).canvasses()
	claim.RosterVersion, question.FailedCounter = 1, 1
	n.hears(claim)
	n.expects("send n3 COORD_ACK verdict=not-voter")
	n.hears(question)
	n.expects("send n3 ANSWER verdict=ineligible")
}

// Whatever ends a leadership, the voters are free when its lease has ended: its lose
// hook has no longer (I9).
func TestEveryLoseHookEndsWithTheLease(t *testing.T) {
	for name, ends := range map[string]func(n *story){
		"superseded":  func(n *story) { n.hears(n.actor(2).heartbeat(8)) },
		"link lost":   func(n *story) { n.happens(LinkChanged{Up: false}) },
		"disk failed": func(n *story) { n.happens(SaveFailed{}) },
	} {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.leadsVoters(1)
		end := n.node.leaseEnd()
		ends(n)
		hooks := 0
		for _, e := range n.pending {
			if h, isHook := e.(StartHook); isHook && h.Hook == Lose {
				hooks++
				if h.By.IsZero() || h.By.After(end) {
					t.Errorf("%s: %v, %v before the lease ends", name, h, end.Sub(n.now))
				}
			}
		}
		if hooks != 1 {
			t.Errorf("%s: %d lose hooks", name, hooks)
		}
		n.forgets()
	}
}

// A copy of a CLAIM that was granted, held back by the network until another was:
// the answer of then would count as a promise of now (M3).
func TestACopyOfAnOvertakenClaimIsRefused(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.hearsAndForgets(n.actor(2).claims(1))
	n.waits(401 * time.Millisecond)
	n.forgets()
	n.hears(n.actor(3).claims(2))
	n.expects("save vote=2/n3", "→ wait", "send n3 COORD_ACK epoch=2/n3 verdict=accept")
	n.hears(n.actor(2).claims(1))
	n.expects("send n2 COORD_ACK epoch=2/n3 verdict=stale")
}

// An acknowledgement names what its sender has on disk: of another version it says
// nothing about the change that is offered.
func TestAnAcknowledgementOfAnotherRoster(t *testing.T) {
	n := voterOf(t, 4, Saved{}, 1, 2, 3)
	n.leadsVoters(2, 3)
	n.hasConfirmed()
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
	n.forgets()
	for _, number := range []int{2, 3} {
		n.hears(n.actor(number).replies(wire.Roster, wire.Frame{Kind: wire.RosterAck, AckVerdict: wire.Accept, RosterVersion: 16}))
		n.expects()
	}
}

// A roster without a voter in common with ours is of another cluster, or of another
// group that formed at the same time: two majorities that know nothing of each other.
func TestARosterOfStrangersIsRefused(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.follows(3, 1)
	n.hears(n.actor(3).roster(wire.Formed, 17, 4, 5, 6))
	n.expects("send n3 ROSTER_ACK verdict=not-voter version=1")
}

// The disk refused the epoch that this node made, so it never voted for itself: an
// old leader that is heard again has its word, and need not claim anew.
func TestAVoteThatNeverReachedTheDiskIsTakenBack(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.canvassed()
	n.fails = func(s Saved) bool { return s.Vote.Owner == hostID(3) }
	n.hears(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
	n.forgets()
	n.is(Observe)
	n.fails = nil
	n.hears(n.actor(2).claims(1))
	n.expects("save vote=1/n2", "send n2 COORD_ACK epoch=1/n2 verdict=accept flags=draining")
}

// A leader is one of its own voters: a newcomer's acknowledgement of a heartbeat
// sent between two beats must not carry the lease past its own promise, which the
// beats renew.
func TestALeaseEndsWithTheLeadersOwnPromise(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.leadsVoters(1)
	n.happens(MemberChanged{n.actor(2).member(Dead)})
	n.waits(50 * time.Millisecond)
	n.forgets()
	n.waits(45 * time.Millisecond)
	n.forgets()
	n.happens(MemberChanged{n.actor(2).member(Alive)})
	n.acks(2)
	n.forgets()
	if end, own := n.node.leaseEnd(), n.node.promise.Until; end.After(own) {
		t.Errorf("the lease ends %v after the promise to itself", end.Sub(own))
	}
}
