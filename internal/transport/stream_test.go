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

func write(t *testing.T, c net.Conn, data string) {
	t.Helper()
	if _, err := io.WriteString(c, data); err != nil {
		t.Fatal(err)
	}
}

func TestMemberlistGetsItsStreamsWhole(t *testing.T) {
	tr := listen(t, loopback4)
	c := dial(t, "127.0.0.1", tr)
	write(t, c, "\x06push-pull")
	_ = c.(*net.TCPConn).CloseWrite()

	taken := next(t, "a stream", tr.StreamCh())
	defer func() { _ = taken.Close() }()
	if got, err := io.ReadAll(taken); err != nil || string(got) != "\x06push-pull" {
		t.Errorf("read %q, %v", got, err)
	}
	if got := taken.RemoteAddr().String(); got != c.LocalAddr().String() {
		t.Errorf("stream is from %s, want %s", got, c.LocalAddr())
	}
}

func TestUnknownStreamIsClosedAndCounted(t *testing.T) {
	tr := listen(t, loopback4)
	c := dial(t, "127.0.0.1", tr)
	write(t, c, "\xb7\x1e\x10\x03 not a tether")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		wantClosed(t, c)
	}()
	select {
	case <-tr.StreamCh():
		t.Error("memberlist got an election stream")
	case <-closed:
	}
	if got := tr.Stats().StreamsRefused; got != 1 {
		t.Errorf("%d streams refused, want 1", got)
	}
}

// TestIdleStreamsFromOneSourceAreFew has few streams: a place is held from
// accept to close, whether or not memberlist has the stream.
func TestIdleStreamsFromOneSourceAreFew(t *testing.T) {
	tr := listen(t, loopback4)
	for range maxStreamsPerSource - 1 {
		dial(t, "127.0.0.1", tr)
	}
	last := dial(t, "127.0.0.1", tr)
	write(t, last, "\x06")
	taken := next(t, "the stream that spoke", tr.StreamCh())
	eventually(t, "all places of the source are taken", func() bool { return open(tr) == maxStreamsPerSource })

	wantClosed(t, dial(t, "127.0.0.1", tr))
	if got := tr.Stats().StreamsRefused; got != 1 {
		t.Errorf("%d streams refused, want 1", got)
	}

	other := dial(t, "127.0.0.2", tr)
	write(t, other, "\x06")
	_ = next(t, "another source's stream", tr.StreamCh()).Close()

	for range 2 { // the second Close frees nothing
		_ = taken.Close()
	}
	if got := open(tr); got != maxStreamsPerSource-1 {
		t.Errorf("%d places taken after one was freed, want %d", got, maxStreamsPerSource-1)
	}
	again := dial(t, "127.0.0.1", tr)
	write(t, again, "\x06")
	_ = next(t, "a stream in the freed place", tr.StreamCh()).Close()
}

func TestIdleStreamsFromManySourcesAreBounded(t *testing.T) {
	tr := listen(t, loopback4)
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
	tr.Know([]netip.Addr{netip.MustParseAddr("127.0.2.1")})
	begin := time.Now()
	for i := range 64 {
		dial(t, fmt.Sprintf("127.0.1.%d", 1+i), tr)
	}
	eventually(t, "all that are too many are refused", func() bool { return tr.Stats().StreamsRefused >= 64-maxStrangers })
	if n := open(tr); n > maxStrangers {
		t.Errorf("strangers have %d places, want at most %d", n, maxStrangers)
	}
	for range maxStreamsPerSource {
		c := dial(t, "127.0.2.1", tr)
		write(t, c, "\x06")
		defer func() { _ = next(t, "a member's stream", tr.StreamCh()).Close() }()
	}
	eventually(t, "strangers lose their places", func() bool { return tr.Stats().StreamsRefused == 64 })
	t.Logf("after %v strangers have no place any more", time.Since(begin))
}

// Case 81: hostile tethers, which are held in silence as long as they like, leave
// places to members; and one who becomes a member does not count as a stranger.
func TestCase81HostileTethersLeavePlacesToMembers(t *testing.T) {
	tr := listen(t, loopback4)
	tether := string(appendPreamble(nil, tr.cluster))
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

// sorted runs the wait for one stream's first byte on a pipe, in fake time, and
// reports how long the stream lived.
func sorted(t *testing.T, isMember bool, speak func(net.Conn)) time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newStreams(ctx, nil, hclog.NewNullLogger(), new(counters), 0)
	near, far := net.Pipe()
	source := netip.MustParseAddr("192.0.2.7")
	if isMember {
		s.members.addrs.Store(&map[netip.Addr]bool{source: true})
	}
	s.gate.enter(source)
	begin := time.Now()
	go speak(far)
	s.sort(&stream{Conn: near, leave: sync.OnceFunc(func() { s.gate.leave(source) })}, source)
	lived := time.Since(begin)
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
		{"it speaks and memberlist stands still", func(c net.Conn) { _, _ = c.Write([]byte{6}) }},
		{"it speaks late and memberlist stands still", func(c net.Conn) {
			time.Sleep(strangerTimeout - time.Millisecond)
			_, _ = c.Write([]byte{6})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if lived := sorted(t, true, c.speak); lived != firstByteTimeout {
					t.Errorf("a member's is closed after %v, want %v", lived, firstByteTimeout)
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
		s := newStreams(ctx, l, hclog.NewNullLogger(), new(counters), 0)
		s.start()
		go func() { _, _ = far.Write([]byte{6}) }()

		_ = (<-s.guard.Load().taken).Close()
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
		s := newStreams(ctx, l, hclog.NewNullLogger(), new(counters), 0)
		s.start()
		time.Sleep(time.Minute)
		begin := time.Now()
		cancel()
		s.close()
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}
