package vip

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Clients that only read do not notice that a host has died. Another one that has the address then resets their connections, if it
// knows of them: it has them ask, and its kernel says that there is no such connection. CTDB calls this a tickle.

// Clients lists the connections to addresses, MaxClients at most. What the kernel does not tell is missing.
func Clients(addresses []netip.Prefix) (all []Client) {
	ours := map[netip.Addr]bool{}
	for _, p := range addresses {
		ours[p.Addr()] = true
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} { // a socket for both families is one of IPv6
		request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		request.AddRawData(diagRequest(&netlink.Socket{Family: family, ID: netlink.SocketID{Source: nobody, Destination: nobody}}, 1<<unix.BPF_TCP_ESTABLISHED))
		_ = request.ExecuteIter(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY, func(message []byte) bool {
			if c, ok := parseDiag(message, family == unix.AF_INET6); ok && ours[c.Here.Addr()] {
				all = append(all, c)
			}
			return len(all) < MaxClients
		})
	}
	return all[:min(len(all), MaxClients)]
}

var nobody = make([]byte, 16)

// tickleAfter is when a client is asked, and asked again: of the first question or its answer one may be lost, and a client that has
// not learnt yet where the address is now answers the host that had it. Arbitrary: later than the first announcements.
var tickleAfter = []time.Duration{0, 200 * time.Millisecond, time.Second}

// Tickle has clients of these addresses reset that were another host's. It begins when the addresses are here, ends when they
// are not to be kept any more, and takes a second.
func (k *Kept) Tickle(clients []Client) {
	by := map[netip.Addr][]Client{}
	for _, c := range clients {
		if c.IsUsable() && k.isOneOf(c.Here.Addr()) {
			by[c.Here.Addr()] = append(by[c.Here.Addr()], c)
		}
	}
	begun := time.Now()
	for _, after := range tickleAfter {
		time.Sleep(time.Until(begun.Add(after)))
		for from, some := range by {
			if k.paused() != nil {
				return
			}
			if err := tickle(from, some); err != nil {
				k.note(fmt.Sprintf("the clients of %s are not told that their connections have gone: %v", from, err))
				return
			}
		}
	}
}

// tickle asks each once. A socket that is bound to the address sends from it, whatever the routes say. What it would hear is not read.
func tickle(from netip.Addr, clients []Client) error {
	family, own := unix.AF_INET, sockaddr(from)
	if from.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
	if err != nil {
		return lacks(err, "send segments of TCP", "CAP_NET_RAW")
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, own); err != nil {
		return fmt.Errorf("bind to %s: %w", from, err)
	}
	for _, c := range clients {
		_ = unix.Sendto(fd, c.question(), 0, sockaddr(c.There.Addr())) // there may be no route to one of them
	}
	return nil
}

// sockaddr is an address for a raw socket, which has no port.
func sockaddr(addr netip.Addr) unix.Sockaddr {
	if addr.Is6() {
		return &unix.SockaddrInet6{Addr: addr.As16()}
	}
	return &unix.SockaddrInet4{Addr: addr.As4()}
}
