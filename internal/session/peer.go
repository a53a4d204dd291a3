package session

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
)

// How long things last. What has no reason given is arbitrary.
const (
	renewAfter  = time.Hour
	renewJit    = 10 * time.Minute       // so that a group does not renew in one instant
	expireFor   = 2 * time.Hour          // a session that was not renewed all the same
	loserFor    = time.Minute            // a session that was replaced still receives
	forgottenIn = 5 * time.Minute        // a peer that is silent and not wanted
	revokedIn   = 500 * time.Millisecond // a session whose key was removed

	// Two sessions that were begun within this are of one time: both ends began.
	together = 2 * time.Second
	// maxLosers bounds the replaced sessions of a pair that still receive.
	maxLosers = 3

	askAfter    = 500 * time.Millisecond // of silence, while we send
	silentAfter = time.Second            // the same, and then a new session is begun, each second
	thereFor    = 5 * time.Second        // after something valid has come
	helloEvery  = 10 * time.Second       // with those that a session is kept with
	deafFor     = 30 * time.Second       // a peer whose HELLOs do not come: a new session is begun
	outdatedIn  = time.Second            // a session under a key that neither begins with any more
	helloAgain  = time.Second            // while the peer has not said which keys it has
)

// peer is one life of another host, and the sessions with it. All of them receive; one
// sends.
//
// Invariant: the peer has proved itself in each.
type peer struct {
	Life
	addr    netip.AddrPort // where it is reached; zero: not known yet
	held    *held          // nil: no other life of its host is there
	rtt     time.Duration  // of its last handshake
	cur     *session
	losers  []*session      // replaced, or begun beside cur and not chosen; the oldest first
	keys    []key.ID        // that it has said to have; nil: not said
	list    identity.Digest // of its host list
	parting *parting        // nil: the list has it
	cards

	heard  time.Time // when something valid came last
	sent   time.Time // when a frame or gossip was sealed for it last
	silent time.Time // when the first was sealed that nothing has come after; zero: none
	asked  bool      // it was asked for a sign since
	hello  time.Time // when it is due
}

// sessions are all of them.
func (p *peer) sessions() []*session {
	all := slices.Clone(p.losers)
	if p.cur != nil {
		all = append(all, p.cur)
	}
	return all
}

// isPast: it is a life of the past, which is told so and nothing else (S19).
func (p *peer) isPast() bool { return p.held != nil && p.held.isPast }

// reach is where a peer is told what is the port's own matter; zero: not known.
func (p *peer) reach() netip.AddrPort {
	if p.isPast() {
		return p.held.at
	}
	return p.addr
}

// why is the cause for which a peer that is held is not heard.
func (p *peer) why() Cause {
	if p.isPast() {
		return CausePast
	}
	return CauseClash
}

// hear notes that something has come that the peer alone can have sent.
func (p *peer) hear(now time.Time) { p.heard, p.silent, p.asked = now, time.Time{}, false }

func (p *peer) sender() Sender { return Sender{p.Life, p.addr} }

// supersedes reports whether s takes the place of the session that sends (S6). The newer
// one does, and the one that was begun to replace that; of two that both ends began at one time, the one that the smaller
// began, so that both choose the same.
func (p *peer) supersedes(s *session, self Life) bool {
	if p.cur == nil || p.cur == s.over || p.cur.isOurs == s.isOurs || s.began.Sub(p.cur.began) > together {
		return true
	}
	return s.isOurs == (self.compare(p.Life) < 0)
}

// lose has a session receive for a while and then end.
func (p *peer) lose(now time.Time, s *session) (dropped *session) {
	if end := now.Add(loserFor); end.Before(s.diesAt) {
		s.diesAt = end
	}
	p.losers = append(p.losers, s)
	if len(p.losers) > maxLosers {
		dropped, p.losers = p.losers[0], p.losers[1:]
	}
	return dropped
}

// used is when something was last said in its sessions, either way.
func (p *peer) used() time.Time { return latest(p.heard, p.sent) }

// idleThan orders peers by how long nothing was said, and then by life, so that no chance decides.
func (p *peer) idleThan(other *peer) bool {
	return cmp.Or(p.used().Compare(other.used()), p.compare(other.Life)) < 0
}

// isThere: it was heard a moment ago.
func (p *peer) isThere(now time.Time) bool { return now.Sub(p.heard) < thereFor }

// isSilent: we send, and nothing has come for so long.
func (p *peer) isSilent(now time.Time, d time.Duration) bool {
	return !p.silent.IsZero() && now.Sub(p.silent) >= d && now.Sub(p.sent) < silentAfter
}
