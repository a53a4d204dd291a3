package election

import (
	"slices"
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

// It tells a node that waits for it already, and asks what keeps it.
func TestMended36_WhoAskedInVainSaysSoToWhoWaits(t *testing.T) {
	n := askedInVain(t, Classic)
	n.hears(n.actor(1).says(wire.Frame{Kind: wire.Query, Flags: wire.AckReq}))
	n.expects("send n1 ANSWER verdict=ineligible")
	n.is(Stagger)
}

// Who waited for it asks the others at once, and it no more.
func TestMended36_WhoAskedInVainIsWaitedForNoLonger(t *testing.T) {
	n := voterWith(t, 1, Config{}, Saved{}, 2, 3)
	for n.node.state != Elect {
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	n.hearsAndForgets(n.actor(3).replies(wire.Election, n.actor(3).ok(800)))
	n.is(Wait)
	for !n.node.exchanges.awaitsOf(hostID(3), wire.Query) {
		n.waits(10 * time.Millisecond)
	}
	n.forgets()
	n.hears(n.actor(3).replies(wire.Query, wire.Frame{Kind: wire.Answer, Verdict: wire.Ineligible}))
	n.is(Elect)
	n.expects("wait → elect", "send n2 ELECTION")
	if n.node.exchanges.awaitsOf(hostID(3), wire.Election) {
		t.Error("it asks the one that told it so")
	}
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
// same round: when nobody else is left the round starts again.
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
	for _, number := range []int{3, 2} {
		n.is(Wait)
		n.lastTo(number, wire.Nominate)
		for n.node.contest.helper == hostID(number) && n.node.state == Wait {
			n.waits(10 * time.Millisecond)
			for _, talks := range []int{2, 3} {
				n.hearsAndForgets(n.actor(talks).says(wire.Frame{Kind: wire.ProbeAck}))
			}
		}
	}
	n.is(Elect)
}

// A successor says that it is ready only once a majority of the voters was heard a moment
// ago: with the old leader's voters bound to nobody, it would stand in vain.
func TestMended36_ReadyWithAMajority(t *testing.T) {
	prepare := func(n *story, round uint32) wire.Frame {
		return n.actor(5).says(wire.Frame{Kind: wire.Prepare, Flags: wire.AckReq, Epoch: n.actor(5).epoch(1), Round: round})
	}
	n := voterOf(t, 4, Saved{}, 1, 2, 3, 5)
	n.follows(5, 1)
	n.waits(50 * time.Millisecond)
	n.hearsAndForgets(n.actor(5).heartbeat(1))
	n.hears(prepare(n, 1))
	n.expects("send n1 PROBE", "send n2 PROBE", "send n3 PROBE")
	n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Epoch: n.actor(5).epoch(1), Standing: wire.Following}))
	n.hears(prepare(n, 1)) // three of five: itself, the leader and n1
	n.expects("send n5 READY ready=true")
	for range 5 {
		n.waits(50 * time.Millisecond)
		n.hearsAndForgets(n.actor(5).heartbeat(1))
	}
	n.hears(prepare(n, 2)) // what n1 said is too long ago
	n.expects("send n1 PROBE", "send n2 PROBE", "send n3 PROBE")
}

// Who led before, and was given up, is a voter as the others: asked for a sign of life it may be the one that is missing.
func TestMended36_ReadyWithTheLastLeader(t *testing.T) {
	n := voterOf(t, 4, Saved{}, 1, 2, 3, 5)
	n.follows(1, 1)
	for n.node.state == Follow {
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	n.hearsAndForgets(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Epoch: n.actor(1).epoch(1), Standing: wire.Candidate}))
	n.happens(MemberChanged{n.actor(2).member(Dead)})
	n.happens(MemberChanged{n.actor(3).member(Dead)})
	n.forgets()
	n.follows(5, 2)
	prepare := func() wire.Frame {
		return n.actor(5).says(wire.Frame{Kind: wire.Prepare, Flags: wire.AckReq, Epoch: n.actor(5).epoch(2)})
	}
	n.hears(prepare())
	n.expects("send n1 PROBE")
	n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Epoch: n.actor(5).epoch(2), Standing: wire.Following}))
	n.hears(prepare())
	n.expects("send n5 READY ready=true")
}

// In available mode it must have heard as many as min_acks asks for: one that reached the leader
// alone was handed the lead, had no acknowledgements, and asked for its turn again.
func TestMended36_ReadyWithMinAcks(t *testing.T) {
	n := storyOf(t, 4, Config{MinAcks: 2}, 1, 2, 3, 5)
	n.follows(5, 1)
	prepare := n.actor(5).says(wire.Frame{Kind: wire.Prepare, Flags: wire.AckReq, Epoch: n.actor(5).epoch(1)})
	n.hears(prepare)
	n.expects("send n1 PROBE", "send n2 PROBE", "send n3 PROBE")
	n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Epoch: n.actor(5).epoch(1), Standing: wire.Following}))
	n.hears(n.actor(5).says(wire.Frame{Kind: wire.Prepare, Flags: wire.AckReq, Epoch: n.actor(5).epoch(1)}))
	n.expects("send n5 READY ready=true") // n1 and the leader
}

// By default the leader alone is enough.
func TestMended36_AvailableModeAsksNobody(t *testing.T) {
	n := storyOf(t, 4, Config{}, 1, 2, 3, 5)
	n.follows(5, 1)
	n.hears(n.actor(5).says(wire.Frame{Kind: wire.Prepare, Flags: wire.AckReq, Epoch: n.actor(5).epoch(1)}))
	n.expects("send n5 READY ready=true")
}

// overruledLeader is one of available mode that heard from n1 that n2 leads in a higher epoch,
// and that does not hear n2 itself.
func overruledLeader(t *testing.T) *story {
	t.Helper()
	n := storyOf(t, 5, Config{Preempt: PreemptAlways}, 1, 2, 3, 4)
	n.leads(1)
	n.forgets()
	n.hearsAndForgets(n.actor(1).replies(wire.Heartbeat, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Flags: wire.Fresh, Epoch: n.actor(2).epoch(8)}))
	n.loseHookEnds()
	n.forgets()
	n.is(Follow)
	return n
}

// concludes lets a node become suspicious, hear what these say of its leader's heartbeats, and
// come to its conclusion; it gives the state that it comes to.
func (s *story) concludes(fresh, stale []int) State {
	s.t.Helper()
	for s.node.state == Follow {
		s.waits(10 * time.Millisecond)
		s.forgets()
	}
	s.is(Suspect)
	for i, number := range append(slices.Clone(fresh), stale...) {
		age := uint32(5)
		if i >= len(fresh) {
			age = wire.AgeUnknown
		}
		s.hearsAndForgets(s.actor(number).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, HeartbeatAge: age, Epoch: s.node.epoch, Standing: wire.Following}))
	}
	for s.node.state == Suspect {
		s.waits(10 * time.Millisecond)
		s.forgets()
	}
	return s.node.state
}

// A leader that was overruled goes on following its successor as long as one member hears
// that: else the two would depose each other in turn.
func TestMended37_OneWordIsEnoughForWhoWasOverruled(t *testing.T) {
	n := overruledLeader(t)
	if got := n.concludes([]int{1}, []int{3, 4}); got != Follow {
		t.Errorf("it is in %v", got)
	}
}

// Who hears both may be an observer: its word on who leads overrules, so it is asked, too.
func TestMended37_WhoWasOverruledAsksObserversToo(t *testing.T) {
	n := overruledLeader(t)
	observer := n.actor(1).member(Alive)
	observer.Part = Observer
	n.happens(MemberChanged{observer})
	n.forgets()
	if got := n.concludes([]int{1}, []int{3, 4}); got != Follow {
		t.Errorf("it is in %v", got)
	}
}

// It stands when nobody hears a leader.
func TestMended37_WhoWasOverruledStandsWhereNobodyLeads(t *testing.T) {
	n := overruledLeader(t)
	if got := n.concludes(nil, []int{1, 3, 4}); got != Stagger {
		t.Errorf("it is in %v", got)
	}
}

// Whoever else hears no leader goes by the majority, as before: a leader that few hear is
// replaced, once.
func TestE4_OneOfThreeIsNoMajority(t *testing.T) {
	n := storyOf(t, 5, Config{}, 1, 2, 3, 4)
	n.follows(2, 1)
	if got := n.concludes([]int{1}, []int{3, 4}); got != Stagger {
		t.Errorf("it is in %v", got)
	}
}

// Nobody waits for it meanwhile.
func TestMended37_NobodyWaitsForWhoWasOverruled(t *testing.T) {
	n := overruledLeader(t)
	for n.node.state == Follow {
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	n.hears(n.actor(3).election(wire.Epoch{}))
	n.expects("send n3 ANSWER verdict=ineligible")
}

// Nor does it ask the next leader that it hears for its turn, which would depose the one that
// it does not hear; after half an hour it may.
func TestMended37_WhoWasOverruledAsksForNoTurn(t *testing.T) {
	n := overruledLeader(t)
	n.hearsAndForgets(n.actor(3).heartbeat(9))
	if n.node.timers[preemptTimer] != n.node.overruled.until || n.node.overruled.until.Sub(n.now) < 29*time.Minute {
		t.Errorf("it asks in %v", n.node.timers[preemptTimer].Sub(n.now))
	}
}

// The link that was cut is mended, or the host behind it is gone: it is a member like others.
func TestMended37_TheLinkIsBack(t *testing.T) {
	for name, ev := range map[string]func(n *story){
		"heard": func(n *story) { n.hearsAndForgets(n.actor(2).says(wire.Frame{Kind: wire.Query})) },
		"dead":  func(n *story) { n.happens(MemberChanged{n.actor(2).member(Dead)}) },
		"left":  func(n *story) { n.happens(MemberChanged{n.actor(2).member(Left)}) },
	} {
		t.Run(name, func(t *testing.T) {
			n := overruledLeader(t)
			ev(n)
			n.forgets()
			n.hearsAndForgets(n.actor(3).heartbeat(20))
			if wait := n.node.timers[preemptTimer].Sub(n.now); wait > time.Minute || wait <= 0 {
				t.Errorf("it asks in %v", wait)
			}
		})
	}
}

// Quorum mode has no second leader to depose: nobody backs off.
func TestMended37_QuorumModeBacksOffNever(t *testing.T) {
	n := voterOf(t, 5, Saved{}, 1, 2)
	n.claimed(1)
	n.grants(1)
	n.forgets()
	n.waits(0)
	n.forgets()
	n.is(Lead)
	n.hearsAndForgets(n.actor(1).replies(wire.Heartbeat, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Flags: wire.Fresh, Epoch: n.actor(2).epoch(8)}))
	if n.node.backsOff() {
		t.Error("it backs off")
	}
}

// The best of four has come to reach one other alone, and a leader needs two acknowledgements: it follows that one.
func TestMended36_TheBestReachesTheLeaderAlone(t *testing.T) {
	w := newWorld(t, 4, Config{MinAcks: 2, Preempt: PreemptAlways})
	for _, h := range w.hosts {
		w.boot(h)
	}
	w.runFor(5 * time.Second)
	for _, other := range []int{1, 2} {
		w.cuts[[2]int{4, other}], w.cuts[[2]int{other, 4}] = true, true
	}
	w.runFor(time.Minute)
	leaders := w.leaders()
	if len(leaders) != 1 || leaders[0].number != 3 || leaders[0].node.epoch.Counter > 3 {
		t.Errorf("after a minute %d lead:\n%s", len(leaders), tail(w.trace.String(), 20))
	}
}
