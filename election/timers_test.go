package election

import (
	"testing"
	"time"
)

// A lease or a heartbeat above 65.5 s did not fit the wire: the acknowledgement of
// a lease of five minutes was worth one, and was over before it was counted. There
// were thousands of leaderships in ten minutes, or in quorum mode none.
func TestLongTimersLead(t *testing.T) {
	for _, cfg := range []Config{
		{Lease: time.Minute}, {Lease: 2 * time.Minute}, {Lease: 5 * time.Minute}, {Lease: 10 * time.Minute},
		{Lease: 200 * time.Second, Heartbeat: 20 * time.Second, Settle: 40 * time.Second},
		{Lease: 10 * time.Minute, Heartbeat: time.Minute, Settle: 2 * time.Minute},
	} {
		for _, expect := range []int{0, 3} {
			cfg.Expect, cfg.MinAcks = expect, AutoMinAcks
			w := newWorld(t, 3, cfg)
			for _, h := range w.hosts {
				w.boot(h)
			}
			w.runUntil(w.now.Add(15*time.Minute), func() bool { return len(w.ascents) > 1 })
			if len(w.ascents) != 1 || !w.agreed() {
				t.Errorf("expect=%d lease=%v: %d leaderships, agreed %t", expect, cfg.Lease, len(w.ascents), w.agreed())
			}
		}
	}
}
