package transport

import (
	"testing"
	"time"
)

// Ten thousand frames a second of one member: its own are dropped, and nobody else's.
func TestCase51AFloodLosesItsOwnFrames(t *testing.T) {
	const perSecond, atOnce = 2000, 512
	s := NewShares(perSecond, atOnce)
	flooder, other := [16]byte{7: 1}, [16]byte{7: 2}
	for s.place(other) == s.place(flooder) {
		other[7]++
	}
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

// Addresses of one LAN, which differ in their last byte, are on places that have nothing to do with each other's.
func TestNeighboursHaveDifferentPlaces(t *testing.T) {
	const lans, hosts = 1000, 8
	crowded := 0 // LANs of which three hosts are on one place
	for range lans {
		s, on := NewShares(1, 1), map[*time.Time]int{}
		for i := range hosts {
			on[s.place([16]byte{10: 0xff, 11: 0xff, 12: 10, 15: byte(97 + i)})]++
		}
		for _, n := range on {
			if n > 2 {
				crowded++
			}
		}
	}
	if crowded > 10 { // of 1,000; by chance, once
		t.Errorf("%d of %d LANs have three of %d hosts on one place", crowded, lans, hosts)
	}
}
