package config

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/advertise"
)

// alpha is the host that the tests of this package run on: root, one LAN, both families.
func alpha() host {
	links := []link{
		lan("lo", "127.0.0.1", "::1"),
		lan("docker0", "172.17.0.1"),
		lan("eth0", "10.0.0.1", "fd00::1", "fe80::1"),
	}
	return host{
		root:     true,
		hostname: func() (string, error) { return "alpha", nil },
		workdir:  func() (string, error) { return "/home/u", nil },
		links:    func() ([]link, error) { return links, nil },
		outgoing: routeVia("10.0.0.1", "fd00::1"),
		template: fakeTemplate,
	}
}

func lan(name string, addrs ...string) link {
	l := link{Name: name}
	for _, a := range addrs {
		l.Addrs = append(l.Addrs, netip.MustParseAddr(a))
	}
	return l
}

func off(l link) link { l.Down = true; return l }

// routeVia gives the source addresses of the default routes; "" for none.
func routeVia(v4, v6 string) func(bool) netip.Addr {
	return func(want6 bool) netip.Addr {
		text := v4
		if want6 {
			text = v6
		}
		addr, _ := netip.ParseAddr(text)
		return addr
	}
}

// fakeTemplate knows eth0, and like go-sockaddr gives nothing for an interface that is not there.
func fakeTemplate(s string) (string, error) {
	if strings.Contains(s, "Nonsense") {
		return "", errors.New("template: sockaddr.Parse:1:\nfunction \"Nonsense\" not defined")
	}
	for name, out := range map[string]string{
		`{{ GetInterfaceIP "eth0" }}`: "10.0.0.1", `{{ GetInterfaceIP "eth9" }}`: "", `{{ GetAllInterfaces }}`: "10.0.0.1 fd00::1",
	} {
		s = strings.ReplaceAll(s, name, out)
	}
	return s, nil
}

// A host is reached where the kernel sends from, by a private address if there is one, and never by a container bridge
// that every host has alike.
func TestAdvertiseAddressThatOthersReach(t *testing.T) {
	for name, tt := range map[string]struct {
		bind     string
		links    []link
		v4, v6   string // source addresses of the default routes
		want, on string
		notes    int
	}{
		"private address of the default route": {
			links: []link{lan("eth1", "10.1.0.1"), lan("eth0", "10.0.0.1")}, v4: "10.0.0.1",
			want: "10.0.0.1:7950", on: "eth0",
		},
		"first private address without a default route": {
			links: []link{lan("eth0", "10.0.0.1"), lan("eth1", "10.1.0.1")},
			want:  "10.0.0.1:7950", on: "eth0",
		},
		"private address beside a public one": {
			links: []link{lan("eth0", "203.0.113.5"), lan("eth1", "10.1.0.1")}, v4: "203.0.113.5",
			want: "10.1.0.1:7950", on: "eth1",
		},
		"public address rather than a container bridge": {
			links: []link{lan("docker0", "172.17.0.1"), lan("eth0", "203.0.113.5")}, v4: "203.0.113.5",
			want: "203.0.113.5:7950", on: "eth0", notes: 1,
		},
		"first address, not a virtual one added later": {
			links: []link{lan("eth0", "10.0.0.9", "10.0.0.1")}, v4: "10.0.0.1",
			want: "10.0.0.1:7950", on: "eth0",
		},
		"IPv4 even if IPv6 is private and IPv4 is not": {
			links: []link{lan("eth0", "fd00::1", "192.0.2.2")}, v4: "192.0.2.2", v6: "fd00::1",
			want: "192.0.2.2:7950", on: "eth0", notes: 1,
		},
		"IPv6 for an IPv6 wildcard": {
			bind: "[::]:7950", links: []link{lan("eth0", "10.0.0.1", "2001:db8::9", "fd00::1")}, v6: "2001:db8::9",
			want: "[fd00::1]:7950", on: "eth0",
		},
		"IPv4 for an IPv6 wildcard on a host without": {
			bind: "[::]:7950", links: []link{lan("eth0", "10.0.0.1", "fe80::1")},
			want: "10.0.0.1:7950", on: "eth0",
		},
		"IPv6 by default on a host without IPv4": {
			links: []link{lan("docker0", "172.17.0.1"), lan("eth0", "fe80::1", "fd00::1")}, v6: "fd00::1",
			want: "[fd00::1]:7950", on: "eth0",
		},
		"loopback, said aloud, for an IPv4 wildcard without IPv4": {
			bind: "0.0.0.0:7950", links: []link{lan("lo", "127.0.0.1"), lan("eth0", "fd00::1")},
			want: "127.0.0.1:7950", on: "lo", notes: 1,
		},
		"loopback, said aloud, on a host without a network": {
			links: []link{lan("lo", "127.0.0.1", "::1")},
			want:  "127.0.0.1:7950", on: "lo", notes: 1,
		},
		"a link that is down, said aloud, rather than loopback": {
			links: []link{lan("lo", "127.0.0.1"), off(lan("docker0", "172.17.0.1")), off(lan("eth0", "10.0.0.1"))},
			want:  "10.0.0.1:7950", on: "eth0", notes: 1,
		},
		"a link that is up rather than one that is down": {
			links: []link{off(lan("eth0", "10.0.0.1")), lan("eth1", "203.0.113.5")},
			want:  "203.0.113.5:7950", on: "eth1", notes: 1,
		},
		"loopback for a loopback": {
			bind: "127.0.0.2:7951", links: []link{lan("eth0", "10.0.0.1")},
			want: "127.0.0.2:7951",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := alpha()
			h.links = func() ([]link, error) { return tt.links, nil }
			h.outgoing = routeVia(tt.v4, tt.v6)
			src := Source{Flags: map[string][]string{"insecure": {"true"}}}
			if tt.bind != "" {
				src.Flags["bind"] = []string{tt.bind}
			}
			c, err := load(src, h)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Network.Advertise.String(); got != tt.want {
				t.Errorf("advertise %s, want %s", got, tt.want)
			}
			if c.Network.Interface != tt.on {
				t.Errorf("on interface %q, want %q", c.Network.Interface, tt.on)
			}
			if notes := slices.Concat(c.Notes, c.Passing); len(notes) != tt.notes {
				t.Errorf("notes %q, want %d", notes, tt.notes)
			}
		})
	}
}

// An address that another host has is right behind NAT, and else a slip that makes this one unreachable.
func TestAdvertisedAddressOfNoInterface(t *testing.T) {
	for advertise, want := range map[string]int{"10.0.0.1": 0, "10.0.0.2": 1, "203.0.113.9:7000": 1, "": 0} {
		h := alpha()
		h.links = func() ([]link, error) { return []link{lan("lo", "127.0.0.1"), lan("eth0", "10.0.0.1")}, nil }
		c := mustLoad(t, Source{Flags: map[string][]string{"advertise": {advertise}}}, h)
		if len(c.Notes) != want || want > 0 && !strings.Contains(c.Notes[0], "which no interface of this host has") {
			t.Errorf("%s: notes %q, want %d", advertise, c.Notes, want)
		}
	}
}

// A host that cannot tell its interfaces or its name says so, once each, and nothing that follows from it.
func TestHostThatDoesNotAnswer(t *testing.T) {
	h := alpha()
	h.links = func() ([]link, error) { return nil, errors.New("netlink: out of memory") }
	h.hostname = func() (string, error) { return "", errors.New("permission denied") }
	_, err := load(Source{}, h)
	want := "node.name: the host's name cannot be read: permission denied; hint: set it with --name\n" +
		"network.advertise: the host's interfaces cannot be read: netlink: out of memory"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// What this machine says of itself is usable as it is: the defaults of the real host load.
func TestThisHostAnswers(t *testing.T) {
	h := thisHost()
	if _, err := h.links(); err != nil {
		t.Fatal(err)
	}
	if out, err := h.template(`{{ GetInterfaceIP "no-such-interface" }}`); err != nil || out != "" {
		t.Errorf("template of a missing interface: %q, %v; want an empty result, which bind refuses", out, err)
	}
	for _, v6 := range []bool{false, true} {
		if addr := h.outgoing(v6); addr.IsValid() && addr.Is6() != v6 {
			t.Errorf("outgoing address %s is of the wrong family", addr)
		}
	}
}

// An agent that starts while its cable is out must start: the address is this
// host's, and others reach it later.
func TestAddressOnALinkThatIsDown(t *testing.T) {
	addr := netip.MustParseAddr("10.77.0.4")
	links := []link{{Name: "eth0", Down: true, Addrs: []netip.Addr{addr}}}
	h := host{links: func() ([]link, error) { return links, nil }}
	if err := checkBind(addr, h); err != nil {
		t.Errorf("bind to it: %v", err)
	}
	if got := advertise.Choose(advertise.Sight{Links: links}, false); got != addr || !hasFamily(links, false) {
		t.Errorf("%v is advertised", got)
	}
}

// With a device the address is one of it, or of what belongs to it, unless neither has one.
func TestAdvertiseAddressOfTheDevice(t *testing.T) {
	links := []link{lan("eth0", "10.0.0.1"), lan("blue"), lan("eth1", "10.1.0.1"), lan("green", "10.2.0.1"), lan("eth2"), lan("red")}
	links[2].Under, links[4].Under = "blue", "green"
	for device, want := range map[string]string{"": "10.0.0.1", "eth0": "10.0.0.1", "eth1": "10.1.0.1", "blue": "10.1.0.1", "green": "10.2.0.1", "red": "10.0.0.1"} {
		h := alpha()
		h.links = func() ([]link, error) { return links, nil }
		h.outgoing = routeVia("10.0.0.1", "")
		c := mustLoad(t, Source{Flags: map[string][]string{"device": {device}}}, h)
		if got := c.Network.Advertise.Addr().String(); got != want {
			t.Errorf("device %q: %s is advertised, expected %s", device, got, want)
		}
	}
}
