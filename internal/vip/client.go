package vip

import (
	"encoding/binary"
	"net/netip"
)

// Client is a connection of TCP to an address of this host, or of one that had the address before.
type Client struct {
	Here, There netip.AddrPort
}

// IsUsable: it is one that a client can have from elsewhere. What an address means within one host, or one network, means nothing
// to another one.
func (c Client) IsUsable() bool {
	return isUsable(c.Here) && isUsable(c.There) && c.Here.Addr().Is4() == c.There.Addr().Is4()
}

func isUsable(a netip.AddrPort) bool {
	addr := a.Addr()
	return addr.IsGlobalUnicast() && !addr.Is4In6() && addr.Zone() == "" && a.Port() != 0
}

// MaxClients bounds how many are listed. Arbitrary: the leader tells its followers of all of them every second.
const MaxClients = 500

// A segment of TCP without data and options (RFC 9293, 3.1):
//
//	 0  2 source port   2  2 destination port   4  4 sequence number   8  4 acknowledgment number
//	12  1 header in words of 4 bytes, shifted by 4   13  1 flags   14  2 window   16  2 checksum   18  2 urgent pointer
const (
	segmentSize = 20
	flagACK     = 0x10

	// openWindow of a segment says nothing to who does not take it. Arbitrary: a firewall may find no window at all odd.
	openWindow = 1024

	nextTCP = 6
)

// question is the segment that has a client say where the connection is: an acknowledgement that cannot be right. The client answers
// with its own numbers (RFC 9293, 3.10.7.4). A host that has no such connection then resets it by these, which nobody else knows.
func (c Client) question() []byte {
	b := make([]byte, 0, segmentSize)
	b = binary.BigEndian.AppendUint16(b, c.Here.Port())
	b = binary.BigEndian.AppendUint16(b, c.There.Port())
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = append(b, segmentSize/4<<4, flagACK)
	b = binary.BigEndian.AppendUint16(b, openWindow)
	b = append(b, 0, 0, 0, 0)
	binary.BigEndian.PutUint16(b[16:], ^sum(c.Here.Addr(), c.There.Addr(), nextTCP, b))
	return b
}

// parseDiag reads what the kernel says of a socket (struct inet_diag_msg); ok is false where it is no usable client.
//
//	0  1 family   4  2 port here   6  2 port there   8  16 address here   24  16 address there
func parseDiag(b []byte, isIPv6 bool) (c Client, ok bool) {
	if len(b) < 40 {
		return Client{}, false
	}
	address := func(b []byte) netip.Addr {
		if isIPv6 {
			return netip.AddrFrom16([16]byte(b)).Unmap()
		}
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	c.Here = netip.AddrPortFrom(address(b[8:24]), binary.BigEndian.Uint16(b[4:]))
	c.There = netip.AddrPortFrom(address(b[24:40]), binary.BigEndian.Uint16(b[6:]))
	return c, c.IsUsable()
}
