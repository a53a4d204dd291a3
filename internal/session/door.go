package session

import (
	"net/netip"
	"time"
)

const (
	// How many handshakes a second may cost curves; an X25519 takes some 50 µs, and each handshake takes four. INITs without
	// a cookie and those with one have their own, of one source and in all: a holder of the key can forge the source of the
	// former.
	perSource = 10
	perSecond = 100
	// strange is how many with a cookie all who are new may use up together, and how many streams. The rest is for known hosts
	// that begin anew.
	strange = perSecond / 2

	// remembered is how many INITs are recognised by their MAC alone when they come again.
	remembered = 1024
)

// door decides which INITs are worth curves (S1). What is asked of it is cheap, and what
// it keeps is bounded. It knows of no id: an INIT claims none.
type door struct {
	bare    budget // INITs without a cookie
	shown   budget // and with one: they come from where they say
	streams budget
	unknown budget // answers to INITs under keys that we have not
	baker   baker
	again   map[[tagSize]byte]struct{}
	ring    [remembered][tagSize]byte // of again, in the order of arrival
	place   int
}

func newDoor() *door { return &door{again: make(map[[tagSize]byte]struct{})} }

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

// admit decides about an INIT for datagrams. Forged ones use up what is there for INITs without a cookie, under the
// source's own address too. Whoever is at an address is asked for a cookie then, and answers with it.
func (d *door) admit(now time.Time, from netip.AddrPort, init []byte, isKnown func(time.Time, netip.Addr) bool) Cause {
	at := from.Addr()
	switch {
	case d.bare.take(now, at):
		return CauseNone
	case !d.baker.isSigned(now, from, init):
		return CauseCookie
	case !d.shown.takeTrue(now, at, isKnown):
		return CauseBudget
	}
	return CauseNone
}

// budget is what handshakes may cost in one second.
type budget struct {
	began   time.Time
	all     int
	sources map[netip.Addr]int
}

// taken is how much of this second's was taken.
func (b *budget) taken(now time.Time) int {
	if now.Sub(b.began) >= time.Second || b.sources == nil {
		*b = budget{began: now, sources: make(map[netip.Addr]int)}
	}
	return b.all
}

// take takes one of what is left for a source and all, or reports false. It is
// asked after a MAC, so sources are not made up by strangers. This machine's own agents
// share an address.
func (b *budget) take(now time.Time, from netip.Addr) bool {
	if b.taken(now) >= perSecond || b.sources[from] >= perSource && !from.IsLoopback() {
		return false
	}
	b.all++
	b.sources[from]++
	return true
}

// takeTrue is take for a source that was shown to be true. Those where nobody is known leave some to the others.
func (b *budget) takeTrue(now time.Time, from netip.Addr, isKnown func(time.Time, netip.Addr) bool) bool {
	if b.taken(now) >= strange && !isKnown(now, from) {
		return false
	}
	return b.take(now, from)
}
