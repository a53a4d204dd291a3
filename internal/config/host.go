package config

import (
	"cmp"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-sockaddr/template"

	"github.com/bully-agent/bully-agent/hooks"
)

// host is what Load asks of the machine; tests give another one. Nothing here changes anything or sends a packet.
type host struct {
	root     bool
	hostname func() (string, error)
	workdir  func() (string, error)
	links    func() ([]link, error)
	outgoing func(v6 bool) netip.Addr     // source address of the default route; invalid without one
	template func(string) (string, error) // go-sockaddr
	trust    func(path string) error      // nobody but root could have written the file; nil: root does not ask
}

// link is one network interface.
type link struct {
	name  string
	under string       // the VRF, bridge or bond that it belongs to; "" if to none
	down  bool         // set down, or without a carrier: an address on it can be bound, and reached later
	addrs []netip.Addr // without zones, IPv4 unmapped
}

func thisHost() host {
	return host{
		root:     os.Geteuid() == 0,
		hostname: os.Hostname,
		workdir:  os.Getwd,
		links:    readLinks,
		outgoing: outgoingAddr,
		template: template.Parse,
		trust:    hooks.CheckTrust,
	}
}

func readLinks() ([]link, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var links []link
	for _, i := range interfaces {
		const usable = net.FlagUp | net.FlagRunning
		addrs, err := i.Addrs()
		if err != nil { // an interface may vanish in between
			continue
		}
		l := link{name: i.Name, down: i.Flags&usable != usable}
		if master, err := os.Readlink("/sys/class/net/" + i.Name + "/master"); err == nil {
			l.under = filepath.Base(master)
		}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				l.addrs = append(l.addrs, prefix.Addr().Unmap().WithZone(""))
			}
		}
		links = append(links, l)
	}
	return links, nil
}

// outgoingAddr asks the kernel which address it would send from. Connecting a UDP socket sends nothing.
func outgoingAddr(v6 bool) netip.Addr {
	// Addresses for documentation (RFC 5737, RFC 3849): routed by the default route, and nobody's.
	network, anywhere := "udp4", "198.51.100.1:9"
	if v6 {
		network, anywhere = "udp6", "[2001:db8::1]:9"
	}
	conn, err := net.Dial(network, anywhere)
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// hasFamily reports whether another host could reach this one by that family.
func hasFamily(links []link, v6 bool) bool {
	return slices.ContainsFunc(links, func(l link) bool {
		return !l.isLocalBridge() && slices.ContainsFunc(l.addrs, func(a netip.Addr) bool { return a.Is6() == v6 && isRoutable(a) })
	})
}

func isRoutable(a netip.Addr) bool { return a.IsGlobalUnicast() && !a.IsLoopback() }

func isDown(links []link, name string) bool {
	return slices.ContainsFunc(links, func(l link) bool { return l.name == name && l.down })
}

// interfaceOf names the interface that has the address, or gives "".
func interfaceOf(links []link, addr netip.Addr) string {
	for _, l := range links {
		if slices.Contains(l.addrs, addr) {
			return l.name
		}
	}
	return ""
}

// localBridges are made by container and virtual machine managers. Their addresses are private and the same on every
// host, the worst that one could advertise; they are taken only when there is no other.
var localBridges = []string{"docker", "br-", "virbr", "veth", "cni", "podman", "lxcbr", "lxdbr", "incusbr", "cali", "flannel", "kube", "vmnet", "vboxnet"}

func (l link) isLocalBridge() bool {
	return slices.ContainsFunc(localBridges, func(prefix string) bool { return strings.HasPrefix(l.name, prefix) })
}

// reachable chooses the address to advertise for a wildcard bind: a private one on the interface of the default route,
// else a private one elsewhere, else any global one, else loopback. A v6 wildcard takes IPv4 too, and prefers IPv6. One on a
// link that is down is better than loopback: after a power cut hosts are up before their switch.
func reachable(links []link, v6 bool, outgoing func(v6 bool) netip.Addr) netip.Addr {
	type candidate struct {
		addr netip.Addr
		rank int
	}
	var candidates []candidate
	routes := []netip.Addr{outgoing(false), outgoing(true)}
	for _, l := range links {
		for _, a := range l.addrs {
			if !(l.down && l.isLocalBridge()) && isRoutable(a) && (v6 || a.Is4()) {
				candidates = append(candidates, candidate{a, rankAddr(l, a, v6, routes)})
			}
		}
	}
	if len(candidates) == 0 {
		if v6 {
			return netip.IPv6Loopback()
		}
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	// Min gives the first of equals, in the kernel's order of interfaces.
	return slices.MinFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.rank, b.rank) }).addr
}

// rankAddr is lower for a better address: one bit for each thing to be said against it, the weightiest first.
func rankAddr(l link, a netip.Addr, v6 bool, routes []netip.Addr) int {
	isRouted := slices.ContainsFunc(routes, func(r netip.Addr) bool { return slices.Contains(l.addrs, r) })
	rank := 0
	for _, against := range []bool{
		l.down,
		l.isLocalBridge(),
		a.Is6() != v6,
		!a.IsPrivate(),
		!isRouted,
		// Of several IPv4 addresses the kernel's own choice. For IPv6 that would be a temporary one (RFC 8981).
		a.Is4() && !slices.Contains(routes, a),
	} {
		rank <<= 1
		if against {
			rank |= 1
		}
	}
	return rank
}
