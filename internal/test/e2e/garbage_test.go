package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Nothing that a stranger sends to the port changes anything but counters.
func TestGarbageChangesNothing(t *testing.T) {
	t.Parallel()
	const seed = 78
	random := rand.New(rand.NewPCG(seed, 0))
	l := newLAN(t, 3)
	l.start()
	best := l.best()
	l.agreeOn(best)
	before := transitions(l.hosts)

	const datagrams = 3000
	must(t, l.net.Switch().Within(func() error { return l.pelt(random, datagrams) }))
	l.agreeOn(best)
	if after := transitions(l.hosts); len(after) != len(before) {
		t.Errorf("it led to %v", after[len(before):])
	}
	for _, h := range l.hosts {
		s, err := h.status()
		must(t, err)
		var dropped uint64
		for name, n := range s.Counters {
			if strings.HasPrefix(name, "frame_") || strings.HasPrefix(name, "election_") {
				dropped += n
			}
		}
		t.Logf("%s: %v", h, s.Counters)
		// Half of what was sent looks like frames; the kernel may lose some.
		if dropped < datagrams/4 {
			t.Errorf("%s counted %d bad frames of %d", h, dropped, datagrams/2)
		}
		if s.Members != len(l.hosts) {
			t.Errorf("%s knows %d members", h, s.Members)
		}
	}
	l.steady(best, time.Second)
	l.led(best)
}

// pelt sends garbage to every host, by UDP and by TCP.
func (l *lan) pelt(random *rand.Rand, datagrams int) error {
	for _, h := range l.hosts {
		conn, err := net.Dial("udp", h.addr.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		for range datagrams {
			if _, err := conn.Write(garbage(random)); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
				return err
			}
			if random.IntN(100) == 0 {
				time.Sleep(time.Millisecond) // or it would drown in its own queue
			}
		}
		for range 20 {
			stream, err := net.Dial("tcp", h.addr.String())
			if err != nil {
				return fmt.Errorf("%s accepts no streams any more: %w", h, err)
			}
			defer stream.Close() // some stay open for the whole time
			_, _ = stream.Write(garbage(random))
		}
	}
	return nil
}

// garbage is a datagram of one of four kinds: noise, noise that begins like a
// frame, a frame of another cluster, and a frame with a flipped bit.
func garbage(random *rand.Rand) []byte {
	noise := make([]byte, random.IntN(1400))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	frame := wire.Frame{Kind: wire.Kind(1 + random.IntN(16)), Algo: wire.Algo(wire.Classic), Flags: wire.Active,
		Cluster: wire.ClusterHash("another"), Incarnation: random.Uint32(), Nonce: random.Uint32(), Seq: random.Uint32(),
		Epoch: wire.Epoch{Counter: random.Uint64() >> 2}, Priority: 65535, Lease: 400, Interval: 50}
	for i := range frame.Sender {
		frame.Sender[i] = byte(random.Uint32())
	}
	frame.Epoch.Owner = frame.Sender
	switch random.IntN(4) {
	case 0:
		return noise
	case 1:
		return append([]byte{wire.Magic0, wire.Magic1, 0x10}, noise...)
	case 2:
		return wire.Append(nil, &frame)
	}
	frame.Cluster = wire.ClusterHash("e2e")
	b := wire.Append(nil, &frame)
	b[random.IntN(len(b))] ^= 1 << random.IntN(8)
	return b
}
