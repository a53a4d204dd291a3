package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// askedInVain brings a voter of five to ask the others whether they would grant it the lead.
// None of them answers that, though they may talk to it of other things.
func askedInVain(t *testing.T, algorithm Algorithm) *story {
	t.Helper()
	n := voterWith(t, 4, Config{Algorithm: algorithm}, Saved{}, 1, 2, 3, 5)
	n.happens(MemberChanged{n.actor(5).member(Dead)})
	n.forgets()
	n.canvassed()
	for n.node.state == Elect {
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	n.is(Stagger)
	return n
}

// Who has asked the voters in vain is waited for by nobody: the worse starter may reach
// voters that it does not.
func TestMended36_WhoAskedInVainIsNotWaitedFor(t *testing.T) {
	n := askedInVain(t, Classic)
	n.hears(n.actor(1).election(wire.Epoch{}))
	n.expects("send n1 ANSWER verdict=ineligible")
	n.is(Stagger)
}

// Nor does it take a nomination; the starter goes on to the next best.
func TestMended36_WhoAskedInVainTakesNoNomination(t *testing.T) {
	n := askedInVain(t, Enhanced)
	n.hears(n.actor(1).says(wire.Frame{Kind: wire.Nominate, Flags: wire.AckReq, Reason: wire.NoLeader}))
	n.expects("ignored nomination-declined")
}

// Once the voters say yes it stands like anybody.
func TestMended36_AMajorityThatAnswersIsAskedNoMore(t *testing.T) {
	n := askedInVain(t, Classic)
	for n.node.state != Elect {
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	for _, number := range []int{1, 2} {
		n.hearsAndForgets(n.actor(number).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
	}
	n.is(Claiming)
	n.hears(n.actor(1).election(wire.Epoch{}))
	n.expectsSome("send n1 ANSWER verdict=ok")
}

// Who was named and goes on talking without announcing itself is not named again in the
// same round.
func TestMended36_WhoLetANominationPassIsStruckOff(t *testing.T) {
	n := voterWith(t, 1, Config{Algorithm: Enhanced}, Saved{}, 2, 3, 4, 5)
	for _, number := range []int{4, 5} {
		n.happens(MemberChanged{n.actor(number).member(Dead)})
	}
	for n.node.state != Elect {
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	n.hearsAndForgets(n.actor(2).replies(wire.Election, wire.Frame{Kind: wire.Answer, Verdict: wire.OK}))
	n.hearsAndForgets(n.actor(3).replies(wire.Election, wire.Frame{Kind: wire.Answer, Verdict: wire.OK}))
	n.is(Wait)
	for range 30 {
		n.waits(10 * time.Millisecond)
		n.hearsAndForgets(n.actor(3).says(wire.Frame{Kind: wire.ProbeAck})) // it talks
	}
	n.lastTo(2, wire.Nominate)
}

// A successor says that it is ready only once a majority of the voters was heard a moment
// ago: with the old leader's voters bound to nobody, it would stand in vain.
func TestMended36_ReadyWithAMajority(t *testing.T) {
	prepare := func(n *story) wire.Frame {
		return n.actor(5).says(wire.Frame{Kind: wire.Prepare, Flags: wire.AckReq, Epoch: n.actor(5).epoch(1)})
	}
	n := voterOf(t, 4, Saved{}, 1, 2, 3, 5)
	n.follows(5, 1)
	n.waits(50 * time.Millisecond)
	n.hearsAndForgets(n.actor(5).heartbeat(1))
	n.hears(prepare(n))
	n.expects("send n1 PROBE", "send n2 PROBE", "send n3 PROBE")
	n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Epoch: n.actor(5).epoch(1), Standing: wire.Following}))
	n.hears(prepare(n)) // three of five: itself, the leader and n1
	n.expects("send n2 PROBE", "send n3 PROBE", "send n5 READY ready=true")
	for range 5 {
		n.waits(50 * time.Millisecond)
		n.hearsAndForgets(n.actor(5).heartbeat(1))
	}
	n.hears(prepare(n)) // what n1 said is too long ago
	n.expects("send n1 PROBE", "send n2 PROBE", "send n3 PROBE")
}

// In available mode nobody's grant is needed.
func TestMended36_AvailableModeAsksNobody(t *testing.T) {
	n := storyOf(t, 4, Config{}, 1, 2, 3, 5)
	n.follows(5, 1)
	n.hears(n.actor(5).says(wire.Frame{Kind: wire.Prepare, Flags: wire.AckReq, Epoch: n.actor(5).epoch(1)}))
	n.expects("send n5 READY ready=true")
}
