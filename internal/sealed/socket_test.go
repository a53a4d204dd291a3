package sealed

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/wire"
)

// On sockets: frames arrive, a tether is held in a place of its own, and its end is
// evidence.
func TestFramesAndTetherOnSockets(t *testing.T) {
	open := func(n int) *LAN {
		below, err := transport.Listen(transport.Config{Bind: netip.MustParseAddrPort("127.0.0.1:0"), Cluster: "home"})
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
	readers.Go(func() { a.Tether(ctx, b.Addr(), sync.OnceFunc(func() { close(lost) }), func() {}) })
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
