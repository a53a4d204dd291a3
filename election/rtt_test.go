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

// The waits for an answer double up to a second, or up to a lease that is longer: one host that was frozen once and is cut
// off now holds no election up for several seconds.
func TestWaitsForAnAnswerDoubleUpToASecond(t *testing.T) {
	for lease, most := range map[time.Duration]time.Duration{wholeLease: rtoCeiling, 8 * time.Second: 8 * time.Second} {
		n := leading(t)
		n.node.cfg.Lease = lease
		p := n.node.peer(hostID(1))
		p.rtt = rtt{smooth: 400 * time.Millisecond, variance: 100 * time.Millisecond, known: true}
		n.node.ask(p, wire.Frame{Kind: wire.Election}, 0)
		x := n.node.exchanges[len(n.node.exchanges)-1]
		for range 5 {
			n.node.transmit(x)
		}
		if x.rto != most {
			t.Errorf("with a lease of %v a wait of %v doubles up to %v, want %v", lease, p.rtt.timeout(), x.rto, most)
		}
	}
}
