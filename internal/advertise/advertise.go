// Package advertise decides at which of its addresses the others are told to reach a host, and whether the host is on a
// network at all. It decides from values alone: what the kernel shows, what others are told of themselves, and what was
// configured.
package advertise

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Link is one network interface, as the kernel shows it.
type Link struct {
	Name  string
	Under string       // the VRF, bridge or bond that it belongs to; empty: none
	Down  bool         // set down, or without a carrier: an address on it can be bound, and reached later
	Inner bool         // a bridge that nothing but this host's own containers and machines is plugged into
	Addrs []netip.Addr // without zones, IPv4 unmapped
	// Networks are the same with the length of their prefixes; nil where nobody asks for that.
	Networks []netip.Prefix
}

// Sight is what the kernel shows of a host at one time.
type Sight struct {
	Links []Link
	// Routes are the source addresses of the default routes, IPv4 and IPv6; invalid without one.
	Routes [2]netip.Addr
}

// localBridges are made by container and virtual machine managers. Their addresses are private and the same on every
// host, the worst that one could advertise; they are taken only when there is no other.
var localBridges = []string{"docker", "br-", "virbr", "veth", "cni", "podman", "lxcbr", "lxdbr", "incusbr", "cali", "flannel", "kube", "vmnet", "vboxnet"}

// IsLocalBridge: by its name the link leads to this host's own containers and machines.
func (l Link) IsLocalBridge() bool {
	return l.Inner || slices.ContainsFunc(localBridges, func(prefix string) bool { return strings.HasPrefix(l.Name, prefix) })
}

// IsRoutable: others could send to a.
func IsRoutable(a netip.Addr) bool { return a.IsGlobalUnicast() && !a.IsLoopback() }

// LinkOf gives the link that has an address.
func LinkOf(links []Link, a netip.Addr) (Link, bool) {
	i := slices.IndexFunc(links, func(l Link) bool { return slices.Contains(l.Addrs, a) })
	if i < 0 {
		return Link{}, false
	}
	return links[i], true
}

// Choose gives the address to advertise for a wildcard bind: a private one on the interface of the default route,
// else a private one elsewhere, else any global one, else loopback. A v6 wildcard takes IPv4 too, and prefers IPv6. One on a
// link that is down is better than loopback: after a power cut hosts are up before their switch.
func Choose(s Sight, v6 bool) netip.Addr {
	if best := choose(s, v6, func(l Link, _ netip.Addr) bool { return !(l.Down && l.IsLocalBridge()) }); best.IsValid() {
		return best
	}
	if v6 {
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// choose gives the best of those that may be taken; invalid: none may.
func choose(s Sight, v6 bool, may func(Link, netip.Addr) bool) (best netip.Addr) {
	least := 0
	for _, l := range s.Links {
		for _, a := range l.Addrs {
			if !IsRoutable(a) || a.Is6() && !v6 || !may(l, a) {
				continue
			}
			// The first of equals, in the kernel's order of interfaces.
			if rank := rank(l, a, v6, s.Routes); !best.IsValid() || cmp.Less(rank, least) {
				best, least = a, rank
			}
		}
	}
	return best
}

// rank is lower for a better address: one bit for each thing to be said against it, the weightiest first.
func rank(l Link, a netip.Addr, v6 bool, routes [2]netip.Addr) int {
	isRouted := slices.ContainsFunc(routes[:], func(r netip.Addr) bool { return slices.Contains(l.Addrs, r) })
	rank := 0
	for _, against := range []bool{
		l.Down,
		l.IsLocalBridge(),
		a.Is6() != v6,
		!a.IsPrivate(),
		!isRouted,
		// Of several IPv4 addresses the kernel's own choice. For IPv6 that would be a temporary one (RFC 8981).
		a.Is4() && !slices.Contains(routes[:], a),
	} {
		rank <<= 1
		if against {
			rank |= 1
		}
	}
	return rank
}
