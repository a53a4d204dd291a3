package agent

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/advertise"
)

// A leader whose cable is pulled lets go at once, for the cause that it has. It leads nobody until the cable is back,
// also when the failure detector has given all others up, and then stands among them again.
func TestLeaderWithoutLinkStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		mid, top := c.hosts[1], c.hosts[2]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		time.Sleep(5 * time.Second)

		c.lan.Isolate(top.name)
		top.link <- false
		synctest.Wait()
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 link-lost")
		time.Sleep(2 * time.Second)
		mid.expectHooks(t, "become-leader 2 leader-failed")
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 link-lost")
		if s := top.agent.Status(); s.Role != "follower" || s.Self.Role != "voter" { // it votes, whatever it does now
			t.Errorf("without a link the voter is shown as role %s, in members as %s", s.Role, s.Self.Role)
		}
		time.Sleep(time.Minute)
		mid.expectHooks(t, "become-leader 2 leader-failed")
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 link-lost")

		c.lan.Plug(top.name)
		top.link <- true
		c.agrees(top)
		c.stopAll()
	})
}

func TestAFollowersLinkConcernsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(c.hosts[2])
		c.hosts[0].link <- false
		time.Sleep(time.Second)
		c.hosts[0].link <- true
		c.agrees(c.hosts[2])
		c.hosts[2].expectHooks(t, "become-leader 1 boot")
		c.hosts[1].expectHooks(t)
		c.stopAll()
	})
}

// A watch ends with its context, and its subscriptions with it. It begins with what there is: the loopback interface at least.
func TestWatchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	saw := 0
	err := NetlinkWatch(ctx, func(s advertise.Sight) {
		saw++
		if l, has := advertise.LinkOf(s.Links, netip.MustParseAddr("127.0.0.1")); !has || l.Down {
			t.Skipf("skipped: no loopback interface can be asked for here: %+v", s)
		}
		cancel()
	})
	if err != nil && saw == 0 {
		t.Skipf("skipped: netlink cannot be asked here: %v", err)
	}
	if err != nil {
		t.Error(err)
	}
}
