package sealed

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/crypto/chacha20poly1305"
)

// A sealed stream begins with INIT and RESP, as datagrams do, and then has records in
// each direction, numbered from 0 without saying so:
//
//	offset  size  field
//	0       2     length of what follows: 17 to 16,400
//	2       n     ciphertext
//	2+n     16    tag, over the length too
//
// Inside it is what a plain one would have. Whoever dialled has proved itself with its
// first record, since INIT alone may be a replay.
const (
	lengthSize = 2
	maxRecord  = 16 << 10
)

var (
	errForged   = errors.New("sealed stream: a record was forged or damaged")
	errUnproven = errors.New("the other end did not prove that it has a key of ours")
	errNotOurs  = errors.New("it has none of this host's keys")
	errVersion  = errors.New("it seals by another version; both logs have the numbers")
)

// closedError is a stream's end in the place of RESP, for people. It stays the end that it
// was: to who holds a tether that is evidence (protocol 6.4, E1).
type closedError struct{ cause error }

func (closedError) Error() string {
	return "it closed the stream, so it has no key, is in another cluster, or is no bully-agent"
}

func (e closedError) Unwrap() error { return e.cause }

// DialAddressTimeout opens a stream and proves both ends, within timeout in all.
func (l *LAN) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	deadline := time.Now().Add(timeout)
	conn, err := l.LAN.DialAddressTimeout(addr, timeout)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(deadline)
	proven, err := l.call(conn, kindStream, netip.AddrPort{})
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

// Dial proves both ends of a tether, which goes to an advertised address. The caller
// bounds the time.
func (l *LAN) Dial(conn net.Conn, to netip.AddrPort) (net.Conn, error) {
	return l.call(conn, kindTether, unmap(to))
}

// call is the dialling end.
func (l *LAN) call(conn net.Conn, kd kind, to netip.AddrPort) (net.Conn, error) {
	at := unmap(addrOf(conn))
	var c *call
	var b []byte
	var err error
	l.locked(func(t *table, _ time.Time) {
		t.number++
		b, c, err = newCall(nil, t.rand, t.streamKey(at), scope{t.cluster, to}, kd, t.number, t.self)
	})
	if err != nil {
		return nil, fmt.Errorf("begin a sealed stream: %w", err)
	}
	if _, err := conn.Write(b); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnproven, err)
	}
	var resp [handshakeSize]byte
	n, err := io.ReadFull(conn, resp[:])
	if err != nil {
		l.locked(func(t *table, now time.Time) {
			switch {
			case t.onRefusal(now, at, c, resp[:n]):
				err = errNotOurs
			case t.isForeign(at, resp[:n]):
				err = errVersion
			case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
				err = closedError{err}
			}
		})
		return nil, fmt.Errorf("%w: %w", errUnproven, err)
	}
	who, _, keys, cause := c.answered(resp[:])
	if cause == causeNone && to.IsValid() && !l.isAt(who, to) {
		cause = CauseAddress
	}
	if cause != causeNone {
		l.locked(func(t *table, _ time.Time) { t.count[cause]++ })
		return nil, fmt.Errorf("%w: %w", errUnproven, cause)
	}
	return newStream(conn, keys), nil
}

// streamKey is the key to begin a stream with: the first that who is there has, or each
// in turn until one was taken.
func (t *table) streamKey(to netip.AddrPort) *secret {
	r := t.routes[to]
	if r == nil {
		return t.ring[0]
	}
	if r.peer != nil {
		for _, k := range t.ring {
			if slices.Contains(r.peer.keys, k.id) {
				return k
			}
		}
	}
	return t.ring[r.refused%len(t.ring)]
}

// onRefusal takes what came in the place of RESP, and reports whether it was a refusal.
func (t *table) onRefusal(now time.Time, from netip.AddrPort, c *call, b []byte) bool {
	h, cause := parseHeader(b)
	if cause != causeNone || h.typ != typeUnknown || h.index != c.index || h.number != c.number {
		return false
	}
	t.count[CauseRefused]++
	t.refusedBy(now, from, c, b)
	if r := t.route(from); r != nil {
		r.refused, r.wanted = r.refused+1, latest(r.wanted, now) // kept for as long as what is sent to
	}
	return true
}

// isForeign takes what came in the place of RESP, and reports whether it is another
// version's.
func (t *table) isForeign(from netip.AddrPort, b []byte) bool {
	if _, cause := parseHeader(b); cause != CauseVersion {
		return false
	}
	t.count[CauseVersion]++
	t.onForeign(CauseVersion, from, b)
	return true
}

func addrOf(conn net.Conn) netip.AddrPort {
	addr, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	return addr
}

// isAt reports whether a host may be the one at an address: another is not known to be
// there.
func (l *LAN) isAt(who identity, to netip.AddrPort) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.table.routes[to]
	return r == nil || r.peer == nil || r.peer.id == who.id || !r.peer.isThere(l.cfg.Now())
}

// Accept proves both ends of an accepted stream, and gives it with its first record
// read. The caller bounds the time, and closes conn if there is an error.
func (l *LAN) Accept(conn net.Conn) (net.Conn, error) {
	var b [handshakeSize]byte
	if _, err := io.ReadFull(conn, b[:1]); err != nil {
		return nil, err
	}
	proven, cause := l.accept(conn, b[:])
	if cause == causeNone {
		return proven, nil
	}
	l.locked(func(t *table, _ time.Time) {
		t.count[CauseStream]++
		if t.count[cause]++; cause == CausePlain || cause == CauseVersion {
			t.onForeign(cause, addrOf(conn), b[:])
		}
	})
	return nil, fmt.Errorf("%w: %w", errUnproven, cause)
}

// accept goes on after the first byte.
func (l *LAN) accept(conn net.Conn, b []byte) (net.Conn, Cause) {
	if b[0] != magic0 {
		return nil, CausePlain
	}
	if _, err := io.ReadFull(conn, b[1:2]); err != nil {
		return nil, CauseLength
	}
	if b[1] != magic1 {
		return nil, CausePlain
	}
	if _, err := io.ReadFull(conn, b[2:]); err != nil {
		return nil, CauseLength
	}
	h, cause := parseHeader(b)
	switch {
	case cause == CauseVersion: // of its layout no more than the first three bytes is known
		var unknown []byte
		l.locked(func(t *table, _ time.Time) { unknown = appendUnknown(nil, 0, 0, t.ids()) })
		_, _ = conn.Write(unknown) // so that people there are told, too
		return nil, cause
	case cause != causeNone:
		return nil, cause
	case h.typ != typeInit || h.kind == kindDatagrams:
		return nil, CauseType
	}
	var r *request
	l.locked(func(t *table, now time.Time) {
		s := scope{cluster: t.cluster}
		if h.kind == kindTether {
			s.to = t.addr
		}
		if r, cause = t.examine(now, unmap(addrOf(conn)), h, b, s); cause == CauseKey {
			_, _ = conn.Write(appendUnknown(nil, indexOf(b), h.number, t.ids()))
		}
	})
	if cause != causeNone {
		return nil, cause
	}
	resp, _, keys, err := r.answer(nil, l.table.self) // the curves, without the lock
	if err != nil {
		return nil, CauseMAC
	}
	if _, err := conn.Write(resp); err != nil {
		return nil, CauseStream
	}
	s := newStream(conn, keys)
	if err := s.fill(); err != nil {
		return nil, CauseForged
	}
	return s, causeNone
}

// stream is one end of a proven stream. Like any net.Conn it may be read by one and
// written by many at a time.
type stream struct {
	net.Conn
	recv   direction
	record []byte // as long as the longest yet: a tether's stays short
	plain  []byte // of record, not read yet

	mu   sync.Mutex // guards what follows
	send direction
	out  []byte
}

// direction is one of the two.
type direction struct {
	aead  cipher.AEAD
	count uint64
	nonce [chacha20poly1305.NonceSize]byte
}

func (d *direction) next() []byte {
	binary.LittleEndian.PutUint64(d.nonce[4:], d.count)
	d.count++
	return d.nonce[:]
}

func newStream(conn net.Conn, keys pair) *stream {
	return &stream{Conn: conn, recv: direction{aead: keys.recv}, send: direction{aead: keys.send}}
}

// NetConn is the stream below.
func (s *stream) NetConn() net.Conn { return s.Conn }

// fill reads the next record. A time-out in the midst of one ends the stream's use.
func (s *stream) fill() error {
	var head [lengthSize]byte
	if _, err := io.ReadFull(s.Conn, head[:]); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint16(head[:]))
	if n <= tagSize || n > maxRecord+tagSize {
		return errForged
	}
	if cap(s.record) < n {
		s.record = make([]byte, n)
	}
	body := s.record[:n]
	if _, err := io.ReadFull(s.Conn, body); err != nil {
		return err
	}
	plain, err := s.recv.aead.Open(body[:0], s.recv.next(), body, head[:])
	if err != nil {
		return errForged
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
		part := b[:min(len(b), maxRecord)]
		head := binary.BigEndian.AppendUint16(s.out[:0], uint16(len(part)+tagSize))
		s.out = s.send.aead.Seal(head, s.send.next(), part, head)
		if _, err := s.Conn.Write(s.out); err != nil {
			return n, err
		}
		n += len(part)
		b = b[len(part):]
	}
	return n, nil
}
