package session

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

const (
	// How many handshakes a second may cost curves: of one host, from one source, and in
	// all; an X25519 takes some 50 µs, and each takes two.
	perHost   = 10
	perSource = 10
	perSecond = 200

	// remembered is how many INITs are recognised by their MAC alone when they come again.
	remembered = 1024
	// maxCallers bounds the hosts whose INITs are told apart. Only a holder of the key adds one.
	maxCallers      = 4096
	callerForgotten = 10 * time.Minute
)

// door decides which INITs are worth two curves (S1). What is asked of it is cheap, and what
// it keeps is bounded.
type door struct {
	callers   map[wire.ID]*caller
	datagrams budget
	streams   budget
	behind    budget // INITs of lives that are not their host's latest
	unknown   budget // answers to INITs under keys that we have not
	again     map[[tagSize]byte]struct{}
	ring      [remembered][tagSize]byte // of again, in the order of arrival
	place     int
}

func newDoor() *door {
	return &door{callers: make(map[wire.ID]*caller), again: make(map[[tagSize]byte]struct{})}
}

// isRepeated reports whether the very INIT with this MAC, which is right, was there
// before, and remembers it.
func (d *door) isRepeated(mac [tagSize]byte) bool {
	if _, is := d.again[mac]; is {
		return true
	}
	delete(d.again, d.ring[d.place])
	d.ring[d.place] = mac
	d.again[mac] = struct{}{}
	d.place = (d.place + 1) % remembered
	return false
}

// admit decides about an INIT whose payload was read.
//
// A life whose numbers are not above those of another of its host was captured earlier, or
// is of a clock that was set back, or of a second host with one id. The handshake tells
// which (S5). So it is let in, from a budget of its own: what was captured costs those who
// are there nothing.
func (d *door) admit(now time.Time, from netip.Addr, r *request) Cause {
	c := d.callers[r.peer.ID]
	switch {
	case c == nil && !d.makeRoom(now):
		return CauseFull
	case c == nil:
		c = &caller{}
	}
	l := c.life(r.peer.Random)
	if !l.isNew(r.head) {
		return CauseRepeated
	}
	b := &d.datagrams
	switch {
	case c.isBehind(l, r.head):
		b = &d.behind
	case r.head.kind != kindDatagrams:
		b = &d.streams
	}
	if !b.take(now, r.peer.ID, from) {
		return CauseBudget
	}
	l.note(r.head)
	c.note(now, l)
	d.callers[r.peer.ID] = c
	return CauseNone
}

// makeRoom forgets hosts that were not heard for long, if there are too many.
func (d *door) makeRoom(now time.Time) bool {
	if len(d.callers) < maxCallers {
		return true
	}
	for id, c := range d.callers {
		if now.Sub(c.heard) > callerForgotten {
			delete(d.callers, id)
		}
	}
	return len(d.callers) < maxCallers
}

// caller is what was heard of a host by INITs.
type caller struct {
	lives []*life   // the latest ones, maxLives at most, in the order in which they came first
	heard time.Time // by an INIT that was admitted
}

// life gives what is known of one life; one that is not known is not noted yet.
func (c *caller) life(name [8]byte) *life {
	for _, l := range c.lives {
		if l.name == name {
			return l
		}
	}
	return &life{name: name}
}

// isBehind: another life of the host has come further.
func (c *caller) isBehind(l *life, h header) bool {
	return slices.ContainsFunc(c.lives, func(m *life) bool { return m != l && m.top >= h.number })
}

// note keeps l, which was heard. Where there are too many the one with the lowest
// numbers is forgotten: what was captured never takes the place of who is there.
func (c *caller) note(now time.Time, l *life) {
	c.heard = now
	if slices.Contains(c.lives, l) {
		return
	}
	c.lives = append(c.lives, l)
	if len(c.lives) > maxLives {
		lowest := slices.MinFunc(c.lives, func(a, b *life) int { return cmp.Compare(a.top, b.top) })
		c.lives = slices.DeleteFunc(c.lives, func(m *life) bool { return m == lowest })
	}
}

// life is what was heard of one life of a host.
//
// Invariant: no number counts twice.
type life struct {
	name    [8]byte
	top     uint64        // highest number of any kind
	highest uint64        // of those for datagrams, which must rise
	streams [kinds]window // those for streams and tethers, which may overtake each other
}

func (l *life) isNew(h header) bool {
	if h.kind == kindDatagrams {
		return h.number > l.highest
	}
	return l.streams[h.kind].isFresh(h.number)
}

func (l *life) note(h header) {
	l.top = max(l.top, h.number)
	if h.kind == kindDatagrams {
		l.highest = h.number
	} else {
		l.streams[h.kind].take(h.number)
	}
}

// budget is what handshakes may cost in one second.
type budget struct {
	began   time.Time
	all     int
	hosts   map[wire.ID]int
	sources map[netip.Addr]int
}

// take takes one of what is left for a host, a source and all, or reports false. It is
// asked after a MAC, so sources are not made up by strangers. This machine's own agents
// share an address.
func (b *budget) take(now time.Time, id wire.ID, from netip.Addr) bool {
	if now.Sub(b.began) >= time.Second || b.hosts == nil {
		*b = budget{began: now, hosts: make(map[wire.ID]int), sources: make(map[netip.Addr]int)}
	}
	if b.all >= perSecond || b.hosts[id] >= perHost || b.sources[from] >= perSource && !from.IsLoopback() {
		return false
	}
	b.all++
	b.hosts[id]++
	b.sources[from]++
	return true
}
