package vip

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
	"github.com/bully-agent/bully-agent/internal/test/waiting"
)

// This program is also the announcers that it leaves.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Word {
		os.Exit(Main(func() Leadership { return nil }))
	}
	waiting.Together(8) // neighbours and pauses are waited for
	os.Exit(m.Run())
}

// lan is a switch with hosts in network namespaces. Each has an address of both families, and asks at the switch.
type lan struct {
	t     *testing.T
	hosts []host
}

type host struct {
	t *testing.T
	*netlab.Host
}

// patience is how long something may take on a machine that does other things too.
const patience = 20 * time.Second

// Those that the tests move.
var (
	ours4 = netip.MustParsePrefix("192.0.2.50/32")
	ours6 = netip.MustParsePrefix("2001:db8::50/128")
)

func newLAN(t *testing.T, n int) *lan {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("skipped: ip (package iproute2) is not installed")
	}
	l := &lan{t: t}
	wires, err := netlab.New(fmt.Sprintf("bv%d-%d", os.Getpid(), time.Now().UnixNano()%1e6), netlab.Fine)
	if err != nil {
		t.Skipf("skipped: no network namespace can be made: %v", err)
	}
	t.Cleanup(func() { wires.Close() })
	for i := range n {
		h, err := wires.AddHost(fmt.Sprintf("h%d", i+1), netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 24))
		if err != nil {
			t.Fatal(err)
		}
		l.hosts = append(l.hosts, host{t: t, Host: h})
		l.hosts[i].ip(fmt.Sprintf("addr add 2001:db8::%d/64 dev eth0 nodad", i+1))
	}
	return l
}

// ip runs iproute2 in the host and gives what it prints.
func (h host) ip(args string) string {
	h.t.Helper()
	out, err := exec.Command("ip", append([]string{"-n", string(h.Namespace)}, strings.Fields(args)...)...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("ip %s: %v: %s", args, err, out)
	}
	return string(out)
}

// does runs f in the host, and gives its error and its notes.
func (h host) does(f func(note func(string)) error) (notes string, err error) {
	h.t.Helper()
	var said []string
	err = h.Within(func() error { return f(func(line string) { said = append(said, line) }) })
	return strings.Join(said, "\n"), err
}

func (h host) add(addresses ...netip.Prefix) {
	h.t.Helper()
	if notes, err := h.does(func(note func(string)) error { return Add(addresses, "eth0", false, note) }); err != nil || notes != "" {
		h.t.Fatalf("add %v: %v, notes %q", addresses, err, notes)
	}
}

func (h host) del(addresses ...netip.Prefix) {
	h.t.Helper()
	if notes, err := h.does(func(note func(string)) error { return Remove(addresses, "eth0", note) }); err != nil || notes != "" {
		h.t.Fatalf("remove %v: %v, notes %q", addresses, err, notes)
	}
}

// holds gives what the host has of addresses of the tests' networks, its own not, in order.
func (h host) holds() string {
	h.t.Helper()
	var found []string
	for line := range strings.Lines(h.ip("-o addr show")) { // 2: eth0    inet 192.0.2.50/32 scope global eth0 …
		p, err := netip.ParsePrefix(strings.Fields(line)[3])
		if err == nil && strings.Contains(p.Addr().String(), "5") && !p.Addr().IsLinkLocalUnicast() {
			found = append(found, p.String())
		}
	}
	slices.Sort(found)
	return strings.Join(found, " ")
}

// mac is the host's hardware address.
func (h host) mac() (own hardware) {
	h.t.Helper()
	err := h.Within(func() error {
		eth, err := net.InterfaceByName("eth0")
		if err == nil {
			own = hardware(eth.HardwareAddr)
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return own
}

// knows is where the host would send for an address; "" if it has no idea.
func (h host) knows(addr netip.Addr) (at string) {
	h.t.Helper()
	err := h.Within(func() error {
		family := netlink.FAMILY_V4
		if addr.Is6() {
			family = netlink.FAMILY_V6
		}
		all, err := netlink.NeighList(0, family)
		for _, n := range all {
			if n.IP.Equal(net.IP(addr.AsSlice())) {
				at = n.HardwareAddr.String()
			}
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return at
}

// asks has the host learn where an address is: it sends something there.
func (h host) asks(addr netip.Addr) {
	h.t.Helper()
	err := h.Within(func() error {
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("?"))
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.until(fmt.Sprintf("the host knows where %s is", addr), func() bool { return h.knows(addr) != "" })
}

func (h host) until(what string, done func() bool) {
	h.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("after %v: not yet: %s", patience, what)
		}
	}
}

// sysctl sets one of the host's own settings.
func (h host) sysctl(name, value string) {
	h.t.Helper()
	if err := h.Within(func() error { return os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0) }); err != nil {
		h.t.Fatal(err)
	}
}
