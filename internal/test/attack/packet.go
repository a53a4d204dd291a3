package attack

import (
	"encoding/binary"
	"net/netip"
)

// Packet is what one IPv4 packet carries for a port: a datagram, or a piece of a stream.
type Packet struct {
	From, To netip.AddrPort
	IsStream bool // TCP, where Payload is whatever this segment has of the stream
	Payload  []byte
}

// Of an IPv4 header without options, and of what follows it.
const (
	ipHeader  = 20
	udpHeader = 8
	protoTCP  = 6
	protoUDP  = 17

	// mtu is what an Ethernet frame carries. A raw socket does not cut a packet in pieces.
	mtu           = 1500
	moreFragments = 1 << 13

	// maxPayload is the longest datagram that IPv4 can carry, in bytes.
	maxPayload = 65507
)

// Parse takes a whole IPv4 packet apart; a fragment is none. Payload is a part of b.
func Parse(b []byte) (p Packet, ok bool) {
	if len(b) < ipHeader || b[0]>>4 != 4 || binary.BigEndian.Uint16(b[6:])&^(1<<14) != 0 {
		return p, false
	}
	head, length := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
	if head < ipHeader || length < head+udpHeader || length > len(b) {
		return p, false
	}
	inner := b[head:length]
	p.From = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:16])), binary.BigEndian.Uint16(inner))
	p.To = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[16:20])), binary.BigEndian.Uint16(inner[2:]))
	skip := udpHeader
	switch b[9] {
	case protoUDP:
	case protoTCP:
		if len(inner) < 20 {
			return p, false
		}
		p.IsStream, skip = true, int(inner[12]>>4)*4
	default:
		return p, false
	}
	if skip > len(inner) {
		return p, false
	}
	p.Payload = inner[skip:]
	return p, true
}

// Fragments makes the IPv4 packets of a datagram: one, or more if it is longer than a frame of
// Ethernet. The kernel fills in the header's checksum, and UDP over IPv4 needs none (RFC 768).
// id tells the fragments of different datagrams apart. A stream has no form here: nil.
func (p Packet) Fragments(id uint16) [][]byte {
	if p.IsStream || len(p.Payload) > maxPayload || !p.From.Addr().Is4() || !p.To.Addr().Is4() {
		return nil
	}
	udp := make([]byte, 0, udpHeader+len(p.Payload))
	udp = binary.BigEndian.AppendUint16(udp, p.From.Port())
	udp = binary.BigEndian.AppendUint16(udp, p.To.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(udpHeader+len(p.Payload)))
	udp = append(append(udp, 0, 0), p.Payload...)

	const most = (mtu - ipHeader) &^ 7 // offsets count in eights
	var all [][]byte
	for at := 0; at < len(udp); at += most {
		piece := udp[at:min(at+most, len(udp))]
		offset := uint16(at / 8)
		if at+most < len(udp) {
			offset |= moreFragments
		}
		all = append(all, p.fragment(id, offset, piece))
	}
	return all
}

func (p Packet) fragment(id, offset uint16, piece []byte) []byte {
	b := make([]byte, ipHeader, ipHeader+len(piece))
	b[0], b[8], b[9] = 4<<4|ipHeader/4, 64, protoUDP
	binary.BigEndian.PutUint16(b[2:], uint16(ipHeader+len(piece)))
	binary.BigEndian.PutUint16(b[4:], id)
	binary.BigEndian.PutUint16(b[6:], offset)
	from, to := p.From.Addr().As4(), p.To.Addr().As4()
	copy(b[12:], from[:])
	copy(b[16:], to[:])
	return append(b, piece...)
}
