package agent

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vishvananda/netlink"

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

// A host that names nobody to join has met another one in an earlier life. Its cable is out as it starts again, and its own
// leadership is the last that it knows of: it leads nobody all the same. A host that has met nobody leads.
func TestAHostThatHasMetAnotherWaitsForItsLink(t *testing.T) {
	for _, hasMet := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 2)
			top, other := c.hosts[1], c.hosts[0]
			top.settings = func(cfg *Config) { cfg.Seeds = nil }
			c.start(top)
			time.Sleep(5 * time.Second)
			if hasMet {
				c.start(other)
			}
			time.Sleep(5 * time.Second)
			top.expectHooks(t, "become-leader 1 boot")
			if hasMet {
				c.kill(other)
			}
			c.kill(top)
			c.lan.Isolate(top.name)
			c.start(top)
			top.link <- false
			time.Sleep(time.Minute)
			want := []string{"become-leader 1 boot", "lose-leadership 1 unclean-restart"}
			if !hasMet {
				want = append(want, "become-leader 2 boot")
			}
			top.expectHooks(t, want...)
			c.stopAll()
		})
	}
}

// A watch ends with its context, and its subscriptions with it. It begins with what there is: the loopback interface at least.
func TestWatchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	saw := 0
	err := NetlinkWatch(ctx, func(s advertise.Sight) {
		saw++
		if l, has := advertise.LinkOf(s.Links, netip.MustParseAddr("127.0.0.1")); !has || l.Down {
			t.Skipf("skipped: no loopback interface can be asked for here: %+v", s)
		} else if !slices.Contains(l.Networks, netip.MustParsePrefix("127.0.0.1/8")) {
			t.Errorf("its networks are %v", l.Networks)
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

// The kernel tells of each address that is renewed, and a leader of a hundred kept ones renews them twice a second: what is told of
// those changes nothing, and nobody asks the kernel for all of them.
func TestARenewalIsNoChange(t *testing.T) {
	w := linkWatcher{held: map[place]bool{{link: 2, addr: netip.MustParseAddr("192.0.2.50")}: true}}
	update := func(addr string, link int, isNew bool) netlink.AddrUpdate {
		return netlink.AddrUpdate{LinkAddress: net.IPNet{IP: net.ParseIP(addr)}, LinkIndex: link, NewAddr: isNew}
	}
	for _, tt := range []struct {
		update netlink.AddrUpdate
		knows  bool
	}{
		{update("192.0.2.50", 2, true), true},
		{update("192.0.2.50", 2, false), false},
		{update("192.0.2.50", 3, true), false},
		{update("192.0.2.51", 2, true), false},
	} {
		if got := w.knows(tt.update); got != tt.knows {
			t.Errorf("%+v: %t", tt.update, got)
		}
	}
	links, addrs := make(chan netlink.LinkUpdate), make(chan netlink.AddrUpdate, 3)
	addrs <- update("192.0.2.50", 2, true)
	addrs <- update("192.0.2.50", 2, true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.wait(ctx, links, addrs); err != nil || ctx.Err() == nil {
		t.Errorf("it looks after a renewal: %v", err)
	}
	addrs <- update("192.0.2.50", 2, true)
	addrs <- update("192.0.2.50", 2, false)
	if err := w.wait(t.Context(), links, addrs); err != nil || len(addrs) != 0 {
		t.Errorf("it does not look after a change: %v, %d left", err, len(addrs))
	}
}
