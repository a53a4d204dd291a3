package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// beatsTo counts the heartbeats that this host was sent since the first of
// these sends.
func (s *story) beatsTo(number, since int) (count int, interval uint32) {
	for _, sent := range s.sent[since:] {
		if sent.Frame.Kind == wire.Heartbeat && sent.To == (&host{number: number}).addr() {
			count, interval = count+1, sent.Frame.Interval
		}
	}
	return count, interval
}

// In a group of more than 64 the leader sends every heartbeat to the seven best
// only, from whom it has its acknowledgements, and one a second to the others:
// its traffic must not grow with n at every beat. Each is told the interval that
// it will see, or the slow ones would suspect a leader in good health.
func TestHeartbeatsOfALargeGroup(t *testing.T) {
	var others []int
	for number := 2; number <= 71; number++ {
		others = append(others, number)
	}
	n := storyOf(t, 90, Config{}, others...)
	n.leads(71)
	first := len(n.sent)
	for range 40 { // two seconds
		n.acks(71)
		n.forgets()
		n.waits(50 * time.Millisecond)
		n.forgets()
	}
	n.is(Lead)
	for _, number := range others {
		count, interval := n.beatsTo(number, first)
		switch isFast := number > 71-candidatesFew; {
		case isFast && (count < 39 || count > 41 || interval != 50):
			t.Errorf("n%d, one of the best: %d heartbeats in 2 s, announced every %d ms", number, count, interval)
		case !isFast && (count < 1 || count > 2 || interval != 1000):
			t.Errorf("n%d: %d heartbeats in 2 s, announced every %d ms", number, count, interval)
		}
	}
}

// In quorum mode the voters are who renews the lease, witnesses too: a large
// audience of observers must not slow the leader's beat to them.
func TestHeartbeatsToTheVotersOfALargeGroup(t *testing.T) {
	var watching []int
	for number := 10; number <= 80; number++ {
		watching = append(watching, number)
	}
	n := voterOf(t, 3, Saved{}, 1, 2)
	witness := n.actor(1).member(Alive)
	witness.Part = Witness
	n.happens(MemberChanged{witness})
	for _, number := range watching {
		n.actors[number] = &actor{s: n, number: number, incarnation: 1, nonce: uint32(1000 * number)}
		m := n.actor(number).member(Alive)
		m.Part = Observer
		n.happens(MemberChanged{m})
	}
	n.forgets()
	n.happens(MemberChanged{n.actor(2).member(Dead)})
	n.leadsVoters(1)
	for range 40 {
		n.acks(1)
		n.forgets()
		n.waits(50 * time.Millisecond)
		n.forgets()
	}
	n.is(Lead)
}
