package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// A lease or a heartbeat above 65.5 s did not fit the wire: the acknowledgement of
// a lease of five minutes was worth one, and had ended before it was counted. There
// were thousands of leaderships in ten minutes, or in quorum mode none.
func TestLongTimersLead(t *testing.T) {
	for _, cfg := range []Config{
		{Lease: time.Minute}, {Lease: 5 * time.Minute}, {Lease: 10 * time.Minute},
		{Lease: 200 * time.Second, Heartbeat: 20 * time.Second, Settle: 40 * time.Second},
		{Lease: 10 * time.Minute, Heartbeat: time.Minute, Settle: 2 * time.Minute},
	} {
		for _, expect := range []int{0, 3} {
			cfg.Expect, cfg.MinAcks = expect, AutoMinAcks
			w := newWorld(t, 3, cfg)
			for _, h := range w.hosts {
				w.boot(h)
			}
			w.runUntil(w.now.Add(5*time.Minute), func() bool { return len(w.ascents) > 1 })
			if len(w.ascents) != 1 || !w.agreed() {
				t.Errorf("expect=%d lease=%v: %d leaderships, agreed %t", expect, cfg.Lease, len(w.ascents), w.agreed())
			}
		}
	}
}

// A delay of zero asks at once, and then no more often than the leader's own frames
// come: a better node woke without end while the leader's lose hook ran, and sent
// 33,000 questions in a second and a half.
func TestAPreemptDelayOfZeroIsNoStorm(t *testing.T) {
	n := storyOf(t, 3, Config{PreemptDelay: time.Nanosecond}, 1)
	n.waits(time.Second)
	n.forgets()
	n.hearsAndForgets(n.actor(1).heartbeat(1))
	for range 20 { // past the start's settling; the leader lets go, and still sends heartbeats
		n.waits(50 * time.Millisecond)
		n.forgets()
		n.hearsAndForgets(n.actor(1).heartbeat(1))
	}
	first := len(n.sent)
	for range 30 {
		n.waits(50 * time.Millisecond)
		n.forgets()
		n.hearsAndForgets(n.actor(1).heartbeat(1))
	}
	asked := 0
	for _, sent := range n.sent[first:] {
		if sent.Frame.Kind == wire.Election {
			asked++
		}
	}
	if asked < 7 || asked > 30 { // each question is sent up to three times, at least 200 ms apart
		t.Errorf("asked %d times in 1.5 s", asked)
	}
}

// A claimant that must be acknowledged by many asks as many for a sign of life, and
// waits for all their answers. The best asked three, gave up at the first answer,
// and a worse node led until it was displaced.
func TestAClaimantWaitsForAllThatItNeeds(t *testing.T) {
	for _, algorithm := range []Algorithm{Classic, Enhanced} {
		w := newWorld(t, 7, Config{Algorithm: algorithm, MinAcks: 7})
		for _, h := range w.hosts {
			w.boot(h)
		}
		w.runFor(4 * time.Second)
		w.die(w.host(7))
		w.runFor(3 * time.Second)
		if len(w.ascents) != 2 || w.ascents[1].Leader != hostID(6) {
			t.Errorf("%v: leaderships %v, want n7's and n6's", algorithm, w.ascents)
		}
	}
}
