package election

import (
	"fmt"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// TestUsualFailoverCost: when the leader of n members dies and nothing else
// goes wrong, the election costs at most 2(n−2)+2 frames (I19): one COORDINATOR
// and one COORD_ACK for each survivor but the new leader, and hardly anything
// before. That holds for every algorithm. Heartbeats and probes are detection and
// not counted.
func TestUsualFailoverCost(t *testing.T) {
	for _, n := range []int{5, 20, 50} {
		testUsualFailoverCost(t, Classic, n, n-1)
		testUsualFailoverCost(t, Enhanced, n, n-1)
		testUsualFailoverCost(t, Smallest, n, 2)
	}
}

func testUsualFailoverCost(t *testing.T, a Algorithm, n, next int) {
	t.Run(fmt.Sprintf("%v n=%d", a, n), func(t *testing.T) {
		w := newWorld(t, n, Config{Algorithm: a, MinAcks: AutoMinAcks})
		for _, h := range w.hosts {
			w.boot(h)
		}
		if !w.runUntil(w.now.Add(10*time.Second), w.agreed) {
			t.Fatal("no agreement after the start")
		}
		w.runFor(time.Second)
		clear(w.sent)
		w.kill(w.leaders()[0])
		w.runFor(3 * time.Second)
		if !w.agreed() || w.leaders()[0] != w.host(next) {
			t.Fatalf("the second best does not lead all:\n%s", tail(w.trace.String(), 60))
		}
		cost := 0
		for _, k := range []wire.Kind{wire.Coordinator, wire.CoordAck, wire.Election, wire.Canvass, wire.Answer, wire.Nominate, wire.Cid, wire.Resign} {
			cost += w.sent[k]
		}
		if limit := 2*(n-2) + 2; cost > limit {
			t.Errorf("failover cost %d frames, want at most %d: %v", cost, limit, w.sent)
		}
	})
}
