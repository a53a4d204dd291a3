package agent

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
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

func TestLinksThatAreNotWatched(t *testing.T) {
	for addr, want := range map[string]error{
		"127.0.0.1": errLoopback, "::1": errLoopback, "0.0.0.0": errNoAddress, "192.0.2.77": errNotOurs, "2001:db8::77": errNotOurs,
	} {
		err := NetlinkWatch(t.Context(), netip.MustParseAddr(addr), func(bool) { t.Errorf("%s: changed", addr) })
		if !errors.Is(err, want) && !cannotAsk(err) {
			t.Errorf("%s: %v, want %v", addr, err, want)
		}
	}
}

// cannotAsk: this machine does not let us use netlink.
func cannotAsk(err error) bool {
	return err != nil && !errors.Is(err, errNotOurs) && !errors.Is(err, errLoopback)
}

// A watch ends with its context, and its subscriptions with it.
func TestWatchEndsWithItsContext(t *testing.T) {
	lo := netip.MustParseAddr("127.0.0.1")
	index, up, err := findLink(lo)
	if err != nil || index == 0 || !up {
		t.Skipf("skipped: no loopback interface can be asked for here: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := linkWatcher{addr: lo, up: false, changed: func(up bool) {
		if !up {
			t.Error("it seems to be down")
		}
		cancel()
	}}
	if err := w.watch(ctx); err != nil {
		t.Error(err)
	}
	if w.index != index || !w.up {
		t.Errorf("interface %d, up %t; want %d, true", w.index, w.up, index)
	}
}
