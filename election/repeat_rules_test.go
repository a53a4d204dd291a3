package election

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/wire"
)

// copiesTo gives the heartbeats that were sent to a host since the last call.
func (s *story) copiesTo(number int) []wire.Frame {
	var out []wire.Frame
	for _, e := range s.sent {
		if e.Frame.Kind == wire.Heartbeat && e.To == (&host{number: number}).addr() {
			out = append(out, e.Frame)
		}
	}
	return out
}

// beats lets the node send its next heartbeat, and forgets what it sent before.
func (s *story) beats() {
	s.t.Helper()
	s.waits(s.node.timers[beatTimer].Sub(s.now) - time.Nanosecond)
	s.forgets()
	s.sent = nil
	s.waits(time.Nanosecond)
	s.forgets()
}

// Whoever has acknowledged gets no repetition, whoever has not two: after RTO, which is
// 10 ms here, and two RTO more. Each has a number of its own and says how late it is.
func TestM35_AHeartbeatIsRepeatedToWhoDoesNotAnswer(t *testing.T) {
	n := leading(t)
	n.beats()
	n.acks(1)
	n.waits(49 * time.Millisecond)
	n.forgets()
	if got := n.copiesTo(1); len(got) != 1 {
		t.Errorf("who acknowledged was sent %d heartbeats, want the one", len(got))
	}
	got := n.copiesTo(2)
	if len(got) != 3 {
		t.Fatalf("who did not acknowledge was sent %d heartbeats, want one and two repetitions", len(got))
	}
	for i, late := range []uint32{0, 10, 30} {
		f := got[i]
		if f.Late != late || f.Flags&wire.Retx != 0 != (i > 0) || i > 0 && f.Seq == got[i-1].Seq {
			t.Errorf("copy %d: %v", i, &f)
		}
	}
}

// However long the interval is, a heartbeat is sent three times at most.
func TestM35_TwiceAtMost(t *testing.T) {
	n := storyOf(t, 3, Config{Heartbeat: time.Second}, 1, 2)
	n.leads(1)
	n.beats()
	n.waits(999 * time.Millisecond)
	n.forgets()
	if got := n.copiesTo(1); len(got) != 3 {
		t.Errorf("sent %d times", len(got))
	}
}

// A repetition's acknowledgement is worth a lease from when that copy was sent, and the
// first copy's from when that one was.
func TestM35_ARepetitionCountsFromItsOwnSending(t *testing.T) {
	n := leading(t)
	n.beats()
	sent := n.now
	n.waits(20 * time.Millisecond)
	n.forgets()
	copies := n.copiesTo(2)
	for i, at := range []time.Duration{0, 10 * time.Millisecond} {
		n.hears(n.actor(2).says(wire.Frame{Kind: wire.HeartAck, Epoch: n.node.epoch, EchoSeq: copies[i].Seq}))
		n.forgets()
		if end, want := n.node.leaseEnd(), sent.Add(at+lease.LeaderLength(400*time.Millisecond)); !end.Equal(want) {
			t.Errorf("after the answer to copy %d the lease ends %v later than that copy's", i, end.Sub(want))
		}
	}
}

// An answer to the heartbeat before says nothing about the last, which may be lost.
func TestM35_ALateAnswerEndsNoRepetitions(t *testing.T) {
	n := leading(t)
	n.beats()
	late := n.actor(2).replies(wire.Heartbeat, wire.Frame{Kind: wire.HeartAck, Epoch: n.node.epoch})
	n.beats()
	late.Seq = n.actor(2).seq + 1
	n.hearsAndForgets(late)
	n.waits(45 * time.Millisecond)
	n.forgets()
	if got := n.copiesTo(2); len(got) < 2 {
		t.Errorf("the last heartbeat was sent %d times", len(got))
	}
}

// What a leader sends when its lease has run out would prolong promises to one that has
// let go. The repetitions that it meant to send are not sent.
func TestM35_NothingIsRepeatedAfterTheLease(t *testing.T) {
	n := storyOf(t, 3, Config{StopBudget: 137 * time.Millisecond}, 1, 2)
	n.leads(1)
	n.beats()
	n.acks(2)
	n.forgets()
	n.acks(1) // good for 255 ms: the repetitions of a heartbeat would follow 10 and 30 ms after the fifth
	n.waits(256 * time.Millisecond)
	n.forgets()
	n.is(Stopping)
	ack := n.actor(1).replies(wire.Heartbeat, wire.Frame{Kind: wire.HeartAck, Epoch: n.node.epoch})
	n.sent = nil
	n.hearsAndForgets(ack) // it comes too late, and the other's has not come
	n.waits(time.Second)
	n.forgets()
	if late := append(n.copiesTo(1), n.copiesTo(2)...); len(late) > 0 {
		t.Errorf("sent after the lease: %v", &late[0])
	}
}

// A follower that has fallen silent is sent no repetitions after two leases; that it
// comes back is found out by the heartbeats.
func TestM35_NothingIsRepeatedToTheSilent(t *testing.T) {
	n := leading(t)
	for range 16 {
		n.beats()
		n.acks(1)
	}
	n.beats()
	n.acks(1)
	n.waits(45 * time.Millisecond)
	n.forgets()
	if got := n.copiesTo(2); len(got) != 1 {
		t.Errorf("silent for 850 ms, it was sent %d copies", len(got))
	}
}

// In quorum mode the acknowledgement of a host that is no voter lends the leader nothing.
func TestM35_OnlyVotersAreSentRepetitions(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.leadsVoters(1)
	n.actors[5] = &actor{s: n, number: 5, incarnation: 1, nonce: 5000}
	n.happens(MemberChanged{n.actor(5).member(Alive)})
	n.hearsAndForgets(n.actor(5).says(wire.Frame{Kind: wire.Query}))
	n.beats()
	n.waits(45 * time.Millisecond)
	n.forgets()
	if voter, other := n.copiesTo(1), n.copiesTo(5); len(voter) != 3 || len(other) != 1 {
		t.Errorf("the voter was sent %d copies, the other %d; want 3 and 1", len(voter), len(other))
	}
}

// A leader that acts on the acknowledgement of a repetition is a voter, too, and bound
// to itself as long (M4).
func TestM35_ARepetitionRenewsTheLeadersOwnPromise(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.leadsVoters(1)
	n.beats()
	n.waits(10 * time.Millisecond)
	n.forgets()
	n.acks(1)
	n.forgets()
	if end, want := n.node.leaseEnd(), n.now.Add(lease.LeaderLength(400*time.Millisecond)); !end.Equal(want) {
		t.Errorf("the lease ends %v after the repetition's", end.Sub(want))
	}
}

// A follower's suspicion goes by the rhythm of the heartbeats. Copies that come beside
// the first, or in its place, do not change that.
func TestM35_RepetitionsDoNotFeedThePulse(t *testing.T) {
	for name, lost := range map[string]func(beat int) bool{
		"the answers are lost":                  func(int) bool { return false },
		"each other first copy is lost":         func(beat int) bool { return beat%2 == 0 },
		"all first copies but a few are lost":   func(beat int) bool { return beat%5 > 0 },
		"the first copies of ten beats at once": func(beat int) bool { return beat%20 < 10 },
	} {
		t.Run(name, func(t *testing.T) {
			n := storyOf(t, 2, Config{}, 1, 3)
			n.follows(3, 1)
			for beat := range 60 {
				late := uint32(20)
				n.waits(30 * time.Millisecond)
				if !lost(beat) {
					n.hearsAndForgets(n.actor(3).heartbeat(1))
				}
				n.waits(20 * time.Millisecond)
				f := n.actor(3).heartbeat(1)
				f.Late, f.Flags = late, f.Flags|wire.Retx
				n.hearsAndForgets(f)
			}
			if mean, dev := n.node.pulse.mean, n.node.pulse.deviation; mean < 49*time.Millisecond || mean > 51*time.Millisecond || dev > time.Millisecond {
				t.Errorf("the rhythm of 50 ms is taken for %v, give or take %v", mean, dev)
			}
		})
	}
}

// A lease of five heartbeats lasts through the loss of every fifth datagram. Without
// repetitions the leader changes ten times and more in these five minutes.
func TestM35_LossCostsNoLeader(t *testing.T) {
	w := newWorld(t, 5, Config{Expect: 5, Lease: 250 * time.Millisecond, StopBudget: 60 * time.Millisecond, MinAcks: AutoMinAcks})
	for _, h := range w.hosts {
		w.boot(h)
	}
	w.runFor(10 * time.Second)
	before := len(w.ascents)
	w.weather = weather{rng: rand.New(rand.NewPCG(5, 6)), loss: 0.2, jitter: time.Millisecond}
	w.runFor(5 * time.Minute)
	if changes := len(w.ascents) - before; changes > 1 {
		t.Errorf("%d changes of leader", changes)
	}
}

// A round trip that rises from 2 to 100 ms at once leaves the leader where it is: it
// remembers when it sent what is answered only now.
func TestM35_TheMemoryOfSendingsOutlastsTheRoundTrip(t *testing.T) {
	w := newWorld(t, 5, Config{Expect: 5, MinAcks: AutoMinAcks, Preempt: PreemptNever})
	for _, h := range w.hosts {
		w.boot(h)
	}
	w.runFor(10 * time.Second)
	before := len(w.ascents)
	w.delay = 50 * time.Millisecond
	w.runFor(30 * time.Second)
	if leaders := len(w.leaders()); leaders != 1 || len(w.ascents)-before > 1 {
		t.Errorf("%d lead, after %d changes", leaders, len(w.ascents)-before)
	}
}
