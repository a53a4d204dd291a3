package advertise

import (
	"net/netip"
	"testing"
	"time"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func on(name string, addrs ...string) Link {
	l := Link{Name: name}
	for _, a := range addrs {
		l.Addrs = append(l.Addrs, addr(a))
	}
	return l
}

func down(l Link) Link  { l.Down = true; return l }
func inner(l Link) Link { l.Inner = true; return l }

// Each case begins at a place on eth0, as it was seen first, and looks again.
func TestLook(t *testing.T) {
	lo := on("lo", "127.0.0.1")
	for _, tc := range []struct {
		name    string
		at      string
		fixed   bool
		device  string
		first   []Link // nil: eth0 with 10.0.0.1
		then    []Link
		others  []string
		shared  time.Duration
		isOn    bool
		trouble Trouble
		better  string
	}{
		{name: "nothing is wrong", then: []Link{lo, on("eth0", "10.0.0.1")}, others: []string{"10.0.0.2"}, isOn: true},
		{name: "the cable is pulled, and another link is there", then: []Link{down(on("eth0", "10.0.0.1")), on("eth1", "10.1.0.1")}, trouble: Down},
		{name: "the address is gone", then: []Link{lo, on("eth0")}, trouble: Gone},
		{name: "another has come in its place", then: []Link{lo, on("eth0", "10.0.0.9")}, trouble: Gone, better: "10.0.0.9"},
		{name: "only another link has one", then: []Link{on("eth0"), on("eth1", "10.1.0.1")}, trouble: Gone},
		{name: "its link is gone, too", then: []Link{on("eth1", "10.1.0.1")}, trouble: Gone, better: "10.1.0.1"},
		{name: "what is left is a member's", then: []Link{on("eth0", "10.0.0.9")}, others: []string{"10.0.0.9"}, trouble: Gone},
		{name: "a configured address is never changed", fixed: true, then: []Link{on("eth0", "10.0.0.9")}, trouble: Gone},
		{name: "a configured address that something passes on", fixed: true, first: []Link{on("eth0", "192.168.0.1")},
			then: []Link{on("eth0", "192.168.0.1")}, isOn: true},
		{name: "loopback, and nothing else", at: "127.0.0.1", first: []Link{lo}, then: []Link{lo, on("eth0")}, trouble: Loopback},
		{name: "loopback, and an address has come", at: "127.0.0.1", first: []Link{lo}, then: []Link{lo, on("eth0", "10.0.0.1")},
			trouble: Loopback, better: "10.0.0.1"},
		{name: "loopback, and the cable is not in yet", at: "127.0.0.1", first: []Link{lo}, then: []Link{lo, down(on("eth0", "10.0.0.1"))},
			trouble: Loopback},
		{name: "loopback was asked for", at: "127.0.0.1", fixed: true, then: []Link{lo, on("eth0", "10.0.0.1")}, isOn: true},
		{name: "loopback, where the others are", at: "127.0.0.1", then: []Link{lo}, others: []string{"127.0.0.1"}, isOn: true},
		{name: "docker's bridge, and an address has come", at: "172.17.0.1", first: []Link{inner(on("docker0", "172.17.0.1"))},
			then: []Link{inner(on("docker0", "172.17.0.1")), on("eth0", "10.0.0.1")}, trouble: Inner, better: "10.0.0.1"},
		{name: "docker's bridge, and nothing else", at: "172.17.0.1", first: []Link{inner(on("docker0", "172.17.0.1"))},
			then: []Link{inner(on("docker0", "172.17.0.1"))}, isOn: true, trouble: Inner},
		{name: "a device bounds where it may go", at: "127.0.0.1", first: []Link{lo}, device: "blue",
			then: []Link{lo, on("eth0", "10.0.0.1"), {Name: "eth1", Under: "blue", Addrs: []netip.Addr{addr("192.168.0.1")}}}, trouble: Loopback, better: "192.168.0.1"},
		{name: "every host has this one", then: []Link{on("eth0", "10.0.0.1"), on("eth1", "192.168.56.11")}, others: []string{"10.0.0.1"},
			shared: lasting, trouble: Shared, better: "192.168.56.11"},
		{name: "an earlier id of this host is believed alive still", then: []Link{on("eth0", "10.0.0.1"), on("eth1", "192.168.56.11")},
			others: []string{"10.0.0.1"}, shared: lasting - time.Second, isOn: true, trouble: Shared},
		{name: "every host has this one, and it is the only one", then: []Link{on("eth0", "10.0.0.1")}, others: []string{"10.0.0.1"},
			shared: lasting, isOn: true, trouble: Shared},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.at == "" {
				tc.at = "10.0.0.1"
			}
			if tc.first == nil {
				tc.first = []Link{on("eth0", "10.0.0.1")}
			}
			var others []netip.Addr
			for _, o := range tc.others {
				others = append(others, addr(o))
			}
			var better netip.Addr
			if tc.better != "" {
				better = addr(tc.better)
			}
			p, _ := Place{Addr: addr(tc.at), IsFixed: tc.fixed, Device: tc.device}.Look(Sight{Links: tc.first}, nil, 0)
			p, v := p.Look(Sight{Links: tc.then}, others, tc.shared)
			if v.IsOn != tc.isOn || v.Trouble != tc.trouble || v.Better != better {
				t.Fatalf("%+v, want on %t, trouble %d, better %v", v, tc.isOn, tc.trouble, better)
			}
			if !better.IsValid() {
				return
			}
			if p, v = p.At(better).Look(Sight{Links: tc.then}, others, 0); !v.IsOn || v.Better.IsValid() || p.Addr != better {
				t.Errorf("it does not stay at %v: %+v", better, v)
			}
		})
	}
}
