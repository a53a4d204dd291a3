package vip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// An address of the other family is no address of the interface's own: what comes back first would be its first one.
func TestAnAddressWaitsForItsOwnFamily(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	k := h.keeps("eth0", ours4, ours6)
	k.begin()
	if all := h.ip("-6 -o addr show dev eth0 to " + ours6.String()); !strings.Contains(all, "deprecated") {
		t.Errorf("the host sends from it by itself: %s", all)
	}
	h.ip("addr flush dev eth0 scope global") // its link-local address stays, and is none that others reach it at
	h.ip("addr add 192.0.2.1/24 dev eth0")
	h.until("the address of IPv4 is back", func() bool { return strings.Contains(h.holds(), ours4.String()) })
	if held := h.holds(); held != ours4.String() {
		t.Errorf("the host has %q", held)
	}
	h.ip("addr flush dev eth0 scope global")
	h.ip("addr add 2001:db8::1/64 dev eth0 nodad")
	h.until("the address of IPv6 is back", func() bool { return strings.Contains(h.holds(), ours6.String()) })
	h.ip("addr add 192.0.2.1/24 dev eth0")
	h.until("both are back", func() bool { return h.holds() == ours4.String()+" "+ours6.String() })
	if own := h.first("eth0"); own != "192.0.2.1/24" {
		t.Errorf("the first address is %s", own)
	}
	if err := k.end(); err != nil {
		t.Error(err)
	}
}

// Where the interface's own address goes alone and comes back, and where it comes after the kept one, it is the first again.
func TestTheOwnAddressIsTheFirstAgain(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	h := l.hosts[0]
	other := netip.MustParsePrefix("192.0.2.51/32")
	one, two := h.keeps("eth0", ours4), h.keeps("eth0", other)
	one.begin()
	h.ip("addr del 192.0.2.1/24 dev eth0")
	if held := h.holds(); held != ours4.String() {
		t.Errorf("the host has %q", held)
	}
	two.begin()
	h.ip("addr add 192.0.2.1/24 dev eth0")
	h.until("its own is the first again", func() bool { return h.first("eth0") == "192.0.2.1/24" })
	h.until("both are there", func() bool { return h.holds() == ours4.String()+" "+other.String() })
	if said := one.said(); !strings.Contains(said, "put behind the own address of eth0") || strings.Contains(said, "put back") {
		t.Errorf("it says %q", said)
	}
	if one.State() != "" {
		t.Errorf("state %q", one.State())
	}
}

// An interface that got its own address after the kept one has one: what is flushed waits for it.
func TestAnOwnAddressThatCameLater(t *testing.T) {
	t.Parallel()
	h := newLAN(t, 1).hosts[0]
	h.ip("addr del 192.0.2.1/24 dev eth0")
	k := h.keeps("eth0", ours4)
	k.begin()
	h.ip("addr add 192.0.2.1/24 dev eth0")
	h.until("its own is the first", func() bool { return h.first("eth0") == "192.0.2.1/24" && h.holds() == ours4.String() })
	h.ip("addr flush dev eth0 scope global")
	time.Sleep(200 * time.Millisecond) // far longer than it takes to put it back
	if held := h.holds(); held != "" {
		t.Errorf("the host has %q", held)
	}
	h.ip("addr add 192.0.2.1/24 dev eth0")
	h.until("it is back", func() bool { return h.holds() == ours4.String() })
	if own := h.first("eth0"); own != "192.0.2.1/24" {
		t.Errorf("the first address is %s", own)
	}
}

// An interface that is set down keeps its addresses of IPv4, and nobody reaches them.
func TestAnInterfaceThatIsSetDown(t *testing.T) {
	t.Parallel()
	h := newLAN(t, 1).hosts[0]
	k := h.keeps("eth0", ours4)
	k.begin()
	h.ip("link set eth0 down")
	if why := k.fails(); why != "eth0 is down" {
		t.Errorf("it failed: %s", why)
	}
}

// What another resource keeps on the interface is no address of its own either.
func TestKeptAddressesAreNotTheInterfacesOwn(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	other := netip.MustParsePrefix("192.0.2.51/32")
	one, two := h.keeps("eth0", ours4), h.keeps("eth0", other)
	one.begin()
	two.begin()
	h.ip("addr del 192.0.2.1/24 dev eth0")
	h.ip("addr del " + other.String() + " dev eth0")
	h.ip("addr del " + ours4.String() + " dev eth0")
	h.ip("addr add 192.0.2.1/24 dev eth0")
	h.until("both are back", func() bool { return h.holds() == ours4.String()+" "+other.String() })
	if own := h.first("eth0"); own != "192.0.2.1/24" {
		t.Errorf("the first address is %s", own)
	}
}

// A beginning that was given up, and a pause, let no further address come, in the middle of the addresses too.
func TestAPauseStopsWhatGoesOn(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	k := h.keeps("eth0", ours4, ours6)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Within(func() error { return k.Begin(over) }); !errors.Is(err, context.Canceled) || h.holds() != "" {
		t.Errorf("a beginning that was given up: %v, the host has %q", err, h.holds())
	}
	k.isPaused.Store(false)
	asked := 0
	err := h.Within(func() error {
		eth0, err := find("eth0")
		if err != nil {
			return err
		}
		return k.renew(eth0, k.addresses, func() error {
			if asked++; asked == 2 {
				k.Pause()
			}
			return k.paused()
		})
	})
	if !errors.Is(err, errPaused) || h.holds() != ours4.String() {
		t.Errorf("a pause meanwhile: %v, the host has %q", err, h.holds())
	}
	if err := k.end(); err != nil || h.holds() != "" {
		t.Errorf("end: %v, the host has %q", err, h.holds())
	}
}

// All of many addresses are there, are put back, and end.
func TestAHundredAddressesAreKept(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	var many []netip.Prefix
	for i := range 100 {
		many = append(many, netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/32", 101+i)))
	}
	there := func() int { return strings.Count(h.ip("-4 -o addr show dev eth0"), "/32 ") }
	k := h.keeps("eth0", many...)
	k.begin()
	h.ip("addr flush dev eth0 scope global")
	begun := time.Now()
	h.ip("addr add 192.0.2.1/24 dev eth0")
	h.until("all are back", func() bool { return there() == len(many) })
	t.Logf("100 addresses were back after %v", time.Since(begun).Round(time.Millisecond))
	if own := h.first("eth0"); own != "192.0.2.1/24" {
		t.Errorf("the first address is %s", own)
	}
	if err := k.end(); err != nil || there() != 0 {
		t.Errorf("end: %v, %d addresses are there", err, there())
	}
}

// Connection tracking forgets what came for an address that has gone, and nothing else.
func TestFlowsEndWithTheAddress(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	h, client := l.hosts[0], l.hosts[1]
	if out, err := h.command("nft", "add table inet t; add chain inet t in { type filter hook input priority 0; }; add rule inet t in ct state new accept"); err != nil {
		t.Skipf("skipped: connections are not tracked here: %v: %s", err, out)
	}
	flows := func() (to []string) {
		err := h.Within(func() error {
			for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
				all, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
				if err != nil {
					return err
				}
				for _, f := range all {
					to = append(to, f.Forward.DstIP.String())
				}
			}
			return nil
		})
		if err != nil {
			t.Skipf("skipped: this kernel does not tell what it tracks: %v", err)
		}
		slices.Sort(to)
		return slices.Compact(to)
	}
	k := h.keeps("eth0", ours4, ours6)
	k.begin()
	h.listens()
	for _, to := range []string{"192.0.2.1", ours4.Addr().String(), ours6.Addr().String()} {
		client.sends(to)
	}
	h.until("all are tracked", func() bool { return strings.Join(flows(), " ") == "192.0.2.1 192.0.2.50 2001:db8::50" })
	if err := k.end(); err != nil {
		t.Fatal(err)
	}
	if left := strings.Join(flows(), " "); left != "192.0.2.1" {
		t.Errorf("tracked still: %s", left)
	}
}

// command runs a program in the host.
func (h host) command(words ...string) (out []byte, err error) {
	return exec.Command("ip", append([]string{"netns", "exec", string(h.Namespace)}, words...)...).CombinedOutput()
}

// listens takes datagrams, and says nothing.
func (h host) listens() {
	h.t.Helper()
	var socket net.PacketConn
	if err := h.Within(func() (err error) { socket, err = net.ListenPacket("udp", ":7008"); return err }); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { socket.Close() })
}

// sends sends a datagram there.
func (h host) sends(to string) {
	h.t.Helper()
	err := h.Within(func() error {
		conn, err := net.Dial("udp", net.JoinHostPort(to, "7008"))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte{'?'})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// An interface that moves to another namespace is one that goes.
func TestAnInterfaceMovesAway(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	h, elsewhere := l.hosts[0], l.hosts[1]
	h.second("198.51.100.1/24")
	k := h.keeps("eth1", netip.MustParsePrefix("198.51.100.50/32"))
	k.begin()
	h.ip("link set eth1 netns " + string(elsewhere.Namespace))
	if why := k.fails(); why != "there is no interface eth1 any more" {
		t.Errorf("it has failed: %s", why)
	}
	if err := k.end(); err != nil {
		t.Error(err)
	}
}

// Where the kernel tells of more than anybody reads, it stops telling; what is lost meanwhile is seen all the same, and what is lost
// after that is seen at once.
func TestTheKernelTellsTooMuch(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	k := h.keeps("eth0", ours4)
	k.bound = 8 * patience // a renewal, which looks too, comes too late
	k.begin()
	var flood strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&flood, "addr add 10.9.%d.%d/32 dev lo\n", i/250, i%250+1)
	}
	flood.WriteString("addr del " + ours4.String() + " dev eth0\naddr flush dev lo label lo scope global\n")
	cmd := exec.Command("ip", "-n", string(h.Namespace), "-batch", "-")
	cmd.Stdin = strings.NewReader(flood.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for range 3 {
		h.until("the address is back", func() bool { return strings.Contains(h.ip("-o addr show dev eth0"), ours4.String()) })
		h.ip("addr del " + ours4.String() + " dev eth0")
	}
	h.until("the address is back", func() bool { return strings.Contains(h.ip("-o addr show dev eth0"), ours4.String()) })
}

// Whether addresses would fit is asked before anything leads, and changes nothing.
func TestFits(t *testing.T) {
	t.Parallel()
	h := newLAN(t, 1).hosts[0]
	h.second("198.51.100.1/24")
	for address, seconds := range map[string]int{"192.0.2.60/32": 30, "192.0.2.61/32": 45, "192.0.2.62/24": 600} { // of another agent's life, say
		h.ip(fmt.Sprintf("addr add %s dev eth0 valid_lft %d preferred_lft %d", address, seconds, seconds))
	}
	for name, c := range map[string]struct {
		iface, address, want string
	}{
		"it does":                 {"eth0", "192.0.2.50/32", ""},
		"of the network's size":   {"eth0", "192.0.2.50/24", ""},
		"no such interface":       {"eth9", "192.0.2.50/32", ""}, // somebody else says so
		"another prefix":          {"eth0", "192.0.2.50/25", "192.0.2.50/25 has another prefix than 192.0.2.1/24 on eth0: expected /24, or /32"},
		"another interface's":     {"eth0", "198.51.100.1/32", "198.51.100.1 is on eth1 already"},
		"another prefix, of IPv6": {"eth0", "2001:db8::50/65", "2001:db8::50/65 has another prefix than 2001:db8::1/64 on eth0: expected /64, or /128"},
		"the loopback":            {"lo", "192.0.2.50/32", "lo is the loopback interface: nobody else would reach the address"},
		"the host's own":          {"eth0", "192.0.2.1/32", "eth0 has 192.0.2.1/24 already, and not by this agent"},
		"ours":                    {"eth0", "192.0.2.60/32", ""},
		"ours, for longer":        {"eth0", "192.0.2.61/32", ""},
		"a DHCP server's":         {"eth0", "192.0.2.62/24", "eth0 has 192.0.2.62/24 already, and not by this agent"},
		"the network's":           {"eth0", "192.0.2.0/32", `"192.0.2.0" is the address of the network 192.0.2.0/24`},
		"of another network":      {"eth0", "198.51.100.50/32", "198.51.100.50 is in 198.51.100.0/24, the network of eth1: its neighbours are not eth0's"},
	} {
		var faults []error
		if _, err := h.does(func(func(string)) error {
			faults = Fits([]netip.Prefix{netip.MustParsePrefix(c.address)}, c.iface, 50*time.Second)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(errors.Join(faults...)); got != c.want && (c.want != "" || len(faults) != 0) {
			t.Errorf("%s: got %s, want %q", name, got, c.want)
		}
	}
	if held := h.holds(); held != "198.51.100.1/24" {
		t.Errorf("the host has %q", held)
	}
}

// An address that no network of its interface has is doubtful, where the interface has a network.
func TestAstray(t *testing.T) {
	t.Parallel()
	h := newLAN(t, 1).hosts[0]
	h.second("198.51.100.1/24")
	h.ip("link add bare0 type veth peer name bare1")
	h.ip("addr add 203.0.113.50/24 dev eth0 valid_lft 2 preferred_lft 2") // kept, by the leader that this host is
	const four, six = "203.0.113.50 is in no network of eth0, which has 192.0.2.1/24: no neighbour there looks for it",
		"2001:db9::50 is in no network of eth0, which has 2001:db8::1/64: no neighbour there looks for it"
	for name, c := range map[string]struct {
		iface, address, want string
	}{
		"of the network":              {"eth0", "192.0.2.50/32", ""},
		"a single host's":             {"eth0", "203.0.113.50/32", four},
		"with a network of its own":   {"eth0", "203.0.113.50/24", four},
		"of IPv6":                     {"eth0", "2001:db9::50/128", six},
		"of each link":                {"eth0", "fe80::50/64", ""},
		"another interface's":         {"eth0", "198.51.100.50/32", ""}, // refused
		"no such interface":           {"eth9", "203.0.113.50/32", ""},
		"on an interface without any": {"bare0", "203.0.113.51/32", ""}, // routes lead there
		"on one without its family":   {"eth1", "2001:db9::50/128", ""},
	} {
		var doubts []error
		if _, err := h.does(func(func(string)) error {
			doubts = Astray([]netip.Prefix{netip.MustParsePrefix(c.address)}, c.iface, 2*time.Second)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(errors.Join(doubts...)); got != c.want && (c.want != "" || len(doubts) != 0) {
			t.Errorf("%s: got %s, want %q", name, got, c.want)
		}
	}
}
