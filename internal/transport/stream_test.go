package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

// dial opens a stream to tr from one of the loopback network's addresses.
func dial(t *testing.T, from string, tr *Transport) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	c, err := dialer.Dial("tcp4", at("127.0.0.1", tr).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// open is the number of places taken.
func open(tr *Transport) int {
	g := &tr.streams.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.total
}

// wantClosed waits for the other end to close c.
func wantClosed(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("stream is open (%v), want it closed", err)
	}
}

// begin says what c is for, and waits until that was heard.
func begin(t *testing.T, c net.Conn, k Kind) {
	t.Helper()
	if _, err := say(k)(c); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, c net.Conn, data string) {
	t.Helper()
	if _, err := io.WriteString(c, data); err != nil {
		t.Fatal(err)
	}
}

// TestIdleStreamsFromOneSourceAreFew has few streams: a place is held from
// accept to close, whether or not memberlist has the stream.
func TestIdleStreamsFromOneSourceAreFew(t *testing.T) {
	tr := listen(t, loopback4)
	taken := tr.Serve(hear)
	for range maxStreamsPerSource - 1 {
		dial(t, "127.0.0.1", tr)
	}
	last := dial(t, "127.0.0.1", tr)
	begin(t, last, Gossip)
	first := next(t, "the stream that spoke", taken)
	eventually(t, "all places of the source are taken", func() bool { return open(tr) == maxStreamsPerSource })

	wantClosed(t, dial(t, "127.0.0.1", tr))
	if got := tr.Stats().StreamsRefused; got != 1 {
		t.Errorf("%d streams refused, want 1", got)
	}

	other := dial(t, "127.0.0.2", tr)
	begin(t, other, Gossip)
	_ = next(t, "another source's stream", taken).Close()

	for range 2 { // the second Close frees nothing
		_ = first.Close()
	}
	if got := open(tr); got != maxStreamsPerSource-1 {
		t.Errorf("%d places taken after one was freed, want %d", got, maxStreamsPerSource-1)
	}
	again := dial(t, "127.0.0.1", tr)
	begin(t, again, Gossip)
	_ = next(t, "a stream in the freed place", taken).Close()
}

func TestIdleStreamsFromManySourcesAreBounded(t *testing.T) {
	tr := listen(t, loopback4)
	tr.Serve(hear)
	var known []netip.Addr
	for i := range maxStreams / maxStreamsPerSource {
		known = append(known, netip.AddrFrom4([4]byte{127, 0, 1, byte(1 + i)}))
	}
	tr.Know(append(known, netip.MustParseAddr("127.0.2.1")))
	for i := range maxStreams {
		dial(t, known[i/maxStreamsPerSource].String(), tr)
	}
	eventually(t, "all places are taken", func() bool { return open(tr) == maxStreams })
	wantClosed(t, dial(t, "127.0.2.1", tr))
	if got := open(tr); got != maxStreams {
		t.Errorf("%d places taken, want %d", got, maxStreams)
	}
}

// Case 80: strangers who say nothing take few places, whatever their number, and for
// a second; members have theirs meanwhile.
func TestCase80UnprovenStreamsLeavePlacesToMembers(t *testing.T) {
	tr := listen(t, loopback4)
	taken := tr.Serve(hear)
	tr.Know([]netip.Addr{netip.MustParseAddr("127.0.2.1")})
	began := time.Now()
	for i := range 64 {
		dial(t, fmt.Sprintf("127.0.1.%d", 1+i), tr)
	}
	eventually(t, "all that are too many are refused", func() bool { return tr.Stats().StreamsRefused >= 64-maxStrangers })
	if n := open(tr); n > maxStrangers {
		t.Errorf("strangers have %d places, want at most %d", n, maxStrangers)
	}
	for range maxStreamsPerSource {
		c := dial(t, "127.0.2.1", tr)
		begin(t, c, Gossip)
		defer func() { _ = next(t, "a member's stream", taken).Close() }()
	}
	eventually(t, "strangers lose their places", func() bool { return tr.Stats().StreamsRefused == 64 })
	t.Logf("after %v strangers have no place any more", time.Since(began))
}

// Case 81: hostile tethers, which are held in silence as long as they like, leave
// places to members; and one who becomes a member does not count as a stranger.
func TestCase81HostileTethersLeavePlacesToMembers(t *testing.T) {
	tr := listen(t, loopback4)
	tr.Serve(hear)
	tether := string([]byte{byte(Tether)})
	for i := range 64 {
		write(t, dial(t, fmt.Sprintf("127.0.1.%d", 1+i), tr), tether)
	}
	eventually(t, "each was taken or refused", func() bool {
		s := tr.Stats()
		return s.TethersHeld+s.StreamsRefused == 64
	})
	if n := tr.Stats().TethersHeld; n > maxStrangers {
		t.Fatalf("%d tethers of strangers are held, want at most %d", n, maxStrangers)
	}
	held := tr.Stats().TethersHeld
	member := netip.MustParseAddr("127.0.2.1")
	tr.Know([]netip.Addr{member})
	write(t, dial(t, member.String(), tr), tether)
	eventually(t, "a member's tether is held", func() bool { return tr.Stats().TethersHeld == held+1 })

	var all []netip.Addr
	for i := range 64 {
		all = append(all, netip.AddrFrom4([4]byte{127, 0, 1, byte(1 + i)}))
	}
	tr.Know(all)
	write(t, dial(t, "127.0.3.1", tr), tether)
	eventually(t, "another has a place that is not a stranger's any more", func() bool { return tr.Stats().TethersHeld == held+2 })
}

// sorted runs the wait for one stream's proof on a pipe, in fake time, and
// reports how long the stream lived.
func sorted(t *testing.T, isMember bool, speak func(net.Conn)) time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newStreams(ctx, nil, hclog.NewNullLogger(), new(counters))
	s.prove = hear
	near, far := net.Pipe()
	source := netip.MustParseAddr("192.0.2.7")
	if isMember {
		s.members.addrs.Store(&map[netip.Addr]bool{source: true})
	}
	s.gate.enter(source)
	began := time.Now()
	go speak(far)
	s.sort(&stream{Conn: near, leave: sync.OnceFunc(func() { s.gate.leave(source) })}, source)
	lived := time.Since(began)
	_ = far.Close()
	if s.gate.total != 0 || len(s.gate.bySource) != 0 || s.count.streamsRefused.Load() != 1 {
		t.Errorf("%d places taken, %d streams refused; want 0 and 1", s.gate.total, s.count.streamsRefused.Load())
	}
	return lived
}

func TestSlowStreamLosesItsPlace(t *testing.T) {
	for _, c := range []struct {
		name  string
		speak func(net.Conn)
	}{
		{"it never speaks", func(net.Conn) {}},
		{"it speaks and memberlist stands still", func(c net.Conn) { _, _ = say(Gossip)(c) }},
		{"it speaks late and memberlist stands still", func(c net.Conn) {
			time.Sleep(strangerTimeout - time.Millisecond)
			_, _ = say(Gossip)(c)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if lived := sorted(t, true, c.speak); lived != proofTimeout {
					t.Errorf("a member's is closed after %v, want %v", lived, proofTimeout)
				}
				if lived := sorted(t, false, c.speak); lived != strangerTimeout {
					t.Errorf("a stranger's is closed after %v, want %v", lived, strangerTimeout)
				}
			})
		})
	}
}

// shortListener has no file descriptor to spare for its first accepts.
type shortListener struct {
	failures int
	conns    chan net.Conn
	accepted []time.Time
}

func (l *shortListener) Accept() (net.Conn, error) {
	l.accepted = append(l.accepted, time.Now())
	if len(l.accepted) <= l.failures {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *shortListener) Addr() net.Addr { return &net.TCPAddr{} }
func (l *shortListener) Close() error   { close(l.conns); return nil }

// fromHost gives a pipe's end the address of a host.
type fromHost struct{ net.Conn }

func (fromHost) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4711} }

func TestAcceptGoesOnWhenFileDescriptorsRanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		l := &shortListener{failures: 10, conns: make(chan net.Conn, 1)}
		l.conns <- fromHost{near}
		ctx, cancel := context.WithCancel(t.Context())
		s := newStreams(ctx, l, hclog.NewNullLogger(), new(counters))
		s.start(hear)
		go func() { _, _ = say(Gossip)(far) }()

		_ = (<-s.taken).Close()
		cancel()
		s.close()
		for i := 1; i <= l.failures; i++ {
			want := min(acceptDelay<<(i-1), acceptDelayMax)
			if got := l.accepted[i].Sub(l.accepted[i-1]); got != want {
				t.Errorf("pause %d was %v, want %v", i, got, want)
			}
		}
	})
}

func TestShutdownDoesNotWaitForABrokenListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &shortListener{failures: 1 << 30, conns: make(chan net.Conn)}
		ctx, cancel := context.WithCancel(t.Context())
		s := newStreams(ctx, l, hclog.NewNullLogger(), new(counters))
		s.start(hear)
		time.Sleep(time.Minute)
		begin := time.Now()
		cancel()
		s.close()
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// counted is a proven stream, which counts how often it is closed.
type counted struct {
	net.Conn
	closed *atomic.Int32
}

func (c counted) Close() error {
	c.closed.Add(1)
	return c.Conn.Close()
}

// A stream whose proof comes a moment too late is closed as what its proof has made of it: whoever keeps account of that counts it no more.
func TestAStreamThatIsProvenTooLateIsClosed(t *testing.T) {
	tr := listen(t, loopback4)
	var closed atomic.Int32
	tr.Serve(func(conn net.Conn) (net.Conn, Kind, error) {
		_, _ = conn.Read(make([]byte, 1)) // until the time is over
		return counted{conn, &closed}, Tether, nil
	})
	wantClosed(t, dial(t, "127.0.0.1", tr))
	eventually(t, "the stream is closed", func() bool { return closed.Load() > 0 })
	if held := tr.Stats().TethersHeld; held != 0 {
		t.Errorf("%d tethers are held", held)
	}
}
