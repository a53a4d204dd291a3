package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Rules of claims and their answers (protocol 4.3) that could be broken without any
// other directed test noticing.

// A voter has one voice in the question who would grant, however often it answers.
func TestAVoterAnswersOnce(t *testing.T) {
	n := voterOf(t, 5, Saved{}, 1, 2, 3, 4)
	n.canvassed()
	for range 2 {
		n.hearsAndForgets(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
	}
	n.is(Elect)
	n.hearsAndForgets(n.actor(2).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
	n.is(Claiming)
}

// An acknowledgement is of the leadership that it names: one of the former, which was
// on its way when its leader claimed anew, makes no lease of the next.
func TestAnAcknowledgementOfAFormerLeadership(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.leadsVoters(1)
	end := n.node.leaseEnd()
	n.waits(50 * time.Millisecond)
	n.forgets()
	former := n.node.epoch
	former.Counter--
	n.hears(n.actor(1).replies(wire.Heartbeat, wire.Frame{Kind: wire.HeartAck, Epoch: former}))
	n.expects("ignored late-ack")
	if got := n.node.leaseEnd(); !got.Equal(end) {
		t.Errorf("the lease ends %v later", got.Sub(end))
	}
}

// Whoever gives its claim up is not bound to itself any more (M4).
func TestMended04_AnAbandonedClaimBindsNobody(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	n.node.withdraw(ClaimUnheard)
	n.forgets()
	n.hears(n.actor(2).claims(n.node.saved.MaxCounter + 1))
	n.expectsSome("save vote=2/n2")
	n.is(Wait)
}

// A leader with fewer electable members than min_members lets go.
func TestTooFewMembersForALeader(t *testing.T) {
	n := storyOf(t, 3, Config{MinMembers: 2}, 1)
	n.leads(1)
	n.waits(500 * time.Millisecond)
	n.forgets()
	n.happens(MemberChanged{n.actor(1).member(Dead)})
	n.expects("lead → stopping cause=too-few-members", "stop hook", "lose hook")
}

// The better node that asked will claim as soon as its disk has the epoch: whoever said
// yes does not stand in between.
func TestAWorseNodeWaitsForTheClaimThatItWouldGrant(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.waits(2 * time.Second)
	n.forgets()
	n.is(Stagger)
	n.waits(n.node.timers[stateTimer].Sub(n.now) - time.Millisecond)
	n.hears(n.actor(3).canvasses())
	n.expects("send n3 ANSWER verdict=yes")
	n.waits(syncAllowance - time.Millisecond)
	n.expects()
	n.is(Stagger)
}

// An answer to a question that was never asked, or is answered already, wins nothing:
// whoever gave it may have lost all interest since.
func TestAnAnswerToNoQuestion(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3)
	for n.node.Status().State != Elect {
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	n.is(Elect)
	n.hearsAndForgets(n.actor(2).says(wire.Frame{Kind: wire.Answer, Verdict: wire.OK, Round: 99, EchoSeq: 99}))
	n.is(Elect)
}
