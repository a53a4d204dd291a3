package vip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// An address of the other family is no address of the interface's own: what comes back first would be its first one.
func TestAnAddressWaitsForItsOwnFamily(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	k := h.keeps("eth0", ours4, ours6)
	k.begin()
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

// A client of IPv6 that only reads notices as one of IPv4 does.
func TestConnectionsOfIPv6EndWithTheAddress(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	h, client := l.hosts[0], l.hosts[1]
	k := h.keeps("eth0", ours6)
	k.begin()
	at := netip.AddrPortFrom(ours6.Addr(), 7000).String()
	var served net.Listener
	if err := h.Within(func() (err error) { served, err = net.Listen("tcp6", at); return err }); err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	accepted := make(chan net.Conn, 1)
	go func() { c, _ := served.Accept(); accepted <- c }()
	var conn net.Conn
	if err := client.Within(func() (err error) { conn, err = net.Dial("tcp6", at); return err }); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	defer (<-accepted).Close()
	if err := k.end(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(k.said(), "this kernel cannot") {
		t.Skip("skipped: this kernel cannot destroy sockets (CONFIG_INET_DIAG_DESTROY)")
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the reader has %v", err)
	}
}
