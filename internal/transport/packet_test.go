package transport

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

// family names how one transport reaches another.
var families = []struct {
	name       string
	bindA      string
	bindB      string
	aIs, bIs   string // the addresses under which they reach each other
	needsSixes bool
}{
	{"IPv4", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1", "127.0.0.1", false},
	{"IPv6", "[::1]:0", "[::1]:0", "::1", "::1", true},
	{"IPv4 wildcard", "0.0.0.0:0", "127.0.0.1:0", "127.0.0.1", "127.0.0.1", false},
	{"dual-stack to IPv4", "[::]:0", "127.0.0.1:0", "127.0.0.1", "127.0.0.1", true},
	{"dual-stack to IPv6", "[::]:0", "[::1]:0", "::1", "::1", true},
	{"dual-stack to dual-stack by IPv4", "[::]:0", "[::]:0", "127.0.0.1", "127.0.0.1", true},
}

func TestDatagramsOfEachFamily(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			if f.needsSixes {
				needsIPv6(t)
			}
			a, b := listen(t, netip.MustParseAddrPort(f.bindA)), listen(t, netip.MustParseAddrPort(f.bindB))
			exchange(t, a, b, at(f.aIs, a), at(f.bIs, b))
			exchange(t, b, a, at(f.bIs, b), at(f.aIs, a))
		})
	}
}

// exchange sends two datagrams, and looks at what arrives from whom.
func exchange(t *testing.T, from, to *Transport, fromAddr, toAddr netip.AddrPort) {
	t.Helper()
	before, sentBefore := to.Stats(), from.Stats()
	send(t, from, toAddr, "first")
	send(t, from, toAddr, "second")
	var b [256]byte
	for _, want := range []string{"first", "second"} {
		n, sender, err := to.Read(b[:])
		if err != nil || string(b[:n]) != want || sender != fromAddr {
			t.Fatalf("Read = %q from %s, %v; want %q from %s", b[:n], sender, err, want, fromAddr)
		}
	}
	if got := to.Stats().DatagramsIn - before.DatagramsIn; got != 2 {
		t.Errorf("%d counted in, want 2", got)
	}
	if got := from.Stats().DatagramsOut - sentBefore.DatagramsOut; got != 2 {
		t.Errorf("%d counted out, want 2", got)
	}
}

func TestMappedAddressIsAnIPv4Address(t *testing.T) {
	a, b := listen(t, loopback4), listen(t, netip.MustParseAddrPort("[::ffff:127.0.0.1]:0"))
	if !b.Addr().Addr().Is4() {
		t.Errorf("bound to %s, want the IPv4 form", b.Addr())
	}
	send(t, a, at("::ffff:127.0.0.1", b), "hello")
	var buf [16]byte
	if n, from, err := b.Read(buf[:]); string(buf[:n]) != "hello" || from != a.Addr() || err != nil {
		t.Errorf("Read = %q from %s, %v", buf[:n], from, err)
	}
}

func TestIPv4WildcardIsNotDualStack(t *testing.T) {
	needsIPv6(t)
	four, six := listen(t, netip.MustParseAddrPort("0.0.0.0:0")), listen(t, netip.MustParseAddrPort("[::1]:0"))
	if err := four.Send(six.Addr(), []byte{1}); !errors.Is(err, errOtherProto) {
		t.Errorf("IPv4 socket to %s: %v, want %v", six.Addr(), err, errOtherProto)
	}
	if c, err := net.Dial("tcp6", at("::1", four).String()); err == nil {
		_ = c.Close()
		t.Error("0.0.0.0 accepted a stream by IPv6")
	}
}

// TestICMPErrorDoesNotEndTheReading makes the kernel report "port unreachable"
// on the socket, as it does where IP_RECVERR is set.
func TestICMPErrorDoesNotEndTheReading(t *testing.T) {
	var log syncBuffer
	deaf, err := Listen(Config{Bind: loopback4, Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &log})})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = deaf.Shutdown() }()
	_ = deaf.datagrams.out.raw.Control(func(fd uintptr) {
		if err := syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_RECVERR, 1); err != nil {
			t.Fatal(err)
		}
	})
	datagrams := drive(deaf)
	gone, other := listen(t, loopback4), listen(t, loopback4)
	_ = gone.Shutdown()

	send(t, deaf, gone.Addr(), "anybody there?")
	eventually(t, "the read error", func() bool { return strings.Contains(log.String(), "connection refused") })
	send(t, other, deaf.Addr(), "still here")
	if got := next(t, "a datagram", datagrams); got.data != "still here" {
		t.Errorf("got %q", got.data)
	}
}

// TestReadErrorsThatGoOnAreNotABusyLoop: the pauses of a socket that fails again
// and again.
func TestReadErrorsThatGoOnAreNotABusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		d := &datagrams{log: hclog.NewNullLogger(), closed: closed}
		for failures, want := range map[int]time.Duration{0: 0, 1: time.Millisecond, 2: 2 * time.Millisecond, 10: 512 * time.Millisecond, 11: readErrorDelay, 1000: readErrorDelay} {
			begin := time.Now()
			if again := d.mayReadAgain(syscall.ENOMEM, failures); !again || time.Since(begin) != want {
				t.Errorf("failure %d: read again %t after %v, want after %v", failures, again, time.Since(begin), want)
			}
		}
		close(closed)
		if d.mayReadAgain(syscall.ENOMEM, 1000) {
			t.Error("a closed socket is read again")
		}
	})
}

// syncBuffer is a log that a test may read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestSendingWhatCannotBeSent(t *testing.T) {
	tr := listen(t, loopback4)
	for _, c := range []struct {
		name string
		to   string
		b    []byte
		want error
	}{
		{"to a link-local address", "[fe80::1%lo]:9", []byte{1}, errLinkLocal},
		{"more than a datagram holds", "127.0.0.1:9", make([]byte, 1<<16), syscall.EMSGSIZE},
	} {
		if err := tr.Send(netip.MustParseAddrPort(c.to), c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if err := tr.Send(netip.AddrPort{}, []byte{1}); err == nil {
		t.Error("sent to no address")
	}
	if got := tr.Stats(); got.SendErrors != 3 || got.DatagramsOut != 0 {
		t.Errorf("%d errors and %d datagrams counted, want 3 and 0", got.SendErrors, got.DatagramsOut)
	}
}

func TestSendFromManyGoroutines(t *testing.T) {
	a, b := listen(t, loopback4), listen(t, loopback4)
	datagrams := drive(b)
	const senders, each = 4, 10
	var sending sync.WaitGroup
	for i := range senders {
		sending.Go(func() {
			for range each {
				if err := a.Send(b.Addr(), []byte{1, byte(i), byte(i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	sending.Wait()
	for range senders * each {
		if got := next(t, "a datagram", datagrams); len(got.data) != 3 || got.data[1] != got.data[2] {
			t.Errorf("datagram %q is a mix of two", got.data)
		}
	}
}

func TestDatagramsCostNoGarbage(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			if f.needsSixes {
				needsIPv6(t)
			}
			a, b := listen(t, netip.MustParseAddrPort(f.bindA)), listen(t, netip.MustParseAddrPort(f.bindB))
			to, text, buf := at(f.bIs, b), []byte("heartbeat"), make([]byte, 256)
			allocs := testing.AllocsPerRun(200, func() {
				if err := a.Send(to, text); err != nil {
					t.Fatal(err)
				}
				if _, _, err := b.Read(buf); err != nil {
					t.Fatal(err)
				}
			})
			if allocs != 0 {
				t.Errorf("%v allocations for one datagram sent and received, want 0", allocs)
			}
		})
	}
}

func BenchmarkDatagram(b *testing.B) {
	tr, err := Listen(Config{Bind: loopback4})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = tr.Shutdown() }()
	text, buf := make([]byte, 128), make([]byte, 256)
	b.ReportAllocs()
	for b.Loop() {
		if err := tr.Send(tr.Addr(), text); err != nil {
			b.Fatal(err)
		}
		if _, _, err := tr.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}
