package membership

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/wire"
)

const (
	// maxEnded bounds the members that are remembered after their end. More
	// means that more addresses are tried after a long partition; the number
	// is arbitrary, four times what heartbeats reach at full rate.
	maxEnded = 256

	// leaveGrace is for how long nothing that a member says after its LEAVE brings it back: its process says goodbye first and ends
	// afterwards. Longer than any leave takes.
	leaveGrace = 30 * time.Second

	// questions is how often a life is asked before its silence is its end; while gossip believes in it, so often that memberlist
	// would have found it dead, since a process that stands still for some seconds is none that has died.
	questions, questionsMore = 3, 12

	// doubtEvery is how often a life is asked at most because others doubt it.
	doubtEvery = time.Second

	// strangeEvery is how often a life is asked that is here and that memberlist does not believe in: nobody else looks after it. One
	// in which memberlist believes is asked as well, for any member can answer memberlist in its place. It is asked once in believedEvery
	// to twice that, as its nonce has it, so that not all are asked at once.
	strangeEvery, believedEvery = 5 * time.Second, 30 * time.Second

	// Who is told of and is not here is dialled, and again after these pauses, which double; see Table.Ask. At most dialsAtOnce are
	// under way. One takes its place for dialFor, or for dialBrief while others wait for their first dial: what is made up would else
	// hold true ones up for minutes. On a LAN who is there answers in less, and who answers later is taken all the same.
	dialFor, dialBrief  = 2 * time.Second, 200 * time.Millisecond
	dialFirst, dialMost = 5 * time.Second, 5 * time.Minute
	dialsAtOnce         = 16

	// copyFor is for how long the first join waits for another life of our own id that is told of: one that lives answers at once.
	copyFor = time.Second

	// relayedAfter is when gossip has found a member dead for sure that is. relayedFor is for how long a dead member that others said
	// to be alive counts as one that they reach. Gossip may find it dead for a while in between; that takes less than a minute.
	// Arbitrary above that.
	relayedAfter, relayedFor = time.Minute, 2 * time.Minute
)

// lives is the one table of who is there, in which life:
//
//	told    gossip has named it: a hint, which is an address to dial
//	proven  it has a session: package session knows, and nobody here
//	here    its card has come in a session of its own; the consumer is told
//	gone    it said so, a later life is here, or it was asked in its session and silent
//
// It is not safe for concurrent use: Membership.mu guards it.
//
// The rules:
//
//   - An id has one life that is here. A later one takes its place, never an earlier one: that is a ghost. Of two that speak at
//     one time package session shows the one that was there (S17).
//   - What gossip says, that a life is there, suspect or dead, starts a question. Nothing else comes of it.
//   - A life that is gone is here again once something comes in its session; see Sessions.ShowAgain.
//   - Of our own id each other life that shows itself is reported, whichever is the newest: a copy of our state directory that is
//     started again and again must not hide another. Nothing is remembered of it. One that is told of is dialled like others.
//   - Everything else is the difference between what the consumer was told and
//     what is: a slow consumer costs no memory and loses nothing but the past.
type lives struct {
	self    wire.ID        // our own id
	addr    netip.AddrPort // where we are: no other life of ours is there
	byID    map[wire.ID]*host
	dirty   []wire.ID     // to be looked at by take, each once, in order of first change
	copies  []Event       // lives of our own id that have shown themselves
	patient time.Duration // for how long an answer is waited for

	leader  wire.ID            // as gossip has it; zero: nobody
	isKnown func(wire.ID) bool // none of those that are new, which may be any number

	hints int           // in all hosts
	names *rate.Limiter // of those that memberlist hears of
}

// lifeName is what gossip calls a life by.
type lifeName struct {
	id    wire.ID
	nonce uint32
}

// host is what is known of an id.
type host struct {
	hints map[uint32]*hint // lives that gossip believes in, by nonce

	now     Member    // the life that is here, or was last; its id is zero: none ever was
	changed time.Time // of now's Status
	heard   time.Time // when now was shown last

	asked     int       // how often, while a question to now is open; zero: none is
	askAt     time.Time // when that is looked at, or asked again; of a life that is here and no hint: when it is asked
	askedLast time.Time
	showAt    time.Time // when a life that left may be here again; zero: no more
	outAt     time.Time // when it is a member no more, since the host list has lost it; zero: the list has it
	relayed   time.Time // when others last ceased to believe in now, which is dead here

	// reported is what the consumer knows, superseded the end of reported's life if a newer one took its place.
	reported   *Member
	superseded *Member
	dirty      bool
}

// hint is what gossip says of a life.
type hint struct {
	addr        netip.AddrPort
	incarnation uint32
	told        time.Time
	dials       int
	dialled     time.Time // the last time
	next        time.Time // when it is dialled, unless it is here
	pause       time.Duration
	met         bool // it is a life of our own id, and has shown itself
	isFirst     bool // its id is known, or leads: it does not wait for those that may be made up
}

// isNew: it was dialled once, no longer ago than that.
func (t *hint) isNew(now time.Time, than time.Duration) bool {
	return t.dials == 1 && now.Sub(t.dialled) < than
}

// isPast: the told life of that host has ended, since a later one has shown itself and is here. Nobody has to look for it, and memberlist
// finds that out by itself. Of our own id it is a life at the address where we are now.
func (l *lives) isPast(id wire.ID, h *host, incarnation uint32, addr netip.AddrPort) bool {
	if id == l.self {
		return addr == l.addr
	}
	return h.isAlive() && incarnation < h.now.Incarnation
}

// isFound: nobody dials who is told of, since it is here, or its end is known.
func (l *lives) isFound(id wire.ID, h *host, nonce uint32, t *hint) bool {
	return h.isHere(nonce) || t.met || l.isPast(id, h, t.incarnation, t.addr)
}

// countPast counts the told lives of a host that have ended.
func (l *lives) countPast(id wire.ID, h *host) (n int) {
	for _, t := range h.hints {
		if l.isPast(id, h, t.incarnation, t.addr) {
			n++
		}
	}
	return n
}

// isDialled: it was dialled a moment ago, and is waited for.
func (t *hint) isDialled(now time.Time) bool { return t.dials > 0 && now.Sub(t.dialled) < dialFor }

func newLives(self Member, patient time.Duration, isKnown func(wire.ID) bool) lives {
	return lives{isKnown: isKnown, self: self.ID, addr: self.Addr, byID: make(map[wire.ID]*host), patient: patient, names: rate.NewLimiter(newNamesASecond, maxHints)}
}

func (l *lives) host(id wire.ID) *host {
	h := l.byID[id]
	if h == nil {
		h = &host{hints: make(map[uint32]*hint)}
		l.byID[id] = h
	}
	return h
}

// wasHere reports whether a life of it ever was.
func (h *host) wasHere() bool { return !h.now.ID.IsZero() }

// isHere reports whether a life of it is, that one.
func (h *host) isHere(nonce uint32) bool {
	return h.isAlive() && h.now.Nonce == nonce
}

// isAlive reports whether some life of it is here.
func (h *host) isAlive() bool { return h.wasHere() && h.now.Status == Alive }

// isStrange: it is here, and memberlist does not believe in it.
func (h *host) isStrange() bool {
	return h.isAlive() && h.hints[h.now.Nonce] == nil
}

// askEvery is how often the life that is here is asked, though nobody doubts it.
func (h *host) askEvery() time.Duration {
	if h.isStrange() {
		return strangeEvery
	}
	return believedEvery + time.Duration(h.now.Nonce)*time.Millisecond%believedEvery
}

// hint is told that memberlist believes in a life. Like the other methods it reports whether the consumer has something to learn.
func (l *lives) hint(told Member, now time.Time) bool {
	h := l.host(told.ID)
	if h.hints[told.Nonce] != nil {
		return false
	}
	l.hints++
	h.hints[told.Nonce] = &hint{addr: told.Addr, incarnation: told.Incarnation, told: now, next: now, pause: dialFirst, isFirst: l.isKnown(told.ID)}
	return false
}

// showCopy reports a life of our own id.
func (l *lives) showCopy(m Member) bool {
	if h := l.byID[m.ID]; h != nil && h.hints[m.Nonce] != nil {
		h.hints[m.Nonce].met = true
	}
	l.copies = slices.DeleteFunc(l.copies, func(e Event) bool { return sameLife(e.Member, m) })
	l.copies = append(l.copies, Event{Kind: Joined, Member: m}) // as many as there are sessions
	return true
}

// unhint is told that memberlist does not believe in a life any more.
func (l *lives) unhint(told Member, now time.Time) bool {
	h := l.byID[told.ID]
	if h == nil || h.hints[told.Nonce] == nil {
		return false
	}
	if h.wasHere() && h.now.Nonce == told.Nonce && h.now.Status == Dead && h.isRelayed(now) {
		h.relayed = now
	}
	delete(h.hints, told.Nonce)
	l.hints--
	switch {
	case h.isHere(told.Nonce) && h.now.Leaving:
		return l.end(h, now)
	case h.isHere(told.Nonce):
		if l.ask(h, now); h.asked > questions {
			h.askAt = now
		}
	}
	l.tidy(told.ID)
	return false
}

// tidy forgets an id of which nothing is left.
func (l *lives) tidy(id wire.ID) {
	if h := l.byID[id]; h != nil && !h.wasHere() && len(h.hints) == 0 {
		delete(l.byID, id)
	}
}

// doubted is told that others suspect a life. It reports whether a question begins.
func (l *lives) doubted(name lifeName, now time.Time) bool {
	h := l.byID[name.id]
	return h != nil && h.isHere(name.nonce) && now.Sub(h.askedLast) >= doubtEvery && l.ask(h, now)
}

// ask begins a question, unless one is open.
func (l *lives) ask(h *host, now time.Time) bool {
	if h.asked > 0 {
		return false
	}
	h.asked, h.askAt = 1, now
	return true
}

// relist takes another host list. It gives the ids that are to be shown anew, since what they are called may have changed.
func (l *lives) relist(hosts identity.Hosts, leader wire.ID, now time.Time, parting time.Duration) (again []wire.ID) {
	for id, h := range l.byID {
		switch {
		case hosts.Admits(id) || id == l.self:
			h.outAt = time.Time{}
			again = append(again, id)
		case !h.outAt.IsZero():
		case id == leader && h.wasHere():
			h.outAt = now.Add(parting)
		default:
			h.outAt = now
			l.putOut(h, now)
			l.tidy(id)
		}
	}
	return again
}

// putOut forgets all that gossip has said of an id, and ends its life if that is here.
func (l *lives) putOut(h *host, now time.Time) bool {
	l.hints -= len(h.hints)
	clear(h.hints)
	h.asked, h.showAt, h.relayed = 0, time.Time{}, time.Time{}
	if !h.isAlive() {
		return false
	}
	ended := h.now
	ended.Status = Dead
	return l.set(h, ended, now)
}

// show is told that a life is here: its card has come, or something after it was asked.
func (l *lives) show(m Member, now time.Time) bool {
	if m.ID == l.self {
		return l.showCopy(m)
	}
	h := l.host(m.ID)
	switch {
	case !h.wasHere():
	case sameLife(h.now, m):
		h.heard, h.asked, h.askAt = now, 0, now.Add(h.askEvery())
		if h.now.Status == Left && (h.now.Leaving || now.Before(h.showAt)) {
			return false // what it says on its way out
		}
		if was := h.now; was.Status == Alive {
			if was.RTT = m.RTT; was == m {
				return false
			}
		}
	case h.now.Status == Alive && m.Incarnation < h.now.Incarnation:
		return false
	}
	h.heard = now
	isNews := l.set(h, m, now)
	if m.Leaving && h.hints[m.Nonce] == nil && h.reported != nil {
		return l.end(h, now)
	}
	return isNews
}

// set makes m the life of h.
func (l *lives) set(h *host, m Member, now time.Time) bool {
	isOther := !h.wasHere() || !sameLife(h.now, m)
	if isOther && h.wasHere() && h.reported != nil && h.reported.Status == Alive && sameLife(h.now, *h.reported) {
		ended := h.now
		if ended.Status == Alive {
			ended.Status = endOf(ended)
		}
		h.superseded = &ended
	}
	if isOther || h.now.Status != m.Status {
		h.changed = now
	}
	h.now = m
	if isOther {
		h.asked, h.askAt, h.showAt, h.relayed = 0, now.Add(h.askEvery()), time.Time{}, time.Time{}
	}
	if !h.dirty {
		h.dirty = true
		l.dirty = append(l.dirty, m.ID)
	}
	if m.Status != Alive {
		l.forget()
	}
	return true
}

// end has the life that is here be gone.
func (l *lives) end(h *host, now time.Time) bool {
	ended := h.now
	ended.Status = endOf(ended)
	h.asked = 0
	return l.set(h, ended, now)
}

// endOf: the end of a life that said that it leaves is a departure, any other a death (P3).
func endOf(m Member) Status {
	if m.Leaving {
		return Left
	}
	return Dead
}

// markLeft is told that a life announced its departure by frame.
func (l *lives) markLeft(name lifeName, now time.Time) bool {
	h := l.byID[name.id]
	if h == nil || !h.wasHere() || h.now.Nonce != name.nonce || h.now.Status == Left {
		return false
	}
	m := h.now
	m.Status = Left
	h.asked, h.showAt = 0, now.Add(leaveGrace)
	return l.set(h, m, now)
}

// chores are what the owner of lives has to do in its sessions.
type chores struct {
	dial []netip.AddrPort // whoever is there
	show []wire.ID        // anew, once they are heard
	news bool             // for the consumer
	lost bool             // somebody
}

// due gives what is to be done now.
func (l *lives) due(now time.Time) (do chores) {
	var q queue
	var waiting []*hint
	for id, h := range l.byID {
		if !h.outAt.IsZero() {
			if !now.Before(h.outAt) {
				do.news = l.putOut(h, now) || do.news
			}
			continue
		}
		l.question(id, h, now, &do)
		for nonce, t := range h.hints {
			switch {
			case l.isFound(id, h, nonce, t):
			case t.isDialled(now):
				q.hold(t, now)
			case !now.Before(t.next):
				t.isFirst = t.isFirst || id == l.leader
				waiting = append(waiting, t)
				q.wait(t)
			}
		}
	}
	slices.SortFunc(waiting, (*hint).compare)
	for _, t := range waiting[:min(q.places(), len(waiting))] {
		do.dial = append(do.dial, t.addr)
		t.dials++
		t.dialled, t.next, t.pause = now, now.Add(t.pause), min(2*t.pause, dialMost)
	}
	return do
}

// queue counts who is dialled and who waits for it.
type queue struct {
	held, brief int // places that are taken, and those that were for less than dialBrief
	firsts      int // who wait for their first dial
	opens       time.Time
}

func (q *queue) hold(t *hint, now time.Time) {
	q.held++
	if ends := t.dialled.Add(dialBrief); now.Before(ends) {
		q.brief++
		if q.opens.IsZero() || ends.Before(q.opens) {
			q.opens = ends
		}
	}
}

func (q *queue) wait(t *hint) {
	if t.dials == 0 {
		q.firsts++
	}
}

// places is how many may be dialled now.
func (q *queue) places() int {
	free := max(dialsAtOnce-q.held, 0)
	return max(free, min(q.firsts, dialsAtOnce-q.brief))
}

// compare orders hints for dialling: known hosts and the leader before others, then those that never were, and of these the newest.
// New names come at a low rate, so that one which is true does not wait for many that were made up at once.
func (t *hint) compare(other *hint) int {
	switch {
	case t.isFirst != other.isFirst && t.isFirst:
		return -1
	case t.isFirst != other.isFirst:
		return 1
	case t.dials == 0 && other.dials == 0:
		return other.told.Compare(t.told)
	}
	return cmp.Or(cmp.Compare(t.dials, other.dials), t.next.Compare(other.next))
}

// question has the life of h asked, or ends it.
func (l *lives) question(id wire.ID, h *host, now time.Time, do *chores) {
	if !h.showAt.IsZero() && !now.Before(h.showAt) {
		h.showAt = time.Time{}
		do.show = append(do.show, id)
	}
	if h.asked == 0 && h.isAlive() && !now.Before(h.askAt) {
		h.asked = 1
	}
	most := questionsMore
	if h.isStrange() {
		most = questions
	}
	switch {
	case h.asked == 0 || now.Before(h.askAt):
	case h.asked > most:
		do.news = l.end(h, now) || do.news
		do.lost = do.lost || h.now.Status == Dead
	default:
		h.asked++
		h.askAt, h.askedLast = now.Add(l.patient), now
		do.dial, do.show = append(do.dial, h.now.Addr), append(do.show, id)
	}
}

// deadline is when due has something to do; zero: not before it is told something.
func (l *lives) deadline(now time.Time) (at time.Time) {
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	var q queue
	var waiting time.Time
	for id, h := range l.byID {
		if !h.outAt.IsZero() {
			if h.isAlive() {
				sooner(h.outAt)
			}
			continue
		}
		if h.asked > 0 || h.isAlive() {
			sooner(h.askAt)
		}
		if !h.showAt.IsZero() {
			sooner(h.showAt)
		}
		for nonce, t := range h.hints {
			switch {
			case l.isFound(id, h, nonce, t):
			case id == l.self && t.isNew(now, copyFor):
				q.hold(t, now)
				sooner(t.dialled.Add(copyFor))
			case t.isDialled(now):
				q.hold(t, now)
				sooner(t.dialled.Add(dialFor))
			default:
				if q.wait(t); waiting.IsZero() || t.next.Before(waiting) {
					waiting = t.next
				}
			}
		}
	}
	switch {
	case waiting.IsZero():
	case q.places() > 0:
		sooner(waiting)
	case q.firsts > 0:
		sooner(q.opens)
	}
	return at
}

const (
	// maxHints bounds the lives that gossip may tell of, of ids that are new and not here; maxHintsOfOne those of any one id. Any
	// member can make others up; each costs memory here and a probe in every round. It is above what the protocol was designed for (1,000).
	maxHints, maxHintsOfOne = 2000, 4

	// maxPastOfOne is how many lives of an id besides may have ended while memberlist does not know that yet. An agent that crashes once
	// a second has so many until the first is found dead.
	maxPastOfOne = 16

	// newNamesASecond is at what rate names come, once maxHints have: memberlist remembers each for half a minute after its end, and
	// there is no way to have it forget one.
	newNamesASecond = 2
)

// admit decides whether memberlist may hear of a life. For one that is here there is room at the address where its session is,
// whatever others make up.
func (l *lives) admit(told Member, now time.Time) *refusal {
	h := l.byID[told.ID]
	switch {
	case h == nil:
	case h.isHere(told.Nonce):
		if h.now.Addr != told.Addr {
			return refuse("moved", "address is %s, its session is with %s", told.Addr, h.now.Addr)
		}
		return nil
	case h.hints[told.Nonce] != nil:
		return nil
	case l.isPast(told.ID, h, told.Incarnation, told.Addr):
		return refuse(causePast, "a later life of it is here")
	case len(h.hints)-min(l.countPast(told.ID, h), maxPastOfOne) >= maxHintsOfOne:
		return refuse("lives", "%d lives of it are told of", maxHintsOfOne)
	}
	switch {
	case l.isKnown(told.ID): // it has a place apart from those that are new
	case l.hints >= maxHints && l.countUnmet() >= maxHints:
		return refuse("full", "%d members are told of that are not here", maxHints)
	case !l.names.AllowN(now, 1):
		return refuse("rate", "too many new names")
	}
	return nil
}

// forget drops one member if more than maxEnded have ended: of those that left, for whom nobody looks, else of all, the one whose
// end is longest ago. What the consumer must still be told of stays; there is no more of it than it was told of before.
func (l *lives) forget() {
	var oldest *host
	ended := 0
	for _, h := range l.byID {
		if !h.wasHere() || h.now.Status == Alive {
			continue
		}
		ended++
		if h.dirty && h.reported != nil {
			continue
		}
		if oldest == nil || h.isBefore(oldest) {
			oldest = h
		}
	}
	if ended <= maxEnded || oldest == nil {
		return
	}
	id := oldest.now.ID
	oldest.now, oldest.dirty, oldest.reported, oldest.superseded = Member{}, false, nil, nil
	l.dirty = slices.DeleteFunc(l.dirty, func(other wire.ID) bool { return other == id })
	l.tidy(id)
}

// isBefore reports whether h is to be forgotten before other.
func (h *host) isBefore(other *host) bool {
	if h.now.Status != other.now.Status {
		return h.now.Status == Left
	}
	return h.changed.Before(other.changed)
}

// take gives what the consumer has not been told yet.
func (l *lives) take() (events []Event) {
	for _, id := range l.dirty {
		h := l.byID[id]
		h.dirty = false
		events = h.take(events)
	}
	events = append(events, l.copies...)
	l.dirty, l.copies = nil, nil
	return events
}

func (h *host) take(events []Event) []Event {
	if h.superseded != nil {
		events = append(events, Event{Kind: endKind(*h.superseded), Member: *h.superseded})
		h.reported, h.superseded = h.superseded, nil
	}
	if kind, isNews := h.difference(); isNews {
		events = append(events, Event{Kind: kind, Member: h.now})
		told := h.now
		h.reported = &told
	}
	return events
}

// difference compares what is with what was reported.
func (h *host) difference() (kind EventKind, isNews bool) {
	isKnown := h.reported != nil && sameLife(*h.reported, h.now)
	if h.now.Status == Alive {
		if !isKnown || h.reported.Status != Alive {
			return Joined, true
		}
		was, is := *h.reported, h.now
		was.RTT, is.RTT = 0, 0
		return Updated, was != is
	}
	// Else it came and went untold. That a dead member had announced its
	// departure is news; that one that left is dead is not.
	return endKind(h.now), isKnown && (h.reported.Status == Alive || h.reported.Status == Dead && h.now.Status == Left)
}

func endKind(m Member) EventKind {
	if m.Status == Left {
		return Departed
	}
	return Failed
}

// isRelayed: others say that the life lives which is dead here, or did so a while ago.
func (h *host) isRelayed(now time.Time) bool {
	if t := h.hints[h.now.Nonce]; t != nil {
		return t.told.After(h.changed) || now.Sub(h.changed) >= relayedAfter
	}
	return !h.relayed.IsZero() && now.Sub(h.relayed) < relayedFor
}

// known lists all that are or were here, sorted by id.
func (l *lives) known(now time.Time) []Member {
	all := make([]Member, 0, len(l.byID))
	for _, h := range l.byID {
		if h.wasHere() && (h.outAt.IsZero() || h.now.Status == Alive) {
			m := h.now
			m.Relayed = m.Status == Dead && h.isRelayed(now)
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return a.ID.Compare(b.ID) })
	return all
}

// told lists all other ids that gossip alone knows and that were dialled in vain, each in one life, sorted by id.
func (l *lives) told(now time.Time) (all []Member) {
	for id, h := range l.byID {
		if h.wasHere() || id == l.self {
			continue
		}
		nonce := slices.Min(slices.Collect(maps.Keys(h.hints)))
		if t := h.hints[nonce]; t.dials > 0 && !t.isDialled(now) {
			all = append(all, Member{ID: id, Nonce: nonce, Incarnation: t.incarnation, Addr: t.addr, Status: Told})
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return a.ID.Compare(b.ID) })
	return all
}

// addresses gives where living members are that memberlist knows, and where others were, or are, that it has to meet: those that
// died without leaving and for which no newer life is here.
func (l *lives) addresses() (alive, lost map[netip.AddrPort]bool) {
	alive, lost = make(map[netip.AddrPort]bool), make(map[netip.AddrPort]bool)
	for _, h := range l.byID {
		switch {
		case !h.wasHere() || h.now.Status == Left || !h.outAt.IsZero():
		case h.now.Status == Dead, h.isStrange():
			lost[h.now.Addr] = true
		default:
			alive[h.now.Addr] = true
		}
	}
	maps.DeleteFunc(lost, func(a netip.AddrPort, _ bool) bool { return alive[a] })
	return alive, lost
}

// awaitsDials reports whether somebody who is told of was not dialled, or only a moment ago.
func (l *lives) awaitsDials(now time.Time) bool {
	for id, h := range l.byID {
		for nonce, t := range h.hints {
			if id != l.self && !l.isFound(id, h, nonce, t) && (t.dials == 0 || t.isNew(now, dialFor)) {
				return true
			}
		}
	}
	return false
}

// awaitsCopies reports whether a life of our own id that is told of somewhere else has still to show itself.
func (l *lives) awaitsCopies(now time.Time) bool {
	if h := l.byID[l.self]; h != nil {
		for _, t := range h.hints {
			if t.addr != l.addr && !t.met && (t.dials == 0 || t.isNew(now, copyFor)) {
				return true
			}
		}
	}
	return false
}

// countUnmet counts the hints of lives that are not here.
func (l *lives) countUnmet() (n int) {
	for _, h := range l.byID {
		for nonce := range h.hints {
			if !h.isHere(nonce) {
				n++
			}
		}
	}
	return n
}

func (l *lives) countHere() (n int) {
	for _, h := range l.byID {
		if h.isAlive() {
			n++
		}
	}
	return n
}
