package agent

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/advertise"
	"github.com/bully-agent/bully-agent/internal/test/lantest"
	"github.com/bully-agent/bully-agent/internal/transport"
)

func mayMove(cfg *Config) { cfg.AdvertiseIsChosen = true }

// gets gives a host another address, as DHCP does, and has the kernel say so.
func (h *testHost) gets(c *cluster, addr string) {
	c.lan.Move(h.port, netip.AddrPortFrom(netip.MustParseAddr(addr), 7950))
	h.link <- true
	synctest.Wait()
}

// isAt reports whether all agents know a member, alive, at an address.
func (c *cluster) isAt(h *testHost, addr string) bool {
	for _, other := range c.hosts {
		found := false
		for _, m := range other.agent.Members() {
			found = found || m.Name == h.name && m.Status == "alive" && strings.HasPrefix(m.Addr, addr+":")
		}
		if !found {
			return false
		}
	}
	return true
}

// agreesAt fails unless all agree on a leader, and know it at an address.
func (c *cluster) agreesAt(leader *testHost, addr string) {
	c.t.Helper()
	c.agrees(leader)
	if !c.isAt(leader, addr) {
		c.t.Errorf("not all know %s at %s: %+v", leader.name, addr, c.hosts[0].agent.Members())
	}
}

// A leader whose address is replaced by another one lets go, goes on at the new one without a person, and stands again
// among the others. It never leads beside them.
func TestAnotherAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		mid, top := c.hosts[1], c.hosts[2]
		top.settings = mayMove
		c.startAll()
		time.Sleep(5 * time.Second)

		top.gets(c, "10.0.0.13")
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 link-lost")
		time.Sleep(30 * time.Second)
		c.agreesAt(top, "10.0.0.13")
		mid.expectHooks(t, "become-leader 2 leader-resigned", "lose-leadership 2 preempted")
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 link-lost", "become-leader 3 handed-over")
		c.stopAll()
	})
}

// A host that boots before its address leads nobody meanwhile, and joins the others by itself once it has one.
func TestAddressThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		top := c.hosts[2]
		top.settings, top.addr = mayMove, netip.MustParseAddrPort("127.0.0.1:7950")
		for _, h := range c.hosts {
			c.start(h)
		}
		time.Sleep(20 * time.Second)
		top.expectHooks(t)
		if notes := strings.Join(top.agent.Status().Notes, "; "); !strings.Contains(notes, "no address but 127.0.0.1") {
			t.Errorf("its status does not say why: %s", notes)
		}
		top.gets(c, "10.0.0.3")
		time.Sleep(30 * time.Second)
		c.agreesAt(top, "10.0.0.3")
		c.stopAll()
	})
}

// A host whose state directory is removed comes back with another id, and gossip has its last one alive for seconds, at its own
// address. It stays there, also where it has another address to go to.
func TestEarlierIDMovesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		top := c.hosts[2]
		top.settings = func(cfg *Config) {
			mayMove(cfg)
			cfg.WatchLink = func(ctx context.Context, saw func(advertise.Sight)) error {
				saw(advertise.Sight{Links: []advertise.Link{{Name: "eth0", Addrs: []netip.Addr{top.addr.Addr()}},
					{Name: "eth1", Addrs: []netip.Addr{netip.MustParseAddr("10.1.0.3")}}}})
				<-ctx.Done()
				return nil
			}
		}
		c.startAll()
		time.Sleep(5 * time.Second)

		c.kill(top)
		top.dir = t.TempDir()
		c.start(top)
		isShared := false
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			isShared = isShared || strings.Contains(strings.Join(top.agent.Status().Notes, " "), "is reached, too")
		}
		if isShared {
			t.Error("it believes others that its last id is there")
		}
		c.agreesAt(top, "10.0.0.3")
		events, _ := top.agent.ring.Events(0)
		for _, e := range events {
			if e.Type == "link" {
				t.Errorf("it took itself for cut off: %s", e.Text)
			}
		}
		c.stopAll()
	})
}

// Who leads alone at loopback goes to its address once it has one, however soon it would lead again: settle may be short.
func TestLoneLeaderGoesToItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		h.addr = netip.MustParseAddrPort("127.0.0.1:7950")
		h.settings = func(cfg *Config) {
			mayMove(cfg)
			cfg.Seeds, cfg.Election.Settle = nil, 100*time.Millisecond
		}
		c.start(h)
		c.agrees(h)
		h.gets(c, "10.0.0.1")
		time.Sleep(10 * time.Second)
		c.agreesAt(h, "10.0.0.1")
		h.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 link-back", "become-leader 2 boot")
		c.stopAll()
	})
}

// unwilling is a port at which no membership can begin, except at loopback.
type unwilling struct{ *lantest.Host }

func (u unwilling) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	if !u.Addr().Addr().IsLoopback() {
		return nil, 0, errors.New("not here")
	}
	return u.Host.FinalAdvertiseAddr(ip, port)
}

// An agent that cannot go on at its new address ends, and says why: it does not stay without being one.
func TestAddressWhereNothingBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		h := c.hosts[1]
		h.addr = netip.MustParseAddrPort("127.0.0.1:7950")
		h.settings = func(cfg *Config) {
			mayMove(cfg)
			listen := cfg.Listen
			cfg.Listen = func() (transport.LAN, error) {
				_, err := listen()
				return unwilling{h.port}, err
			}
		}
		c.start(h)
		h.gets(c, "10.0.0.3")
		select {
		case err := <-h.done:
			if err == nil || !strings.HasPrefix(err.Error(), "go on at 10.0.0.3: start membership: ") {
				t.Errorf("it ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("it has not ended within a minute")
			_ = h.port.Shutdown()
			<-h.done
		}
		time.Sleep(2 * time.Minute) // memberlist's last timers
	})
}

// What is wrong with a place is said in words, with what mends it.
func TestPlaceTroubleIsSaid(t *testing.T) {
	at := func(a string, isFixed bool) advertise.Place {
		return advertise.Place{Addr: netip.MustParseAddr(a), IsFixed: isFixed}
	}
	for trouble, words := range map[advertise.Trouble]string{
		advertise.Gone: "on no interface", advertise.Down: "no carrier", advertise.Loopback: "only it can reach",
		advertise.Shared: "where h2, h3 is reached, too", advertise.Inner: "a bridge that leads to nothing",
	} {
		what, remedy := placeTrouble(at("10.0.0.1", false), advertise.View{Trouble: trouble, Link: "eth0"}, []string{"h2", "h3"})
		if !strings.Contains(what, words) || remedy == "" {
			t.Errorf("%d: %q, %q", trouble, what, remedy)
		}
	}
	if _, remedy := placeTrouble(at("10.0.0.1", true), advertise.View{Trouble: advertise.Gone}, nil); strings.Contains(remedy, "by itself") {
		t.Errorf("a configured address is not chosen again: %q", remedy)
	}
	if what, remedy := placeTrouble(at("10.0.0.1", false), advertise.View{}, nil); what+remedy != "" {
		t.Errorf("nothing is wrong: %q, %q", what, remedy)
	}
}
