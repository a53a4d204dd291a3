package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Rules of rounds, waits and their evidence (protocol 2.5, 6.4, 7) that could be broken
// without any other directed test noticing.

// T_coord is extended three times at most: a better node that answers every question
// and never leads is done without, and not asked again in the next round.
func TestCE3_ABetterNodeThatNeverLeads(t *testing.T) {
	n := electing(t)
	for n.node.state != Claiming && n.now.Sub(n.zero) < 20*time.Second {
		for _, sent := range n.sent {
			switch {
			case sent.To != n.actor(3).member(Alive).Addr:
			case sent.Frame.Kind == wire.Election:
				n.hearsAndForgets(n.actor(3).says(wire.Frame{Kind: wire.Answer, Verdict: wire.OK, ETA: 10, Round: sent.Frame.Round, EchoSeq: sent.Frame.Seq}))
			case sent.Frame.Kind == wire.Query:
				n.hearsAndForgets(n.actor(3).says(wire.Frame{Kind: wire.Cid, Round: sent.Frame.Round, EchoSeq: sent.Frame.Seq}))
			}
		}
		n.sent = nil
		n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
		n.waits(5 * time.Millisecond)
		n.forgets()
	}
	n.is(Claiming)
}

// RESIGN concerns an epoch that has ended: it is repeated to whoever has not
// acknowledged it, though its sender follows the next leader by then.
func TestR10_ResignIsRepeatedUnderTheNextLeader(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: HandOver, To: hostID(2), Token: 4})
	n.forgets()
	n.hears(n.actor(2).ready(true))
	n.forgets()
	n.loseHookEnds()
	n.forgets()
	n.hears(n.actor(2).replies(wire.Resign, wire.Frame{Kind: wire.ResignAck}))
	n.hearsAndForgets(n.actor(2).heartbeat(2))
	n.is(Follow)
	before := n.lastTo(1, wire.Resign)
	n.waits(60 * time.Millisecond)
	n.forgets()
	if again := n.lastTo(1, wire.Resign); again.Seq == before.Seq {
		t.Error("n1 was told once")
	}
}

// Each copy of a claim renews the others' promises, and the claimant's to itself: an
// answer to the last copy is worth as much as one to the first.
func TestMended10_TheLastCopyIsGranted(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	n.waits(310 * time.Millisecond)
	n.forgets()
	n.grants(1)
	n.forgets()
	n.is(Lead)
}

// A round trip during which this node was frozen says nothing about the network.
func TestAFreezeIsNoRoundTrip(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.waits(n.node.suspectTimeout())
	n.forgets()
	n.is(Suspect)
	was := n.node.rto(n.node.peer(hostID(1)))
	n.sleeps(150 * time.Millisecond)
	n.happens(Tick{})
	n.forgets()
	n.hearsAndForgets(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Standing: wire.Following}))
	if got := n.node.rto(n.node.peer(hostID(1))); got != was {
		t.Errorf("the timeout went from %v to %v", was, got)
	}
}

// A lag puts timers off that are due, and brings none forward.
func TestR12_ALagBringsNothingForward(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.sleeps(600 * time.Millisecond) // the question for a leader was due
	n.happens(Tick{})
	n.forgets()
	n.waits(1399 * time.Millisecond)
	n.forgets()
	n.is(Start)
}

// E7 counts only together with E1: a host also refuses for an agent that restarts.
func TestE7_CountsOnlyWithE1(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.waits(n.node.suspectTimeout())
	n.forgets()
	n.happens(refusedBy(n.actor(3)))
	n.expects("ignored old-tether")
	n.is(Suspect)
}

// A leader whose link is gone has for its lose hook what is left of its lease, in
// available mode too: then the others take over.
func TestALoseHookWithoutALink(t *testing.T) {
	n := leading(t)
	end := n.node.leaseEnd()
	n.happens(LinkChanged{Up: false})
	for _, e := range n.pending {
		if h, isHook := e.(StartHook); isHook && (h.By.IsZero() || h.By.After(end)) {
			t.Errorf("%v with %v left of the lease", h, end.Sub(n.now))
		}
	}
	n.forgets()
	n.is(Stopping)
}

// A host without a link stands for nothing as long as it has none, also when the detector has given up all others.
func TestWhoHasNoLinkStandsForNothing(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.happens(LinkChanged{Up: false})
	n.waits(3 * time.Second)
	n.forgets()
	n.is(Observe)
	n.happens(MemberChanged{n.actor(2).member(Dead)})
	n.expects()
	n.happens(MemberChanged{n.actor(1).member(Left)})
	n.waits(time.Minute)
	n.expects()
	n.happens(LinkChanged{Up: false}) // a switch that starts has its ports up and down
	n.expects()
	n.is(Observe)
}

// Who stood without a link listens as at a start when it is back: others may lead.
func TestWhoStoodWithoutALinkListens(t *testing.T) {
	n := storyOf(t, 3, Config{MinMembers: 2})
	n.happens(LinkChanged{Up: false})
	n.waits(3 * time.Second)
	n.forgets()
	n.is(Stagger)
	n.happens(LinkChanged{Up: true})
	n.expects("stagger → stagger cause=link-back")
	since := n.node.since
	n.waits(n.node.cfg.Settle - time.Millisecond)
	if n.node.state != Stagger || n.node.since != since {
		t.Errorf("%s since %v", n.node.state, n.node.since.Sub(since))
	}
	n.forgets()
}

// Whose link is back listens for a lease, and as at a start where the failure detector had given up everybody: it must be
// heard by those that lead first.
func TestWhoseLinkIsBackListens(t *testing.T) {
	for _, given := range []bool{false, true} {
		n := storyOf(t, 3, Config{}, 1)
		n.happens(LinkChanged{Up: false})
		n.waits(3 * time.Second)
		n.forgets()
		want := n.node.cfg.Lease
		if given {
			n.happens(MemberChanged{n.actor(1).member(Dead)})
			want = n.node.cfg.Settle
		}
		n.forgets()
		n.happens(LinkChanged{Up: true})
		n.expects("observe → stagger cause=link-back")
		n.waits(want - time.Millisecond)
		n.is(Stagger)
		n.waits(time.Second)
		n.forgets()
		if n.node.state == Stagger {
			t.Errorf("given up %t: it does not stand after %v", given, want)
		}
	}
}

// Who kept silent in one round is asked again in the next, or two parts of a network
// that meet would never speak.
func TestTheSilentAreAskedAgain(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3)
	n.waits(20 * time.Second)
	n.forgets()
	rounds := map[uint32]bool{}
	for _, sent := range n.sent {
		if sent.Frame.Kind == wire.Election && sent.To == n.actor(3).member(Alive).Addr {
			rounds[sent.Frame.Round] = true
		}
	}
	if len(rounds) < 2 {
		t.Errorf("n3 was asked in %d rounds", len(rounds))
	}
}

// The pause between rounds that come to nothing doubles up to five seconds, in quorum
// mode to one.
func TestThePauseBetweenRoundsIsBounded(t *testing.T) {
	for _, n := range []*story{storyOf(t, 3, Config{}, 1, 2), voterOf(t, 3, Saved{}, 1, 2)} {
		want := maxBackoff
		if n.node.isQuorum() {
			want = maxQuorumBackoff
		}
		n.waits(time.Minute)
		n.forgets()
		if got := n.node.contest.backoff; got != want {
			t.Errorf("pauses for %v, want %v", got, want)
		}
	}
}

// A better node that cannot lead now, held down or without a disk, does not get its
// turn by asking for it.
func TestADrainingNodeDoesNotPreempt(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 5)
	n.leads(1)
	n.hears(n.actor(5).says(wire.Frame{Kind: wire.Election, Reason: wire.Preempt, Epoch: n.node.epoch, Flags: wire.AckReq | wire.Draining}))
	n.expects("send n5 ANSWER verdict=leader-alive")
}

// Each leadership that a node loses doubles the wait before it asks for its turn again.
func TestALostLeadershipDoublesTheWait(t *testing.T) {
	n := leading(t)
	n.hears(n.actor(2).heartbeat(8))
	n.expects("lead → stopping cause=superseded", "stop hook", "lose hook")
	if got := n.node.preemptDelay(); got != 2*n.node.cfg.PreemptDelay {
		t.Errorf("waits %v", got)
	}
	n.loseHookEnds()
	n.expects("stopping → follow leader=n2", "save promoted=none")
}

// Who is asked by a worse node need not wait for its rank's turn: the better ones have
// been asked too.
func TestWhoIsAskedDoesNotStagger(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3, 5)
	n.follows(5, 1)
	n.waits(n.node.suspectTimeout())
	n.forgets()
	n.is(Suspect)
	n.hearsAndForgets(n.actor(1).election(n.actor(5).epoch(1)))
	for n.node.state == Suspect {
		n.waits(time.Millisecond)
		n.forgets()
	}
	n.is(Stagger)
	if wait := n.node.timers[stateTimer].Sub(n.node.contest.release); wait != 0 {
		t.Errorf("stands %v after the old lease has ended", wait)
	}
}

// Before its settling is over a node stands for no first election, whatever it has been
// through: others are still starting.
func TestAFirstElectionWaitsForTheSettling(t *testing.T) {
	n := voterOf(t, 2, Saved{}, 1, 3)
	n.hearsAndForgets(n.actor(3).claims(1))
	n.is(Wait)
	abandoned := n.actor(3).resigns(1)
	abandoned.Reason = wire.Abandoned
	n.hearsAndForgets(abandoned)
	n.waits(time.Second)
	n.forgets()
	n.is(Stagger)
	if got := n.node.timers[stateTimer]; got.Before(n.node.settleEnd) {
		t.Errorf("stands %v before its settling has ended", n.node.settleEnd.Sub(got))
	}
}

// A host that was frozen while it listened at its start has the leader's frames of that
// time in its socket: it looks at them before it stands.
func TestR12_ALagBeforeTheFirstElection(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1)
	n.sleeps(3 * time.Second)
	n.happens(Tick{})
	n.forgets()
	n.is(Start)
	n.hears(n.actor(1).heartbeat(1))
	n.expects("start → follow leader=n1")
}
