package lantest

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"syscall"
	"time"

	"github.com/bully-agent/bully-agent/internal/transport"
)

const (
	// tetherDialTimeout is transport's.
	tetherDialTimeout = 2 * time.Second

	// tetherPause is the time between dials, in the place of transport's
	// backoff.
	tetherPause = time.Second

	// tetherAtOnce and tetherShortLife are transport's: so many ends of streams that lived for less are followed by a dial at once.
	tetherAtOnce    = 3
	tetherShortLife = time.Second
)

// Tether holds a stream to another host until ctx ends or this host is shut
// down, as package transport does: it calls lost when the stream has ended and
// dialling again at once was refused, and refused when a datagram was too. A host
// that is shut down (its process was killed) breaks its tethers and refuses; one
// whose cable is cut says nothing, even if it dies then.
func (h *Host) Tether(ctx context.Context, to netip.AddrPort, prove transport.Prove, lost, refused func()) {
	ended, short := false, 0
	for ctx.Err() == nil && !h.isDown() {
		begun := time.Now()
		near, err := h.dial(to, tetherDialTimeout, ctx.Done())
		switch {
		case err == nil:
			isProven, end := hold(ctx, near, prove)
			ended = isEnd(end) && (isProven || ended)
			if time.Since(begun) >= tetherShortLife {
				short = 0
			}
		case ended && errors.Is(err, syscall.ECONNREFUSED) && ctx.Err() == nil:
			lost()
			if h.datagramRefused(to) && ctx.Err() == nil {
				refused()
			}
			fallthrough
		default:
			ended = false
		}
		if short++; ended && short <= tetherAtOnce {
			continue
		}
		h.pause(ctx, tetherPause)
		ended, short = false, 0
	}
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) }

// hold proves both ends of a stream and waits for its end. What ends before its other end has
// proved itself says nothing.
func hold(ctx context.Context, c *conn, prove transport.Prove) (isProven bool, end error) {
	defer func() {
		_ = c.Close()
		c.peer.host.disown(c.peer) // the other end notices ours, over a cut cable too
		c.peer.in.close()
	}()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetDeadline(time.Now().Add(tetherDialTimeout))
	proven, err := prove(c)
	if err != nil {
		return false, err
	}
	defer func() { _ = proven.Close() }()
	_ = c.SetDeadline(time.Time{})
	_, err = proven.Read(make([]byte, 1))
	return true, err
}

// datagramRefused reports, after the time of the two ways, whether the host at
// an address answered that nobody listens there.
func (h *Host) datagramRefused(to netip.AddrPort) bool {
	wait, passes := h.lan.roundTrip(h.Addr(), to)
	time.Sleep(wait)
	return passes && h.lan.lookup(to) == nil
}

// roundTrip draws how long a datagram and its answer take, and whether both
// arrive.
func (l *LAN) roundTrip(from, to netip.AddrPort) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	there, back := l.fate(from, to), l.fate(to, from)
	if len(there) == 0 || len(back) == 0 {
		return 0, false
	}
	return there[0] + back[0], true
}

// pause waits, unless ctx ends or the host is shut down before.
func (h *Host) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-h.down:
	}
}
