package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// crashing is a leader that followed n5 so many times, and saw it crash each time. n5 has just
// been started again.
func crashing(t *testing.T, times int) *story {
	t.Helper()
	n := storyOf(t, 3, Config{Preempt: PreemptAlways}, 1, 2, 5)
	for i := range times {
		n.follows(5, uint64(2*i+1))
		n.forgets()
		again := n.actor(5)
		again.incarnation, again.nonce = again.incarnation+1, again.nonce+1
		n.happens(MemberChanged{again.member(Alive)})
		n.forgets()
	}
	for n.node.state != Claiming {
		n.waits(10 * time.Millisecond)
		n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
	}
	n.hearsAndForgets(n.actor(1).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch}))
	n.is(Lead)
	return n
}

// asksForItsTurn says what the leader answers, and whether it prepares a hand-over.
func (s *story) asksForItsTurn(number int) wire.Verdict {
	s.t.Helper()
	s.hearsAndForgets(s.actor(number).says(wire.Frame{Kind: wire.Election, Flags: wire.AckReq, Reason: wire.Preempt, Epoch: s.node.epoch, FailedCounter: s.node.epoch.Counter}))
	return s.lastTo(number, wire.Answer).Verdict
}

// goesOn lets a leader go on for a while, acknowledged.
func (s *story) goesOn(d time.Duration) {
	s.t.Helper()
	for end := s.now.Add(d); s.now.Before(end); {
		s.waits(50 * time.Millisecond)
		for _, number := range []int{1, 2} {
			s.acks(number)
		}
		s.forgets()
	}
	s.is(Lead)
}

// A process that crashes forgets that it did; who saw it lose the lead does not, and gives way
// only once it has lived for as long as its losses make it wait.
func TestMended38_WhoCrashesWaitsForItsTurn(t *testing.T) {
	n := crashing(t, 3)
	n.goesOn(6 * time.Second)
	if v := n.asksForItsTurn(5); v != wire.LeaderAlive {
		t.Errorf("three crashes, and six seconds later: %v", v)
	}
	n.goesOn(3 * time.Second)
	if v := n.asksForItsTurn(5); v != wire.OK {
		t.Errorf("three crashes, and nine seconds later: %v", v)
	}
}

// The wait counts from its last start, though its last loss is long ago.
func TestMended38_TheWaitCountsFromTheLastStart(t *testing.T) {
	n := crashing(t, 3)
	n.goesOn(20 * time.Second)
	again := n.actor(5)
	again.incarnation, again.nonce = again.incarnation+1, again.nonce+1
	n.happens(MemberChanged{again.member(Alive)})
	n.forgets()
	n.goesOn(time.Second)
	if v := n.asksForItsTurn(5); v != wire.LeaderAlive {
		t.Errorf("a second after its start: %v", v)
	}
}

// Who never lost the lead gets its turn at once.
func TestMended38_WhoLostNothingWaitsForNothing(t *testing.T) {
	if v := crashing(t, 0).asksForItsTurn(5); v != wire.OK {
		t.Errorf("without a loss: %v", v)
	}
}
