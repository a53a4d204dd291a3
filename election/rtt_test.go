package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// A round trip that the lease does not bear is shown, the longest of them, and no other.
func TestStatusNamesWhoIsTooFar(t *testing.T) {
	n := leading(t)
	if got := n.node.cfg.LongestRoundTrip().Round(time.Millisecond); got != 342*time.Millisecond {
		t.Errorf("a lease of %v bears %v", wholeLease, got)
	}
	for _, tc := range []struct {
		first, second time.Duration
		far           wire.ID
	}{
		{341 * time.Millisecond, time.Millisecond, wire.ID{}},
		{time.Millisecond, 343 * time.Millisecond, hostID(2)},
		{380 * time.Millisecond, 350 * time.Millisecond, hostID(1)},
	} {
		n.node.peer(hostID(1)).rtt = rtt{smooth: tc.first, known: true}
		n.node.peer(hostID(2)).rtt = rtt{smooth: tc.second, known: true}
		s := n.node.Status()
		if s.Far != tc.far || (s.Trip == 0) != tc.far.IsZero() {
			t.Errorf("round trips of %v and %v: %v is named, with %v", tc.first, tc.second, s.Far, s.Trip)
		}
	}
}
