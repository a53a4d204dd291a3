package sealed

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/wire"
)

// On sockets: frames arrive, a tether is held in a place of its own, and its end is
// evidence.
func TestFramesAndTetherOnSockets(t *testing.T) {
	open := func(n int) *LAN {
		below, err := transport.Listen(transport.Config{Bind: netip.MustParseAddrPort("127.0.0.1:0")})
		if err != nil {
			t.Fatal(err)
		}
		return wrap(t, below, n, testKey(1))
	}
	a, b := open(1), open(2)
	defer func() { _ = a.Shutdown() }()
	frames := make(chan wire.ID, 10)
	var readers sync.WaitGroup
	for _, l := range []*LAN{a, b} {
		readers.Go(func() {
			buf := make([]byte, wire.MaxFrame+1)
			for {
				n, _, err := l.ReadFrame(buf)
				if err != nil {
					return
				}
				var f wire.Frame
				if wire.Parse(buf[:n], &f) == nil {
					frames <- f.Sender
				}
			}
		})
	}
	if err := a.SendFrame(b.Addr(), frameOf(1)); err != nil {
		t.Fatal(err)
	}
	select {
	case id := <-frames:
		if id != testID(1) {
			t.Errorf("a frame of %v", id)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no frame within ten seconds")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lost := make(chan struct{})
	readers.Go(func() {
		a.Tether(ctx, session.Meant{ID: testID(2), Nonce: 2 << 24, Addr: b.Addr()}, sync.OnceFunc(func() { close(lost) }), func() {})
	})
	for deadline := time.Now().Add(10 * time.Second); b.Stats().TethersHeld == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no tether within ten seconds")
		}
	}
	_ = b.Shutdown()
	select {
	case <-lost:
	case <-time.After(10 * time.Second):
		t.Error("the end of the tether was not noticed within ten seconds")
	}
	cancel()
	_ = a.Shutdown()
	readers.Wait()
}

// A process that dies still takes the stream that is dialled when a tether has ended, and
// closes it: that this end was one is what makes a refusal after it evidence.
func TestAStreamThatIsClosedInItsProofHasEnded(t *testing.T) {
	below, err := transport.Listen(transport.Config{Bind: netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	l := wrap(t, below, 1, testKey(1))
	defer func() { _ = l.Shutdown() }()
	for name, dies := range map[string]func(*net.TCPListener){
		"it accepts": func(at *net.TCPListener) {
			if conn, err := at.AcceptTCP(); err == nil {
				_, _ = io.ReadFull(conn, make([]byte, session.HandshakeSize))
				_ = conn.Close()
			}
		},
		"it accepts, and reads nothing": func(at *net.TCPListener) {
			if conn, err := at.AcceptTCP(); err == nil {
				_ = conn.SetLinger(0)
				_ = conn.Close()
			}
		},
		"its kernel has accepted": func(at *net.TCPListener) { _ = at.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			at, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err != nil {
				t.Fatal(err)
			}
			defer at.Close()
			conn, err := net.Dial("tcp4", at.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			dying := make(chan struct{})
			go func() { defer close(dying); dies(at) }()
			_, err = l.call(conn, session.KindTether, session.Meant{Addr: at.Addr().(*net.TCPAddr).AddrPort()})
			<-dying
			if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("no end of a stream: %v", err)
			}
			if err == nil || strings.Contains(err.Error(), "EOF") {
				t.Errorf("it says %v, which tells nobody anything", err)
			}
		})
	}
}
