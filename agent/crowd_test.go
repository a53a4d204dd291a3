package agent

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// Thirty hosts, and in the long tests a hundred, are switched on at one instant, as after a power cut. Each meets all others, and
// one of them leads, once. Time is virtual, so this says nothing of what the handshakes cost a processor.
func TestManyHostsAtOneInstant(t *testing.T) {
	hosts := 30
	if os.Getenv("BULLY_SIM") == "long" {
		hosts = 100
	} else if testing.Short() {
		hosts = 10
	}
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, hosts)
		begun := time.Now()
		for _, h := range c.hosts {
			c.start(h)
		}
		if took := time.Since(begun); took > 0 {
			t.Fatalf("the last was started %v after the first", took)
		}
		// all waits until each host shows what is asked for, and gives the time since the start.
		all := func(what string, shows func(control.Status) bool) time.Duration {
			t.Helper()
			shown := func(h *testHost) bool { return shows(h.agent.Status()) }
			for !(shown(c.hosts[0]) && shown(c.hosts[hosts-1]) && !slices.ContainsFunc(c.hosts, func(h *testHost) bool { return !shown(h) })) {
				if time.Since(begun) > time.Minute {
					t.Fatalf("after a minute not all hosts %s", what)
				}
				time.Sleep(10 * time.Millisecond)
			}
			return time.Since(begun)
		}
		top := c.hosts[hosts-1]
		met := all("have met all others", func(s control.Status) bool { return s.Alive == hosts })
		followed := all("follow the best", func(s control.Status) bool { return s.Leader != nil && s.Leader.Name == top.name })
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		t.Logf("of %d hosts each has met all others after %v, and follows the best after %v; %d KiB a host", hosts, met, followed, memory.HeapInuse/1024/uint64(hosts))
		time.Sleep(3 * time.Second)
		c.agrees(top)
		for _, h := range c.hosts[:hosts-1] {
			h.expectHooks(t)
		}
		top.expectHooks(t, "become-leader 1 boot")
		for _, h := range c.hosts {
			h.stop() // at one instant too
		}
		c.stopAll()
	})
}

// Many members change while the loop is busy: it shows all of them at once, and does not write a list of all for each.
func TestManyChangesAreShownOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 12)
		c.start(c.hosts[0])
		c.start(c.hosts[11])
		c.agrees(c.hosts[11])
		low, shown := c.hosts[0].agent, 0
		low.call(nil, func() {
			low.seat.around = shows{low.seat.around, &shown}
			for _, h := range c.hosts[1:11] {
				c.start(h)
			}
			time.Sleep(300 * time.Millisecond) // in which they meet its port, and the loop hears of none
		})
		synctest.Wait()
		if s := low.Status(); s.Alive != 12 {
			t.Errorf("it shows %d alive", s.Alive)
		}
		low.call(nil, func() {
			if shown > 5 {
				t.Errorf("%d pictures for ten members that joined at a time", shown)
			}
		})
		c.stopAll()
	})
}

// shows is what a seat has around it while its pictures are counted.
type shows struct {
	surroundings
	n *int
}

func (s shows) show(st *standing) {
	*s.n++
	s.surroundings.show(st)
}
