package session

import (
	"encoding/binary"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/wire"
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
	Self    Life
	Addr    netip.AddrPort // what others are told to send to; it is bound into each handshake
	Cluster string         // its name; another's traffic does not open
	Rand    io.Reader      // of unpredictable bytes
	// Number is what the number of the first INIT comes after. It is above those of the life before, so that an INIT which was
	// captured from that is known by it.
	Number uint64
	// Emit puts a datagram on the wire, and does not keep it.
	Emit func(to netip.AddrPort, b []byte) error
	// Note has people told of what they can mend. Nil: nobody is.
	Note func(c Cause, from netip.AddrPort, ours, theirs any)
}

// Table is the sessions of one host: what arrives, what is sent and what time does to
// them. It has no clock, no goroutine and no lock, and starts none: its owner hands in
// the time, one call at a time, and calls Tick when Due says so.
type Table struct {
	self    Life
	addr    netip.AddrPort
	cluster string
	rand    io.Reader
	emit    func(to netip.AddrPort, b []byte) error
	note    func(c Cause, from netip.AddrPort, ours, theirs any)

	ring    []*secret
	number  uint64 // of the last INIT
	door    *door
	peers   map[Life]*peer
	routes  map[netip.AddrPort]*route
	byIndex map[uint32]slot
	odd     strangers // who shares no key with this host
	count   [causes]uint64
	opened  uint64    // sessions, ever
	due     time.Time // when tick has something to do; zero: never
	out     [MaxDatagram]byte
}

// slot is what an index of ours stands for: a session, or an INIT that waits for RESP.
type slot struct {
	session *session
	route   *route
}

// route is an address that we send to, and who is there.
type route struct {
	to       netip.AddrPort
	peer     *peer
	isWarm   bool      // a session is kept whether anybody sends or not
	wanted   time.Time // until then a session is worth an INIT
	waiting  [][]byte
	waitEnds []time.Time

	call    *call // under way; nil: none
	called  time.Time
	next    time.Time     // no INIT before
	pause   time.Duration // before the next
	tries   int           // in vain, in a row
	refused int           // streams, for want of the key
	rtt     time.Duration
}

// New makes a table without sessions, and without keys: SetKeys gives it some.
func New(cfg Config) *Table {
	if cfg.Note == nil {
		cfg.Note = func(Cause, netip.AddrPort, any, any) {}
	}
	return &Table{self: cfg.Self, addr: cfg.Addr, cluster: cfg.Cluster, rand: cfg.Rand, number: cfg.Number, emit: cfg.Emit, note: cfg.Note,
		door: newDoor(), peers: make(map[Life]*peer), routes: make(map[netip.AddrPort]*route), byIndex: make(map[uint32]slot)}
}

// Renewed is the table of another life at another address. It has the keys and the counts of this one, and no session.
func (t *Table) Renewed(now time.Time, cfg Config, ring key.Ring) *Table {
	next := New(cfg)
	next.count, next.opened = t.count, t.opened
	next.SetKeys(now, ring)
	return next
}

// Due is when Tick has something to do; zero: never.
func (t *Table) Due() time.Time { return t.due }

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
	if len(inner) > MaxInner {
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
	return t.emit(r.to, p.cur.seal(t.out[:0], inner))
}

// SealAhead (S13) is what send would put on the wire, to be sent later and by somebody else:
// its counter is used for nothing else. It is nil while there is no session.
func (t *Table) SealAhead(now time.Time, to netip.AddrPort, inner []byte) []byte {
	r := t.route(to)
	if r == nil || len(inner) > MaxInner {
		return nil
	}
	if r.peer == nil || r.peer.cur == nil {
		r.wanted = now.Add(wantedFor)
		t.pursue(now, r)
		return nil
	}
	return r.peer.cur.seal(nil, inner)
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

// KeepWarm says with which addresses a session is kept, used or not.
func (t *Table) KeepWarm(now time.Time, addrs []netip.AddrPort) {
	for _, r := range t.routes {
		r.isWarm = r.isWarm && slices.Contains(addrs, r.to)
	}
	for _, to := range addrs {
		if to == t.addr {
			continue
		}
		r := t.route(to)
		if r == nil || r.isWarm {
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
			inner, p, c := t.onData(now, h, b)
			if c == CauseNone && inner != nil {
				return inner, Sender{p.Life, p.addr}, CauseNone
			}
			cause = c
		case typeInit:
			cause = t.onInit(now, from, h, b)
		case typeResp:
			cause = t.onResp(now, h, b)
		case typeUnknown:
			cause = t.onUnknown(now, from, h, b)
		}
	}
	if cause != CauseNone {
		t.count[cause]++
		if cause == CausePlain || cause == CauseVersion {
			t.onForeign(cause, from, b)
		}
	}
	return nil, by, cause
}

// onForeign tells people of a host that does not seal, or by another version.
func (t *Table) onForeign(cause Cause, from netip.AddrPort, b []byte) {
	if cause == CauseVersion {
		t.note(cause, from, version, int(b[2]>>4))
		return
	}
	t.note(cause, from, nil, nil)
}

// onData opens what came in a session. inner is nil if it was for the seal itself.
func (t *Table) onData(now time.Time, h header, b []byte) (inner []byte, p *peer, cause Cause) {
	s := t.byIndex[h.index].session
	if s == nil || !now.Before(s.diesAt) {
		return nil, nil, CauseIndex
	}
	if inner, cause = s.open(b, h); cause != CauseNone {
		return nil, nil, cause
	}
	p = s.peer
	p.heard, p.silent, p.asked = now, time.Time{}, false
	if s == p.next {
		t.promote(now, s)
	}
	switch {
	case isHello(inner):
		return nil, p, t.onHello(now, p, inner)
	case len(inner) == 0:
		return nil, p, CauseInner
	}
	return inner, p, CauseNone
}

// promote ends the doubt about a session that the peer began (S5): it is no replay.
func (t *Table) promote(now time.Time, s *session) {
	p := s.peer
	p.next, s.diesAt = nil, now.Add(expireFor)
	t.choose(now, p, s)
}

// choose has a proven session send, or only receive.
func (t *Table) choose(now time.Time, p *peer, s *session) {
	loser := s
	if p.supersedes(s, t.self) {
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
	if p.addr.IsValid() && p.cur != nil {
		t.greetIn(now, p.cur, p.addr, asks)
	}
}

func (t *Table) greetIn(now time.Time, s *session, to netip.AddrPort, asks bool) {
	b := hello{asks, t.addr, t.ids()}.append(nil)
	_ = t.emit(to, s.seal(t.out[:0], b)) // as lost on the way: it is repeated
	s.peer.hello = now.Add(helloEvery + t.jitter(helloEvery/4))
	if s.peer.keys == nil {
		s.peer.hello = now.Add(helloAgain)
	}
	t.wake(s.peer.hello)
}

func (t *Table) onHello(now time.Time, p *peer, b []byte) Cause {
	h, ok := parseHello(b)
	if !ok {
		return CauseInner
	}
	p.keys = h.keys
	cause := t.claim(now, p, h.addr)
	if h.asks {
		t.greet(now, p, false)
	}
	if r := t.routes[p.addr]; r != nil && p.cur != nil && t.isOutdated(p) && now.After(r.next) {
		r.next = now.Add(t.jitter(outdatedIn))
		t.wake(r.next)
	}
	return cause
}

// claim takes a peer's word for its address (S8), unless another is there: that one is
// asked then, once it is silent.
func (t *Table) claim(now time.Time, p *peer, addr netip.AddrPort) Cause {
	r := t.route(addr)
	switch {
	case r == nil:
		return CauseFull
	case r.peer != nil && r.peer != p && r.peer.ID != p.ID && r.peer.isThere(now):
		return CauseAddress
	}
	t.settle(now, r, p)
	return CauseNone
}

// settle makes p the one at an address. An earlier life that was there has ended.
func (t *Table) settle(now time.Time, r *route, p *peer) {
	was := r.peer
	r.peer, p.addr = p, r.to
	t.odd.leave(r.to) // it began with a key that we have not, and then with one that we have
	if was != nil && was != p && was.ID == p.ID {
		t.forget(was)
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
	p, cause := t.peer(now, r.peer)
	if cause != CauseNone {
		return cause
	}
	resp, index, keys, err := r.answer(t.out[:0], t.self)
	if err != nil || t.isTaken(index) {
		return CauseIndex // one in 2³²: it calls again
	}
	t.drop(p.next)
	p.next = t.open(now, p, &session{index: index, remote: r.index, key: r.secret.id, Pair: keys, began: now})
	p.next.diesAt = now.Add(provenIn)
	t.wake(p.next.diesAt)
	_ = t.emit(from, resp) // not longer than what it answers; lost, as a datagram may be
	return CauseNone
}

// examine is all that an INIT must pass before a curve is computed for it, the cheapest
// first (S1).
func (t *Table) examine(now time.Time, from netip.AddrPort, h header, b []byte, s scope) (*request, Cause) {
	k, cause := checkMAC(b, h, t.ring)
	switch {
	case cause == CauseKey:
		t.onUnknownKey(now, from, h, b)
		return nil, cause
	case cause != CauseNone:
		return nil, cause
	case t.door.isRepeated([tagSize]byte(b[handshakeSize-tagSize:])):
		return nil, CauseRepeated
	}
	r, cause := readInit(b, t.rand, h, k, s)
	switch {
	case cause != CauseNone:
		t.note(cause, from, t.cluster+" at "+t.addr.String(), nil)
		return nil, cause
	case r.peer == t.self:
		return nil, CauseSelf
	}
	return r, t.door.admit(now, from.Addr(), r)
}

// onUnknownKey tells people of both hosts that they share no key (S15).
func (t *Table) onUnknownKey(now time.Time, from netip.AddrPort, h header, b []byte) {
	t.note(CauseKey, from, t.ids(), key.ID(h.index))
	at := from
	if h.kind != kindDatagrams {
		at = netip.AddrPortFrom(from.Addr(), 0)
	}
	t.odd.meet(now, at, []key.ID{key.ID(h.index)})
	if h.kind == kindDatagrams && t.door.unknown.take(now, wire.ID{}, from.Addr()) {
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
	t.note(CauseRefused, from, c.secret.id, theirs)
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
	who, remote, keys, cause := c.answered(b)
	if cause != CauseNone {
		return cause
	}
	p, cause := t.peer(now, who)
	if cause != CauseNone {
		return cause
	}
	began := r.called
	t.endCall(r)
	r.tries, r.pause, r.rtt = 0, 0, now.Sub(began)
	s := t.open(now, p, &session{index: c.index, remote: remote, key: c.secret.id, Pair: keys, began: began, isOurs: true})
	p.heard, p.silent, p.asked = now, time.Time{}, false
	t.settle(now, r, p)
	t.choose(now, p, s)
	t.greetIn(now, s, r.to, p.keys == nil)
	return CauseNone
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
	if len(t.peers) >= maxPeers {
		return nil, CauseFull
	}
	lives, oldest := 0, (*peer)(nil)
	for _, p := range t.peersInOrder() {
		if p.ID == who.ID {
			if lives++; oldest == nil || p.heard.Before(oldest.heard) {
				oldest = p
			}
		}
	}
	if lives >= maxLives {
		t.forget(oldest)
	}
	p := &peer{Life: who}
	t.peers[who] = p
	return p, CauseNone
}

// forget ends all sessions of a peer.
func (t *Table) forget(p *peer) {
	for _, s := range p.sessions() {
		t.drop(s)
	}
	p.cur, p.next, p.losers = nil, nil, nil
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
