package session

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/wire"
)

// The gate (S20) lets in whom the host list has: at one place, after PROOF, by the id that a key has proved. Who is left out is told
// so in the session, by REFUSED, and then that ends.

const (
	// partingFor is for how long the sessions of a host that is out stay, so that it is told again whenever it says something.
	partingFor = 3 * time.Second
	// shutFor is when an address is tried again where this host, or the one there, is left out.
	shutFor = 5 * time.Second
	// refusalFor is for how long a refusal counts that is not said again: two of the longest intervals at which a lost host is looked for.
	refusalFor = time.Minute
	// maxRefusals bounds those that are remembered, each way.
	maxRefusals = 16
)

// refused is REFUSED: "you are not in my host list". It is the inner of a datagram, the first record of a stream, or what PROOF
// carries in the place of HELLO. Its layout is in protocol 10.2.
type refused struct {
	within time.Duration   // for which the receiver is still heard, since it leads; zero: it is not any more
	list   identity.Digest // of the sender, not zero
}

const (
	refusedByte = 'R'
	refusedSize = 16
)

// IsRefused reports whether that is a REFUSED, or would be one if it were well made.
func IsRefused(b []byte) bool {
	return len(b) >= 3 && b[0] == magic0 && b[1] == magic1 && b[2] == refusedByte
}

func (r refused) append(b []byte) []byte {
	b = append(b, magic0, magic1, refusedByte, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(r.within.Milliseconds()))
	b = append(b, 0, 0)
	return binary.BigEndian.AppendUint64(b, uint64(r.list))
}

func parseRefused(b []byte) (r refused, ok bool) {
	if len(b) != refusedSize || !IsRefused(b) || b[3] != 0 || b[6] != 0 || b[7] != 0 {
		return r, false
	}
	r = refused{time.Duration(binary.BigEndian.Uint16(b[4:])) * time.Millisecond, identity.Digest(binary.BigEndian.Uint64(b[8:]))}
	return r, r.list != 0
}

// Refusal is a host that leaves this one out, or that this one leaves out. It is for people, except for what isBarred says.
type Refusal struct {
	ID   wire.ID
	Addr netip.AddrPort
	List identity.Digest // of the one that leaves the other out

	until time.Time
}

// refusals are those of a moment ago, in the order in which they came first.
//
// Invariant: at most maxRefusals, each id once. One that is listed is not pushed out by one that is not.
type refusals []Refusal

func (rs *refusals) add(now time.Time, r Refusal, isListed func(wire.ID) bool) {
	rs.expire(now)
	r.until = now.Add(refusalFor)
	i := slices.IndexFunc(*rs, func(old Refusal) bool { return old.ID == r.ID })
	if i < 0 && len(*rs) >= maxRefusals && isListed(r.ID) {
		i = slices.IndexFunc(*rs, func(old Refusal) bool { return !isListed(old.ID) })
	}
	switch {
	case i >= 0:
		(*rs)[i] = r
	case len(*rs) < maxRefusals:
		*rs = append(*rs, r)
	}
}

func (rs *refusals) expire(now time.Time) {
	*rs = slices.DeleteFunc(*rs, func(r Refusal) bool { return !now.Before(r.until) })
}

// remove drops that of a host which has another list by now.
func (rs *refusals) remove(id wire.ID, list identity.Digest) {
	*rs = slices.DeleteFunc(*rs, func(r Refusal) bool { return r.ID == id && r.List != list })
}

// gate is who may be a peer, and who was left out.
type gate struct {
	hosts  identity.Hosts
	by     refusals // hosts that leave this one out
	out    refusals // hosts that this one leaves out
	isShut bool     // what onShut was told last
	onShut func(bool)
}

func newGate(hosts identity.Hosts, onShut func(bool)) gate {
	if onShut == nil {
		onShut = func(bool) {}
	}
	return gate{hosts: hosts, onShut: onShut}
}

// says is the REFUSED for a peer that is heard for so long yet.
func (g *gate) says(within time.Duration) []byte {
	return refused{within, g.hosts.Digest()}.append(nil)
}

// parting is the end of a peer that the list has lost.
type parting struct {
	heard time.Time // until then what it says counts
	ends  time.Time // of its sessions
	again time.Time // when it is told again
}

// isOut: nothing of the peer counts any more.
func (p *peer) isOut(now time.Time) bool { return p.parting != nil && !now.Before(p.parting.heard) }

// SetHosts replaces the host list. A host that it leaves out is told so and counts no more, the leader after it had time to part. Unless
// drops, nothing is changed where a host would be left out that is here; these are given.
func (t *Table) SetHosts(now time.Time, hosts identity.Hosts, leader wire.ID, parts time.Duration, drops bool) (leaves []Sender) {
	for _, p := range t.peersInOrder() {
		if !hosts.Admits(p.ID) && t.gate.hosts.Admits(p.ID) && p.theirs.number > 0 && p.isThere(now) {
			leaves = append(leaves, p.sender())
		}
	}
	if len(leaves) > 0 && !drops {
		return leaves
	}
	t.gate.hosts = hosts
	for _, p := range t.peersInOrder() {
		switch {
		case hosts.Admits(p.ID):
			p.parting = nil
		case p.parting == nil && p.ID == leader:
			p.parting = &parting{heard: now.Add(parts), ends: now.Add(parts + partingFor), again: now}
		case p.parting == nil:
			p.parting = &parting{heard: now, ends: now.Add(partingFor), again: now}
		}
		if t.part(now, p); p.parting == nil {
			t.greet(now, p, false) // the digest is another
		}
	}
	for _, r := range t.routesInOrder() {
		if !r.shut.IsZero() {
			r.shut, r.tries, r.pause, r.next = time.Time{}, 0, 0, now
		}
	}
	t.gate.out = slices.DeleteFunc(t.gate.out, func(r Refusal) bool { return hosts.Admits(r.ID) })
	t.judge(now)
	t.wake(now)
	return leaves
}

// part tells a peer that the list has lost that it is left out, and takes it from its address once nothing of it counts.
func (t *Table) part(now time.Time, p *peer) {
	d := p.parting
	if d == nil {
		return
	}
	if p.isOut(now) {
		t.gate.out.add(now, Refusal{ID: p.ID, Addr: p.addr, List: t.gate.hosts.Digest()}, t.gate.hosts.Has)
		if r := t.routes[p.addr]; r != nil && r.peer == p {
			r.peer = nil
			t.shut(now, r)
		}
	}
	if !now.Before(d.again) {
		t.tellOut(now, p)
	}
	if t.wake(d.ends); !p.isOut(now) {
		t.wake(d.heard)
		t.wake(d.again)
	}
}

// tellOut says REFUSED in the session.
func (t *Table) tellOut(now time.Time, p *peer) {
	d := p.parting
	if p.cur != nil && p.addr.IsValid() {
		_ = t.emitIn(p.cur, p.addr, t.gate.says(max(d.heard.Sub(now), 0))) // as lost on the way: it is repeated
	}
	d.again = now.Add(max(t.rto(p), 2*callLeast))
}

// shut has an address left alone for a while.
func (t *Table) shut(now time.Time, r *route) {
	t.endCall(r)
	r.shut = now.Add(shutFor)
	t.wake(r.shut)
}

// onOut answers what a peer says that is out.
func (t *Table) onOut(now time.Time, p *peer) Cause {
	if !now.Before(p.parting.again) {
		t.tellOut(now, p)
	}
	return CauseUnlisted
}

// turnAway answers the PROOF of a host that the list does not have: in the session that it makes, at where it came from. Nothing
// else is kept of that session, and half for as long as the same PROOF may come again.
func (t *Table) turnAway(now time.Time, from netip.AddrPort, half *half, who Life, keys Pair, proof []byte) Cause {
	s := &session{index: half.index, remote: half.remote, Pair: keys}
	half.refusal, half.proof = s.seal(nil, t.gate.says(0)), macAtEnd(proof)
	t.noteOut(now, who.ID, from)
	_ = t.emit(from, half.refusal) // shorter than what it answers
	return CauseUnlisted
}

// turnAwayAgain says the same REFUSED to the same PROOF, which comes again while that is lost.
func (t *Table) turnAwayAgain(from netip.AddrPort, half *half, proof []byte) Cause {
	if half.proof != macAtEnd(proof) {
		return CauseMAC
	}
	_ = t.emit(from, half.refusal)
	return CauseUnlisted
}

// noteOut remembers a host that the list does not have, and has people told.
func (t *Table) noteOut(now time.Time, id wire.ID, at netip.AddrPort) {
	t.gate.out.add(now, Refusal{ID: id, Addr: at, List: t.gate.hosts.Digest()}, t.gate.hosts.Has)
	told := Trouble{Cause: CauseUnlisted, From: at, Theirs: id}
	if near, found := t.gate.hosts.Nearest(id); found {
		told.Ours = near.Name + " is " + near.ID.String() // a slip?
	}
	t.note(told)
}

// onRefused takes what a peer says in its session: that its list does not have this host.
func (t *Table) onRefused(now time.Time, p *peer, b []byte) Cause {
	at := p.addr
	if cause := t.noteRefused(now, p.Life, at, t.routes[at], b); cause != CauseLeftOut {
		return cause
	}
	if r, _ := parseRefused(b); r.within > 0 {
		return CauseLeftOut
	}
	t.forget(p)
	if r := t.routes[at]; r != nil {
		t.shut(now, r)
	}
	return CauseLeftOut
}

// noteRefused remembers who leaves this host out, and has people told. It gives CauseLeftOut, or what is wrong. A life of the past is not
// heard: its list is as old as its state. Nor is a life while another one of its host is there (S17). This host asks again at again; nil:
// nowhere.
func (t *Table) noteRefused(now time.Time, who Life, at netip.AddrPort, again *route, b []byte) Cause {
	r, ok := parseRefused(b)
	switch {
	case !ok:
		return CauseInner
	case t.receipts.isPast(who):
		return CausePast
	}
	if first := t.incumbent(who); first != nil && first.isThere(now) {
		return CauseClash
	}
	t.gate.by.add(now, Refusal{ID: who.ID, Addr: at, List: r.list}, t.gate.hosts.Has)
	t.note(Trouble{Cause: CauseLeftOut, From: at, Ours: t.self.life.ID, Theirs: who.ID})
	t.askAgain(now, who.ID, again)
	t.judge(now)
	return CauseLeftOut
}

// askAgain has an address be called again, whoever wants to speak, once it is not shut any more: a refusal that may keep this host from
// standing must not end only because nobody has asked for it.
func (t *Table) askAgain(now time.Time, id wire.ID, r *route) {
	if r != nil && (t.gate.hosts.Has(id) || t.gate.hosts.IsNone()) {
		r.wanted = latest(r.wanted, now.Add(3*shutFor))
		t.wake(now)
	}
}

// RefusedStream takes a REFUSED that came in the place of a stream's first record.
func (t *Table) RefusedStream(now time.Time, c *Call, who Life, b []byte) Cause {
	cause := t.noteRefused(now, who, c.at, t.route(c.at), b)
	t.count[cause]++
	return cause
}

// letIn notes that a host has another list than the one by which it left this host out: it says HELLO.
func (t *Table) letIn(now time.Time, p *peer) {
	if len(t.gate.by) > 0 {
		t.gate.by.remove(p.ID, p.list)
		t.judge(now)
	}
}

// judge tells the owner when this host may stand no more, or again (S20): a host that its own list has leaves it out, and was heard
// to say so a moment ago. Without a list of its own any host will do, as long as no other is here: whoever has the key alone could
// say so.
func (t *Table) judge(now time.Time) {
	t.gate.by.expire(now)
	isShut := false
	for _, r := range t.gate.by {
		t.wake(r.until)
		isShut = isShut || t.gate.hosts.Has(r.ID) || t.gate.hosts.IsNone() && !t.isAnyHere(now)
	}
	if isShut != t.gate.isShut {
		t.gate.isShut = isShut
		t.gate.onShut(isShut)
	}
}

// isAnyHere: some host has said its card, and was heard a moment ago.
func (t *Table) isAnyHere(now time.Time) bool {
	for _, p := range t.peers {
		if p.theirs.number > 0 && p.cur != nil && p.isThere(now) && !p.isOut(now) {
			return true
		}
	}
	return false
}
