package transport

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Answer has f called with each question that is asked from now on (protocol 11), in a goroutine of its own. f closes it,
// and bounds its time, which ctx ends with Shutdown; nothing but the gate bounds how many there are.
func (t *Transport) Answer(f func(context.Context, net.Conn)) { t.streams.answer.Store(&f) }

// Ask opens a question to the agent at an address. ctx bounds the opening; the caller bounds and closes what it gets.
func (t *Transport) Ask(ctx context.Context, to netip.AddrPort, prove Prove) (net.Conn, error) {
	return t.dialProven(ctx, unmap(to), tetherDialTimeout, prove)
}

// Knock reports whether streams to an address are accepted. It says nothing on the stream.
func (t *Transport) Knock(ctx context.Context, to netip.AddrPort) error {
	conn, err := t.device.dialTether(ctx, t.source(), unmap(to), tetherDialTimeout)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// ask has a question answered. Shutdown cuts it short.
func (s *streams) ask(conn *stream) {
	defer context.AfterFunc(s.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	(*s.answer.Load())(s.ctx, conn)
}

// looks count datagrams by where they come from, while somebody wants to know. Mostly nobody does.
type looks struct {
	mu  sync.Mutex
	now atomic.Pointer[[]*look] // replaced, never changed; nil: nobody looks
}

type look struct {
	at    netip.Addr
	count atomic.Uint64
}

// Look counts the datagrams that come from an address, whatever is in them, until stop is called. A source can be forged:
// it is for people, and no evidence.
func (t *Transport) Look(at netip.Addr) (seen func() uint64, stop func()) {
	l, one := &t.datagrams.looks, &look{at: at.Unmap()}
	l.change(func(all []*look) []*look { return append(slices.Clone(all), one) })
	return one.count.Load, func() {
		l.change(func(all []*look) []*look {
			return slices.DeleteFunc(slices.Clone(all), func(x *look) bool { return x == one })
		})
	}
}

func (l *looks) change(f func([]*look) []*look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*look
	if now := l.now.Load(); now != nil {
		all = *now
	}
	if all = f(all); len(all) == 0 {
		l.now.Store(nil)
		return
	}
	l.now.Store(&all)
}

// note counts one datagram.
func (l *looks) note(from netip.Addr) {
	all := l.now.Load()
	if all == nil {
		return
	}
	for _, one := range *all {
		if one.at == from {
			one.count.Add(1)
		}
	}
}
