package session

import (
	"net/netip"
	"time"
)

const (
	// clashAsks is how often the life that is there is asked, an RTO apart, before another one of its host takes its place.
	clashAsks = 3
	// clashAgain is how long one that has answered is not asked again.
	clashAgain = time.Second
)

// held is what a life waits with while another one of its host is there (S17), or a life of the past for good (S19). What it says
// is dropped.
type held struct {
	isPast bool
	at     netip.AddrPort // where it says to be
	since  time.Time      // when the other one was asked first
	next   time.Time      // when it is asked again
	asked  int            // how often it was, since it answered last
}

// incumbent is another life of the same host that is not held; nil: none. Lives of this host's own id are its owner's to judge.
func (t *Table) incumbent(who Life) *peer {
	if who.ID == t.self.life.ID {
		return nil
	}
	for _, other := range t.peers {
		if other.ID == who.ID && other.Life != who && other.held == nil {
			return other
		}
	}
	return nil
}

// holds reports whether a life that says to be at an address has to wait. The one that was there before it stays until it
// was asked and is silent. A life of the past waits in vain.
func (t *Table) holds(now time.Time, p *peer, at netip.AddrPort) bool {
	if t.receipts.isPast(p.Life) {
		if !p.isPast() {
			t.note(Trouble{Cause: CausePast, From: at, Theirs: p.ID})
		}
		p.held = &held{isPast: true, at: at}
		return true
	}
	other := t.incumbent(p.Life)
	if other == nil {
		p.held = nil
		return false
	}
	if p.held == nil {
		p.held = &held{next: now}
	}
	p.held.at = at
	if t.hasGone(now, p, other) {
		p.held = nil
		t.forget(other)
		return false
	}
	return true
}

// hasGone asks the life that is there, when that is due, and reports whether it is not any more.
func (t *Table) hasGone(now time.Time, p, other *peer) bool {
	h := p.held
	switch {
	case !other.isThere(now), other.cur == nil:
		return true
	case h.asked > 0 && other.heard.After(h.since):
		h.asked, h.next = 0, now.Add(clashAgain)
		t.note(Trouble{Cause: CauseClash, From: h.at, Ours: other.addr, Theirs: p.ID})
	case now.Before(h.next):
	case h.asked == clashAsks:
		return true
	default:
		if h.asked == 0 {
			h.since = now
		}
		h.asked++
		h.next = now.Add(t.rto(p)) // its own round trip is the newest
		t.greet(now, other, true)
	}
	t.wake(h.next)
	return false
}

// release lets a life that was held take its place, once the other one has gone.
func (t *Table) release(now time.Time, p *peer) {
	if p.held == nil || p.held.isPast || !p.isThere(now) {
		return
	}
	if at := p.held.at; t.claim(now, p, at) == CauseNone {
		t.greet(now, p, true)
	}
}
