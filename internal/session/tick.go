package session

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
)

const (
	// dialsAtOnce is how many INITs may go at once for which nothing waits, and dialEvery how soon after each another one: each
	// takes a curve, and its answer three, and whoever sends a frame waits meanwhile.
	dialsAtOnce = 16
	dialEvery   = 10 * time.Millisecond

	// A told address is one where nobody has proved to be: somebody has named it, and it may be a stranger's. It gets toldTries
	// INITs, enough for a path that loses every fifth datagram, and then one after toldPause, doubling to toldMost. Of toldAtOnce
	// places each INIT takes one for toldFor, so that of thousands that were made up none holds a true one up for long.
	toldTries  = 6
	toldAtOnce = 16
	toldFor    = 200 * time.Millisecond
	toldPause  = 5 * time.Second
	toldMost   = 5 * time.Minute
)

// Tick does what is due and sets when it is to be called next.
func (t *Table) Tick(now time.Time) {
	t.due = time.Time{}
	t.trying = 0
	for _, r := range t.routes {
		if r.isTried(now) {
			t.trying++
		}
	}
	for len(t.halves) > 0 && !now.Before(t.halves[0].began.Add(halfFor)) {
		t.dropHalf(t.halves[0])
	}
	if len(t.halves) > 0 {
		t.wake(t.halves[0].began.Add(halfFor))
	}
	for _, p := range t.peersInOrder() {
		t.age(now, p)
	}
	t.judge(now)
	for _, r := range t.routesInOrder() {
		t.pursue(now, r)
		t.expire(now, r)
	}
	if len(t.routes) > 0 {
		t.wake(now.Add(routeFor))
	}
	if soonest := now.Add(callLeast); t.due.Before(soonest) && !t.due.IsZero() {
		t.due = soonest
	}
}

// age ends a peer's sessions whose time has ended, and says HELLO when that is due.
func (t *Table) age(now time.Time, p *peer) {
	for _, s := range p.sessions() {
		if now.Before(s.diesAt) {
			t.wake(s.diesAt)
			continue
		}
		t.drop(s)
		p.remove(s)
	}
	isWarm := t.isWarm(p)
	t.part(now, p)
	switch {
	case p.parting != nil && !now.Before(p.parting.ends):
		t.forget(p)
		return
	case p.isOut(now):
		return
	case p.cur == nil && len(p.losers) == 0, !isWarm && p.cur != nil && now.Sub(p.used()) >= forgottenIn:
		t.forget(p)
		return
	case p.isSilent(now, askAfter) && !p.asked:
		p.asked = true
		t.greet(now, p, true)
	case p.cur != nil && (isWarm || p.keys == nil):
		if !now.Before(p.hello) {
			p.hello = now.Add(helloAgain)
			t.greet(now, p, true)
		}
		t.wake(p.hello)
	}
	if !p.silent.IsZero() && now.Sub(p.sent) < silentAfter {
		t.wake(now.Add(askAfter / 2))
	}
	t.release(now, p)
	t.proveAgain(now, p)
	t.sayCard(now, p)
}

// proveAgain repeats PROOF, until something of the peer has come in its session.
func (t *Table) proveAgain(now time.Time, p *peer) {
	s := p.cur
	if s == nil || s.proof == nil || now.Sub(s.began) >= halfFor {
		return
	}
	if !now.Before(s.proofAt) && p.addr.IsValid() {
		t.sendProof(now, s, p.addr)
	}
	t.wake(s.proofAt)
}

func (p *peer) remove(s *session) {
	switch s {
	case p.cur:
		p.cur = nil
	default:
		p.losers = slices.DeleteFunc(p.losers, func(l *session) bool { return l == s })
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pursue sends INIT to an address, if a session with whoever is there is wanted.
func (t *Table) pursue(now time.Time, r *route) {
	if !t.isWanted(now, r) {
		if t.endCall(r); r.isProven {
			r.tries, r.pause = 0, 0
		}
		return
	}
	switch {
	case now.Before(r.next):
		t.wake(r.next)
	case !r.isProven && t.trying >= toldAtOnce:
		t.wake(now.Add(callFirst))
	case !t.mayDial(now) && len(r.waiting) == 0:
		t.wake(now) // the next Tick's
	default:
		t.paid = t.paid.Add(dialEvery)
		t.dial(now, r)
	}
}

// mayDial: not too many sessions were begun a moment ago.
func (t *Table) mayDial(now time.Time) bool {
	if earliest := now.Add(-dialsAtOnce * dialEvery); t.paid.Before(earliest) {
		t.paid = earliest
	}
	return t.paid.Before(now)
}

// isTried: it is a told address, and has got an INIT a moment ago.
func (r *route) isTried(now time.Time) bool {
	return !r.isProven && r.call != nil && now.Sub(r.called) < toldFor
}

// isWanted: there is no session, or not the one there should be.
func (t *Table) isWanted(now time.Time, r *route) bool {
	if now.Before(r.shut) {
		t.wake(r.shut)
		return false
	}
	if now.Before(r.disputed) {
		return true
	}
	isUsed := r.isWarm || now.Before(r.wanted)
	if !isUsed {
		return false
	}
	p := r.peer
	switch {
	case p == nil || p.cur == nil:
		return true
	case p.isSilent(now, silentAfter), now.Sub(p.heard) > deafFor:
		r.pause = callMost
		return true
	}
	t.wake(p.cur.renewAt)
	return !now.Before(p.cur.renewAt) || t.isOutdated(p)
}

// isOutdated (S12): both would now begin with another key than the session's. Where they
// differ about that either one's will do, or they would replace each other's for ever.
func (t *Table) isOutdated(p *peer) bool {
	if len(p.keys) == 0 || len(t.ring) == 0 {
		return false
	}
	first := t.ring[0].id
	return p.cur.key != first && p.keys[0] == first
}

func (t *Table) find(id key.ID) *secret {
	for _, k := range t.ring {
		if k.id == id {
			return k
		}
	}
	return nil
}

// dial sends INIT (S9). Each repetition is another one: the same one twice is a replay.
func (t *Table) dial(now time.Time, r *route) {
	t.endCall(r)
	k := t.choice(r)
	if k == nil {
		return
	}
	t.number++
	b, c, err := newCall(t.out[:0], t.rand, k, scope{t.cluster, r.to}, kindDatagrams, t.number, t.self, r.cookieAt(now))
	if err != nil || t.isTaken(c.index) {
		t.wake(now.Add(callLeast))
		return
	}
	r.call, r.called, r.over = c, now, nil
	if r.peer != nil {
		r.over = r.peer.cur
	}
	t.byIndex[c.index] = slot{route: r}
	switch {
	case r.pause == 0 && r.rtt == 0:
		r.pause = callFirst
	case r.pause == 0:
		r.pause = min(max(3*r.rtt, callLeast), callMost)
	default:
		r.pause = min(2*r.pause, callMost)
	}
	if r.tries++; r.isTried(now) {
		t.trying++
	}
	r.next = now.Add(r.pause)
	if !r.isProven && r.tries >= toldTries {
		r.next = now.Add(min(toldPause<<min(r.tries-toldTries, 10), toldMost))
	}
	t.wake(r.next)
	_ = t.emit(r.to, b) // as lost on the way: it is repeated
}

// cookieAt is what an INIT to this address has to show; zeros: nothing that is known.
func (r *route) cookieAt(now time.Time) cookie {
	if !now.Before(r.cookieUntil) {
		return cookie{}
	}
	return r.cookie
}

// choice is the key to begin with: the first of ours that the peer has. Whoever has not
// said which it has is tried with each in turn.
func (t *Table) choice(r *route) *secret {
	switch {
	case len(t.ring) == 0:
		return nil
	case r.tries > 0:
		return t.keyFor(nil, r.tries)
	}
	return t.keyFor(r.peer, 0)
}

// keyFor is the first key that the peer has, or after so many tries the next in turn; nil: who is there is not known.
func (t *Table) keyFor(p *peer, tries int) *secret {
	for _, k := range t.ring {
		if p != nil && slices.Contains(p.keys, k.id) {
			return k
		}
	}
	return t.ring[tries%len(t.ring)]
}

func (t *Table) endCall(r *route) {
	if r.call != nil {
		delete(t.byIndex, r.call.index)
		r.call, r.over = nil, nil
	}
}

// expire drops what has waited for too long, and forgets an address that nobody sends to.
func (t *Table) expire(now time.Time, r *route) {
	for len(r.waiting) > 0 && !now.Before(r.waitEnds[0]) {
		r.waiting, r.waitEnds = r.waiting[1:], r.waitEnds[1:]
		t.count[CauseUnanswered]++
	}
	if len(r.waiting) > 0 {
		t.wake(r.waitEnds[0])
		return
	}
	if r.peer != nil && t.peers[r.peer.Life] != r.peer {
		r.peer = nil // forgotten, at another address
	}
	if !r.isWarm && r.peer == nil && now.Sub(r.wanted) > routeFor {
		t.endCall(r)
		delete(t.routes, r.to)
	}
}

// SetKeys replaces the ring. Sessions under a key that is not in it any more end in a
// moment, which is for new ones to be made; INITs under it at once.
func (t *Table) SetKeys(now time.Time, ring key.Ring) {
	t.ring = nil
	for _, k := range ring {
		t.ring = append(t.ring, newSecret(k))
	}
	t.odd.forget(now, t.ids()...)
	for _, h := range slices.Clone(t.halves) {
		if t.find(h.secret.id) == nil {
			t.dropHalf(h)
		}
	}
	for _, p := range t.peersInOrder() {
		for _, s := range p.sessions() {
			if end := now.Add(revokedIn); t.find(s.key) == nil && end.Before(s.diesAt) {
				s.diesAt, s.renewAt = end, now
			}
		}
		t.greet(now, p, true)
	}
	for _, r := range t.routesInOrder() {
		if r.call != nil && t.find(r.call.secret.id) == nil {
			t.endCall(r)
		}
		r.tries, r.pause, r.next = 0, 0, now.Add(t.jitter(revokedIn/2))
	}
	t.wake(now)
}
