package agent

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// The end of the leader's process is known at once and needs no lease to run
// out (E1, E7); a follower that was restarted knows it as well.
func TestKilledLeaderIsReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		c.kill(low)
		c.start(low)
		c.agrees(top)
		time.Sleep(5 * time.Second)

		_ = top.port.Shutdown()
		time.Sleep(50 * time.Millisecond) // of a lease of 400
		mid.expectHooks(t, "become-leader 2 process-gone")
		c.kill(top)
		c.agrees(mid)
		c.stopAll()
	})
}

// A leader that is cut off may live: its lease has to run out.
func TestCutLeaderIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(c.hosts[2])
		c.lan.Isolate("n3")
		time.Sleep(3 * time.Second)
		c.hosts[1].expectHooks(t, "become-leader 2 leader-failed")
		c.lan.Heal()
		time.Sleep(40 * time.Second)
		c.stopAll()
	})
}

// Only the newest tether counts: what another found never reaches the node.
func TestReplacedTetherIsNotHeard(t *testing.T) {
	a := &agent{log: hclog.NewNullLogger(), ties: make(chan *tie, 1)} // without a node: a step would panic
	leader := netip.MustParseAddrPort("192.0.2.7:7950")
	a.tether(election.Tether{ID: wire.ID{1}, Nonce: 1, Addr: leader})
	first := a.tie
	a.tether(election.Tether{ID: wire.ID{1}, Nonce: 2, Addr: leader})
	a.onFinding(finding{first, election.TetherLost{ID: wire.ID{1}, Nonce: 1}})
	if first.ctx.Err() == nil {
		t.Error("the first tether was not cut")
	}
	if begun := <-a.ties; begun != a.tie || begun.Nonce != 2 || begun.ctx.Err() != nil {
		t.Errorf("the tether that waits is %+v, want the second one", begun)
	}
	second := a.tie
	a.tether(election.Tether{})
	a.onFinding(finding{second, election.Refused{ID: wire.ID{1}, Nonce: 2}})
	if a.tie != nil || len(a.ties) != 0 || second.ctx.Err() == nil {
		t.Error("a tether is left though none is wanted")
	}
}

// How long a save took is told to the node, once for each step, after it.
func TestDiskIsTold(t *testing.T) {
	for _, c := range []struct {
		took time.Duration
		want int
	}{{time.Millisecond, 1}, {0, 0}} {
		now := time.Unix(1, 0)
		cfg := election.Config{ID: wire.ID{1}, Rand: rand.New(rand.NewPCG(1, 2))}
		node, err := election.New(cfg, election.Saved{}, now)
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		clock := func() time.Time {
			now = now.Add(c.took) // between the two readings
			return now
		}
		s := &seat{node: node, state: mustOpen(t, t.TempDir()), around: clockOnly{clock: clock}, shown: &standing{status: node.Status()}}
		s.tally = &tally{settings: &s.election}
		s.log = hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &said})
		if err := s.apply(election.Save{State: someState(3)}); err != nil {
			t.Fatal(err)
		}
		s.tellDisk()
		s.tellDisk()
		s.close()
		if n := strings.Count(said.String(), election.DiskTimed{Took: c.took}.String()); n != c.want {
			t.Errorf("a save of %v was told %d times, want %d: %s", c.took, n, c.want, &said)
		}
	}
}
