package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// ready is a's answer to the leader that wants to hand over to it.
func (a *actor) ready(isReady bool) wire.Frame {
	return a.replies(wire.Prepare, wire.Frame{Kind: wire.Ready, IsReady: isReady})
}

// leading gives host 3 of three, which leads in epoch 1; both others acknowledge
// it.
func leading(t *testing.T) *story {
	t.Helper()
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(1)
	n.acks(1)
	n.acks(2)
	n.forgets()
	return n
}

// loseHookEnds ends the lose hook that runs.
func (s *story) loseHookEnds() {
	s.t.Helper()
	s.happens(HookEnded{Hook: Lose, Epoch: s.node.reign.epoch, OK: true})
}

// The operator named a successor that will not: nobody else is asked, and the
// leader goes on as if nothing had been.
func TestHandOverToOneThatIsNotReady(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: HandOver, To: hostID(1), Token: 4})
	n.expects("send n1 PREPARE epoch=1/n3")
	n.hears(n.actor(1).ready(false))
	n.expects("reply " + ErrNobodyReady.Error())
	n.hears(n.actor(1).ready(true)) // a copy that changed its mind: the operator has his answer
	n.expects("ignored late-reply")
	n.is(Lead)
	n.happens(Command{Verb: HandOver, To: hostID(2), Token: 5}) // and may ask again
	n.expects("send n2 PREPARE")
}

// Whoever steps down hands over to anybody: the best that is ready, by its own
// word or by its silence.
func TestStepDownGoesToTheNextBest(t *testing.T) {
	for name, declines := range map[string]func(*story){
		"the best is not ready": func(n *story) { n.hears(n.actor(2).ready(false)) },
		"the best is silent": func(n *story) {
			for n.node.reign.transfer.to == hostID(2) {
				n.forgets()
				n.acks(1)
				n.forgets()
				n.waits(5 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := leading(t)
			n.happens(Command{Verb: StepDown, For: time.Second, Token: 4})
			n.expects("send n2 PREPARE")
			declines(n)
			n.forgets()
			n.lastTo(1, wire.Prepare)
			n.hears(n.actor(1).ready(true))
			n.expects("lead → stopping cause=stepped-down", "stop hook", "lose hook cause=stepped-down")
		})
	}
}

// Nobody is ready: a leader that was asked to step down goes on rather than leave
// the group without one.
func TestStepDownFindsNobody(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: StepDown, Token: 4})
	n.forgets()
	n.hears(n.actor(2).ready(false))
	n.expects("send n1 PREPARE")
	n.hears(n.actor(1).ready(false))
	n.expects("reply " + ErrNobodyReady.Error())
	n.is(Lead)
	if held := n.node.Status().Held; !held.IsZero() {
		t.Errorf("stands for nothing until %v though it leads", held)
	}
}

// One change at a time: what comes meanwhile is refused, and changes nothing.
func TestOneHandOverAtATime(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: HandOver, To: hostID(9), Token: 3})
	n.expects("reply " + ErrUnknownMember.Error())
	n.happens(Command{Verb: HandOver, To: hostID(1), Token: 4})
	n.forgets()
	n.happens(Command{Verb: HandOver, To: hostID(2), Token: 5})
	n.expects("reply " + ErrBusy.Error())
	n.hears(n.actor(1).ready(true))
	n.expects("lead → stopping", "stop hook", "lose hook")
	n.happens(Command{Verb: StepDown, Token: 6})
	n.expects("reply " + ErrBusy.Error())
	n.loseHookEnds()
	n.expects("send n1 RESIGN successor=n1", "send n2 RESIGN successor=n1", "stopping → stagger cause=leader-resigned", "save promoted=none")
	n.hears(n.actor(1).heartbeat(2))
	n.expects("stagger → follow leader=n1", "reply ok")
}

// A better node that asks for its turn while the leader prepares to go is told
// that it is being dealt with, and is not prepared twice.
func TestPreemptionDuringAHandOver(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 5)
	n.leads(1)
	asks := func() wire.Frame {
		return n.actor(5).says(wire.Frame{Kind: wire.Election, Reason: wire.Preempt, Epoch: n.node.epoch, Flags: wire.AckReq})
	}
	n.hears(asks())
	n.expects("send n5 ANSWER verdict=ok", "send n5 PREPARE")
	n.hears(asks())
	n.expects("send n5 ANSWER verdict=ok")
}

// Its hold ends READY's word: the same answer cannot be used for a later
// hand-over, whoever delayed it.
func TestReadyAnswersItsOwnQuestion(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: HandOver, To: hostID(1), Token: 4})
	early := n.actor(1).ready(true)
	n.forgets()
	for range 8 {
		n.waits(25 * time.Millisecond)
		n.forgets()
		n.acks(2)
		n.forgets()
	}
	n.happens(Command{Verb: HandOver, To: hostID(1), Token: 5})
	n.expects("send n1 PREPARE")
	n.hears(early)
	n.expects("ignored late-reply")
	n.is(Lead)
}

// Leadership is lost before the successor has answered: the operator hears so
// when it is known who leads, for nothing was handed over.
func TestLeadershipLostWhileHandingOver(t *testing.T) {
	t.Run("another leads already", func(t *testing.T) {
		n := leading(t)
		n.happens(Command{Verb: HandOver, To: hostID(1), Token: 4})
		n.forgets()
		n.hears(n.actor(2).heartbeat(8))
		n.expects("lead → stopping cause=superseded", "stop hook", "lose hook")
		n.hears(n.actor(1).ready(true))
		n.expects("ignored late-reply")
		n.loseHookEnds()
		n.expects("stopping → follow leader=n2 cause=superseded", "reply "+ErrLostMeanwhile.Error(), "save")
	})
	t.Run("the lease ends in the planned stop", func(t *testing.T) {
		n := leading(t)
		n.happens(Command{Verb: HandOver, To: hostID(1), Token: 4})
		n.forgets()
		n.hears(n.actor(1).ready(true))
		n.forgets()
		n.waits(500 * time.Millisecond)
		n.expects("hurry hook epoch=1/n3")
		n.loseHookEnds()
		n.expects("send n1 RESIGN reason=lease-lost successor=n1", "send n2 RESIGN", "stopping → stagger", "save")
		n.hears(n.actor(1).heartbeat(2))
		n.expects("stagger → follow leader=n1", "reply "+ErrLostMeanwhile.Error())
	})
	t.Run("it leads again itself", func(t *testing.T) {
		n := leading(t)
		n.happens(Command{Verb: HandOver, To: hostID(1), Token: 4})
		n.forgets()
		n.hears(n.actor(1).ready(true))
		n.forgets()
		n.loseHookEnds()
		n.forgets()
		for n.node.state != Claiming && n.now.Sub(n.zero) < 10*time.Second { // n1 has died
			n.hearsAndForgets(n.actor(2).says(wire.Frame{Kind: wire.Query}))
			n.waits(10 * time.Millisecond)
			n.forgets()
		}
		n.hears(n.actor(2).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch}))
		n.expects("save promoted=2/n3", "claim → lead epoch=2/n3", "reply "+ErrLostMeanwhile.Error(), "become hook epoch=2/n3")
	})
}

// While the lose hook of a planned stop runs, the lease is still renewed: whoever
// asks is told that the leader lives, and nobody stands.
func TestAChallengeDuringAPlannedStop(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: HandOver, To: hostID(1), Token: 4})
	n.forgets()
	n.hears(n.actor(1).ready(true))
	n.forgets()
	n.hears(n.actor(2).election(n.node.epoch))
	n.expects("send n2 ANSWER epoch=1/n3 verdict=leader-alive")
}

// Nobody took over: the host that stepped down keeps out of it for as long as it
// was told to, and then stands like anybody.
func TestTheHoldDownEnds(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: StepDown, For: 3 * time.Second, Token: 4})
	n.forgets()
	n.hears(n.actor(2).ready(true))
	n.forgets()
	n.loseHookEnds()
	n.forgets()
	n.is(Observe)
	n.hears(n.actor(1).election(wire.Epoch{}))
	n.expects("send n1 ANSWER verdict=ineligible flags=draining")
	n.waits(2900 * time.Millisecond)
	n.forgets() // RESIGN is repeated
	n.is(Observe)
	n.waits(100 * time.Millisecond)
	n.expects("observe → stagger cause=hold-ended", "stagger → elect", "send PROBE purpose=opinion", "send PROBE purpose=opinion")
}

// A hold-down outlives the node: the next life stands when what is left of it is
// over, and says so to whoever asks meanwhile.
func TestTheHoldDownOutlivesALife(t *testing.T) {
	n := storyOf(t, 3, Config{HoldDown: 4 * time.Second}, 1, 2)
	n.hears(n.actor(1).election(wire.Epoch{}))
	n.expects("send n1 ANSWER verdict=ineligible flags=draining")
	n.waits(3900 * time.Millisecond)
	n.forgets() // it asks for a leader
	n.is(Observe)
	n.waits(100 * time.Millisecond)
	n.expects("observe → stagger cause=hold-ended", "stagger → elect", "send n2 PROBE purpose=opinion", "send n1 PROBE purpose=opinion")
}

// With a known minimum nothing needs to settle, but a hold-down is waited for.
func TestTheKnownMinimumIsHeldDown(t *testing.T) {
	n := storyOf(t, 1, Config{Algorithm: Smallest, KnownMinimum: 1, HoldDown: 4 * time.Second}, 2, 3)
	n.waits(3900 * time.Millisecond)
	n.forgets()
	if s := n.node.Status(); s.State == Claiming || s.State == Lead || s.Held.IsZero() {
		t.Errorf("state %v, held until %v", s.State, s.Held)
	}
}

// The operator has thought better of it.
func TestStand(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: StepDown, For: time.Hour, Token: 4})
	n.forgets()
	n.hears(n.actor(2).ready(true))
	n.forgets()
	n.loseHookEnds()
	n.forgets()
	n.waits(3 * time.Second)
	n.forgets()
	n.is(Observe)
	n.happens(Command{Verb: Stand, Token: 5})
	n.expects("observe → stagger cause=hold-ended", "reply ok", "stagger → elect", "send n2 PROBE purpose=opinion", "send n1 PROBE purpose=opinion")
	if held := n.node.Status().Held; !held.IsZero() {
		t.Errorf("held until %v", held)
	}
	n.happens(Command{Verb: Stand, Token: 6}) // it stands already
	n.expects("reply ok")
}

// A host that follows when its hold-down ends takes its turn by the policy, and
// not at once.
func TestTheHoldDownEndsUnderALeader(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: StepDown, For: time.Second, Token: 4})
	n.forgets()
	n.hears(n.actor(2).ready(true))
	n.forgets()
	n.loseHookEnds()
	n.forgets()
	for range 40 {
		n.hearsAndForgets(n.actor(2).heartbeat(2))
		n.waits(50 * time.Millisecond)
		for _, e := range n.pending {
			if sent, ok := e.(Send); ok && sent.Frame.Kind == wire.Election && n.now.Sub(n.node.followedAt) < time.Second {
				t.Errorf("%v while it was to stay out", sent)
			}
		}
		n.forgets()
	}
	n.is(Follow)
}

// SIGTERM while the operator's step-down is on its way: the leader hands over to
// whom it has prepared, and goes when everybody knows.
func TestLeaveDuringAStepDown(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: StepDown, For: time.Second, Token: 4})
	n.expects("send n2 PREPARE")
	n.happens(Command{Verb: Leave, Token: 7})
	n.expects()
	n.hears(n.actor(2).ready(true))
	n.expects("lead → stopping cause=stepped-down", "stop hook", "lose hook")
	n.happens(Command{Verb: Leave, Token: 8}) // an impatient second one
	n.expects("reply ok")
	n.loseHookEnds()
	n.expects("send n1 RESIGN successor=n2", "send n2 RESIGN successor=n2", "save promoted=none")
	n.hears(n.actor(1).replies(wire.Resign, wire.Frame{Kind: wire.ResignAck}))
	n.expects()
	n.hears(n.actor(2).replies(wire.Resign, wire.Frame{Kind: wire.ResignAck}))
	for token, want := range map[uint64]int{7: 1, 8: 0} {
		if got := n.replies(token); got != want {
			t.Errorf("command %d was answered %d times", token, got)
		}
	}
	n.forgets()
	n.is(Observe)
}

// replies is how often this command was answered by what came of the last verb.
func (s *story) replies(token uint64) int {
	count := 0
	for _, e := range s.pending {
		if r, isReply := e.(Reply); isReply && r.Token == token {
			count++
		}
	}
	return count
}

// SIGTERM while the lose hook of a step-down runs already.
func TestLeaveAfterAStepDown(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: HandOver, To: hostID(2), Token: 4})
	n.forgets()
	n.hears(n.actor(2).ready(true))
	n.forgets()
	n.happens(Command{Verb: Leave, Token: 7})
	n.expects()
	n.is(Stopping)
	n.loseHookEnds()
	n.expects("send n1 RESIGN successor=n2", "send n2 RESIGN successor=n2", "save promoted=none")
	n.waits(time.Second) // they are told four times, and then it goes
	n.forgets()
	n.is(Observe)
}

// SIGTERM while claiming: the claim is taken back, or the others would wait for a
// leader that has gone.
func TestLeaveWhileClaiming(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	n.happens(Command{Verb: Leave, Token: 7})
	n.expects("send n1 RESIGN epoch=1/n3 reason=abandoned", "send n2 RESIGN reason=abandoned", "claim → observe cause=stopped",
		"send n1 LEAVE", "send n2 LEAVE", "observe → observe cause=stopped", "reply ok")
	n.grants(1)
	n.expects()
}

// Exactly one Reply follows a Command: an operator whose step-down ends in a stop,
// is answered too.
func TestAnOwedReplyComesWhenTheNodeGoes(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: HandOver, To: hostID(2), Token: 4})
	n.forgets()
	n.hears(n.actor(2).ready(true))
	answered := n.replies(4)
	n.forgets()
	n.happens(Command{Verb: Leave, Token: 7})
	answered += n.replies(4)
	n.forgets()
	n.loseHookEnds()
	answered += n.replies(4)
	n.forgets()
	for _, number := range []int{1, 2} {
		n.hears(n.actor(number).replies(wire.Resign, wire.Frame{Kind: wire.ResignAck}))
		answered += n.replies(4)
		n.forgets()
	}
	n.is(Observe)
	if answered != 1 {
		t.Errorf("the hand-over was answered %d times", answered)
	}
}

// A follower that missed heartbeats asks the leader while its lose hook runs. It is told
// that the leader leads, as those know that hear the heartbeats: RESIGN says when it does
// not. Told otherwise it would lead beside the hook.
func TestAPlannedEndIsNoResignation(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: HandOver, To: hostID(2), Token: 4})
	n.expects("send n2 PREPARE")
	n.hears(n.actor(2).ready(true))
	n.expects("lead → stopping cause=stepped-down", "stop hook", "lose hook cause=stepped-down")
	n.hears(n.actor(1).says(wire.Frame{Kind: wire.Probe, Purpose: wire.AskLeader, Epoch: n.node.epoch}))
	n.expects("send n1 PROBE_ACK")
	if f := n.sent[len(n.sent)-1].Frame; f.Standing != wire.Leading || f.Epoch != n.node.epoch {
		t.Errorf("it says that it is %v in epoch %v", f.Standing, f.Epoch)
	}
}
