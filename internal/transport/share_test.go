package transport

import (
	"testing"
	"time"
)

// Ten thousand frames a second of one member: its own are dropped, and nobody else's.
func TestCase51AFloodLosesItsOwnFrames(t *testing.T) {
	const perSecond, atOnce = 2000, 512
	s := NewShares(perSecond, atOnce)
	s.mix = 1 // so that the two do not fall on one place
	flooder, other := [16]byte{7: 1}, [16]byte{7: 2}
	now, passed := time.Unix(1000, 0), 0
	for i := range 50_000 { // five seconds
		now = now.Add(100 * time.Microsecond)
		if s.Take(flooder, now) {
			passed++
		}
		if i%500 == 0 && !s.Take(other, now) { // a heartbeat
			t.Fatalf("the other's frame is dropped after %d", i)
		}
	}
	if want := 5*perSecond + atOnce; passed > want+1 || passed < want-1 {
		t.Errorf("%d frames of the flood have passed, want %d", passed, want)
	}
	if n := testing.AllocsPerRun(100, func() { s.Take(flooder, now) }); n != 0 {
		t.Errorf("allocates %v times", n)
	}
}
