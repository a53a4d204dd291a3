package vip

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// hardware is an Ethernet address. Interfaces with others have no neighbours that these frames could tell.
type hardware [6]byte

func (h hardware) String() string { return net.HardwareAddr(h[:]).String() }

var everybody = hardware{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// An ARP packet for IPv4 on Ethernet (RFC 826), behind the Ethernet header:
//
//	 0  6 destination   6  6 source   12  2 type 0x0806
//	14  2 hardware 1   16  2 protocol 0x0800   18  1 size 6   19  1 size 4   20  2 operation
//	22  6 sender hardware   28  4 sender address   32  6 target hardware   38  4 target address
const (
	headerSize = 14
	arpSize    = headerSize + 28

	typeARP  = 0x0806
	typeIPv4 = 0x0800
	typeIPv6 = 0x86dd

	arpRequest = 1
	arpReply   = 2
)

func appendHeader(b []byte, to, from hardware, kind uint16) []byte {
	b = append(append(b, to[:]...), from[:]...)
	return binary.BigEndian.AppendUint16(b, kind)
}

func appendARP(b []byte, operation uint16, from hardware, sender netip.Addr, to hardware, target netip.Addr) []byte {
	b = appendHeader(b, everybody, from, typeARP)
	b = append(b, 0, 1, typeIPv4>>8, typeIPv4&0xff, 6, 4)
	b = binary.BigEndian.AppendUint16(b, operation)
	b = append(append(b, from[:]...), sender.AsSlice()...)
	return append(append(b, to[:]...), target.AsSlice()...)
}

// arpAnnouncements say that addr is at this hardware address: "ARP Announcement" of RFC 5227, which is a request, and the
// same as a reply, since some devices heed only one of the two.
func arpAnnouncements(own hardware, addr netip.Addr) [][]byte {
	return [][]byte{
		appendARP(nil, arpRequest, own, addr, hardware{}, addr),
		appendARP(nil, arpReply, own, addr, own, addr),
	}
}

// arpProbe asks who has addr without saying that anybody has ("ARP Probe" of RFC 5227): nobody's table changes.
func arpProbe(own hardware, addr netip.Addr) []byte {
	return appendARP(nil, arpRequest, own, netip.IPv4Unspecified(), hardware{}, addr)
}

// claim is what a frame says: that somebody has an address, or is about to take it.
type claim struct {
	addr netip.Addr
	by   hardware

	isSent bool // by this host, from another socket, to many
}

// parseClaim reads a frame; ok is false for one that claims nothing, whatever it is.
func parseClaim(frame []byte) (c claim, ok bool) {
	if len(frame) < headerSize {
		return claim{}, false
	}
	switch binary.BigEndian.Uint16(frame[12:]) {
	case typeARP:
		return parseARP(frame)
	case typeIPv6:
		return parseNDP(frame)
	}
	return claim{}, false
}

// parseARP takes the sender's word for its own address, in whatever it asks or answers. One that names no address of its own
// probes, and is as good as there (RFC 5227, 2.1.1).
func parseARP(frame []byte) (c claim, ok bool) {
	if len(frame) < arpSize || [6]byte(frame[14:20]) != [6]byte{0, 1, typeIPv4 >> 8, typeIPv4 & 0xff, 6, 4} {
		return claim{}, false
	}
	operation := binary.BigEndian.Uint16(frame[20:])
	c = claim{addr: netip.AddrFrom4([4]byte(frame[28:32])), by: hardware(frame[22:28])}
	if c.addr.IsUnspecified() && operation == arpRequest {
		c.addr = netip.AddrFrom4([4]byte(frame[38:42]))
	}
	return c, operation == arpRequest || operation == arpReply
}
