package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/wire"
)

// What random schedules found, each as the shortest story that shows it.

// The leader that n1 gave up came back as a follower that asks n1 to lead; n1
// went on counting it as gone, so two members were one too few for ever.
func TestAFormerLeaderThatSpeaksCounts(t *testing.T) {
	n := storyOf(t, 3, Config{MinMembers: 2}, 1)
	n.follows(1, 1)
	for n.node.state != Stagger && n.node.state != Elect {
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	for range 20 {
		n.waits(100 * time.Millisecond)
		n.forgets()
		n.hearsAndForgets(n.actor(1).election(n.actor(1).epoch(1)))
	}
	if n.node.state != Lead && n.node.state != Claiming {
		t.Errorf("in %s after two seconds with two members", n.node.state)
	}
}

// An opinion that names a leader we know nothing of left nobody to wait for.
func TestSuspectHearsOfAnUnknownLeader(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.waits(n.node.suspectTimeout())
	n.forgets()
	n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Flags: wire.Fresh, HeartbeatAge: 5,
		Standing: wire.Following, Epoch: wire.Epoch{Counter: 7, Owner: hostID(9)}}))
	n.forgets()
	n.hears(n.actor(3).says(wire.Frame{Kind: wire.Leave}))
	n.forgets()
	if n.node.Deadline().IsZero() {
		t.Errorf("waits for nothing in %s (I22)", n.node.state)
	}
}

// saveFails makes the next such Save fail, if one comes of the next verb.
func (s *story) saveFails(which func(Saved) bool) { s.fails = which }

// The disk fails at the claim: the epoch never left this node, and the next
// claim takes no lower one.
func TestDiskFailsAtTheClaim(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1)
	n.saveFails(func(Saved) bool { return true })
	n.waits(2 * time.Second)
	n.expects("send n1 QUERY", "send n1 QUERY", "start → stagger", "stagger → elect", "claim → observe cause=disk-failed")
	if !n.node.epoch.IsZero() {
		t.Errorf("shows epoch %v, which is not on disk", n.node.epoch)
	}
	n.happens(SaveRecovered{})
	n.forgets()
	if n.node.state != Lead || n.node.epoch.Counter < 2 {
		t.Errorf("%s %v after the disk recovered", n.node.state, n.node.epoch)
	}
}

// The claim is on disk and was heard; the disk fails at the promotion. No become
// hook ran, so no lose hook runs, and the claim is taken back.
func TestDiskFailsAtThePromotion(t *testing.T) {
	for _, acks := range []bool{false, true} { // in the step of the claim, or in a later one
		n := storyOf(t, 3, Config{}, 1)
		if acks {
			n = storyOf(t, 3, Config{}, 1, 2)
			n.waits(2*time.Second - 10*time.Millisecond)
			n.forgets()
			n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
			n.waits(10 * time.Millisecond)
			n.forgets()
			n.is(Claiming)
			n.saveFails(func(s Saved) bool { return !s.Promoted.IsZero() })
			n.hears(n.actor(1).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch}))
		} else {
			n.saveFails(func(s Saved) bool { return !s.Promoted.IsZero() })
			n.waits(2 * time.Second)
		}
		for _, e := range n.pending {
			if h, isHook := e.(StartHook); isHook {
				t.Errorf("later=%t: %v without a become hook (I8)", acks, h)
			}
		}
		if s := n.sent[len(n.sent)-1]; s.Frame.Kind != wire.Resign {
			t.Errorf("later=%t: the claim was not taken back: %v", acks, s)
		}
		n.forgets()
		n.is(Observe)
	}
}

// A slow disk holds the node past its lease and fails then.
func TestDiskFailsLate(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1)
	n.saveFails(func(Saved) bool { n.now = n.now.Add(5 * time.Second); return true })
	n.waits(2 * time.Second)
	for _, e := range n.pending {
		if h, isHook := e.(StartHook); isHook {
			t.Errorf("%v of an epoch that is not on disk", h)
		}
	}
	n.forgets()
	n.is(Observe)
}

// A leader that leaves alone with a full disk never answered its operator.
func TestLeaveWithAFullDisk(t *testing.T) {
	n := storyOf(t, 3, Config{})
	n.waits(2 * time.Second)
	n.forgets()
	n.is(Lead)
	n.happens(Command{Verb: Leave, Token: 4})
	n.forgets()
	n.happens(HookEnded{Hook: Lose, Epoch: n.node.epoch, OK: true})
	replied := false
	for _, e := range n.pending {
		if _, isSave := e.(Save); isSave {
			break // what follows it is dropped
		}
		_, isReply := e.(Reply)
		replied = replied || isReply
	}
	n.forgets()
	if !replied {
		t.Error("no reply before the Save that fails")
	}
}

// A leader that needed no acknowledgement hears two members again that the
// detector still calls dead. They had no chance to acknowledge.
func TestALeaderHearsTheDeadAgain(t *testing.T) {
	n := storyOf(t, 4, Config{}, 1, 2)
	for _, number := range []int{1, 2} {
		n.happens(MemberChanged{n.actor(number).member(Dead)})
		n.forgets()
	}
	n.waits(2 * time.Second)
	n.forgets()
	n.is(Lead)
	for _, number := range []int{1, 2} {
		n.hears(n.actor(number).says(wire.Frame{Kind: wire.Probe, Flags: wire.AckReq}))
		n.forgets()
	}
	n.waits(20 * time.Millisecond)
	n.expects()
	n.is(Lead)
}

// With min_acks = 1 and two hosts, the survivor became leader and let go at
// once, since it began to count the dead leader again.
func TestTheGoneLeaderIsNotWaitedFor(t *testing.T) {
	n := storyOf(t, 2, Config{MinAcks: 1}, 3)
	n.follows(3, 1)
	n.waits(2 * time.Second)
	n.forgets()
	if n.node.state != Lead || n.node.flaps.lost != nil {
		t.Errorf("%s, leaderships lost: %d", n.node.state, len(n.node.flaps.lost))
	}
}

// Two that led one after the other, cut off from each other meanwhile, gave each
// other up: whoever finds no quorum asks the former leader too, or neither would ever
// speak again.
func TestTheGoneLeaderIsAskedInTheNextRound(t *testing.T) {
	n := voterOf(t, 2, Saved{}, 1, 3)
	n.follows(3, 1)
	n.waits(450 * time.Millisecond)
	n.forgets()
	if n.questionsTo(1) == 0 || n.questionsTo(3) != 0 {
		t.Fatalf("in the first round n1 is asked %d times, the leader just given up %d times", n.questionsTo(1), n.questionsTo(3))
	}
	n.waits(2 * time.Second)
	n.forgets()
	if n.questionsTo(1) == 0 || n.questionsTo(3) == 0 {
		t.Errorf("n1 is asked %d times, n3 %d times", n.questionsTo(1), n.questionsTo(3))
	}
}

// questionsTo counts the questions whether this host would grant.
func (s *story) questionsTo(number int) (count int) {
	for _, sent := range s.sent {
		f := &sent.Frame
		if sent.To == (&host{number: number}).addr() && f.Kind == wire.Canvass {
			count++
		}
	}
	return count
}

// The lease counts from when the acknowledged claim was sent, not from when the
// acknowledgement came.
func TestLeaseCountsFromSending(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.waits(2*time.Second - 10*time.Millisecond)
	n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
	n.waits(10 * time.Millisecond)
	n.forgets()
	n.is(Claiming)
	sent := n.now
	n.now = n.now.Add(9 * time.Millisecond)
	n.hearsAndForgets(n.actor(1).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch}))
	n.is(Lead)
	if got, want := n.node.leaseEnd(), sent.Add(lease.LeaderLength(n.node.cfg.Lease)); !got.Equal(want) {
		t.Errorf("lease ends %v after what it should", got.Sub(want))
	}
}

// Everybody stops at once: the successor that a leaving leader has asked to get
// ready leaves before it answers. The leader waited for it for ever.
func TestSuccessorLeavesBeforeItIsReady(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.waits(2*time.Second - 10*time.Millisecond)
	n.forgets()
	n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
	n.waits(10 * time.Millisecond)
	n.forgets()
	n.hears(n.actor(1).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch}))
	n.forgets()
	n.is(Lead)
	n.happens(Command{Verb: Leave, Token: 4})
	n.forgets()
	for _, number := range []int{2, 1} {
		n.hears(n.actor(number).says(wire.Frame{Kind: wire.Leave}))
		n.forgets()
	}
	n.is(Stopping)
}

// TERM in the middle of a preemption whose successor dies: the leader stops all
// the same.
func TestLeaveDuringAPreemption(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 5)
	n.leads(1)
	n.hearsAndForgets(n.actor(5).says(wire.Frame{Kind: wire.Election, Reason: wire.Preempt, Epoch: n.node.epoch, Flags: wire.AckReq}))
	n.happens(Command{Verb: Leave, Token: 4})
	n.forgets()
	for range 200 {
		n.waits(50 * time.Millisecond)
		n.forgets()
		n.acks(1)
		n.forgets()
	}
	if n.node.state == Lead {
		t.Error("still leads 10 s after SIGTERM")
	}
}

// The lease is lost while the lose hook of a planned end runs: it is hurried.
func TestLeaseLostInAPlannedEnd(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(1)
	n.acks(1)
	n.forgets()
	n.happens(Command{Verb: Leave, Token: 4})
	n.forgets()
	n.hears(n.actor(2).replies(wire.Prepare, wire.Frame{Kind: wire.Ready, IsReady: true}))
	n.forgets()
	n.is(Stopping)
	for range 40 {
		n.waits(50 * time.Millisecond)
		for _, e := range n.pending {
			if _, ok := e.(HurryHook); ok {
				n.forgets()
				return
			}
		}
		n.forgets()
	}
	t.Error("lose hook never hastened though the lease ended", n.node.reign.ending)
}

// A NACK that names this node as the fresh owner: nobody learns from others that
// it leads.
func TestNackThatNamesUs(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1)
	n.leads(1)
	e := n.node.reign.epoch
	n.hearsAndForgets(n.actor(1).replies(wire.Heartbeat, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Flags: wire.Fresh, Epoch: wire.Epoch{Counter: 50, Owner: hostID(3)}}))
	n.happens(HookEnded{Hook: Lose, Epoch: e, OK: true})
	n.forgets()
	if n.node.state == Follow && n.node.epoch.Owner == hostID(3) {
		t.Error("follows itself")
	}
}

// A leader that was given up resigns after all: nobody waits out its delay.
func TestLateResignEndsTheWait(t *testing.T) {
	n := storyOf(t, 2, Config{TakeoverDelay: 30 * time.Second}, 1, 3)
	n.follows(3, 1)
	for n.node.state != Stagger {
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	n.hearsAndForgets(n.actor(3).says(wire.Frame{Kind: wire.Resign, Epoch: n.actor(3).epoch(1), Reason: wire.LeaseLost, Flags: wire.AckReq}))
	for range 20 {
		n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
		n.waits(100 * time.Millisecond)
		n.forgets()
	}
	if n.node.state == Stagger {
		t.Error("waits out the takeover delay of a leader that said its lose hook is done")
	}
}

// An epoch that never reached the disk is not promoted by the next save.
func TestUnsavedEpochIsNotPromoted(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1)
	n.saveFails(func(Saved) bool { return true })
	n.waits(2 * time.Second)
	n.forgets()
	n.happens(SaveRecovered{})
	for _, e := range n.pending {
		if s, ok := e.(Save); ok {
			if !s.State.Promoted.IsZero() && s.State.Promoted.Counter != s.State.MaxCounter {
				t.Error("save carries promoted of an epoch that was never in force:", s)
			}
			break
		}
	}
	n.forgets()
}

// Hosts with a new id at each start do not fill the table.
func TestEndedMembersAreForgotten(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1)
	for i := range 5000 {
		id := wire.ID{0: 9, 1: byte(i >> 8), 2: byte(i), 15: 1}
		m := Member{ID: id, Nonce: uint32(i), Incarnation: 1, Addr: n.actor(1).member(Alive).Addr, Status: Alive}
		n.happens(MemberChanged{m})
		n.forgets()
		m.Status = Dead
		n.happens(MemberChanged{m})
		n.forgets()
	}
	if got := len(n.node.peers); got > maxEnded+2 {
		t.Errorf("%d members are remembered", got)
	}
}

// A follower that was cut off is plugged in again at the end of its round: the
// answers that the cable held back come late, and say that a leader is heard.
// It took them for signs of life and claimed.
func TestLateAnswersStopAClaim(t *testing.T) {
	for _, late := range []wire.Frame{
		{Kind: wire.Answer, Verdict: wire.LeaderAlive, Flags: wire.Fresh},
		{Kind: wire.ProbeAck, Standing: wire.Following, Flags: wire.Fresh, HeartbeatAge: 10},
	} {
		n := storyOf(t, 1, Config{}, 2, 3, 4)
		n.follows(4, 1)
		for n.node.state != Elect {
			n.waits(10 * time.Millisecond)
			n.forgets()
		}
		late.Epoch, late.Round = n.actor(4).epoch(1), 1 // of an exchange that has ended
		n.hearsAndForgets(n.actor(2).says(late))
		n.is(Follow)
	}
}

// What a failed save keeps from being shown is shown with its failure.
func TestAStateThatWasNotShown(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.hearsAndForgets(n.actor(2).heartbeat(1))
	n.waits(410 * time.Millisecond)
	n.forgets()
	n.hears(n.actor(3).claims(2))
	n.expects("save vote=2/n3", "→ wait", "send n3 COORD_ACK")
	n.happens(SaveFailed{State: n.disk})
	n.expects("wait → observe cause=disk-failed")
	n.happens(SaveRecovered{})
	n.forgets()
	n.happens(HealthChanged{})
	n.expects()
}

// The disk takes longer for the promotion than the lease lasts: the node must not
// lead when it wakes up.
func TestAPromotionThatTookTooLong(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	n.saveFails(func(s Saved) bool {
		if !s.Promoted.IsZero() {
			n.now = n.now.Add(time.Second)
		}
		return false
	})
	n.grants(1)
	for _, e := range n.pending {
		if h, isHook := e.(StartHook); isHook {
			t.Errorf("%v after the lease had run out", h)
		}
	}
	n.forgets()
	n.waits(200 * time.Millisecond)
	n.is(Claiming)
	if n.node.reign.tries != 2 {
		t.Error("the claim is not repeated, though the disk has it now")
	}
	n.forgets()
	n.waits(maxClaims * time.Second)
	n.forgets()
	if !n.disk.Promoted.IsZero() {
		t.Errorf("the disk still holds the promotion of %v", n.disk.Promoted)
	}
}

// Granted again, such a claim leads: its promotion is on disk.
func TestASlowPromotionIsGrantedAgain(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	n.saveFails(func(s Saved) bool {
		if !s.Promoted.IsZero() {
			n.now = n.now.Add(time.Second)
		}
		return false
	})
	n.grants(1)
	n.forgets()
	n.waits(200 * time.Millisecond)
	n.forgets()
	n.grants(1)
	n.expects("claim → lead", "become hook")
}

// A leader that thaws shortly before its lease ends has no more than the rest of
// it for its lose hook: then the next leader's become hook starts (I9).
func TestALoseHookEndsWithTheLease(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	n.grants(1)
	n.forgets()
	end := n.node.leaseEnd()
	n.sleeps(end.Sub(n.now) - 20*time.Millisecond)
	n.happens(Tick{})
	for _, e := range n.pending {
		if h, isHook := e.(StartHook); isHook && h.By != end {
			t.Errorf("%v with 20 ms of the lease left", h)
		}
	}
	n.forgets()
	n.is(Stopping)
}

// Claiming anew keeps the voters bound, however long the lose hook takes.
func TestClaimingAnewKeepsTheLease(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	n.grants(1)
	n.forgets()
	n.acks(1)
	n.forgets()
	n.hears(n.actor(1).replies(wire.Heartbeat, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Epoch: n.actor(2).epoch(8)}))
	n.expects("lead → stopping cause=re-minted", "stop hook epoch=1/n3", "lose hook epoch=1/n3 cause=re-minted")
	beats := len(n.sent)
	n.waits(200 * time.Millisecond)
	n.expects()
	if len(n.sent) == beats {
		t.Error("no heartbeat while its lose hook runs")
	}
	n.happens(HookEnded{Hook: Lose, Epoch: n.node.reign.epoch, OK: true})
	n.expects("stopping → elect cause=re-minted", "send n1 CANVASS flags=ack-req", "send n2 CANVASS flags=ack-req", "save promoted=none")
}

// After a change that only few had on disk, a voter judges a claimant by the
// newer roster of the two, or nobody could lead.
func TestANewerRosterIsJudgedBy(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.actors[7] = &actor{s: n, number: 7, incarnation: 1, nonce: 7000}
	n.happens(MemberChanged{n.actor(7).member(Alive)})
	n.expects()
	question, claim := n.actor(7).canvasses(), n.actor(7).claims(1)
	question.RosterVersion, claim.RosterVersion = 17, 17
	n.hears(question)
	n.expects("send n7 ANSWER verdict=yes")
	n.hears(claim)
	n.expects("save vote=1/n7", "start → wait", "send n7 COORD_ACK verdict=accept")
}

// A member that left is back at another address at once: it said that it goes,
// so this is no copy of it.
func TestBackElsewhereAfterLeaving(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3)
	n.hearsAndForgets(n.actor(2).says(wire.Frame{Kind: wire.Query}))
	n.hearsAndForgets(n.actor(2).says(wire.Frame{Kind: wire.Leave}))
	back := n.actor(2).member(Alive)
	back.Addr, back.Incarnation, back.Nonce = n.actor(3).member(Alive).Addr, 2, 2222
	n.happens(MemberChanged{back})
	n.expects()
	if p := n.node.peer(hostID(2)); p.Nonce != 2222 || p.Status != Alive {
		t.Errorf("n2 is %v with nonce %d", p.Status, p.Nonce)
	}
}

// A member that was given up is back at another address. Frames of its former life,
// which a frozen node finds in its socket, do not make the new one a copy: nobody
// would ever report the end of the former again.
func TestBackElsewhereAfterItsEnd(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3)
	n.happens(MemberChanged{n.actor(2).member(Dead)})
	n.hearsAndForgets(n.actor(2).says(wire.Frame{Kind: wire.Query}))
	back := n.actor(2).member(Alive)
	back.Addr, back.Incarnation, back.Nonce = n.actor(3).member(Alive).Addr, 2, 2222
	n.happens(MemberChanged{back})
	n.expects()
	if p := n.node.peer(hostID(2)); p.Nonce != 2222 || p.Status != Alive {
		t.Errorf("n2 is %v with nonce %d", p.Status, p.Nonce)
	}
}

// A claim that was about to lead and is made again leaves nothing on disk that a
// restart would clean up after.
func TestAPromotionThatIsOvertaken(t *testing.T) {
	n := storyOf(t, 3, Config{MinAcks: 1}, 1, 2)
	n.waits(1950 * time.Millisecond)
	n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
	n.waits(50 * time.Millisecond)
	n.forgets()
	n.is(Claiming)
	granted := n.actor(1).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch})
	n.node.Step(n.now, Received{From: n.actor(1).member(Alive).Addr, Frame: granted})
	if n.node.saved.Promoted != n.node.epoch {
		t.Fatalf("promoted %v in epoch %v", n.node.saved.Promoted, n.node.epoch)
	}
	n.hears(n.actor(2).replies(wire.Coordinator,
		wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Epoch: n.actor(1).epoch(7)}))
	n.expects("save counter=8 promoted=none", "claim → claim epoch=8/n3", "send n1 COORDINATOR", "send n2 COORDINATOR")
}

// A leader that lost its lease and hears somebody again asks who leads before it
// claims: the others have a leader by now, whose heartbeat is still on its way.
func TestBackFromACutItAsksFirst(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(1)
	n.waits(time.Second) // nobody acknowledges
	n.forgets()
	n.is(Stopping)
	n.happens(HookEnded{Hook: Lose, Epoch: n.node.reign.epoch, OK: true})
	n.forgets()
	n.waits(390 * time.Millisecond)
	n.forgets()
	n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query})) // the cut has healed
	n.waits(12 * time.Millisecond)
	n.forgets()
	if n.node.state == Claiming || n.node.state == Lead {
		t.Fatalf("%s without having asked", n.node.state)
	}
	n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Flags: wire.Fresh, Epoch: n.actor(2).epoch(2), Standing: wire.Following}))
	n.forgets()
	n.is(Follow)
}
