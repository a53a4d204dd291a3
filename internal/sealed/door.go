package sealed

import (
	"net/netip"
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

// admit decides about an INIT whose payload was read. isThere says that a later life of
// that host than the one we knew would be odd: it was heard a moment ago.
func (d *door) admit(now time.Time, from netip.Addr, r *request, isThere bool) Cause {
	c := d.callers[r.peer.id]
	switch {
	case c == nil && !d.makeRoom(now):
		return CauseFull
	case c == nil:
		c = &caller{life: r.peer.life}
	case c.life != r.peer.life && r.head.number <= c.top && isThere:
		return CauseRepeated // S3: captured from an earlier life
	case c.life != r.peer.life:
		c = &caller{life: r.peer.life} // a new life, or one whose clock was set back meanwhile
	case !c.isNew(r.head):
		return CauseRepeated
	}
	b := &d.datagrams
	if r.head.kind != kindDatagrams {
		b = &d.streams
	}
	if !b.take(now, r.peer.id, from) {
		return CauseBudget
	}
	c.note(now, r.head)
	d.callers[r.peer.id] = c
	return causeNone
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
//
// Invariant: no number counts twice in one life.
type caller struct {
	life    [8]byte
	top     uint64        // highest number of any kind
	highest uint64        // of those for datagrams, which must rise
	streams [kinds]window // those for streams and tethers, which may overtake each other
	heard   time.Time     // by an INIT that was admitted
}

func (c *caller) isNew(h header) bool {
	if h.kind == kindDatagrams {
		return h.number > c.highest
	}
	return c.streams[h.kind].isFresh(h.number)
}

func (c *caller) note(now time.Time, h header) {
	c.heard, c.top = now, max(c.top, h.number)
	if h.kind == kindDatagrams {
		c.highest = h.number
	} else {
		c.streams[h.kind].take(h.number)
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
