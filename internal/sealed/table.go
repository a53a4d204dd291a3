package sealed

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

// table is the sessions of one host: what arrives, what is sent and what time does to
// them. It has no clock, no goroutine and no lock, and starts none: its owner hands in
// the time, one call at a time, and calls tick when due says so.
type table struct {
	self    identity
	addr    netip.AddrPort // what others are told to send to
	cluster string
	rand    io.Reader
	emit    func(to netip.AddrPort, b []byte) error // puts a datagram on the wire, and does not keep it
	note    func(c Cause, from netip.AddrPort, ours, theirs any)

	ring    []*secret
	number  uint64 // of the last INIT
	door    *door
	peers   map[identity]*peer
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

func newTable(self identity, addr netip.AddrPort, cluster string, random io.Reader, number uint64) *table {
	return &table{self: self, addr: addr, cluster: cluster, rand: random, number: number, door: newDoor(),
		peers: make(map[identity]*peer), routes: make(map[netip.AddrPort]*route), byIndex: make(map[uint32]slot)}
}

// wake has tick called at a time, or before.
func (t *table) wake(at time.Time) {
	if t.due.IsZero() || at.Before(t.due) {
		t.due = at
	}
}

// send seals inner for whoever is at an address and sends it, or keeps a copy for a
// moment until there is a session.
func (t *table) send(now time.Time, to netip.AddrPort, inner []byte) error {
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

func (t *table) sendTo(now time.Time, r *route, inner []byte) error {
	p := r.peer
	p.sent = now
	if p.silent.IsZero() {
		p.silent = now
		t.wake(now.Add(askAfter))
	}
	return t.emit(r.to, p.cur.seal(t.out[:0], inner))
}

// sealAhead (S13) is what send would put on the wire, to be sent later and by somebody else:
// its counter is used for nothing else. It is nil while there is no session.
func (t *table) sealAhead(now time.Time, to netip.AddrPort, inner []byte) []byte {
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
func (t *table) route(to netip.AddrPort) *route {
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

// keepWarm says with which addresses a session is kept, used or not.
func (t *table) keepWarm(now time.Time, addrs []netip.AddrPort) {
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

// receive takes a datagram, which it overwrites. It gives what was in it and whose that
// is, if that is a frame or gossip.
func (t *table) receive(now time.Time, from netip.AddrPort, b []byte) ([]byte, *peer, Cause) {
	h, cause := parseHeader(b)
	if cause == causeNone {
		switch h.typ {
		case typeData:
			inner, p, c := t.onData(now, h, b)
			if c == causeNone && inner != nil {
				return inner, p, causeNone
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
	if cause != causeNone {
		t.count[cause]++
		if cause == CausePlain || cause == CauseVersion {
			t.onForeign(cause, from, b)
		}
	}
	return nil, nil, cause
}

// onForeign tells people of a host that does not seal, or by another version.
func (t *table) onForeign(cause Cause, from netip.AddrPort, b []byte) {
	if cause == CauseVersion {
		t.note(cause, from, version, int(b[2]>>4))
		return
	}
	t.note(cause, from, nil, nil)
}

// onData opens what came in a session. inner is nil if it was for the seal itself.
func (t *table) onData(now time.Time, h header, b []byte) (inner []byte, p *peer, cause Cause) {
	s := t.byIndex[h.index].session
	if s == nil || !now.Before(s.diesAt) {
		return nil, nil, CauseIndex
	}
	if inner, cause = s.open(b, h); cause != causeNone {
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
	return inner, p, causeNone
}

// promote ends the doubt about a session that the peer began (S5): it is no replay.
func (t *table) promote(now time.Time, s *session) {
	p := s.peer
	p.next, s.diesAt = nil, now.Add(expireFor)
	t.choose(now, p, s)
}

// choose has a proven session send, or only receive.
func (t *table) choose(now time.Time, p *peer, s *session) {
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
func (t *table) flush(now time.Time, r *route) {
	for i, inner := range r.waiting {
		if now.Before(r.waitEnds[i]) {
			_ = t.sendTo(now, r, inner) // as lost on the way
		}
	}
	r.waiting, r.waitEnds = nil, nil
}

// greet says HELLO in the session that sends.
func (t *table) greet(now time.Time, p *peer, asks bool) {
	if p.addr.IsValid() && p.cur != nil {
		t.greetIn(now, p.cur, p.addr, asks)
	}
}

func (t *table) greetIn(now time.Time, s *session, to netip.AddrPort, asks bool) {
	b := hello{asks, t.addr, t.ids()}.append(nil)
	_ = t.emit(to, s.seal(t.out[:0], b)) // as lost on the way: it is repeated
	s.peer.hello = now.Add(helloEvery + t.jitter(helloEvery/4))
	if s.peer.keys == nil {
		s.peer.hello = now.Add(helloAgain)
	}
	t.wake(s.peer.hello)
}

func (t *table) onHello(now time.Time, p *peer, b []byte) Cause {
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
func (t *table) claim(now time.Time, p *peer, addr netip.AddrPort) Cause {
	r := t.route(addr)
	switch {
	case r == nil:
		return CauseFull
	case r.peer != nil && r.peer != p && r.peer.id != p.id && r.peer.isThere(now):
		return CauseAddress
	}
	t.settle(now, r, p)
	return causeNone
}

// settle makes p the one at an address. An earlier life that was there has ended.
func (t *table) settle(now time.Time, r *route, p *peer) {
	was := r.peer
	r.peer, p.addr = p, r.to
	t.odd.leave(r.to) // it began with a key that we have not, and then with one that we have
	if was != nil && was != p && was.id == p.id {
		t.forget(was)
	}
	if p.cur != nil {
		t.flush(now, r)
	}
}

func (t *table) onInit(now time.Time, from netip.AddrPort, h header, b []byte) Cause {
	if h.kind != kindDatagrams {
		return CauseType // S2: a tether's is bound to this address, too
	}
	r, cause := t.examine(now, from, h, b, scope{t.cluster, t.addr})
	if cause != causeNone {
		return cause
	}
	p, cause := t.peer(now, r.peer)
	if cause != causeNone {
		return cause
	}
	resp, index, keys, err := r.answer(t.out[:0], t.self)
	if err != nil || t.isTaken(index) {
		return CauseIndex // one in 2³²: it calls again
	}
	t.drop(p.next)
	p.next = t.open(now, p, &session{index: index, remote: r.index, key: r.secret.id, pair: keys, began: now})
	p.next.diesAt = now.Add(provenIn)
	t.wake(p.next.diesAt)
	_ = t.emit(from, resp) // not longer than what it answers; lost, as a datagram may be
	return causeNone
}

// examine is all that an INIT must pass before a curve is computed for it, the cheapest
// first (S1).
func (t *table) examine(now time.Time, from netip.AddrPort, h header, b []byte, s scope) (*request, Cause) {
	k, cause := checkMAC(b, h, t.ring)
	switch {
	case cause == CauseKey:
		t.onUnknownKey(now, from, h, b)
		return nil, cause
	case cause != causeNone:
		return nil, cause
	case t.door.isRepeated([tagSize]byte(b[handshakeSize-tagSize:])):
		return nil, CauseRepeated
	}
	r, cause := readInit(b, t.rand, h, k, s)
	switch {
	case cause != causeNone:
		t.note(cause, from, t.cluster+" at "+t.addr.String(), nil)
		return nil, cause
	case r.peer == t.self:
		return nil, CauseSelf
	}
	return r, t.door.admit(now, from.Addr(), r)
}

// onUnknownKey tells people of both hosts that they share no key (S15).
func (t *table) onUnknownKey(now time.Time, from netip.AddrPort, h header, b []byte) {
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

func (t *table) onUnknown(now time.Time, from netip.AddrPort, h header, b []byte) Cause {
	r := t.byIndex[h.index].route
	if r == nil || r.call == nil || r.call.number != h.number {
		return CauseIndex
	}
	t.refusedBy(now, from, r.call, b)
	return CauseRefused
}

// refusedBy tells people of a host that answers a call with UNKNOWN. It is asked once more
// with another key of ours, so who has a later one is no stranger.
func (t *table) refusedBy(now time.Time, from netip.AddrPort, c *call, b []byte) {
	theirs := parseIDs(b[headerSize:])
	t.note(CauseRefused, from, c.secret.id, theirs)
	if !slices.ContainsFunc(theirs, func(id key.ID) bool { return t.find(id) != nil }) {
		t.odd.meet(now, from, theirs)
	}
}

func (t *table) onResp(now time.Time, h header, b []byte) Cause {
	r := t.byIndex[h.index].route
	if r == nil || r.call == nil {
		return CauseIndex
	}
	c := r.call
	who, remote, keys, cause := c.answered(b)
	if cause != causeNone {
		return cause
	}
	p, cause := t.peer(now, who)
	if cause != causeNone {
		return cause
	}
	began := r.called
	t.endCall(r)
	r.tries, r.pause, r.rtt = 0, 0, now.Sub(began)
	s := t.open(now, p, &session{index: c.index, remote: remote, key: c.secret.id, pair: keys, began: began, isOurs: true})
	p.heard, p.silent, p.asked = now, time.Time{}, false
	t.settle(now, r, p)
	t.choose(now, p, s)
	t.greetIn(now, s, r.to, p.keys == nil)
	return causeNone
}

// open makes a session one of the table's.
func (t *table) open(now time.Time, p *peer, s *session) *session {
	s.peer, s.renewAt, s.diesAt = p, now.Add(renewAfter-t.jitter(renewJit)), now.Add(expireFor)
	if !s.isOurs {
		s.renewAt = s.renewAt.Add(2 * renewJit) // whoever began it renews it
	}
	t.byIndex[s.index] = slot{session: s}
	t.opened++
	return s
}

func (t *table) isTaken(index uint32) bool { _, taken := t.byIndex[index]; return taken }

// peer finds or makes the one with that identity.
func (t *table) peer(now time.Time, who identity) (*peer, Cause) {
	if p := t.peers[who]; p != nil {
		return p, causeNone
	}
	if len(t.peers) >= maxPeers {
		return nil, CauseFull
	}
	lives, oldest := 0, (*peer)(nil)
	for _, p := range t.peers {
		if p.id == who.id {
			if lives++; oldest == nil || p.heard.Before(oldest.heard) {
				oldest = p
			}
		}
	}
	if lives >= maxLives {
		t.forget(oldest)
	}
	p := &peer{identity: who}
	t.peers[who] = p
	return p, causeNone
}

// forget ends all sessions of a peer.
func (t *table) forget(p *peer) {
	for _, s := range p.sessions() {
		t.drop(s)
	}
	p.cur, p.next, p.losers = nil, nil, nil
	delete(t.peers, p.identity)
	if r := t.routes[p.addr]; r != nil && r.peer == p {
		r.peer = nil
	}
}

func (t *table) drop(s *session) {
	if s != nil {
		delete(t.byIndex, s.index)
	}
}

// ids are those of the ring's keys.
func (t *table) ids() []key.ID {
	ids := make([]key.ID, 0, len(t.ring))
	for _, k := range t.ring {
		ids = append(ids, k.id)
	}
	return ids
}

// jitter is a time from 0 to d, by chance.
func (t *table) jitter(d time.Duration) time.Duration {
	var b [8]byte
	_, _ = io.ReadFull(t.rand, b[:]) // without chance, none
	return time.Duration(binary.BigEndian.Uint64(b[:]) >> 1 % uint64(d))
}
