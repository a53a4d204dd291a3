package vip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func client(here, there string) Client {
	return Client{Here: netip.MustParseAddrPort(here), There: netip.MustParseAddrPort(there)}
}

// The checksums are those of RFC 9293 over the pseudo-headers of both families, computed without this package.
func TestTheQuestionIsAsTheRFCDrawsIt(t *testing.T) {
	for _, tt := range []struct {
		client Client
		want   string
	}{
		{client("192.0.2.50:80", "192.0.2.9:40000"), `0050 9c40  00000000 00000000  50 10 0400  8b08 0000`},
		{client("[2001:db8::50]:443", "[2001:db8::9]:40001"), `01bb 9c41  00000000 00000000  50 10 0400  b20d 0000`},
	} {
		if got, want := tt.client.question(), unhex(t, tt.want); !bytes.Equal(got, want) {
			t.Errorf("%v:\n     got %x\nexpected %x", tt.client, got, want)
		}
	}
}

func TestUsableClients(t *testing.T) {
	for c, want := range map[Client]bool{
		client("192.0.2.50:80", "198.51.100.9:40000"):           true,
		client("192.0.2.50:80", "10.0.0.9:40000"):               true,
		client("[2001:db8::50]:80", "[2001:db8::9]:1"):          true,
		client("[2001:db8::50]:80", "[fd00::9]:1"):              true,
		client("192.0.2.50:80", "[2001:db8::9]:40000"):          false,
		client("192.0.2.50:80", "192.0.2.9:0"):                  false,
		client("192.0.2.50:0", "192.0.2.9:1"):                   false,
		client("192.0.2.50:80", "127.0.0.1:40000"):              false,
		client("192.0.2.50:80", "224.0.0.1:40000"):              false,
		client("192.0.2.50:80", "255.255.255.255:40000"):        false,
		client("192.0.2.50:80", "0.0.0.0:40000"):                false,
		client("0.0.0.0:80", "192.0.2.9:40000"):                 false,
		client("[2001:db8::50]:80", "[fe80::1%eth0]:1"):         false,
		client("[2001:db8::50]:80", "[ff02::1]:1"):              false,
		client("[::ffff:192.0.2.50]:80", "[::ffff:10.0.0.1]:1"): false,
		{}: false,
	} {
		if got := c.IsUsable(); got != want {
			t.Errorf("%v: usable %t, want %t", c, got, want)
		}
	}
}

// What the kernel says of a socket for both families is a client of IPv4.
func TestWhatTheKernelSaysOfASocket(t *testing.T) {
	message := func(family byte, here, there netip.AddrPort) []byte {
		b := make([]byte, 72)
		b[0], b[1] = family, 1
		binary.BigEndian.PutUint16(b[4:], here.Port())
		binary.BigEndian.PutUint16(b[6:], there.Port())
		copy(b[8:], here.Addr().AsSlice())
		copy(b[24:], there.Addr().AsSlice())
		return b
	}
	a, b := netip.MustParseAddrPort("192.0.2.50:80"), netip.MustParseAddrPort("192.0.2.9:40000")
	mapped := func(p netip.AddrPort) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom16(p.Addr().As16()), p.Port())
	}
	for _, raw := range [][]byte{message(unix.AF_INET, a, b), message(unix.AF_INET6, mapped(a), mapped(b))} {
		if got, ok := parseDiag(raw, raw[0] == unix.AF_INET6); !ok || got != (Client{a, b}) {
			t.Errorf("%x: %v, %t", raw, got, ok)
		}
	}
	for n := range 40 {
		if got, ok := parseDiag(message(unix.AF_INET, a, b)[:n], false); ok {
			t.Errorf("%d bytes are %v", n, got)
		}
	}
}

// serves has the host take connections, and never say anything.
func (h host) serves(at netip.Addr) {
	h.t.Helper()
	var served net.Listener
	if err := h.Within(func() (err error) { served, err = net.Listen("tcp", netip.AddrPortFrom(at, 7000).String()); return err }); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { served.Close() })
	go func() {
		for c, err := served.Accept(); err == nil; c, err = served.Accept() {
			h.t.Cleanup(func() { c.Close() })
		}
	}()
}

// connects gives a connection from the host.
func (h host) connects(to netip.Addr) (conn net.Conn) {
	h.t.Helper()
	if err := h.Within(func() (err error) {
		conn, err = net.DialTimeout("tcp", netip.AddrPortFrom(to, 7000).String(), patience)
		return err
	}); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { conn.Close() })
	return conn
}

// isClientOf is conn as its server sees it.
func isClientOf(conn net.Conn) Client {
	return Client{Here: conn.RemoteAddr().(*net.TCPAddr).AddrPort(), There: conn.LocalAddr().(*net.TCPAddr).AddrPort()}
}

// A host dies with all that it had. Another one has the address then, and of the clients those see an end that it knows of; so they
// do where it serves at the same port.
func TestClientsOfADeadHostSeeAnEnd(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	dies, next, from := l.hosts[0], l.hosts[1], l.hosts[2]
	ours := []netip.Prefix{ours4, ours6}
	var known, unknown []net.Conn
	if err := dies.keeps("eth0", ours...).tries(); err != nil {
		t.Fatal(err)
	}
	for _, p := range ours {
		dies.serves(p.Addr())
		known, unknown = append(known, from.connects(p.Addr())), append(unknown, from.connects(p.Addr()))
	}
	from.connectsElsewhere(dies)
	var clients []Client
	if err := dies.Within(func() error { clients = Clients(ours); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, c := range append(slices.Clone(known), unknown...) {
		if !slices.Contains(clients, isClientOf(c)) {
			t.Errorf("%v is not listed", isClientOf(c))
		}
	}
	if len(clients) != 4 {
		t.Errorf("%d clients are listed: %v", len(clients), clients)
	}
	clients = slices.DeleteFunc(clients, func(c Client) bool {
		return slices.ContainsFunc(unknown, func(conn net.Conn) bool { return isClientOf(conn) == c })
	})
	dies.ip("link set eth0 down")
	k := next.keeps("eth0", ours...)
	k.begin()
	next.serves(ours4.Addr())
	if err := next.Within(func() error { k.Tickle(append(clients, client("192.0.2.2:1", "192.0.2.3:1"))); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, c := range known {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%v: the reader has %v", c.LocalAddr(), err)
		}
	}
	for _, c := range unknown {
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v, which nobody knew of: the reader has %v", c.LocalAddr(), err)
		}
	}
	if said := k.said(); said != "" {
		t.Errorf("notes %q", said)
	}
	if err := k.end(); err != nil {
		t.Error(err)
	}
}

// connectsElsewhere has a connection to an address of the host's own, which is not listed.
func (h host) connectsElsewhere(to host) {
	own := netip.MustParseAddr("192.0.2.1")
	to.serves(own)
	h.connects(own)
}

// Nothing is sent from an address that is not kept any more.
func TestNobodyIsAskedAfterAPause(t *testing.T) {
	k := NewKept([]netip.Prefix{ours4}, "eth0", shortestBound, func() bool { return true }, func(note string) { t.Errorf("it says %q", note) })
	k.Pause()
	k.Tickle([]Client{client("192.0.2.50:80", "192.0.2.9:40000")})
}
