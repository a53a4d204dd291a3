package agent

import (
	"net/netip"
	"testing"
)

// Every address of 127.0.0.0/8 is the loopback interface's, though that has one alone; an address that nobody has is none's.
func TestMTUOfLoopback(t *testing.T) {
	one, other := mtuOf(netip.MustParseAddr("127.0.0.1")), mtuOf(netip.MustParseAddr("127.81.3.9"))
	if one == 0 || one != other {
		t.Errorf("127.0.0.1 has an MTU of %d, 127.81.3.9 of %d", one, other)
	}
	if got := mtuOf(netip.MustParseAddr("203.0.113.77")); got != 0 {
		t.Errorf("an address that is not here has an MTU of %d", got)
	}
}
