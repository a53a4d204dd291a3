package session

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/wire"
)

// MaxCard is the longest card, in bytes.
const MaxCard = 400

// card is what a host says of itself, in words that mean nothing here. A life numbers its cards from 1, and the last counts.
type card struct {
	number uint32 // zero: it has said none
	text   []byte
}

// Shown is a host that is here: it has said its card in a session of its own.
type Shown struct {
	Sender
	Card []byte
	List identity.Digest // of its host list
	RTT  time.Duration   // of a handshake with it; zero: not known
}

// cards are the two that go between this host and a peer.
type cards struct {
	theirs card
	shown  shown  // what the owner was told of the peer last
	has    uint32 // number of ours that the peer has

	again time.Time     // when ours is said next, unless it has that; zero: it has
	pause time.Duration // after which it is said once more
}

// shown is what the owner has to be told of a peer.
type shown struct {
	number uint32
	addr   netip.AddrPort
	list   identity.Digest
}

// SetCard replaces what each peer is told of this host: at once, and then after each RTO until the peer has it. Before the first
// nothing is told, so that a host which may not speak yet is not taken to be there.
func (t *Table) SetCard(now time.Time, text []byte) {
	if t.card.number > 0 && bytes.Equal(text, t.card.text) || len(text) > MaxCard {
		return
	}
	t.card = card{t.card.number + 1, bytes.Clone(text)}
	for _, p := range t.peers {
		p.again, p.pause = now, 0
	}
	t.wake(now)
}

// HasSaid reports whether each peer that was heard a moment ago has the card.
func (t *Table) HasSaid(now time.Time) bool {
	for _, p := range t.peers {
		if p.cur != nil && p.isThere(now) && p.parting == nil && p.has < t.card.number {
			return false
		}
	}
	return true
}

// ShowAgain has the owner told anew of each life of an id, or of any id, that is heard from now on.
func (t *Table) ShowAgain(which func(wire.ID) bool) {
	for _, p := range t.peers {
		if which(p.ID) {
			p.shown = shown{}
		}
	}
}

// show tells the owner of a peer that is here, if there is news of it.
func (t *Table) show(p *peer) {
	if now := (shown{p.theirs.number, p.addr, p.list}); p.theirs.number > 0 && p.addr.IsValid() && p.shown != now {
		p.shown = now
		t.onShown(Shown{p.sender(), p.theirs.text, p.list, p.rtt})
	}
}

// hearCard takes what HELLO says of the two cards. It reports whether the peer waits for an answer.
func (t *Table) hearCard(now time.Time, p *peer, h hello) bool {
	if h.card.number > p.theirs.number {
		p.theirs = card{h.card.number, bytes.Clone(h.card.text)}
	}
	switch p.has = h.has; {
	case p.has >= t.card.number:
		p.again = time.Time{}
	case p.again.IsZero():
		p.again, p.pause = now, 0
		t.wake(now)
	}
	return h.card.number > 0
}

// hello is what a peer is to be told: the card too, if that is due.
func (t *Table) hello(now time.Time, p *peer, asks bool) hello {
	h := hello{asks: asks, addr: t.addr, keys: t.ids(), has: p.theirs.number, given: t.given, shown: t.receipts.of(p.ID)}
	h.list = t.gate.hosts.Digest()
	if p.has >= t.card.number || p.isPast() {
		p.again = time.Time{} // nothing is due
		return h
	}
	if p.pause == 0 {
		p.pause = t.rto(p) / 2
	}
	p.pause = min(2*p.pause, helloEvery)
	p.again, h.card = now.Add(p.pause), t.card
	t.wake(p.again)
	return h
}

// rto is how long an answer of a peer may take.
func (t *Table) rto(p *peer) time.Duration {
	return min(max(3*p.rtt, callLeast), callMost)
}

// sayCard says the card again to a peer that does not have it, when that is due.
func (t *Table) sayCard(now time.Time, p *peer) {
	if p.again.IsZero() || p.cur == nil || p.isOut(now) {
		return
	}
	if !now.Before(p.again) {
		t.greet(now, p, false)
	}
	t.wake(p.again)
}

// Ask has whoever is at an address say something: in a session, which is made if there is none.
func (t *Table) Ask(now time.Time, to netip.AddrPort) {
	r := t.route(to)
	if r == nil || to == t.addr {
		return
	}
	r.wanted = now.Add(wantedFor)
	if p := r.peer; p != nil && p.cur != nil {
		_ = t.sendTo(now, r, t.hello(now, p, true).append(nil)) // as lost on the way
	} else if r.call == nil && r.tries == 0 {
		r.next = now
	}
	t.pursue(now, r)
}
