package election

import (
	"testing"
	"time"
)

// A leader is told of each member that acknowledges its leadership for the first time, and late, as a rival does that gives way after a
// heal: of each once, and of none that has followed from the beginning (M41).
func TestM41_ReachedLate(t *testing.T) {
	s := storyOf(t, 4, Config{}, 1, 2, 3)
	s.leads(1)
	s.acks(2) // as it should
	goOn := func(d time.Duration) {
		for range int(d / (50 * time.Millisecond)) {
			s.waits(50 * time.Millisecond)
			s.acks(1)
			s.acks(2)
		}
	}
	goOn(s.node.cfg.Lease + 100*time.Millisecond)
	s.hears(s.actor(3).heartbeat(s.node.epoch.Counter)) // of the two epochs its own is the lower
	s.expects("send n3 COORD_ACK verdict=stale")        // it has not given way yet
	s.acks(3)
	s.expects("reached n3")
	goOn(time.Second)
	s.acks(3)
}

// Another leadership reaches everybody anew, and its first lease is its beginning.
func TestM41_TheFirstLeaseIsTheBeginning(t *testing.T) {
	s := storyOf(t, 3, Config{}, 1, 2)
	s.leads(1)
	for range 7 {
		s.waits(50 * time.Millisecond)
		s.acks(1)
	}
	s.acks(2)
}
