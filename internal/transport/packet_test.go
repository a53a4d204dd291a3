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

func TestFramesAndGossipAreToldApart(t *testing.T) {
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

// exchange sends both kinds, mixed, and looks at what arrives from whom.
func exchange(t *testing.T, from, to *Transport, fromAddr, toAddr netip.AddrPort) {
	t.Helper()
	before, sentBefore := to.Stats(), from.Stats()
	sendGossip(t, from, toAddr, "one")
	sendFrame(t, from, toAddr, "first")
	sendGossip(t, from, toAddr, "two")
	sendFrame(t, from, toAddr, "second")

	var b [256]byte
	for _, want := range []string{"\xb7first", "\xb7second"} {
		n, sender, err := to.ReadFrame(b[:])
		if err != nil || string(b[:n]) != want || sender != fromAddr {
			t.Fatalf("ReadFrame = %q from %s, %v; want %q from %s", b[:n], sender, err, want, fromAddr)
		}
	}
	for _, want := range []string{"\x07one", "\x07two"} {
		p := next(t, "gossip", to.PacketCh())
		if string(p.Buf) != want || p.From.(*net.UDPAddr).AddrPort() != fromAddr {
			t.Errorf("gossip %q from %s, want %q from %s", p.Buf, p.From, want, fromAddr)
		}
		if p.Timestamp.IsZero() {
			t.Error("gossip has no time of arrival")
		}
		if cap(p.Buf) > 64 {
			t.Errorf("%d bytes of gossip hold %d bytes of memory", len(p.Buf), cap(p.Buf))
		}
	}
	after := to.Stats()
	if after.FramesIn-before.FramesIn != 2 || after.GossipIn-before.GossipIn != 2 {
		t.Errorf("received %+v after %+v: want two more of each", after, before)
	}
	sent := from.Stats()
	if sent.FramesOut-sentBefore.FramesOut != 2 || sent.GossipOut-sentBefore.GossipOut != 2 {
		t.Errorf("sent %+v after %+v: want two more of each", sent, sentBefore)
	}
}

func TestMappedAddressIsAnIPv4Address(t *testing.T) {
	a, b := listen(t, loopback4), listen(t, netip.MustParseAddrPort("[::ffff:127.0.0.1]:0"))
	if !b.Addr().Addr().Is4() {
		t.Errorf("bound to %s, want the IPv4 form", b.Addr())
	}
	sendFrame(t, a, at("::ffff:127.0.0.1", b), "hello")
	var buf [16]byte
	if n, from, err := b.ReadFrame(buf[:]); string(buf[:n]) != "\xb7hello" || from != a.Addr() || err != nil {
		t.Errorf("ReadFrame = %q from %s, %v", buf[:n], from, err)
	}
}

func TestIPv4WildcardIsNotDualStack(t *testing.T) {
	needsIPv6(t)
	four, six := listen(t, netip.MustParseAddrPort("0.0.0.0:0")), listen(t, netip.MustParseAddrPort("[::1]:0"))
	if err := four.SendFrame(six.Addr(), []byte{frameByte}); !errors.Is(err, errOtherProto) {
		t.Errorf("IPv4 socket to %s: %v, want %v", six.Addr(), err, errOtherProto)
	}
	if c, err := net.Dial("tcp6", at("::1", four).String()); err == nil {
		_ = c.Close()
		t.Error("0.0.0.0 accepted a stream by IPv6")
	}
}

// TestGossipFloodDoesNotDelayFrames is P7: memberlist stands still, its queue
// fills, and every frame still comes through behind the flood.
func TestGossipFloodDoesNotDelayFrames(t *testing.T) {
	a, b := listen(t, loopback4), listen(t, loopback4)
	const rounds, flood = 10, 50
	var buf [256]byte
	for range rounds {
		for range flood {
			sendGossip(t, a, b.Addr(), "nobody reads this")
		}
		sendFrame(t, a, b.Addr(), "heartbeat")
		if n, _, err := b.ReadFrame(buf[:]); err != nil || string(buf[:n]) != "\xb7heartbeat" {
			t.Fatalf("ReadFrame = %q, %v", buf[:n], err)
		}
	}
	s := b.Stats()
	if s.GossipIn != gossipQueue || s.GossipDropped != rounds*flood-gossipQueue {
		t.Errorf("%d queued, %d dropped; want %d and the rest", s.GossipIn, s.GossipDropped, gossipQueue)
	}
	if s.FramesIn != rounds {
		t.Errorf("%d frames, want %d", s.FramesIn, rounds)
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
	frames := drive(deaf)
	gone, other := listen(t, loopback4), listen(t, loopback4)
	_ = gone.Shutdown()

	sendFrame(t, deaf, gone.Addr(), "anybody there?")
	eventually(t, "the read error", func() bool { return strings.Contains(log.String(), "connection refused") })
	sendFrame(t, other, deaf.Addr(), "still here")
	if got := next(t, "a frame", frames); got.data != "\xb7still here" {
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

func TestOddDatagrams(t *testing.T) {
	tr := listen(t, loopback4)
	c, err := net.Dial("udp4", tr.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	big := append([]byte{frameByte}, make([]byte, 9000)...)
	for _, d := range [][]byte{{}, {frameByte}, big} {
		if _, err := c.Write(d); err != nil {
			t.Fatal(err)
		}
	}
	var b [256]byte
	if n, _, err := tr.ReadFrame(b[:]); n != 1 || err != nil {
		t.Errorf("one-byte frame: %d bytes, %v; want it, and the empty datagram before it ignored", n, err)
	}
	if n, _, err := tr.ReadFrame(b[:]); n != len(b) || err != nil {
		t.Errorf("frame of %d bytes into %d: %d, %v; want it cut off", len(big), len(b), n, err)
	}
	if s := tr.Stats(); s.GossipIn != 0 {
		t.Errorf("%d taken for gossip", s.GossipIn)
	}
}

func TestSendingWhatCannotBeSent(t *testing.T) {
	tr := listen(t, loopback4)
	for _, c := range []struct {
		name  string
		to    string
		frame []byte
		want  error
	}{
		{"gossip as a frame", "127.0.0.1:9", []byte{7}, errNotFrame},
		{"nothing", "127.0.0.1:9", nil, errNotFrame},
		{"to a link-local address", "[fe80::1%lo]:9", []byte{frameByte}, errLinkLocal},
		{"more than a datagram holds", "127.0.0.1:9", append([]byte{frameByte}, make([]byte, maxDatagram)...), syscall.EMSGSIZE},
	} {
		if err := tr.SendFrame(netip.MustParseAddrPort(c.to), c.frame); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if err := tr.SendFrame(netip.AddrPort{}, []byte{frameByte}); err == nil {
		t.Error("sent to no address")
	}
	if got := tr.Stats(); got.SendErrors != 3 || got.FramesOut != 0 {
		t.Errorf("%d errors and %d frames counted, want 3 and 0", got.SendErrors, got.FramesOut)
	}
}

// TestMemberlistKnowsAnUnreachableMember: memberlist asks other members at once
// when a write fails with *net.OpError "write udp", and by no other type.
func TestMemberlistKnowsAnUnreachableMember(t *testing.T) {
	tr := listen(t, loopback4)
	_, err := tr.WriteTo(make([]byte, maxDatagram), "127.0.0.1:9")
	op, ok := err.(*net.OpError)
	if !ok || op.Op != "write" || op.Net != "udp" {
		t.Errorf("got %T %v, want a *net.OpError of a UDP write", err, err)
	}
	if _, err := tr.WriteTo([]byte{7}, "host.example:7950"); err == nil {
		t.Error("a host name was looked up")
	}
}

func TestSendFrameFromManyGoroutines(t *testing.T) {
	a, b := listen(t, loopback4), listen(t, loopback4)
	frames := drive(b)
	const senders, each = 4, 10
	var sending sync.WaitGroup
	for i := range senders {
		sending.Go(func() {
			for range each {
				if err := a.SendFrame(b.Addr(), []byte{frameByte, byte(i), byte(i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	sending.Wait()
	for range senders * each {
		if got := next(t, "a frame", frames); len(got.data) != 3 || got.data[1] != got.data[2] {
			t.Errorf("frame %q is a mix of two", got.data)
		}
	}
}

func TestFramesCostNoGarbage(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			if f.needsSixes {
				needsIPv6(t)
			}
			a, b := listen(t, netip.MustParseAddrPort(f.bindA)), listen(t, netip.MustParseAddrPort(f.bindB))
			to, frame, buf := at(f.bIs, b), []byte("\xb7heartbeat"), make([]byte, 256)
			allocs := testing.AllocsPerRun(200, func() {
				if err := a.SendFrame(to, frame); err != nil {
					t.Fatal(err)
				}
				if _, _, err := b.ReadFrame(buf); err != nil {
					t.Fatal(err)
				}
			})
			if allocs != 0 {
				t.Errorf("%v allocations for one frame sent and received, want 0", allocs)
			}
		})
	}
}

func BenchmarkFrame(b *testing.B) {
	tr, err := Listen(Config{Bind: loopback4})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = tr.Shutdown() }()
	frame, buf := make([]byte, 128), make([]byte, 256)
	frame[0] = frameByte
	b.ReportAllocs()
	for b.Loop() {
		if err := tr.SendFrame(tr.Addr(), frame); err != nil {
			b.Fatal(err)
		}
		if _, _, err := tr.ReadFrame(buf); err != nil {
			b.Fatal(err)
		}
	}
}
