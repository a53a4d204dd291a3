package session

import (
	"errors"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/wire"
)

// A stream begins with the handshake of datagrams. Its owner reads and writes the stream, and
// computes the curves, without holding the table.

// HandshakeSize is how long INIT and RESP are.
const HandshakeSize = handshakeSize

// Call is the handshake of a stream that this end began.
type Call struct {
	*call
	at    netip.AddrPort // where the stream goes
	meant Meant
}

// Meant is who a stream is for: a life, and where it says to be. Zero: whoever answers.
type Meant struct {
	ID    wire.ID
	Nonce uint32
	Addr  netip.AddrPort
}

// Key is the cluster's key with which the stream began.
func (c *Call) Key() key.ID { return c.secret.id }

// isAny: nobody is meant. Such streams are gossip's.
func (m Meant) isAny() bool { return m == Meant{} }

// CallStream makes the INIT of a stream to an address. A tether or question is for a life.
func (t *Table) CallStream(at netip.AddrPort, kd Kind, meant Meant) (init []byte, c *Call, err error) {
	t.number++
	init, began, err := newCall(nil, t.rand, t.streamKey(at), scope{t.cluster, meant.Addr}, kd, t.number, t.self, cookie{})
	return init, &Call{began, at, meant}, err
}

// streamKey is the key to begin a stream with: the first that who is there has, or each
// in turn until one was taken.
func (t *Table) streamKey(to netip.AddrPort) *secret {
	if r := t.routes[to]; r != nil {
		return t.keyFor(r.peer, r.refused)
	}
	return t.ring[0]
}

// Answered reads RESP and makes PROOF: three curves. It is to be written at once, before the first record.
func (c *Call) Answered(resp []byte) (who Life, proof []byte, keys Pair, cause Cause) {
	who, index, cause := c.answered(resp)
	if cause != CauseNone {
		return who, nil, keys, cause
	}
	proof, keys, err := c.prove(nil, index, nil)
	if err != nil {
		return who, nil, keys, CauseIdentity
	}
	return who, proof, keys, CauseNone
}

// Met says whether who has answered is who was meant. That another life is there says nothing about that one.
func (t *Table) Met(c *Call, who Life) Cause {
	if cause := t.lasts(c.secret, c.self); cause != CauseNone {
		return cause
	}
	if !t.gate.hosts.Admits(who.ID) {
		return CauseUnlisted
	}
	if r := t.routes[c.at]; r != nil {
		r.isProven = true
	}
	if t.receipts.isPast(who) {
		return CausePast
	}
	if !c.meant.isAny() && (who.ID != c.meant.ID || who.Nonce() != c.meant.Nonce) {
		return CauseLife
	}
	return CauseNone
}

// Unanswered takes what came in the place of RESP, and says what it was: CauseRefused, where the other end has none of
// the keys, CauseVersion or CausePlain where it is of another version or program, or CauseNone for anything else.
func (t *Table) Unanswered(now time.Time, c *Call, b []byte) Cause {
	h, cause := parseHeader(b)
	switch {
	case cause == CauseVersion, cause == CausePlain && len(b) > 1:
		t.count[cause]++
		t.onForeign(cause, c.at, b)
		return cause
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
	if h.kind != KindStream {
		s.to = t.addr
	}
	asked, cause := t.examine(now, from, h, init, s)
	switch {
	case cause == CauseKey:
		refusal = appendUnknown(nil, indexOf(init), h.number, t.ids())
	case cause == CauseNone && !t.door.streams.takeTrue(now, from.Addr(), t.isKnownAt):
		cause = CauseBudget // of sources that TCP has shown to be true
	}
	if cause != CauseNone {
		return nil, refusal, cause
	}
	return &Request{asked}, nil, CauseNone
}

// Refuse counts a stream that was not taken, and has people told where they can mend it. b is what came of it.
func (t *Table) Refuse(cause Cause, from netip.AddrPort, b []byte) {
	t.count[CauseStream]++
	if t.count[cause]++; cause == CausePlain || cause == CauseVersion {
		t.onForeign(cause, from, b)
	}
}

// Request is the INIT of a stream that is worth an answer.
type Request struct{ *request }

// Kind is what the stream is for.
func (r *Request) Kind() Kind { return r.head.kind }

// Key is the cluster's key with which the stream began.
func (r *Request) Key() key.ID { return r.secret.id }

// Answer makes RESP: three curves.
func (r *Request) Answer() (resp []byte, err error) { return r.answer(nil) }

// Admit says of a stream that was proven whether it may be used: a key may have been removed since its INIT, or this life
// have ended. A host that the list does not have is told refusal, in the first record, before the stream is closed. A life of the past
// is refused, and one that is held too, but for gossip: by that two lives of a host hear of each other, and one that has started again
// joins at once.
func (t *Table) Admit(now time.Time, r *Request, who Life, from netip.AddrPort) (refusal []byte, cause Cause) {
	if cause := t.lasts(r.secret, r.self); cause != CauseNone {
		return nil, cause
	}
	p := t.peers[who]
	switch {
	case !t.gate.hosts.Admits(who.ID):
		t.noteOut(now, who.ID, from)
		return t.gate.says(0), CauseUnlisted
	case t.receipts.isPast(who):
		return nil, CausePast
	case p != nil && p.held != nil && r.Kind() != KindStream:
		return nil, CauseClash
	}
	return nil, CauseNone
}

// lasts says whether what began with a key, in a life of this host, may go on.
func (t *Table) lasts(k *secret, self hostKey) Cause {
	switch {
	case t.IsOlder():
		return CauseOlder
	case t.find(k.id) == nil:
		return CauseKey
	case self.life != t.self.life:
		return CauseIndex
	}
	return CauseNone
}

// ProofSize is how long the PROOF of a stream is. It carries nothing but the life of who dialled.
const ProofSize = proofSize

// Proven reads PROOF: one curve. Only then a stream is a member's.
func (r *Request) Proven(proof []byte) (who Life, keys Pair, cause Cause) {
	h, cause := parseHeader(proof)
	switch {
	case cause != CauseNone:
		return who, keys, cause
	case h.typ != typeProof || h.kind != r.head.kind:
		return who, keys, CauseType
	case h.index != r.index || h.number != r.head.number:
		return who, keys, CauseIndex
	}
	who, _, keys, err := r.proven(proof)
	switch {
	case errors.Is(err, errNoProof):
		return who, keys, CauseMAC
	case err != nil:
		return who, keys, CauseIdentity
	case who == r.self.life:
		return who, keys, CauseSelf
	}
	return who, keys, CauseNone
}
