package advertise

import (
	"net/netip"
	"slices"
	"time"
)

// Trouble is what is wrong with a place.
type Trouble int

// The troubles, the worst first.
const (
	None     Trouble = iota
	Gone             // no link has the address any more
	Down             // its link is set down, or has no carrier
	Loopback         // it is this host's alone: there was no other when it was chosen
	Inner            // it is on a bridge that leads nowhere outside of this host
	Shared           // another member has it too
)

// lasting is how long another member must be known at our address before this host leaves that. What was there before, with
// another id, is believed alive until the failure detector has given it up: 35 s in the slowest profile.
const lasting = time.Minute

// Place is where the others are told to reach this host.
//
// Invariant: it changes by At alone. Whoever owns it looks when the kernel or the members have changed, and does what the
// View says.
type Place struct {
	Addr netip.Addr
	// IsFixed: a person has named the address, by bind or advertise. It is never changed, and may be on no link at all: then
	// something passes it on to this host.
	IsFixed bool
	V6      bool   // the socket takes IPv6
	Device  string // interface or VRF that the sockets are bound to; empty: none

	link string // that had the address last; empty: none ever did
}

// View is what is found of a Place at one time.
type View struct {
	// IsOn: the host is on a network, and can be reached at its place.
	IsOn    bool
	Trouble Trouble
	Link    string // that has the address, or had it last
	// Better is an address to advertise instead; invalid: the host stays where it is.
	Better netip.Addr
}

// At gives the place at another address that was chosen.
func (p Place) At(a netip.Addr) Place {
	p.Addr, p.link = a, ""
	return p
}

// Look holds the place against what the kernel shows and against what other living members are told. shared is for how long
// one that is alive has been known at the same address. It gives the place with what is to be remembered of it.
func (p Place) Look(s Sight, others []netip.Addr, shared time.Duration) (Place, View) {
	l, has := LinkOf(s.Links, p.Addr)
	if has {
		p.link = l.Name
	}
	v := View{Link: p.link, Trouble: p.trouble(l, has, others)}
	if !p.IsFixed && (v.Trouble != Shared || shared >= lasting) {
		v.Better = p.better(s, v.Trouble, others)
	}
	v.IsOn = !v.Better.IsValid() && v.Trouble != Gone && v.Trouble != Down && v.Trouble != Loopback
	return p, v
}

// trouble: hosts that reach each other by loopback are on one machine, and need no network. Nor is a fixed address in
// trouble that no link ever had.
func (p Place) trouble(l Link, has bool, others []netip.Addr) Trouble {
	isLoopback := func(a netip.Addr) bool { return a.IsLoopback() }
	switch {
	case p.Addr.IsLoopback() && (p.IsFixed || slices.ContainsFunc(others, isLoopback)):
		return None
	case p.Addr.IsLoopback():
		return Loopback
	case !has && p.IsFixed && p.link == "":
		return None
	case !has:
		return Gone
	case l.Down:
		return Down
	case slices.Contains(others, p.Addr):
		return Shared
	case l.Inner:
		return Inner
	}
	return None
}

// better gives where to go from a place that is in trouble. A cable that was pulled is no reason to go: it is plugged in
// again. Nor is another link, as long as the one that had the address is there: it may lead to other networks, where
// nobody is.
func (p Place) better(s Sight, t Trouble, others []netip.Addr) netip.Addr {
	if t == None || t == Down {
		return netip.Addr{}
	}
	isThere := t == Gone && slices.ContainsFunc(s.Links, func(l Link) bool { return l.Name == p.link })
	return choose(s, p.V6, func(l Link, a netip.Addr) bool {
		if p.Device != "" && l.Name != p.Device && l.Under != p.Device {
			return false // its socket hears nothing there
		}
		return !l.Down && !l.IsLocalBridge() && a != p.Addr && !slices.Contains(others, a) && (!isThere || l.Name == p.link)
	})
}
