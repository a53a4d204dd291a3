package discovery

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// The sockets of mDNS, each on one link and in one family. The kernel gives the one that answers nothing but what was sent to the
// group on that link: no question that a router brings, and none of another link. Neither needs a route.

// groups are where mDNS is spoken (RFC 6762, 3).
var groups = []netip.AddrPort{netip.MustParseAddrPort("224.0.0.251:5353"), netip.MustParseAddrPort("[ff02::fb]:5353")}

// openEach opens a socket for each family that works on the link, and fails if none does. IPv6 does not while its address is tentative.
func openEach(link *net.Interface, open func(int, *net.Interface, netip.AddrPort) error) (conns []*net.UDPConn, err error) {
	var problems []error
	for _, group := range groups {
		if c, err := openSocket(link, group, open); err == nil {
			conns = append(conns, c)
		} else {
			problems = append(problems, err)
		}
	}
	if len(conns) == 0 {
		return nil, errors.Join(problems...)
	}
	return conns, nil
}

// openSocket makes a socket, and prepares it.
func openSocket(link *net.Interface, group netip.AddrPort, prepare func(int, *net.Interface, netip.AddrPort) error) (*net.UDPConn, error) {
	family, name := unix.AF_INET, "IPv4"
	if group.Addr().Is6() {
		family, name = unix.AF_INET6, "IPv6"
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: make socket: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), "mdns")
	defer file.Close() // the connection has its own descriptor
	if err := prepare(fd, link, group); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	conn, err := net.FilePacketConn(file)
	if err != nil {
		return nil, fmt.Errorf("%s: use socket: %w", name, err)
	}
	return conn.(*net.UDPConn), nil
}

// listenGroup has a socket hear the group on a link.
func listenGroup(fd int, link *net.Interface, group netip.AddrPort) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil { // others of this host may hear it, too
		return fmt.Errorf("share the port: %w", err)
	}
	if err := unix.Bind(fd, sockaddr(link, group)); err != nil {
		return fmt.Errorf("listen on UDP port %d: %w", group.Port(), err)
	}
	var err error
	if group.Addr().Is4() {
		err = errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0), // the groups that others have joined
			unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreqn{Multiaddr: group.Addr().As4(), Ifindex: int32(link.Index)}))
	} else {
		err = unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &unix.IPv6Mreq{Multiaddr: group.Addr().As16(), Interface: uint32(link.Index)})
	}
	if err != nil {
		return fmt.Errorf("join %s: %w", group.Addr(), err)
	}
	return nil
}

// askGroup has a socket ask the group on a link.
func askGroup(fd int, link *net.Interface, group netip.AddrPort) error {
	var err error
	if group.Addr().Is4() {
		err = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(link.Index)})
	} else {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, link.Index)
	}
	if err != nil {
		return fmt.Errorf("ask on the link: %w", err)
	}
	if err := unix.Sendto(fd, asksForAll(), 0, sockaddr(link, group)); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	return nil
}

func sockaddr(link *net.Interface, at netip.AddrPort) unix.Sockaddr {
	if at.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}
	}
	return &unix.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port()), ZoneId: uint32(link.Index)}
}
