package session

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
)

const (
	maxPeers  = 4096
	maxRoutes = 8192
	maxLives  = 4 // of one id at one time

	maxWaiting  = 4 // datagrams that wait for a session, an address
	waitFor     = 200 * time.Millisecond
	wantedFor   = 2 * time.Second // after the last datagram a session is still worth an INIT
	routeFor    = time.Minute
	callFirst   = 100 * time.Millisecond // before a round trip is known
	callLeast   = 10 * time.Millisecond
	callMost    = time.Second
	warmStagger = 20 * time.Millisecond
	warmSecond  = 50 * time.Millisecond // the one with the larger address leaves the first INIT to the other
)

// Config is what a Table needs. All of it but Note must be set.
type Config struct {
	Key         identity.Private // of this host; its id follows from it
	Incarnation uint32           // of this life
	Random      [8]byte          // new for each life
	Addr        netip.AddrPort   // what others are told to send to; it is bound into each handshake
	Cluster     string           // its name; another's traffic does not open
	Receipts    []Receipt        // that were kept before, as Table.Receipts gave them
	Rand        io.Reader        // of unpredictable bytes
	// Curve is that of the handshakes, the same on all hosts. Nil: X25519.
	Curve Curve
	// Emit puts a datagram on the wire, and does not keep it.
	Emit func(to netip.AddrPort, b []byte) error
	// Note has people told of what they can mend. Nil: nobody is.
	Note func(Trouble)
	// Shown is told of each host that is here, and again when its card or its address changes. Nil: nobody is.
	Shown func(Shown)
	// Older is told once that this host had a life with that incarnation, which is later than the present one. Nil: nobody is.
	Older func(incarnation uint32)
	Hosts identity.Hosts // who may join
	// Shut is told when this host may stand no more since others leave it out, and when it may again. Nil: nobody is.
	Shut func(bool)
}

// Trouble is what people can mend of a datagram or stream that was not taken.
type Trouble struct {
	Cause        Cause
	From         netip.AddrPort
	Ours, Theirs any  // ids of keys, versions, addresses; nil: none
	Keyless      Side // where two hosts share no key since one of them has none
}

// Side is one of two hosts.
type Side uint8

const (
	Neither Side = iota
	Here
	There
)

// keyless is the side that has the key alone which everybody has.
func keyless(ours, theirs []key.ID) Side {
	isOpen := func(ids []key.ID) bool { return len(ids) == 1 && ids[0].IsOpen() }
	switch {
	case isOpen(theirs):
		return There
	case isOpen(ours):
		return Here
	}
	return Neither
}

// Table is the sessions of one host: what arrives, what is sent and what time does to
// them. It has no clock, no goroutine and no lock, and starts none: its owner hands in
// the time, one call at a time, and calls Tick when Due says so.
type Table struct {
	self    hostKey
	addr    netip.AddrPort
	cluster string
	rand    io.Reader
	emit    func(to netip.AddrPort, b []byte) error
	note    func(Trouble)
	onShown func(Shown)
	onOlder func(incarnation uint32)

	receipts *receipts
	given    identity.Receipt // of this life
	card     card             // of this host
	gate     gate
	ring     []*secret
	number   uint64 // of the last INIT
	door     *door
	halves   halves
	peers    map[Life]*peer
	routes   map[netip.AddrPort]*route
	byIndex  map[uint32]slot
	odd      strangers // who shares no key with this host
	count    [causes]uint64
	trying   int       // told addresses that have got an INIT a moment ago
	paid     time.Time // until when INITs are paid for
	opened   uint64    // sessions, ever
	due      time.Time // when tick has something to do; zero: never
	out      [MaxDatagram]byte

	// Scratch: what the two maps hold, in order.
	byLife  []*peer
	byPlace []*route
}

// slot is what an index of ours stands for: a session, an INIT that waits for RESP, or a RESP that waits for PROOF.
type slot struct {
	session *session
	route   *route
	half    *half
}

// route is an address that we send to, and who is there.
type route struct {
	to       netip.AddrPort
	peer     *peer
	isProven bool      // somebody has proved to be there, ever
	isWarm   bool      // a session is kept whether anybody sends or not
	rank     int       // which of those that are warm is called first; zero: it is not warm
	wanted   time.Time // until then a session is worth an INIT
	waiting  [][]byte
	waitEnds []time.Time

	call    *call    // under way; nil: none
	over    *session // that it is to replace
	called  time.Time
	next    time.Time     // no INIT before
	pause   time.Duration // before the next
	tries   int           // in vain, in a row
	refused int           // streams, for want of the key
	rtt     time.Duration

	shut        time.Time // not called before: this host is left out there, or leaves out who is; zero: neither
	cookie      cookie    // that who is there wants to see
	cookieUntil time.Time
	hurried     time.Time // when a cookie had INIT said again at once

	answered time.Time // when peer has answered an INIT there last; zero: it only says to be there
	disputed time.Time // until then who is there is asked by INIT, since two say to be; zero: never
}

// New makes a table without sessions, and without keys: SetKeys gives it some.
func New(cfg Config) *Table {
	if cfg.Note == nil {
		cfg.Note = func(Trouble) {}
	}
	if cfg.Shown == nil {
		cfg.Shown = func(Shown) {}
	}
	if cfg.Older == nil {
		cfg.Older = func(uint32) {}
	}
	self := cfg.self()
	return newTable(cfg, self, newReceipts(cfg.Key, self.life.ID, cfg.Receipts))
}

// self is the life that a Config is for.
func (cfg *Config) self() hostKey {
	curve := cfg.Curve
	if curve == nil {
		curve = X25519
	}
	return newHostKey(curve, cfg.Key, cfg.Incarnation, cfg.Random)
}

func newTable(cfg Config, self hostKey, r *receipts) *Table {
	r.begin(cfg.Incarnation)
	return &Table{receipts: r, given: cfg.Key.Receipt(cfg.Incarnation), onOlder: cfg.Older, self: self, addr: cfg.Addr, cluster: cfg.Cluster, rand: cfg.Rand,
		emit: cfg.Emit, note: cfg.Note, onShown: cfg.Shown, gate: newGate(cfg.Hosts, cfg.Shut), door: newDoor(), peers: make(map[Life]*peer), routes: make(map[netip.AddrPort]*route), byIndex: make(map[uint32]slot)}
}

// Renewed is the table of another life at another address. It has the keys, the counts and the receipts of this one, and no session.
func (t *Table) Renewed(now time.Time, cfg Config, ring key.Ring) *Table {
	next := newTable(cfg, cfg.self(), t.receipts)
	next.count, next.opened = t.count, t.opened
	next.gate.by, next.gate.out, next.gate.isShut = t.gate.by, t.gate.out, t.gate.isShut
	next.SetKeys(now, ring)
	return next
}

// Due is when Tick has something to do; zero: never.
func (t *Table) Due() time.Time { return t.due }

// Self is this life, with the id of its key.
func (t *Table) Self() Life { return t.self.life }

// Count adds one to what was not taken for a cause that only the owner sees.
func (t *Table) Count(c Cause) { t.count[c]++ }

// wake has Tick called at a time, or before.
func (t *Table) wake(at time.Time) {
	if t.due.IsZero() || at.Before(t.due) {
		t.due = at
	}
}

// Send seals inner for whoever is at an address and sends it, or keeps a copy for a
// moment until there is a session.
func (t *Table) Send(now time.Time, to netip.AddrPort, inner []byte) error {
	switch {
	case t.IsOlder():
		return CauseOlder
	case len(inner) > MaxInner:
		t.count[CauseLength]++
		return CauseLength
	}
	r := t.route(to)
	if r == nil {
		return CauseFull
	}
	r.wanted = now.Add(wantedFor)
	if r.peer != nil && r.peer.cur != nil {
		return t.sendTo(now, r, inner)
	}
	if r.call == nil && r.tries == 0 {
		r.next = now // S9: what is to be said waits for no order of warm sessions
	}
	defer t.pursue(now, r)
	if len(r.waiting) >= maxWaiting {
		t.count[CauseFull]++
		return nil // as lost on the way
	}
	r.waiting = append(r.waiting, slices.Clone(inner))
	r.waitEnds = append(r.waitEnds, now.Add(waitFor))
	t.wake(now.Add(waitFor))
	return nil
}

func (t *Table) sendTo(now time.Time, r *route, inner []byte) error {
	p := r.peer
	p.sent = now
	if p.silent.IsZero() {
		p.silent = now
		t.wake(now.Add(askAfter))
	}
	return t.emitIn(p.cur, r.to, inner)
}

// emitIn puts a datagram of a session on the wire, and PROOF before it until the peer is known to have that.
func (t *Table) emitIn(s *session, to netip.AddrPort, inner []byte) error {
	if s.proof != nil && s.before < maxBefore {
		s.before++
		_ = t.emit(to, s.proof) // as lost on the way
	}
	return t.emit(to, s.seal(t.out[:0], inner))
}

// route finds or makes the one to an address; nil: there are too many.
func (t *Table) route(to netip.AddrPort) *route {
	r := t.routes[to]
	if r == nil {
		if len(t.routes) >= maxRoutes {
			t.count[CauseFull]++
			return nil
		}
		r = &route{to: to}
		t.routes[to] = r
	}
	return r
}

// KeepWarm says with which addresses a session is kept, used or not. Those that come first are called first.
func (t *Table) KeepWarm(now time.Time, addrs []netip.AddrPort) {
	for _, r := range t.routes {
		r.isWarm, r.rank = r.isWarm && slices.Contains(addrs, r.to), 0
	}
	for i, to := range addrs {
		if to == t.addr {
			continue
		}
		r := t.route(to)
		if r == nil {
			continue
		}
		if r.rank = i + 1; r.isWarm {
			continue
		}
		r.isWarm = true
		if r.call == nil && (r.peer == nil || r.peer.cur == nil) {
			r.next = now.Add(t.jitter(warmStagger))
			if t.addr.Compare(to) > 0 {
				r.next = r.next.Add(warmSecond)
			}
		}
		t.wake(r.next)
	}
	t.wake(now)
}

// Sender is the life that has sealed what was received.
type Sender struct {
	Life
	Addr netip.AddrPort // where it is reached, wherever the datagram came from; zero: not known yet
}

// Receive takes a datagram, which it overwrites. It gives what was in it and whose that
// is, if that is a frame or gossip.
func (t *Table) Receive(now time.Time, from netip.AddrPort, b []byte) (inner []byte, by Sender, cause Cause) {
	h, cause := parseHeader(b)
	if cause == CauseNone {
		switch h.typ {
		case typeData:
			inner, by, cause = t.onData(now, h, b)
		case typeInit:
			cause = t.onInit(now, from, h, b)
		case typeResp:
			cause = t.onResp(now, h, b)
		case typeProof:
			inner, by, cause = t.onProof(now, from, h, b)
		case typeCookie:
			cause = t.onCookie(now, h, b)
		case typeUnknown:
			cause = t.onUnknown(now, from, h, b)
		}
	}
	if inner != nil && t.IsOlder() {
		inner, cause = nil, CauseOlder
	}
	if cause != CauseNone {
		t.count[cause]++
		if cause == CausePlain || cause == CauseVersion {
			t.onForeign(cause, from, b)
		}
	}
	return inner, by, cause
}

// onForeign tells people of a host that does not seal, or by another version.
func (t *Table) onForeign(cause Cause, from netip.AddrPort, b []byte) {
	told := Trouble{Cause: cause, From: from}
	if cause == CauseVersion {
		told.Ours, told.Theirs = version, int(b[2]>>4)
	}
	t.note(told)
}

// onData opens what came in a session. inner is nil if it was for the seal itself.
func (t *Table) onData(now time.Time, h header, b []byte) (inner []byte, by Sender, cause Cause) {
	s := t.byIndex[h.index].session
	if s == nil || !now.Before(s.diesAt) {
		return nil, by, CauseIndex
	}
	if inner, cause = s.open(b, h); cause != CauseNone {
		return nil, by, cause
	}
	p := s.peer
	p.hear(now)
	s.proof = nil // it has come
	switch {
	case IsRefused(inner):
		return nil, by, t.onRefused(now, p, inner)
	case p.isOut(now):
		return nil, by, t.onOut(now, p)
	case isHello(inner):
		inner, cause = nil, t.onHello(now, p, inner)
	case len(inner) == 0:
		inner, cause = nil, CauseInner
	case p.held != nil:
		inner, cause = nil, p.why()
	default:
		by = p.sender()
	}
	t.show(p)
	return inner, by, cause
}

// onProof makes a session with who has proved to be the sender of an INIT: it is there now, since RESP's key is in the
// proof. PROOF carries HELLO, and may carry a frame or gossip behind it.
func (t *Table) onProof(now time.Time, from netip.AddrPort, h header, b []byte) (inner []byte, by Sender, cause Cause) {
	at := t.byIndex[h.index]
	if at.session != nil {
		return nil, by, t.onProofAgain(now, at.session, b)
	}
	if at.half == nil || h.kind != kindDatagrams || h.number != at.half.head.number {
		return nil, by, CauseIndex
	}
	if at.half.refusal != nil {
		return nil, by, t.turnAwayAgain(from, at.half, b)
	}
	who, payload, keys, cause := t.prove(at.half, b)
	switch {
	case cause != CauseNone:
		return nil, by, cause
	case IsRefused(payload):
		return nil, by, t.noteRefused(now, who, from, t.routes[from], payload) // S8: no source is followed
	case !t.gate.hosts.Admits(who.ID):
		return nil, by, t.turnAway(now, from, at.half, who, keys, b)
	}
	hi, inner, ok := cutHello(payload)
	if !ok {
		return nil, by, CauseInner
	}
	p, cause := t.peer(now, who)
	if cause != CauseNone {
		return nil, by, cause
	}
	half := at.half
	p.rtt = now.Sub(half.began)
	s := t.open(now, p, &session{index: half.index, remote: half.remote, key: half.secret.id, Pair: keys, began: half.began, proven: macAtEnd(b)})
	p.hear(now)
	cause = t.onHello(now, p, hi)
	t.choose(now, p, s)
	t.greet(now, p, false)
	t.show(p)
	if len(inner) == 0 || p.held != nil {
		return nil, by, cause
	}
	return inner, p.sender(), CauseNone
}

// prove reads a PROOF, which ends its half, but for a host that the list does not have: of four that prove nothing the last
// ends it too.
func (t *Table) prove(half *half, b []byte) (who Life, payload []byte, keys Pair, cause Cause) {
	who, payload, keys, err := half.proven(b)
	if errors.Is(err, errNoProof) {
		return who, nil, keys, CauseMAC
	}
	if half.failed++; err == nil && t.gate.hosts.Admits(who.ID) || half.failed >= maxFailed {
		t.dropHalf(half)
	}
	switch {
	case err != nil:
		return who, nil, keys, CauseIdentity
	case who == t.self.life:
		return who, nil, keys, CauseSelf
	}
	return who, payload, keys, CauseNone
}

// onProofAgain says HELLO to a peer that does not know yet that its PROOF has come.
func (t *Table) onProofAgain(now time.Time, s *session, b []byte) Cause {
	if s.proven != macAtEnd(b) {
		return CauseMAC
	}
	if to := s.peer.reach(); now.Sub(s.greeted) >= callLeast && to.IsValid() {
		t.greetIn(now, s, to, false)
	}
	return CauseRepeated
}

func macAtEnd(b []byte) [tagSize]byte { return [tagSize]byte(b[len(b)-tagSize:]) }

func (t *Table) dropHalf(h *half) {
	t.halves.remove(h)
	delete(t.byIndex, h.index)
}

// choose has a proven session send, or only receive.
func (t *Table) choose(now time.Time, p *peer, s *session) {
	loser := s
	if p.supersedes(s, t.self.life) {
		loser, p.cur = p.cur, s
	}
	if loser != nil {
		t.drop(p.lose(now, loser))
	}
	t.wake(s.renewAt)
	if r := t.routes[p.addr]; r != nil && r.peer == p {
		t.flush(now, r)
	}
}

// flush sends what has waited.
func (t *Table) flush(now time.Time, r *route) {
	for i, inner := range r.waiting {
		if now.Before(r.waitEnds[i]) {
			_ = t.sendTo(now, r, inner) // as lost on the way
		}
	}
	r.waiting, r.waitEnds = nil, nil
}

// greet says HELLO in the session that sends.
func (t *Table) greet(now time.Time, p *peer, asks bool) {
	if to := p.reach(); to.IsValid() && p.cur != nil {
		t.greetIn(now, p.cur, to, asks)
	}
}

func (t *Table) greetIn(now time.Time, s *session, to netip.AddrPort, asks bool) {
	if s.peer.isOut(now) {
		return
	}
	_ = t.emitIn(s, to, t.hello(now, s.peer, asks).append(nil)) // as lost on the way: it is repeated
	s.greeted = now
	t.helloAfter(now, s.peer)
}

// helloAfter sets when a peer is greeted next.
func (t *Table) helloAfter(now time.Time, p *peer) {
	p.hello = now.Add(helloEvery + t.jitter(helloEvery/4))
	if p.keys == nil {
		p.hello = now.Add(helloAgain)
	}
	t.wake(p.hello)
}

func (t *Table) onHello(now time.Time, p *peer, b []byte) Cause {
	h, ok := parseHello(b)
	if !ok {
		return CauseInner
	}
	p.keys, p.list = h.keys, h.list
	t.letIn(now, p)
	cause := t.claim(now, p, h.addr)
	t.hearReceipts(now, p, h)
	if !p.isPast() && t.hearCard(now, p, h) || h.asks {
		t.greet(now, p, false)
	}
	if r := t.routes[p.addr]; r != nil && p.cur != nil && t.isOutdated(p) && now.After(r.next) {
		r.next = now.Add(t.jitter(outdatedIn))
		t.wake(r.next)
	}
	return cause
}

// claim takes a peer's word for its address (S8) where nobody is. Another host keeps it, silent or not, and an INIT finds out
// who is there. A life waits for another one of its host (S17).
func (t *Table) claim(now time.Time, p *peer, addr netip.AddrPort) Cause {
	if t.holds(now, p, addr) {
		return p.why()
	}
	r := t.route(addr)
	switch {
	case r == nil:
		return CauseFull
	case r.peer != nil && r.peer.ID != p.ID:
		t.dispute(now, r)
		return CauseAddress
	}
	t.settle(now, r, p)
	return CauseNone
}

// dispute has an address answer an INIT, once in a while, of which two hosts say that they are there.
func (t *Table) dispute(now time.Time, r *route) {
	if now.Sub(r.answered) >= helloEvery && now.Sub(r.disputed) >= helloEvery {
		r.disputed, r.next = now.Add(wantedFor), now
		t.wake(now)
	}
}

// settle makes p the one at an address. Any other host is there no more. Of the addresses that a host only says it keeps
// the last.
func (t *Table) settle(now time.Time, r *route, p *peer) {
	if said := t.routes[p.addr]; said != nil && said != r && said.peer == p && said.answered.IsZero() {
		said.peer = nil
		t.expire(now, said)
	}
	was := r.peer
	r.peer, p.addr, r.isProven = p, r.to, true
	t.odd.leave(r.to) // it began with a key that we have not, and then with one that we have
	switch {
	case was == nil, was == p:
	case was.addr == r.to:
		was.addr = netip.AddrPort{}
	}
	if was != p {
		r.answered = time.Time{}
	}
	if p.cur != nil {
		t.flush(now, r)
	}
}

func (t *Table) onInit(now time.Time, from netip.AddrPort, h header, b []byte) Cause {
	if h.kind != kindDatagrams {
		return CauseType // S2: a tether's is bound to this address, too
	}
	r, cause := t.examine(now, from, h, b, scope{t.cluster, t.addr})
	if cause != CauseNone {
		return cause
	}
	if cause := t.door.admit(now, from, b, t.isKnownAt); cause != CauseNone {
		if cause == CauseCookie {
			t.askCookie(now, from, h, b, r.secret)
		}
		return cause
	}
	resp, err := r.answer(t.out[:0])
	if err != nil || t.isTaken(r.index) {
		return CauseIndex // one in 2³²: it calls again
	}
	asked := &half{request: r, from: from.Addr(), began: now}
	for _, gone := range t.halves.add(asked) {
		delete(t.byIndex, gone.index)
	}
	t.byIndex[r.index] = slot{half: asked}
	t.wake(now.Add(halfFor))
	_ = t.emit(from, resp) // not longer than what it answers; lost, as a datagram may be
	return CauseNone
}

// isKnownAt reports whether a host that is not new is reached at an address.
func (t *Table) isKnownAt(now time.Time, at netip.Addr) bool {
	for _, p := range t.peers {
		if p.addr.Addr() == at && p.parting == nil && t.IsKnown(now, p.ID) {
			return true
		}
	}
	return false
}

// askCookie has an INIT come again, from where it says to come from.
func (t *Table) askCookie(now time.Time, from netip.AddrPort, h header, init []byte, k *secret) {
	c, err := t.door.baker.bake(now, t.rand, from)
	if err != nil {
		return // no random bytes
	}
	if b, err := appendCookie(t.out[:0], t.rand, k, h, init, c); err == nil {
		_ = t.emit(from, b) // shorter than what it answers
	}
}

// onCookie says INIT again, with the cookie that the other end asks for.
func (t *Table) onCookie(now time.Time, h header, b []byte) Cause {
	r := t.byIndex[h.index].route
	if r == nil || r.call == nil || r.call.number != h.number {
		return CauseIndex
	}
	c, cause := r.call.openCookie(b)
	if cause != CauseNone {
		return cause
	}
	if r.cookie != c { // once for each cookie: a copy brings no INIT
		r.cookie, r.cookieUntil = c, now.Add(cookieFor)
		if now.Sub(r.hurried) >= callMost { // nor do many cookies bring many
			r.hurried, r.next = now, now
		}
		t.pursue(now, r)
	}
	return CauseNone
}

// examine is what an INIT must pass before it is asked whether there is budget for it, the cheapest first (S1).
func (t *Table) examine(now time.Time, from netip.AddrPort, h header, b []byte, s scope) (*request, Cause) {
	k, cause := checkMAC(b, h, t.ring)
	switch {
	case cause == CauseKey:
		t.onUnknownKey(now, from, h, b)
		return nil, cause
	case cause != CauseNone:
		return nil, cause
	case t.door.isRepeated(macOf(b)):
		return nil, CauseRepeated
	}
	r, cause := readInit(b, t.rand, h, k, s, t.self)
	if cause != CauseNone {
		t.note(Trouble{Cause: cause, From: from, Ours: t.cluster + " at " + t.addr.String()})
	}
	return r, cause
}

// onUnknownKey tells people of both hosts that they share no key (S15).
func (t *Table) onUnknownKey(now time.Time, from netip.AddrPort, h header, b []byte) {
	theirs := []key.ID{key.ID(h.index)}
	t.note(Trouble{CauseKey, from, t.ids(), theirs[0], keyless(t.ids(), theirs)})
	at := from
	if h.kind != kindDatagrams {
		at = netip.AddrPortFrom(from.Addr(), 0)
	}
	t.odd.meet(now, at, theirs)
	if h.kind == kindDatagrams && t.door.unknown.take(now, from.Addr()) {
		_ = t.emit(from, appendUnknown(t.out[:0], indexOf(b), h.number, t.ids()))
	}
}

// indexOf is the index that the sender of an INIT or RESP has chosen.
func indexOf(b []byte) uint32 { return binary.BigEndian.Uint32(b[headerSize:]) }

func (t *Table) onUnknown(now time.Time, from netip.AddrPort, h header, b []byte) Cause {
	r := t.byIndex[h.index].route
	if r == nil || r.call == nil || r.call.number != h.number {
		return CauseIndex
	}
	t.refusedBy(now, from, r.call, b)
	return CauseRefused
}

// refusedBy tells people of a host that answers a call with UNKNOWN. It is asked once more
// with another key of ours, so who has a later one is no stranger.
func (t *Table) refusedBy(now time.Time, from netip.AddrPort, c *call, b []byte) {
	theirs := parseIDs(b[headerSize:])
	t.note(Trouble{CauseRefused, from, c.secret.id, theirs, keyless(t.ids(), theirs)})
	if !slices.ContainsFunc(theirs, func(id key.ID) bool { return t.find(id) != nil }) {
		t.odd.meet(now, from, theirs)
	}
}

func (t *Table) onResp(now time.Time, h header, b []byte) Cause {
	r := t.byIndex[h.index].route
	if r == nil || r.call == nil {
		return CauseIndex
	}
	c := r.call
	who, remote, cause := c.answered(b)
	if cause != CauseNone {
		return cause
	}
	if !t.gate.hosts.Admits(who.ID) {
		return t.hangUp(now, r, who, remote)
	}
	p, cause := t.peer(now, who)
	if cause != CauseNone {
		return cause
	}
	began, over := r.called, r.over
	t.endCall(r)
	r.tries, r.pause, r.rtt = 0, 0, now.Sub(began)
	p.rtt = r.rtt
	isHeld := t.holds(now, p, r.to)
	proof, keys, err := c.prove(nil, remote, t.firstWords(now, r, p))
	if err != nil {
		return CauseIdentity
	}
	s := t.open(now, p, &session{index: c.index, remote: remote, key: c.secret.id, Pair: keys, began: began, isOurs: true, over: over,
		proof: proof})
	s.pause = min(max(3*r.rtt, callLeast), callMost)
	p.hear(now)
	t.sendProof(now, s, r.to)
	t.helloAfter(now, p)
	if r.disputed = (time.Time{}); isHeld {
		t.choose(now, p, s)
		if p.isPast() {
			r.next = now.Add(callMost) // whoever else is there, it is not wanted
		}
		return p.why()
	}
	t.settle(now, r, p)
	r.answered = now
	t.choose(now, p, s)
	return CauseNone
}

// hangUp ends a call that a host has answered which the list does not have: it is told so in PROOF.
func (t *Table) hangUp(now time.Time, r *route, who Life, remote uint32) Cause {
	if proof, _, err := r.call.prove(nil, remote, t.gate.says(0)); err == nil {
		_ = t.emit(r.to, proof) // as lost on the way: the next call says it again
	}
	t.noteOut(now, who.ID, r.to)
	t.shut(now, r)
	return CauseUnlisted
}

// firstWords is what PROOF carries: HELLO, and what has waited longest, if it fits.
func (t *Table) firstWords(now time.Time, r *route, p *peer) []byte {
	b := t.hello(now, p, p.keys == nil).append(nil)
	for len(r.waiting) > 0 && !p.isPast() {
		first, ends := r.waiting[0], r.waitEnds[0]
		if now.Before(ends) && proofSize+len(b)+len(first) > MaxDatagram {
			return b
		}
		r.waiting, r.waitEnds = r.waiting[1:], r.waitEnds[1:]
		if now.Before(ends) {
			return append(b, first...)
		}
	}
	return b
}

// sendProof says PROOF, and when it is said again.
func (t *Table) sendProof(now time.Time, s *session, to netip.AddrPort) {
	s.proofAt, s.pause = now.Add(s.pause), min(2*s.pause, callMost)
	t.wake(s.proofAt)
	_ = t.emit(to, s.proof) // as lost on the way
}

// open makes a session one of the table's.
func (t *Table) open(now time.Time, p *peer, s *session) *session {
	s.peer, s.renewAt, s.diesAt = p, now.Add(renewAfter-t.jitter(renewJit)), now.Add(expireFor)
	if !s.isOurs {
		s.renewAt = s.renewAt.Add(2 * renewJit) // whoever began it renews it
	}
	t.byIndex[s.index] = slot{session: s}
	t.opened++
	return s
}

func (t *Table) isTaken(index uint32) bool { _, taken := t.byIndex[index]; return taken }

// peer finds or makes the one of that life.
func (t *Table) peer(now time.Time, who Life) (*peer, Cause) {
	if p := t.peers[who]; p != nil {
		return p, CauseNone
	}
	lives, goes := t.idlest(func(p *peer) bool { return p.ID == who.ID })
	if lives < maxLives {
		goes = nil
	}
	if goes == nil && len(t.peers) >= maxPeers { // a holder of the key has as many ids as it likes
		if _, goes = t.idlest(func(p *peer) bool { return !t.isWarm(p) }); goes == nil {
			return nil, CauseFull
		}
	}
	if goes != nil {
		t.forget(goes)
	}
	p := &peer{Life: who}
	t.peers[who] = p
	return p, CauseNone
}

// idlest counts those peers, and gives the one of them with which nothing was said for longest; nil: there is none.
func (t *Table) idlest(which func(p *peer) bool) (n int, idle *peer) {
	for _, p := range t.peers {
		if !which(p) {
			continue
		}
		if n++; idle == nil || p.idleThan(idle) {
			idle = p
		}
	}
	return n, idle
}

// isWarm: a session with the peer is kept whether anybody sends or not.
func (t *Table) isWarm(p *peer) bool {
	r := t.routes[p.addr]
	return r != nil && r.peer == p && r.isWarm
}

// forget ends all sessions of a peer.
func (t *Table) forget(p *peer) {
	for _, s := range p.sessions() {
		t.drop(s)
	}
	p.cur, p.losers = nil, nil
	delete(t.peers, p.Life)
	if r := t.routes[p.addr]; r != nil && r.peer == p {
		r.peer = nil
	}
}

func (t *Table) drop(s *session) {
	if s != nil {
		delete(t.byIndex, s.index)
	}
}

// ids are those of the ring's keys.
func (t *Table) ids() []key.ID {
	ids := make([]key.ID, 0, len(t.ring))
	for _, k := range t.ring {
		ids = append(ids, k.id)
	}
	return ids
}

// jitter is a time from 0 to d, by chance.
func (t *Table) jitter(d time.Duration) time.Duration {
	var b [8]byte
	_, _ = io.ReadFull(t.rand, b[:]) // without chance, none
	return time.Duration(binary.BigEndian.Uint64(b[:]) >> 1 % uint64(d))
}
