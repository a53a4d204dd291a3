package vip

import (
	"encoding/binary"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// destroySocket ends a connection as if it had been reset, on both sides. The library does so for IPv4 alone.
func destroySocket(s *netlink.Socket) error {
	request := nl.NewNetlinkRequest(nl.SOCK_DESTROY, unix.NLM_F_ACK)
	request.AddRawData(diagRequest(s, anyState))
	_, err := request.Execute(unix.NETLINK_INET_DIAG, 0)
	return err
}

// forgetFlows has connection tracking forget what came for addresses that have gone, where a kernel tracks at all: what was passed
// on to a container, say, would go on with that when the address comes back.
func (k *Kept) forgetFlows() {
	for version, table := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		var ours []netlink.CustomConntrackFilter
		for _, p := range k.addresses {
			if family(p.Addr()) == version {
				to := &netlink.ConntrackFilter{}
				_ = to.AddIP(netlink.ConntrackOrigDstIP, p.Addr().AsSlice()) // it fails for a filter that has one already
				ours = append(ours, to)
			}
		}
		if len(ours) > 0 {
			_, _ = netlink.ConntrackDeleteFilters(netlink.ConntrackTable, table, ours...) // a kernel without it has none
		}
	}
}

const anyState = ^uint32(0)

// diagRequest is the kernel's struct inet_diag_req_v2 of sockets of TCP in some states. A cookie names a very socket.
func diagRequest(s *netlink.Socket, states uint32) []byte {
	b := append(make([]byte, 0, 56), s.Family, unix.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, states)
	b = binary.BigEndian.AppendUint16(b, s.ID.SourcePort)
	b = binary.BigEndian.AppendUint16(b, s.ID.DestinationPort)
	for _, ip := range [][]byte{s.ID.Source, s.ID.Destination} {
		if s.Family == unix.AF_INET { // four bytes, and room for sixteen
			ip = append(slices.Clone(ip[len(ip)-4:]), make([]byte, 12)...)
		}
		b = append(b, ip...)
	}
	b = binary.NativeEndian.AppendUint32(b, s.ID.Interface)
	b = binary.NativeEndian.AppendUint32(b, s.ID.Cookie[0])
	return binary.NativeEndian.AppendUint32(b, s.ID.Cookie[1])
}
