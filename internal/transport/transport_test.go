package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		beChild()
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait on a real socket. It is never waited out unless the
// test fails.
const patience = 10 * time.Second

var loopback4 = netip.MustParseAddrPort("127.0.0.1:0")

// listen opens a transport that is shut down with the test.
func listen(t *testing.T, bind netip.AddrPort) *Transport {
	t.Helper()
	tr, err := Listen(Config{Bind: bind})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Shutdown() })
	return tr
}

// needsIPv6 skips where the machine has no IPv6 loopback.
func needsIPv6(t *testing.T) {
	t.Helper()
	c, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	_ = c.Close()
}

// at is tr's port on another of the host's addresses.
func at(addr string, tr *Transport) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), tr.Addr().Port())
}

type received struct {
	data string
	from netip.AddrPort
}

// drive calls Read until the transport is shut down, as the agent does.
func drive(tr *Transport) <-chan received {
	datagrams := make(chan received, 64)
	go func() {
		defer close(datagrams)
		var b [256]byte
		for {
			n, from, err := tr.Read(b[:])
			if err != nil {
				return
			}
			datagrams <- received{string(b[:n]), from}
		}
	}()
	return datagrams
}

// say begins a stream of a kind: one byte, which the other end repeats. It stands in the place of a proof.
func say(k Kind) Prove {
	return func(c net.Conn) (net.Conn, error) {
		if _, err := c.Write([]byte{byte(k)}); err != nil {
			return nil, err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return c, err
	}
}

// hear is the accepting end of say.
func hear(c net.Conn) (net.Conn, Kind, error) {
	var b [1]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return nil, 0, err
	}
	_, err := c.Write(b[:])
	return c, Kind(b[0]), err
}

// next waits for one value.
func next[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-ch:
		if !ok {
			t.Fatalf("%s: channel closed", what)
		}
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing came", what)
		panic("unreachable")
	}
}

// eventually waits for a condition that no event announces.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: did not become true", what)
		}
	}
}

// send fails the test if the kernel refuses.
func send(t *testing.T, from *Transport, to netip.AddrPort, text string) {
	t.Helper()
	if err := from.Send(to, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func TestUDPAndTCPShareThePortThatTheKernelChose(t *testing.T) {
	tr := listen(t, loopback4)
	udp := tr.datagrams.conn.LocalAddr().(*net.UDPAddr).Port
	tcp := tr.streams.listener.Addr().(*net.TCPAddr).Port
	if udp == 0 || udp != tcp || udp != int(tr.Addr().Port()) {
		t.Errorf("UDP %d, TCP %d, Addr %s: want one port", udp, tcp, tr.Addr())
	}
}

func TestPortInUseSaysWhichProtocolAndWhere(t *testing.T) {
	for _, proto := range []string{"udp", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			taken := occupy(t, proto)
			tr, err := Listen(Config{Bind: taken})
			if err == nil {
				_ = tr.Shutdown()
				t.Fatal("listened on a port in use")
			}
			if !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("%v does not wrap EADDRINUSE", err)
			}
			if want := fmt.Sprintf("listen on %s %s: ", proto, taken); !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %q does not begin with %q", err, want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has more than one line: %q", err)
			}
		})
	}
}

// TestPortThatIsFreeForUDPOnly: only a port that the kernel chose is worth
// another try, and not for ever.
func TestPortThatIsFreeForUDPOnly(t *testing.T) {
	for _, c := range []struct {
		name     string
		bind     string
		failures int
		tries    int
		opens    bool
	}{
		{"found at the third try", "127.0.0.1:0", 2, 3, true},
		{"none to be had", "127.0.0.1:0", portAttempts, portAttempts, false},
		{"the only one that will do", "127.0.0.1:7950", 1, 1, false},
	} {
		tries := 0
		_, _, err := listenBoth(netip.MustParseAddrPort(c.bind), func(netip.AddrPort) (*net.UDPConn, *net.TCPListener, error) {
			if tries++; tries <= c.failures {
				return nil, nil, fmt.Errorf("listen: %w", syscall.EADDRINUSE)
			}
			return nil, nil, nil
		})
		if tries != c.tries || (err == nil) != c.opens {
			t.Errorf("%s: %d tries, %v; want %d", c.name, tries, err, c.tries)
		}
	}
}

// occupy holds a port of one protocol until the test ends.
func occupy(t *testing.T, proto string) netip.AddrPort {
	t.Helper()
	var (
		c    io.Closer
		addr net.Addr
	)
	if proto == "udp" {
		pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c, addr = pc, pc.LocalAddr()
	} else {
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c, addr = ln, ln.Addr()
	}
	t.Cleanup(func() { _ = c.Close() })
	return netip.MustParseAddrPort(addr.String())
}

func TestListenRefusesWhatCannotWork(t *testing.T) {
	for _, c := range []struct{ name, bind, says string }{
		{"nothing", "", "no bind address given"},
		{"link-local", "[fe80::1%lo]:7950", "link-local"},
		{"an address of another host", "192.0.2.1:0", "no interface of this host has this address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var bind netip.AddrPort
			if c.bind != "" {
				bind = netip.MustParseAddrPort(c.bind)
			}
			tr, err := Listen(Config{Bind: bind})
			if err == nil {
				_ = tr.Shutdown()
				t.Fatalf("listened on %s", bind)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q does not say %q", err, c.says)
			}
		})
	}
}

func TestAddressThatOthersAreTold(t *testing.T) {
	for _, c := range []struct {
		name            string
		bind, advertise string
		fromMemberlist  string
		want            string // :0 stands for the bound port; empty: an error
	}{
		{"the bind address", "127.0.0.1:0", "", "", "127.0.0.1:0"},
		{"the advertised one", "127.0.0.1:0", "192.0.2.7:7950", "", "192.0.2.7:7950"},
		{"the advertised one with the bound port", "0.0.0.0:0", "192.0.2.7:0", "", "192.0.2.7:0"},
		{"an IPv4 address in its own form", "0.0.0.0:0", "[::ffff:192.0.2.7]:7950", "", "192.0.2.7:7950"},
		{"an IPv6 address", "0.0.0.0:0", "[2001:db8::7]:7950", "", "[2001:db8::7]:7950"},
		{"what memberlist was configured with", "127.0.0.1:0", "192.0.2.7:7950", "192.0.2.8", "192.0.2.8:7946"},
		{"no wildcard", "0.0.0.0:0", "", "", ""},
		{"no advertised wildcard", "127.0.0.1:0", "0.0.0.0:7950", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{Bind: netip.MustParseAddrPort(c.bind)}
			if c.advertise != "" {
				cfg.Advertise = netip.MustParseAddrPort(c.advertise)
			}
			tr, err := Listen(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tr.Shutdown() }()

			ip, port, err := tr.FinalAdvertiseAddr(c.fromMemberlist, 7946)
			if c.want == "" {
				if err == nil || !strings.Contains(err.Error(), "set the advertise address") {
					t.Fatalf("got %s:%d, %v; want an error that says what to set", ip, port, err)
				}
				return
			}
			want := netip.MustParseAddrPort(c.want)
			if want.Port() == 0 {
				want = netip.AddrPortFrom(want.Addr(), tr.Addr().Port())
			}
			got, _ := netip.AddrFromSlice(ip)
			if err != nil || netip.AddrPortFrom(got, uint16(port)) != want {
				t.Errorf("got %s port %d, %v; want %s", got, port, err, want)
			}
		})
	}
}

func TestShutdownEndsStreamsThatWait(t *testing.T) {
	tr := listen(t, loopback4)
	tr.Serve(hear)
	silent := dial(t, "127.0.0.1", tr)
	eventually(t, "the silent stream is admitted", func() bool { return open(tr) == 1 })
	for range 2 {
		if err := tr.Shutdown(); err != nil {
			t.Fatal(err)
		}
	}
	wantClosed(t, silent)
}
