package membership

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

const (
	// maxEnded bounds the members that are remembered after their end. More
	// means that more addresses are tried after a long partition; the number
	// is arbitrary, four times what heartbeats reach at full rate.
	maxEnded = 256

	// leaveGrace is for how long a ping's answer from a member that left proves
	// nothing: its process says goodbye first and ends afterwards. Longer than
	// any leave takes; a forged LEAVE hides a member for as long.
	leaveGrace = 30 * time.Second
)

// lives holds one record for each other member, and so what the consumer has to
// be told. It is not safe for concurrent use: Membership.mu guards it.
//
// What it makes of memberlist's notices:
//
//   - A member has one current life. A life with a lower incarnation never
//     takes the place of one that is alive: it is the ghost of a process that
//     memberlist has not yet found dead (P9).
//   - When a newer life takes the place of a living one at the same address, the
//     consumer hears of the older one's end first. memberlist would say so some
//     seconds later. At another address it may be a clone: there the consumer
//     hears of the end when memberlist does.
//   - A life is one once it has answered a ping, in a session of its own and at the
//     address that it is said to have. Until then it waits, and neither is told nor
//     takes the place of one that has. Only its session tells its number, its address
//     and its end: see Sessions.
//   - The same holds for a life that was told to be dead: others who reach it say again and again that
//     it lives. The consumer hears so once it has answered this host.
//   - A death that others found is asked about first, if the last that this host knows of the life is an answer:
//     any member can say so, and who reaches few others finds all of them dead, again and again.
//   - Of our own id other copies of our state directory may be there, and one that is
//     started again and again is the newest: it hides no other, each is told.
//   - Everything else is the difference between what the consumer was told and
//     what is: a slow consumer costs no memory and loses nothing but the past.
type lives struct {
	byID   map[wire.ID]*record
	dirty  []wire.ID // to be looked at by take, each once, in order of first change
	clones []Member  // other hosts that say to be a known life, one for each id
	self   wire.ID   // our own
	copies []Member  // lives of our own id to be told of, each once

	present int    // the lives in all records that memberlist believes alive
	names   budget // for new lives of ids of which none ever answered
	proven  budget // for those of all others
}

type record struct {
	now     Member
	changed time.Time // of now's Status

	// told is what the consumer knows, superseded the end of told's life if a
	// newer one took its place.
	told       *Member
	superseded *Member

	// elsewhere is a living life that a newer one at another address took the
	// place of, until memberlist says that it is gone.
	elsewhere *Member

	// present has the nonces of the lives that memberlist believes alive: more
	// than one after a quick restart, or if there is a clone.
	present map[uint32]bool
	dirty   bool

	waiting map[uint32]Member // those of present that have not answered yet, if they have to
	waited  time.Time         // one of them last ceased to be there unanswered

	heard  time.Time // a living life last answered a direct ping; zero: none did
	asked  time.Time // the current life was last asked because others doubt it
	silent time.Time // and it did not answer
	asks   bool      // such a question is under way

	// held: memberlist has ended the current life, which has answered this host since, or is asked whether it does.
	held  bool
	names budget // for new lives
}

func newLives() lives { return lives{byID: make(map[wire.ID]*record)} }

// waits reports whether m has to answer a ping before it is believed.
func (l *lives) waits(m Member) bool {
	r := l.byID[m.ID]
	if r == nil {
		return false
	}
	_, waits := r.waiting[m.Nonce]
	return waits
}

// relayedFor is for how long a dead member that others said to be alive counts as one that they reach. Gossip may find it dead
// for a while in between; that takes less than a minute. Arbitrary above that.
const relayedFor = 2 * time.Minute

// isRelayed: it is dead for this host, and others reach it.
func (r *record) isRelayed(now time.Time) bool {
	_, waits := r.waiting[r.now.Nonce]
	return r.now.Status == Dead && (waits || !r.waited.IsZero() && now.Sub(r.waited) < relayedFor)
}

// doubtEvery is how often a life is asked at most because others doubt it.
const doubtEvery = time.Second

// heldEvery is how often a life is asked that memberlist has ended and this host believes in. It denies its death within
// seconds, unless the one host that gossip of it passes through has not told it.
const heldEvery = 5 * time.Second

// leavingEvery is the same for a life of which others say that it leaves: mostly it is as good as gone, and answers once more.
const leavingEvery = time.Second

// doubted is told that somebody suspects a life. It gives what is to be asked.
func (l *lives) doubted(id wire.ID, nonce uint32, now time.Time) (m Member, ask bool) {
	r := l.byID[id]
	if r == nil || r.isNone() || r.now.Nonce != nonce || r.now.Status != Alive || r.asks || now.Sub(r.asked) < doubtEvery {
		return Member{}, false
	}
	r.asks, r.asked = true, now
	return r.now, true
}

// isAsked reports whether an answer of m is waited for.
func (l *lives) isAsked(m Member) bool {
	r := l.byID[m.ID]
	return r != nil && (l.waits(m) || !r.isNone() && sameLife(r.now, m) && r.asks)
}

// hold keeps a life that memberlist has ended, if this host has reason to think that it lives. One that was asked since it was
// heard, and did not answer, has ended by this host's own evidence.
func (l *lives) hold(r *record, now time.Time) bool {
	if r.silent.After(r.heard) {
		return false
	}
	r.held, r.asks, r.asked = true, true, now
	return true
}

// isHeld reports whether m is believed although memberlist has ended it.
func (l *lives) isHeld(m Member) bool {
	r := l.byID[m.ID]
	return r != nil && r.held && sameLife(r.now, m)
}

// askAgain reports whether m is held still, and has to be asked.
func (l *lives) askAgain(m Member, now time.Time) bool {
	if !l.isHeld(m) || l.byID[m.ID].asks {
		return false
	}
	l.byID[m.ID].asks, l.byID[m.ID].asked = true, now
	return true
}

// unanswered is told that a life did not answer.
func (l *lives) unanswered(m Member, now time.Time) bool {
	r := l.byID[m.ID]
	if r == nil || r.isNone() || !sameLife(r.now, m) {
		return false
	}
	r.asks, r.silent = false, now
	if !r.held {
		return false
	}
	r.held = false
	return r.now.Status == Alive && l.end(r, m, now)
}

// isNone: of this id there are only lives that wait.
func (r *record) isNone() bool { return r.changed.IsZero() }

// wait keeps what is said of a life that has not answered, and reports whether it
// has to.
func (l *lives) wait(r *record, m Member) bool {
	if !r.isNone() && sameLife(r.now, m) && r.now.Status != Dead {
		return false
	}
	if m.ID == l.self {
		return false // it may be this host's own past, of which others alone can tell
	}
	if r.waiting == nil {
		r.waiting = make(map[uint32]Member)
	}
	r.waiting[m.Nonce] = m
	return true
}

// joined is told that memberlist believes m alive that it did not before. Like
// the other methods it reports whether the consumer has something to learn.
func (l *lives) joined(m Member, now time.Time) bool {
	r := l.byID[m.ID]
	if r == nil {
		r = &record{present: make(map[uint32]bool)}
		l.byID[m.ID] = r
	}
	if !r.present[m.Nonce] {
		r.present[m.Nonce] = true
		l.present++
	}
	if l.isHeld(m) {
		r.held = false
	}
	if l.wait(r, m) {
		return false
	}
	return l.believe(r, m, now)
}

// believe takes a life for one.
func (l *lives) believe(r *record, m Member, now time.Time) bool {
	switch {
	case r.isNone():
	case sameLife(r.now, m):
		if r.now.Status == Left && m.Leaving {
			return false // late gossip about a departure that we know of
		}
		m.RTT = r.now.RTT
	case r.now.Status == Alive && m.Incarnation < r.now.Incarnation:
		return l.noteCopy(m)
	}
	l.noteCopy(m)
	return l.set(r, m, now)
}

// noteCopy is told that a life of our own id is there, whether another is newer or not.
func (l *lives) noteCopy(m Member) bool {
	if m.ID != l.self {
		return false
	}
	l.dropCopy(m)
	l.copies = append(l.copies, m) // as many as are present
	return true
}

func (l *lives) dropCopy(m Member) {
	l.copies = slices.DeleteFunc(l.copies, func(c Member) bool { return sameLife(c, m) })
}

// updated is told that a life that memberlist believes alive has another meta.
func (l *lives) updated(m Member, now time.Time) bool {
	r := l.byID[m.ID]
	if r == nil {
		return l.joined(m, now)
	}
	if l.wait(r, m) {
		return false
	}
	if sameLife(r.now, m) {
		if r.now.Status != Alive {
			r.now.Leaving = r.now.Leaving || m.Leaving
			return false
		}
		m.RTT = r.now.RTT
		m.Incarnation, m.Addr = r.now.Incarnation, r.now.Addr // others say this, too
		return l.set(r, m, now)
	}
	if m.Incarnation <= r.now.Incarnation {
		return l.noteCopy(m)
	}
	return l.set(r, m, now) // the survivor of an id conflict
}

// gone is told that memberlist does not believe m alive any more.
func (l *lives) gone(m Member, now time.Time) bool {
	r := l.byID[m.ID]
	if r == nil {
		return false
	}
	if r.present[m.Nonce] {
		delete(r.present, m.Nonce)
		l.present--
	}
	if _, waits := r.waiting[m.Nonce]; waits {
		delete(r.waiting, m.Nonce)
		r.waited = now
	}
	l.dropCopy(m)
	if r.isNone() && len(r.present) == 0 {
		delete(l.byID, m.ID)
		return false
	}
	if r.elsewhere != nil && sameLife(*r.elsewhere, m) {
		return l.supersede(r, m.Leaving)
	}
	if !sameLife(r.now, m) || r.now.Status != Alive {
		return false // a life whose end was told before
	}
	if l.hold(r, now) {
		return false
	}
	return l.end(r, m, now)
}

// end has the current life end.
func (l *lives) end(r *record, m Member, now time.Time) bool {
	ended := r.now
	ended.Leaving = ended.Leaving || m.Leaving
	ended.Status = endOf(ended)
	return l.set(r, ended, now)
}

// endOf is what memberlist cannot say: the end of a life that announced it is a
// departure, any other a death (P3).
func endOf(m Member) Status {
	if m.Leaving {
		return Left
	}
	return Dead
}

// markLeft is told that a life announced its departure by frame.
func (l *lives) markLeft(id wire.ID, incarnation uint32, now time.Time) bool {
	r := l.byID[id]
	if r == nil || r.isNone() || r.now.Incarnation != incarnation || r.now.Status == Left {
		return false
	}
	m := r.now
	m.Status = Left
	return l.set(r, m, now)
}

// answered is told that m answered a direct ping: it lives, whatever else was
// said. It brings back two lives that memberlist never stopped to believe in: a
// member whose LEAVE was not its own, and one that a clone with a higher
// incarnation had hidden until the clone was stopped.
func (l *lives) answered(m Member, rtt time.Duration, now time.Time) bool {
	r := l.byID[m.ID]
	if r == nil || !r.present[m.Nonce] && !l.isHeld(m) {
		return false // gone meanwhile
	}
	r.heard = now
	if !r.isNone() && sameLife(r.now, m) {
		r.asks = false
	}
	if said, waited := r.waiting[m.Nonce]; waited {
		delete(r.waiting, m.Nonce)
		said.RTT = rtt
		said.Incarnation, said.Addr = m.Incarnation, m.Addr
		return l.believe(r, said, now)
	}
	m.RTT = rtt
	if r.now.Status == Alive {
		if !sameLife(r.now, m) {
			return l.noteCopy(m)
		}
		r.now.RTT = rtt // it is told with the next news: the first has seeded the timeouts
		return false
	}
	if m.Leaving || r.now.Leaving && sameLife(r.now, m) || r.now.Status == Left && now.Sub(r.changed) < leaveGrace {
		return false
	}
	return l.set(r, m, now)
}

// cloned is told that other, at another address, says to be a life that is
// known, or our own.
func (l *lives) cloned(other Member) bool {
	l.clones = slices.DeleteFunc(l.clones, func(m Member) bool { return m.ID == other.ID })
	l.clones = append(l.clones, other)
	return true
}

// set makes m the newest of r.
func (l *lives) set(r *record, m Member, now time.Time) bool {
	first := r.isNone()
	if !first && !sameLife(r.now, m) && r.told != nil && r.told.Status == Alive && sameLife(r.now, *r.told) {
		older := r.now
		r.elsewhere = &older
		if older.Status != Alive || older.Addr == m.Addr {
			l.supersede(r, false)
		}
	}
	if first || r.now.Status != m.Status || !sameLife(r.now, m) {
		r.changed = now
	}
	if !sameLife(r.now, m) {
		r.held, r.asks = false, false
	}
	r.now = m
	l.touch(r)
	if m.Status != Alive {
		l.forget()
	}
	return true
}

// supersede makes the end of the life that is elsewhere known.
func (l *lives) supersede(r *record, leaving bool) bool {
	ended := *r.elsewhere
	ended.Leaving = ended.Leaving || leaving
	if ended.Status == Alive {
		ended.Status = endOf(ended)
	}
	r.superseded, r.elsewhere = &ended, nil
	l.touch(r)
	return true
}

func (l *lives) touch(r *record) {
	if !r.dirty {
		r.dirty = true
		l.dirty = append(l.dirty, r.now.ID)
	}
}

// forget drops one member if more than maxEnded have ended: of those that never
// answered, which anybody can make up, else of those that left, for whom nobody
// looks, else of all, the one whose end is longest ago. What the consumer must
// still be told of stays; there is no more of it than it was told of before.
func (l *lives) forget() {
	var oldest *record
	ended := 0
	for _, r := range l.byID {
		if r.now.Status == Alive {
			continue
		}
		ended++
		if r.dirty && r.told != nil {
			continue
		}
		if oldest == nil || r.expendable(oldest) {
			oldest = r
		}
	}
	if ended <= maxEnded || oldest == nil {
		return
	}
	l.present -= len(oldest.present) // its LEAVE alone was heard, or an older life lingers
	delete(l.byID, oldest.now.ID)
	l.dirty = slices.DeleteFunc(l.dirty, func(id wire.ID) bool { return id == oldest.now.ID })
}

// expendable reports whether r is to be forgotten before other.
func (r *record) expendable(other *record) bool {
	if proven, others := !r.heard.IsZero(), !other.heard.IsZero(); proven != others {
		return others
	}
	if r.now.Status != other.now.Status {
		return r.now.Status == Left
	}
	return r.changed.Before(other.changed)
}

// take gives what the consumer has not been told yet.
func (l *lives) take() []Event {
	var events []Event
	for _, id := range l.dirty {
		r := l.byID[id]
		r.dirty = false
		events = r.take(events)
	}
	for _, m := range l.copies {
		if r := l.byID[m.ID]; r == nil || r.told == nil || !sameLife(*r.told, m) {
			events = append(events, Event{Kind: Joined, Member: m})
		}
	}
	for _, m := range l.clones {
		events = append(events, Event{Kind: Conflict, Member: m})
	}
	l.dirty, l.copies, l.clones = nil, nil, nil
	return events
}

func (r *record) take(events []Event) []Event {
	if r.superseded != nil {
		events = append(events, Event{Kind: endKind(*r.superseded), Member: *r.superseded})
		r.told, r.superseded = r.superseded, nil
	}
	if kind, news := r.difference(); news {
		events = append(events, Event{Kind: kind, Member: r.now})
		told := r.now
		r.told = &told
	}
	return events
}

// difference compares what is with what was told.
func (r *record) difference() (kind EventKind, news bool) {
	known := r.told != nil && sameLife(*r.told, r.now)
	if r.now.Status == Alive {
		if !known || r.told.Status != Alive {
			return Joined, true
		}
		was, is := *r.told, r.now
		was.RTT, is.RTT = 0, 0
		return Updated, was != is
	}
	// Else it came and went untold. That a dead member had announced its
	// departure is news; that one that left is dead is not.
	return endKind(r.now), known && (r.told.Status == Alive || r.told.Status == Dead && r.now.Status == Left)
}

func endKind(m Member) EventKind {
	if m.Status == Left {
		return Departed
	}
	return Failed
}

// known lists all, sorted by id.
func (l *lives) known(now time.Time) []Member {
	all := make([]Member, 0, len(l.byID))
	for _, r := range l.byID {
		if !r.isNone() {
			m := r.now
			m.Relayed = r.isRelayed(now)
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return a.ID.Compare(b.ID) })
	return all
}

// addresses gives where living members are, and where those were that for memberlist died
// without leaving and for which no newer life is known.
func (l *lives) addresses() (alive, lost map[netip.AddrPort]bool) {
	alive, lost = make(map[netip.AddrPort]bool), make(map[netip.AddrPort]bool)
	for _, r := range l.byID {
		switch {
		case r.held:
			lost[r.now.Addr] = true // memberlist has to meet it again
		case r.now.Status == Alive:
			alive[r.now.Addr] = true
		case r.now.Status == Dead:
			lost[r.now.Addr] = true
		}
	}
	delete(alive, netip.AddrPort{}) // of those that wait
	maps.DeleteFunc(lost, func(a netip.AddrPort, _ bool) bool { return alive[a] })
	return alive, lost
}

// hasMet reports whether a living host of another id is known.
func (l *lives) hasMet() bool {
	for id, r := range l.byID {
		if id != l.self && !r.isNone() && r.now.Status == Alive {
			return true
		}
	}
	return false
}

// awaitsAnswers reports whether a life has to answer before it is believed.
func (l *lives) awaitsAnswers() bool {
	for _, r := range l.byID {
		if len(r.waiting) > 0 {
			return true
		}
	}
	return false
}

func (l *lives) countAlive() int {
	n := 0
	for _, r := range l.byID {
		if r.now.Status == Alive {
			n++
		}
	}
	return n
}
