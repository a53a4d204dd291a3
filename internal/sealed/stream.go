package sealed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/wire"
)

var (
	errForged   = errors.New("sealed stream: a record was forged or damaged")
	errUnproven = errors.New("the other end did not prove that it has a key of ours")
	errNotOurs  = errors.New("it has none of this host's keys")
	errLeftOut  = errors.New("hosts there does not name this host")
	errVersion  = errors.New("it seals by another version; both logs have the numbers")
	errPlain    = errors.New("what it says is not sealed, so it is of an earlier version, or no bully-agent")
)

// closedError is a stream's end in the place of RESP, for people. It stays the end that it
// was: to who holds a tether that is evidence (protocol 6.4, E1).
type closedError struct{ cause error }

func (closedError) Error() string {
	return "it closed the stream, so it has no key, is in another cluster, is of an earlier version, or is no bully-agent"
}

func (e closedError) Unwrap() error { return e.cause }

// DialAddressTimeout opens a stream and proves both ends, within timeout in all.
func (l *LAN) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	deadline := time.Now().Add(timeout)
	to, err := netip.ParseAddrPort(addr.Addr)
	if err != nil {
		return nil, fmt.Errorf("dial: parse address: %w", err)
	}
	conn, err := l.below.Dial(to, timeout)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(deadline)
	proven, err := l.call(conn, session.KindStream, session.Meant{})
	if err != nil {
		_ = conn.Close()
		// memberlist knows a member that cannot be reached by this type.
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: conn.RemoteAddr(), Err: err}
	}
	_ = conn.SetDeadline(time.Time{})
	return proven, nil
}

// DialTimeout is DialAddressTimeout for those who do not know the member's name.
func (l *LAN) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return l.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// StreamCh gives memberlist its streams.
func (l *LAN) StreamCh() <-chan net.Conn { return l.streams }

// Tether holds a stream to a life until ctx ends or the port is shut down, and calls lost and then
// refused, each in its turn, when it finds that the process there has ended (E1, E7 of protocol 6.4). What becomes of another
// life at its address says nothing.
func (l *LAN) Tether(ctx context.Context, to session.Meant, lost, refused func()) {
	l.below.Tether(ctx, to.Addr, l.proving(session.KindTether, to), lost, refused)
}

// DialQuestion opens a question to a life, where the LAN below can. ctx bounds the opening; the caller bounds and
// closes what it gets.
func (l *LAN) DialQuestion(ctx context.Context, to session.Meant) (net.Conn, error) {
	below, ok := l.below.(interface {
		Ask(context.Context, netip.AddrPort, transport.Prove) (net.Conn, error)
	})
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return below.Ask(ctx, to.Addr, l.proving(session.KindQuestion, to))
}

// proving proves both ends of a stream that is for a life.
func (l *LAN) proving(kd session.Kind, to session.Meant) transport.Prove {
	to.Addr = unmap(to.Addr)
	return func(conn net.Conn) (net.Conn, error) { return l.call(conn, kd, to) }
}

// call is the dialling end.
func (l *LAN) call(conn net.Conn, kd session.Kind, meant session.Meant) (net.Conn, error) {
	var c *session.Call
	var b []byte
	var err error
	l.locked(func(t *session.Table, _ time.Time) { b, c, err = t.CallStream(unmap(addrOf(conn)), kd, meant) })
	if err != nil {
		return nil, fmt.Errorf("begin a sealed stream: %w", err)
	}
	if _, err := conn.Write(b); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnproven, err)
	}
	var resp [session.HandshakeSize]byte
	if n, err := io.ReadFull(conn, resp[:]); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnproven, l.unanswered(c, resp[:n], err))
	}
	who, proof, keys, cause := c.Answered(resp[:]) // the curves, without the lock
	if cause == session.CauseVersion || cause == session.CausePlain {
		return nil, fmt.Errorf("%w: %w", errUnproven, l.unanswered(c, resp[:], nil))
	}
	proven := newStream(conn, keys)
	l.locked(func(t *session.Table, _ time.Time) {
		if cause == session.CauseNone {
			cause = t.Met(c, who)
		}
		switch {
		case cause != session.CauseNone:
			t.Count(cause)
		case kd == session.KindTether:
			l.hold(proven, tether{whose: who.ID, under: c.Key(), isOurs: true})
		}
	})
	if cause != session.CauseNone {
		return nil, fmt.Errorf("%w: %w", errUnproven, cause)
	}
	if _, err := conn.Write(proof); err != nil {
		_ = proven.Close()
		return nil, fmt.Errorf("%w: %w", errUnproven, err)
	}
	proven.refused = func(b []byte) bool { return l.isLeftOut(c, who, b) }
	return proven, nil
}

// isLeftOut reports whether the first record of a stream says that the other end's host list does not have this host.
func (l *LAN) isLeftOut(c *session.Call, who session.Life, b []byte) (is bool) {
	if session.IsRefused(b) {
		l.locked(func(t *session.Table, now time.Time) { is = t.RefusedStream(now, c, who, b) == session.CauseLeftOut })
	}
	return is
}

// unanswered says why no RESP has come, but b and an error.
func (l *LAN) unanswered(c *session.Call, b []byte, err error) error {
	var cause session.Cause
	l.locked(func(t *session.Table, now time.Time) { cause = t.Unanswered(now, c, b) })
	switch {
	case cause == session.CauseRefused:
		return errNotOurs
	case cause == session.CauseVersion:
		return errVersion
	case cause == session.CausePlain:
		return errPlain
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return closedError{err}
	}
	return err
}

func addrOf(conn net.Conn) netip.AddrPort {
	addr, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	return addr
}

// kindOf is what the port below does with a stream.
var kindOf = map[session.Kind]transport.Kind{
	session.KindStream: transport.Gossip, session.KindTether: transport.Tether, session.KindQuestion: transport.Question}

// Accept proves both ends of an accepted stream, and says what it is for. The caller bounds the time, and closes
// conn if there is an error.
func (l *LAN) Accept(conn net.Conn) (net.Conn, transport.Kind, error) {
	b := make([]byte, 1, session.HandshakeSize)
	if _, err := io.ReadFull(conn, b); err != nil {
		return nil, 0, err
	}
	proven, kd, cause := l.accept(conn, &b)
	if cause == session.CauseNone {
		return proven, kindOf[kd], nil
	}
	l.locked(func(t *session.Table, _ time.Time) { t.Refuse(cause, addrOf(conn), b) })
	return nil, 0, fmt.Errorf("%w: %w", errUnproven, cause)
}

// accept goes on after the first byte.
func (l *LAN) accept(conn net.Conn, b *[]byte) (net.Conn, session.Kind, session.Cause) {
	for {
		n, cause := session.StreamSize(*b)
		if cause != session.CauseNone {
			return nil, 0, cause
		}
		if n == 0 {
			break
		}
		have := len(*b)
		*b = (*b)[:have+n]
		if _, err := io.ReadFull(conn, (*b)[have:]); err != nil {
			return nil, 0, session.CauseLength
		}
	}
	var r *session.Request
	var refusal []byte
	var cause session.Cause
	l.locked(func(t *session.Table, now time.Time) { r, refusal, cause = t.Accept(now, unmap(addrOf(conn)), *b) })
	if cause != session.CauseNone {
		_, _ = conn.Write(refusal)
		return nil, 0, cause
	}
	resp, err := r.Answer() // the curves, without the lock
	if err != nil {
		return nil, 0, session.CauseMAC
	}
	if _, err := conn.Write(resp); err != nil {
		return nil, 0, session.CauseStream
	}
	var proof [session.ProofSize]byte
	if _, err := io.ReadFull(conn, proof[:]); err != nil {
		return nil, 0, session.CauseStream
	}
	who, keys, cause := r.Proven(proof[:])
	proven := newStream(conn, keys)
	if cause == session.CauseNone {
		l.locked(func(t *session.Table, now time.Time) {
			if refusal, cause = t.Admit(now, r, who, unmap(addrOf(conn))); cause == session.CauseNone && r.Kind() == session.KindTether {
				l.hold(proven, tether{whose: who.ID, under: r.Key()})
			}
		})
	}
	if refusal != nil {
		_, _ = proven.Write(refusal)
	}
	if cause != session.CauseNone {
		return nil, 0, cause
	}
	return proven, r.Kind(), session.CauseNone
}

// tether is what ends a stream that would else last as long as both processes.
type tether struct {
	whose  wire.ID
	under  key.ID // which began it
	isOurs bool   // this end has dialled it
}

// tethersOf gives those that are open and of which that is true. The lock is held.
func (l *LAN) tethersOf(which func(tether) bool) (out []*stream) {
	for s, held := range l.tethers {
		if which(held) {
			out = append(out, s)
		}
	}
	return out
}

// closeAll ends streams, without the lock. The other ends see that, and dial again: an end is evidence only where nobody listens.
func closeAll(streams []*stream) {
	for _, s := range streams {
		_ = s.Close()
	}
}

// hold notes a tether for as long as it is open. The lock is held.
func (l *LAN) hold(s *stream, held tether) {
	l.tethers[s] = held
	s.ended = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.tethers, s)
	}
}

// stream is one end of a proven stream. Like any net.Conn it may be read by one and
// written by many at a time.
type stream struct {
	net.Conn
	recv   session.Direction
	record []byte // as long as the longest yet: a tether's stays short
	plain  []byte // of record, not read yet

	ended   func()            // called by each Close; nil: nobody asks
	refused func([]byte) bool // whether the first record says that this host is left out; nil: it was read, or this end has accepted

	mu   sync.Mutex // guards what follows
	send session.Direction
	out  []byte
}

func newStream(conn net.Conn, keys session.Pair) *stream {
	return &stream{Conn: conn, recv: keys.In(), send: keys.Out()}
}

// NetConn is the stream below.
func (s *stream) NetConn() net.Conn { return s.Conn }

// Close closes the stream below.
func (s *stream) Close() error {
	if s.ended != nil {
		s.ended()
	}
	return s.Conn.Close()
}

// fill reads the next record. A time-out in the midst of one ends the stream's use.
func (s *stream) fill() error {
	var length [session.LengthSize]byte
	if _, err := io.ReadFull(s.Conn, length[:]); err != nil {
		return err
	}
	n := session.BodySize(length)
	if n == 0 {
		return errForged
	}
	if cap(s.record) < n {
		s.record = make([]byte, n)
	}
	body := s.record[:n]
	if _, err := io.ReadFull(s.Conn, body); err != nil {
		return err
	}
	plain, cause := s.recv.Open(length, body)
	if cause != session.CauseNone {
		return errForged
	}
	if ask := s.refused; ask != nil {
		if s.refused = nil; ask(plain) {
			return errLeftOut
		}
	}
	s.plain = plain
	return nil
}

// Read returns what the other end wrote.
func (s *stream) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if len(s.plain) == 0 {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, s.plain)
	s.plain = s.plain[n:]
	return n, nil
}

// Write seals b in as many records as it needs.
func (s *stream) Write(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(b) > 0 {
		part := b[:min(len(b), session.MaxRecord)]
		s.out = s.send.Seal(s.out[:0], part)
		if _, err := s.Conn.Write(s.out); err != nil {
			return n, err
		}
		n += len(part)
		b = b[len(part):]
	}
	return n, nil
}
