package vip

import (
	"encoding/binary"
	"net/netip"
)

// Neighbour discovery (RFC 4861) in IPv6 on Ethernet:
//
//	14  4 version 6   18  2 payload size   20  1 next header 58   21  1 hop limit 255
//	22 16 source   38 16 destination
//	54  1 type   55  1 code 0   56  2 checksum   58  4 flags (advertisement)   62 16 target   78 … options
//
// An option is type, size in units of 8 bytes, and content.
const (
	ipv6Size = 40
	ndpSize  = headerSize + ipv6Size + 24

	nextICMPv6 = 58
	hopLimit   = 255 // "not forwarded by a router": receivers drop all else

	solicitation  = 135
	advertisement = 136

	flagRouter   = 0x80
	flagOverride = 0x20

	optionTarget = 2 // target link-layer address
)

var allNodes = netip.MustParseAddr("ff02::1")

// ndpAnnouncement is an unsolicited advertisement (RFC 4861, 7.2.6): addr is at this hardware address. It overrides what
// neighbours know. A host that forwards says so, or those that use it as their router stop (7.2.5).
func ndpAnnouncement(own hardware, addr netip.Addr, isRouter bool) []byte {
	flags := byte(flagOverride)
	if isRouter {
		flags |= flagRouter
	}
	body := append([]byte{advertisement, 0, 0, 0, flags, 0, 0, 0}, addr.AsSlice()...)
	body = append(append(body, optionTarget, 1), own[:]...)
	return appendICMPv6(nil, own, addr, allNodes, body)
}

// ndpProbe asks as one does who is about to take an address (RFC 4862, 5.4.2): from no address, so that whoever has it
// tells all.
func ndpProbe(own hardware, addr netip.Addr) []byte {
	body := append([]byte{solicitation, 0, 0, 0, 0, 0, 0, 0}, addr.AsSlice()...)
	return appendICMPv6(nil, own, netip.IPv6Unspecified(), solicitedNode(addr), body)
}

// solicitedNode is the group of those whose addresses end as addr does (RFC 4291, 2.7.1).
func solicitedNode(addr netip.Addr) netip.Addr {
	group, a := netip.MustParseAddr("ff02::1:ff00:0").As16(), addr.As16()
	copy(group[13:], a[13:])
	return netip.AddrFrom16(group)
}

// groupHardware is where a group's frames go (RFC 2464, 7).
func groupHardware(group netip.Addr) hardware {
	a := group.As16()
	return hardware{0x33, 0x33, a[12], a[13], a[14], a[15]}
}

// appendICMPv6 sends body, whose checksum is zero yet, to a multicast group.
func appendICMPv6(b []byte, own hardware, from, to netip.Addr, body []byte) []byte {
	b = appendHeader(b, groupHardware(to), own, typeIPv6)
	b = append(b, 6<<4, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	b = append(b, nextICMPv6, hopLimit)
	b = append(append(b, from.AsSlice()...), to.AsSlice()...)
	binary.BigEndian.PutUint16(body[2:], ^sum(from, to, nextICMPv6, body))
	return append(b, body...)
}

// sum is the ones' complement sum of a message and its pseudo-header (RFC 8200, 8.1; that of RFC 9293 for IPv4 adds up to the same);
// all ones if its checksum is right.
func sum(from, to netip.Addr, next uint8, message []byte) uint16 {
	var total uint32
	add := func(b []byte) {
		for ; len(b) > 1; b = b[2:] {
			total += uint32(binary.BigEndian.Uint16(b))
		}
		if len(b) == 1 {
			total += uint32(b[0]) << 8
		}
	}
	add(from.AsSlice())
	add(to.AsSlice())
	total += uint32(len(message)) + uint32(next)
	add(message)
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return uint16(total)
}

// parseNDP takes an advertisement's word for its target, and a solicitation's from no address: somebody is about to take it.
func parseNDP(frame []byte) (c claim, ok bool) {
	if len(frame) < ndpSize || frame[14]>>4 != 6 || frame[20] != nextICMPv6 || frame[21] != hopLimit || frame[55] != 0 {
		return claim{}, false
	}
	size := int(binary.BigEndian.Uint16(frame[18:]))
	if size < ndpSize-headerSize-ipv6Size || size > len(frame)-headerSize-ipv6Size {
		return claim{}, false
	}
	message := frame[headerSize+ipv6Size:][:size]
	from, to := netip.AddrFrom16([16]byte(frame[22:38])), netip.AddrFrom16([16]byte(frame[38:54]))
	if sum(from, to, nextICMPv6, message) != 0xffff {
		return claim{}, false
	}
	c = claim{addr: netip.AddrFrom16([16]byte(message[8:24])), by: hardware(frame[6:12])}
	switch message[0] {
	case solicitation:
		return c, from.IsUnspecified()
	case advertisement:
		if told, ok := targetHardware(message[24:]); ok {
			c.by = told
		}
		return c, true
	}
	return claim{}, false
}

// targetHardware is what an advertisement's options say of its target, which a proxy may tell of another host.
func targetHardware(options []byte) (h hardware, ok bool) {
	for len(options) >= 8 {
		size := int(options[1]) * 8
		if size == 0 || size > len(options) {
			return hardware{}, false
		}
		if options[0] == optionTarget && size == 8 {
			return hardware(options[2:8]), true
		}
		options = options[size:]
	}
	return hardware{}, false
}
