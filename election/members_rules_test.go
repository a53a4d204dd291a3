package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Rules of who is who (R2, 2.1) that could be broken without any other directed test
// noticing.

// What was heard of a former life says nothing about this one.
func TestANewLifeWasNotHeardYet(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
	if n.node.heardCount() != 1 {
		t.Errorf("heard %d others", n.node.heardCount())
	}
	n.actor(1).incarnation, n.actor(1).nonce = 2, 1111
	n.happens(MemberChanged{n.actor(1).member(Alive)})
	n.forgets()
	if n.node.heardCount() != 0 {
		t.Error("a life that has not said anything counts as heard")
	}
}

// Draining is what the latest frame says: whose hold-down has ended, or whose disk is
// well, may take over again.
func TestDrainingEnds(t *testing.T) {
	n := leading(t)
	n.hearsAndForgets(n.actor(2).says(wire.Frame{Kind: wire.Query, Flags: wire.Draining}))
	n.hearsAndForgets(n.actor(2).says(wire.Frame{Kind: wire.Query}))
	n.happens(Command{Verb: StepDown, Token: 4})
	n.expects("send n2 PREPARE")
}

// A priority is what its owner's frames say, sooner than gossip does.
func TestAPriorityIsItsOwnersWord(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	better := n.actor(1).says(wire.Frame{Kind: wire.Query})
	better.Priority = 9
	n.hearsAndForgets(better)
	if p := n.node.peer(hostID(1)); !n.node.isOutrankedBy(p) {
		t.Errorf("n1 says that its priority is 9, and is taken for %d", p.Priority)
	}
}

// A witness votes and never leads: with it alone there are not two that could.
func TestAWitnessIsNoMemberThatLeads(t *testing.T) {
	n := storyOf(t, 3, Config{MinMembers: 2}, 1)
	m := n.actor(1).member(Alive)
	m.Part = Witness
	n.happens(MemberChanged{m})
	n.forgets()
	for range 40 {
		n.waits(100 * time.Millisecond)
		n.forgets()
		n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
	}
	if n.node.saved.MaxCounter != 0 {
		t.Errorf("claimed, with one member that could lead: %s", n.node.state)
	}
}

// Two followers hear each other's frames only when one claims. So the next life of a
// leader that was given up must not wait to be heard: a successor that left it out of its
// claim had another claimant beside itself (sim, seed 2000045511).
func TestTheNextLifeOfTheGoneLeaderHearsTheClaim(t *testing.T) {
	restarts := func(n *story) {
		n.actor(1).incarnation, n.actor(1).nonce = 6, 66
		n.happens(MemberChanged{n.actor(1).member(Alive)})
	}
	for name, given := range map[string]func(n *story){
		"which began while another led": func(n *story) {
			n.node.loseLeader(ProcessGone, n.now)
			n.hearsAndForgets(n.actor(3).coordinator(2))
			restarts(n)
		},
		"which ended the leadership": func(n *story) {
			restarts(n)
			n.hearsAndForgets(n.actor(3).coordinator(2))
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := storyOf(t, 2, Config{Algorithm: Smallest}, 1, 3)
			n.follows(1, 1)
			given(n)
			n.is(Follow)
			n.hears(n.actor(3).says(wire.Frame{Kind: wire.Resign, Epoch: n.actor(3).epoch(2), Reason: wire.Transfer, Successor: hostID(2)}))
			n.expects("send n3 RESIGN_ACK", "follow → elect cause=handed-over", "save", "elect → claim", "send n1 COORDINATOR", "send n3 COORDINATOR")
		})
	}
	t.Run("but the contest that it began does not wait for it", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Smallest}, 1, 3)
		n.follows(1, 1)
		restarts(n)
		n.forgets()
		if n.node.isLiving(n.node.peer(hostID(1))) {
			t.Error("a host that is only starting is asked who is to lead")
		}
	})
}

// A process that ended while it led counts as gone beside the next that does, so that nobody waits for the answer of the
// first; but not for ever, since a follower that was wrong may never hear it. What it says itself is best.
func TestASecondDeathDoesNotBringTheFirstBack(t *testing.T) {
	dies := func(t *testing.T) *story {
		n := storyOf(t, 1, Config{}, 2, 3, 4)
		n.follows(4, 1)
		n.node.loseLeader(ProcessGone, n.now)
		n.hearsAndForgets(n.actor(3).coordinator(2))
		n.node.loseLeader(ProcessGone, n.now)
		n.forgets()
		return n
	}
	counts := func(n *story) bool { return n.node.isLiving(n.node.peer(hostID(4))) }
	n := dies(t)
	if counts(n) {
		t.Error("the first is asked who is to lead")
	}
	n.node.now = n.now.Add(goneFor)
	if !counts(n) {
		t.Error("the first is gone for ever")
	}
	n = dies(t)
	n.hearsAndForgets(n.actor(4).says(wire.Frame{Kind: wire.Election, Round: 1}))
	if !counts(n) {
		t.Error("the first is gone though it speaks")
	}
	n = dies(t)
	n.actor(4).incarnation, n.actor(4).nonce = 6, 66
	n.happens(MemberChanged{n.actor(4).member(Alive)})
	n.forgets()
	if !counts(n) {
		t.Error("its next life is gone")
	}
	n = dies(t)
	n.node.retry(NoAnswer)
	n.forgets()
	if !counts(n) {
		t.Error("it is not asked when a round came to nothing")
	}
}
