package session

import (
	"net/netip"
	"slices"
	"time"
)

// A stream begins with the handshake of datagrams. Its owner reads and writes the stream, and
// computes the curves, without holding the table.

// HandshakeSize is how long INIT and RESP are.
const HandshakeSize = handshakeSize

// Call is the handshake of a stream that this end began.
type Call struct {
	*call
	at netip.AddrPort // where the stream goes
	to netip.AddrPort // the advertised address of who is wanted; zero: whoever answers
}

// CallStream makes the INIT of a stream to an address. A tether goes to whoever advertises to.
func (t *Table) CallStream(at netip.AddrPort, kd Kind, to netip.AddrPort) (init []byte, c *Call, err error) {
	t.number++
	init, began, err := newCall(nil, t.rand, t.streamKey(at), scope{t.cluster, to}, kd, t.number, t.self)
	return init, &Call{began, at, to}, err
}

// streamKey is the key to begin a stream with: the first that who is there has, or each
// in turn until one was taken.
func (t *Table) streamKey(to netip.AddrPort) *secret {
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

// Answered reads RESP, and computes the curves.
func (c *Call) Answered(resp []byte) (who Life, keys Pair, cause Cause) {
	who, _, keys, cause = c.answered(resp)
	return who, keys, cause
}

// Met says whether who has answered may be the one at the address that was wanted: another is not known to be there.
func (t *Table) Met(now time.Time, c *Call, who Life) Cause {
	r := t.routes[c.to]
	if !c.to.IsValid() || r == nil || r.peer == nil || r.peer.ID == who.ID || !r.peer.isThere(now) {
		return CauseNone
	}
	return CauseAddress
}

// Unanswered takes what came in the place of RESP, and says what it was: CauseRefused, where the other end has none of
// the keys, CauseVersion, or CauseNone for anything else.
func (t *Table) Unanswered(now time.Time, c *Call, b []byte) Cause {
	h, cause := parseHeader(b)
	switch {
	case cause == CauseVersion:
		t.count[CauseVersion]++
		t.onForeign(CauseVersion, c.at, b)
		return CauseVersion
	case cause != CauseNone || h.typ != typeUnknown || h.index != c.index || h.number != c.number:
		return CauseNone
	}
	t.count[CauseRefused]++
	t.refusedBy(now, c.at, c.call, b)
	if r := t.route(c.at); r != nil {
		r.refused, r.wanted = r.refused+1, latest(r.wanted, now) // kept for as long as what is sent to
	}
	return CauseRefused
}

// StreamSize is how much of an accepted stream has to be read next, b being what came so far. Nothing more is read of a
// stream that does not begin as INIT does.
func StreamSize(b []byte) (int, Cause) {
	switch {
	case len(b) > 0 && b[0] != magic0, len(b) > 1 && b[1] != magic1:
		return 0, CausePlain
	case len(b) < 2:
		return 1, CauseNone
	}
	return handshakeSize - len(b), CauseNone
}

// Accept takes the INIT of a stream. What refuses it, if anything does, is to be written before the stream is closed, so
// that people there are told, too.
func (t *Table) Accept(now time.Time, from netip.AddrPort, init []byte) (r *Request, refusal []byte, cause Cause) {
	h, cause := parseHeader(init)
	switch {
	case cause == CauseVersion: // of its layout no more than the first three bytes is known
		return nil, appendUnknown(nil, 0, 0, t.ids()), cause
	case cause != CauseNone:
		return nil, nil, cause
	case h.typ != typeInit || h.kind == kindDatagrams:
		return nil, nil, CauseType
	}
	s := scope{cluster: t.cluster}
	if h.kind == KindTether {
		s.to = t.addr
	}
	asked, cause := t.examine(now, from, h, init, s)
	switch cause {
	case CauseNone:
		return &Request{asked, t.self}, nil, CauseNone
	case CauseKey:
		refusal = appendUnknown(nil, indexOf(init), h.number, t.ids())
	}
	return nil, refusal, cause
}

// Refuse counts a stream that was not taken, and has people told where they can mend it. b is what came of it.
func (t *Table) Refuse(cause Cause, from netip.AddrPort, b []byte) {
	t.count[CauseStream]++
	if t.count[cause]++; cause == CausePlain || cause == CauseVersion {
		t.onForeign(cause, from, b)
	}
}

// Request is the INIT of a stream that is worth an answer.
type Request struct {
	*request
	self Life
}

// Answer makes RESP, and computes the curves.
func (r *Request) Answer() (resp []byte, keys Pair, err error) {
	resp, _, keys, err = r.answer(nil, r.self)
	return resp, keys, err
}
