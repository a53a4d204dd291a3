package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Rules that a reader took out one at a time, without having read the tests, and that
// nothing noticed.

// doubts brings the node from following to the doubt about its silent leader.
func (s *story) doubts() {
	s.t.Helper()
	s.waits(s.node.suspectTimeout())
	s.forgets()
	s.is(Suspect)
}

// givesUp brings the node from following to the wait for its silent leader's lease.
func (s *story) givesUp() {
	s.t.Helper()
	s.doubts()
	for s.node.state == Suspect {
		s.waits(time.Millisecond)
		s.forgets()
	}
	s.is(Stagger)
}

// A leader that turns up in a new life leads no more, so its lease binds nobody who
// waits for its end (CE4, 4.5).
func TestCE4_ANewLifeEndsTheWaitForTheLease(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.givesUp()
	n.hears(n.actor(1).says(wire.Frame{Kind: wire.Query, Flags: wire.AckReq}))
	n.expects("send n1 CID")
	n.actor(3).incarnation, n.actor(3).nonce, n.actor(3).seq = 2, 3001, 0
	n.happens(MemberChanged{n.actor(3).member(Alive)})
	n.expectsSome("stagger → stagger cause=leader-restarted", "stagger → elect", "save counter=2", "elect → claim epoch=2/n2")
}

// The failure detector's word ends a doubt, and does not decide it: where most hear the
// leader, the silence is ours alone (E5).
func TestE5_MostOpinionsOutweighTheDetector(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.doubts()
	n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Epoch: n.actor(3).epoch(1), HeartbeatAge: 5, Standing: wire.Following}))
	n.happens(MemberChanged{n.actor(3).member(Dead)})
	n.expects("suspect → follow leader=n3 epoch=1/n3 cause=peers-hear-leader")
}

// Whoever doubts its leader tells a challenger how long it will take: it cannot
// announce itself before the leader's lease has ended (3.2).
func TestTheTimeThatADoubtTakesHasTheLease(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.doubts()
	lease := n.node.takeoverEnd().Sub(n.now)
	n.hears(n.actor(1).election(n.actor(3).epoch(1)))
	n.forgets()
	if answer := n.sent[len(n.sent)-1].Frame; answer.Kind != wire.Answer || answer.Verdict != wire.OK || spanOf(answer.ETA) < lease {
		t.Errorf("%v; the lease runs for %v", &answer, lease)
	}
}

// A voter that would grant says which counters it knows, and the claim is above them: a
// lower one would be refused, and bind those that know less for nothing (4.3).
func TestAClaimIsAboveWhatTheVotersKnow(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.canvassed()
	n.hears(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes, Epoch: wire.Epoch{Counter: 7}}))
	n.expectsSome("save counter=8", "elect → claim epoch=8/n3")
	n.forgets()
}

// A refusal that was under way since an earlier claim says nothing of this one, which
// would be given up for as long as that voter was bound then.
func TestARefusalCountsForItsClaimOnly(t *testing.T) {
	for _, tc := range []struct {
		name    string
		counter uint64
		want    State
	}{
		{"of this claim", 2, Stagger},
		{"of an earlier one", 1, Claiming},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := voterOf(t, 3, Saved{MaxCounter: 1}, 1, 2)
			n.claimed(1)
			n.hears(n.actor(2).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckLeased, Remain: 5000,
				Epoch: wire.Epoch{Counter: tc.counter, Owner: hostID(3)}}))
			n.waits(300 * time.Millisecond) // nobody is asked again by then
			n.forgets()
			n.is(tc.want)
		})
	}
}

// Whoever has said that it goes follows nobody in the moment that it is still there,
// though it acknowledges (4.5).
func TestWhoHasLeftFollowsNobody(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.happens(Command{Verb: Leave, Token: 4})
	n.expects("send n1 LEAVE", "send n3 LEAVE", "follow → observe cause=stopped", "reply ok")
	n.showsAll = true
	n.hears(n.actor(3).heartbeat(1))
	n.expects("send n3 HB_ACK")
	n.is(Observe)
}

// A leader that wakes just before its lease has ended gives its lose hook half a stop
// budget all the same: in available mode a release that was cut short would protect
// nobody, and in quorum mode the next leader's become hook starts then (4.5).
func TestALateLoseHookHasHalfTheStopBudget(t *testing.T) {
	for _, tc := range []struct {
		name   string
		leader func() *story
		after  time.Duration // the end of the lease
	}{
		{"available", func() *story { n := storyOf(t, 3, Config{}, 1, 2); n.leads(1); return n }, 40 * time.Millisecond},
		{"quorum", func() *story { n := voterOf(t, 3, Saved{}, 1, 2); n.leadsVoters(1); return n }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := tc.leader()
			end := n.node.leaseEnd()
			n.sleeps(end.Sub(n.now) - 10*time.Millisecond)
			n.happens(Tick{})
			n.expectsSome("lead → stopping cause=lease-expired", "stop hook", "lose hook"+by(end.Add(tc.after)))
			n.forgets()
		})
	}
}

// A question that was out when its node was frozen has the time for an answer that
// waits to be read (R12).
func TestR12_AQuestionOutlivesAFreeze(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.doubts()
	n.waits(20 * time.Millisecond) // asked for the last time
	n.forgets()
	n.sleeps(200 * time.Millisecond)
	n.happens(Tick{})
	n.expects("ignored frozen")
	n.hears(n.actor(3).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Epoch: n.actor(3).epoch(1), Standing: wire.Leading}))
	n.expects("suspect → follow cause=heard-leader")
}

// A voter that refuses a leader's change has a roster of its own; the leader, which has
// one too, is no stranger for that, and its change goes on (4.4).
func TestAChangeOutlivesARefusal(t *testing.T) {
	n := voterOf(t, 4, Saved{}, 1, 2, 3)
	n.leadsVoters(2, 3)
	n.hasConfirmed()
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
	n.expectsSome("save roster=17/3", "send n1 ROSTER", "send n2 ROSTER", "send n3 ROSTER")
	n.hears(n.actor(2).replies(wire.Roster, wire.Frame{Kind: wire.RosterAck, AckVerdict: wire.NotVoter, RosterVersion: 16}))
	n.hasRoster(3)
	n.hasRoster(1) // the third of the four before
	n.expects("reply ok")
	n.is(Lead)
}

// A first roster is a question to its voters: an observer writes none down (4.4).
func TestAFirstRosterIsProposedToItsVotersAlone(t *testing.T) {
	n := storyOf(t, 3, Config{Expect: 3}, 1, 2)
	n.actors[4] = &actor{s: n, number: 4, incarnation: 1, nonce: 4000}
	observer := n.actor(4).member(Alive)
	observer.Part = Observer
	n.happens(MemberChanged{observer})
	n.waits(1900 * time.Millisecond)
	n.forgets()
	n.waits(100 * time.Millisecond)
	n.expects("start → stagger", "stagger → elect", "send n1 ROSTER phase=proposed", "send n2 ROSTER phase=proposed")
}

// Whoever gave way expects the leader that it was told of to be heard: it may have died
// while the lose hook ran (R8).
func TestR8_WhoGaveWayExpectsToHearTheNextLeader(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(1)
	n.hears(n.actor(2).coordinator(9))
	n.expectsSome("lead → stopping cause=superseded")
	n.forgets()
	n.happens(HookEnded{Hook: Lose, Epoch: n.node.reign.epoch, OK: true})
	n.expectsSome("stopping → follow leader=n2 epoch=9/n2")
	n.forgets()
	n.waits(n.node.suspectTimeout())
	n.expects("follow → suspect cause=leader-silent", "send n1 PROBE", "send n2 PROBE")
}

// A host that is in no roster cannot lead, whatever part it takes, and the operator is
// told so (4.6).
func TestAHandOverToAHostOutsideTheRoster(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.leadsVoters(1)
	n.actors[5] = &actor{s: n, number: 5, incarnation: 1, nonce: 5000}
	n.happens(MemberChanged{n.actor(5).member(Alive)})
	n.happens(Command{Verb: HandOver, To: hostID(5), Token: 6})
	n.expects("reply " + ErrObserverMember.Error())
	n.is(Lead)
}

// A voter that hears its leader vouches for that one alone, and not for a counter that
// it has only heard of (R5).
func TestR5_AReplyVouchesForTheLeaderAlone(t *testing.T) {
	n := voterOf(t, 1, Saved{MaxCounter: 9, Accepted: wire.Epoch{Counter: 4, Owner: hostID(2)}}, 2, 3)
	n.follows(2, 5)
	n.hears(n.actor(3).claims(7))
	n.forgets()
	ack := n.lastTo(3, wire.CoordAck)
	if ack.AckVerdict != wire.AckStale || ack.Epoch.Counter != 9 || ack.Flags&wire.Fresh != 0 {
		t.Errorf("%v", &ack)
	}
	n.hears(n.actor(3).claims(4))
	n.forgets()
	ack = n.lastTo(3, wire.CoordAck)
	if ack.AckVerdict != wire.AckStale || ack.Epoch != n.actor(2).epoch(5) || ack.Flags&wire.Fresh == 0 {
		t.Errorf("of its leader: %v", &ack)
	}
}

// In a doubt somebody vouches for a leader that nobody here knows: that is no reason to
// forget the one that is doubted.
func TestAnOpinionOfAStrangerUnseatsNobody(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.doubts()
	n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Flags: wire.Fresh, HeartbeatAge: 5, Standing: wire.Following,
		Epoch: wire.Epoch{Counter: 2, Owner: hostID(7)}}))
	n.hears(n.actor(3).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Standing: wire.Leading, Epoch: n.actor(3).epoch(1)}))
	n.expects("suspect → follow leader=n3 epoch=1/n3 cause=heard-leader")
}

// A claim that waits for an acknowledgement is in force once nobody is there any more
// who would have to give one (M11).
func TestAClaimWhoseAudienceLeaves(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	for n.node.state != Claiming && n.now.Sub(n.zero) < 5*time.Second {
		n.hears(n.actor(1).says(wire.Frame{Kind: wire.Query}))
		n.forgets()
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	n.is(Claiming)
	n.happens(MemberChanged{n.actor(2).member(Left)})
	n.expects("save promoted=1/n3", "claim → lead leader=n3 epoch=1/n3", "become hook epoch=1/n3")
}

// A voter that may still be bound by a promise of its life before could not claim at
// once: it is not ready to take over (4.6).
func TestWhoIsInItsHoldIsNotReady(t *testing.T) {
	n := voterOf(t, 2, Saved{MaxCounter: 4, LongestPromise: 400 * time.Millisecond}, 1, 3)
	isReady := func() bool {
		n.hearsAndForgets(n.actor(3).heartbeat(5))
		n.hearsAndForgets(n.actor(3).says(wire.Frame{Kind: wire.Prepare, Flags: wire.AckReq, Epoch: n.actor(3).epoch(5)}))
		ready := n.lastTo(3, wire.Ready)
		return ready.IsReady
	}
	if isReady() {
		t.Error("ready in its hold")
	}
	n.waits(410 * time.Millisecond)
	n.forgets()
	if !isReady() {
		t.Error("not ready when the hold has ended")
	}
}

// A hand-over for which nobody was ready has ended: what the operator wanted of it, and who
// was not ready then, says nothing about the next.
func TestARefusedHandOverLeavesNothingBehind(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(1)
	n.happens(Command{Verb: HandOver, To: hostID(2), Token: 1})
	n.expects("send n2 PREPARE")
	n.hears(n.actor(2).replies(wire.Prepare, wire.Frame{Kind: wire.Ready}))
	n.expects("reply " + ErrNobodyReady.Error())
	n.happens(Command{Verb: Leave, Token: 2})
	n.expects("send n2 PREPARE")
	n.hears(n.actor(2).replies(wire.Prepare, wire.Frame{Kind: wire.Ready, IsReady: true}))
	n.expects("lead → stopping cause=stopped", "stop hook", "lose hook")
}

// The same in a round that a worse node set off before the lease had ended: when the
// better ones have kept silent there is nothing left to wait for (CE4).
func TestCE4_ANewLifeInARoundEndsTheWait(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3, 4)
	n.follows(4, 1)
	n.givesUp()
	release := n.node.takeoverEnd()
	n.hears(n.actor(1).election(n.actor(4).epoch(1)))
	n.forgets()
	n.is(Elect)
	n.actor(4).incarnation, n.actor(4).nonce, n.actor(4).seq = 2, 4001, 0
	n.happens(MemberChanged{n.actor(4).member(Alive)})
	n.waits(100 * time.Millisecond) // n3 has kept silent
	n.forgets()
	n.is(Claiming)
	if !n.now.Before(release) {
		t.Error("the lease had ended anyhow")
	}
}

// A preemption goes to those that may displace the leader, or to nobody: if the one that
// asked is not ready after all, no worse node gets the turn (4.6).
func TestAPreemptionFallsToNobodyElse(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1)
	n.leads(1)
	n.actors[3] = &actor{s: n, number: 3, incarnation: 1, nonce: 3000}
	n.happens(MemberChanged{n.actor(3).member(Alive)})
	n.hears(n.actor(3).says(wire.Frame{Kind: wire.Election, Flags: wire.AckReq, Reason: wire.Preempt, Epoch: n.node.epoch, FailedCounter: n.node.epoch.Counter}))
	n.expects("send n3 ANSWER verdict=ok", "send n3 PREPARE")
	n.hears(n.actor(3).replies(wire.Prepare, wire.Frame{Kind: wire.Ready}))
	n.expects()
	n.is(Lead)
}
