package transport

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A question is a stream on which the end that dialled asks once what the other sees of it (protocol 11). It begins as a
// tether does, with 'Q' in the place of 'T', and is proven as that is. What is said on it is the agent's.
const (
	questionByte    = 'Q'
	questionVersion = 1
)

// kind is what an accepted stream turned out to be, of those that are not handed on.
type kind int

const (
	noneOfOurs kind = iota
	aTether
	aQuestion
)

// questions are the accepting ends.
type questions struct {
	answer atomic.Pointer[func(context.Context, net.Conn)] // nil: nobody answers
}

// Answer has f called with each question that is asked from now on, in a goroutine of its own. f closes it, and bounds its
// time, which ctx ends with Shutdown; nothing but the gate bounds how many there are.
func (t *Transport) Answer(f func(context.Context, net.Conn)) { t.streams.questions.answer.Store(&f) }

// Ask opens a question to the agent at an address. ctx bounds the opening; the caller bounds and closes what it gets.
func (t *Transport) Ask(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	to = unmap(to)
	conn, err := t.device.dialTether(ctx, t.source(), to)
	if err != nil {
		return nil, err
	}
	if conn, err = t.streams.guard.Load().proveTether(ctx, conn, to); err != nil {
		return nil, err
	}
	if _, err := conn.Write(appendPreambleOf(nil, questionByte, questionVersion, t.streams.tethers.cluster)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// Knock reports whether streams to an address are accepted. It says nothing on the stream.
func (t *Transport) Knock(ctx context.Context, to netip.AddrPort) error {
	conn, err := t.device.dialTether(ctx, t.source(), unmap(to))
	if err == nil {
		_ = conn.Close()
	}
	return err
}

func appendPreambleOf(b []byte, kind, version byte, cluster uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, frameByte, kind, version, 0), cluster)
}

// preamble reads what follows the first byte of a stream of ours, and says what it is.
func (s *streams) preamble(ctx context.Context, conn *stream) kind {
	var rest [preambleSize - 1]byte
	if err := conn.readWithin(ctx, rest[:]); err != nil || binary.BigEndian.Uint32(rest[3:]) != s.tethers.cluster {
		return noneOfOurs
	}
	switch [2]byte(rest[:]) {
	case [2]byte{tetherByte, tetherVersion}:
		return aTether
	case [2]byte{questionByte, questionVersion}:
		return aQuestion
	}
	return noneOfOurs
}

// sortOurs takes a stream whose first byte is ours; what is of no use is closed.
func (s *streams) sortOurs(ctx context.Context, conn *stream, source netip.Addr) kind {
	conn.unread = false
	is := s.preamble(ctx, conn)
	switch {
	case is == aTether && s.tethers.admit(conn, source):
	case is == aQuestion && s.questions.answer.Load() != nil:
	default:
		s.refuse(conn)
		return noneOfOurs
	}
	return is
}

// ask has a question answered. Shutdown cuts it short.
func (s *streams) ask(conn *stream) {
	defer context.AfterFunc(s.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	(*s.questions.answer.Load())(s.ctx, conn)
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
