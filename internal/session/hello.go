package session

import (
	"encoding/binary"
	"net/netip"

	"github.com/bully-agent/bully-agent/internal/key"
)

// HELLO is the one thing that hosts say to each other about the seal, sealed as frames
// and gossip are: where to reach the sender, and which keys it has. PROOF carries it;
// it is repeated now and then.
//
//	offset  size  field
//	0       3     b7 5e 48, which no frame and no gossip begins with
//	3       1     bit 0: answer me
//	4       16    address, an IPv4 one in its mapped form
//	20      2     port
//	22      1     how many key ids: 1 to 4
//	23      1     zero
//	24      4·n   key ids, the first begins sessions
type hello struct {
	asks bool
	addr netip.AddrPort
	keys []key.ID
}

const (
	helloByte = 'H'
	helloSize = 24
	keyIDSize = 4
)

func isHello(b []byte) bool {
	return len(b) >= 3 && b[0] == magic0 && b[1] == magic1 && b[2] == helloByte
}

func (h hello) append(b []byte) []byte {
	flags := byte(0)
	if h.asks {
		flags = 1
	}
	b = append(b, magic0, magic1, helloByte, flags)
	ip := h.addr.Addr().As16()
	b = append(b, ip[:]...)
	b = binary.BigEndian.AppendUint16(b, h.addr.Port())
	b = append(b, byte(len(h.keys)), 0)
	return appendIDs(b, h.keys)
}

// cutHello parts what PROOF carries: HELLO, and what else there is.
func cutHello(b []byte) (hi, rest []byte, ok bool) {
	if len(b) < helloSize || !isHello(b) {
		return nil, nil, false
	}
	end := helloSize + int(b[22])*keyIDSize
	if len(b) < end {
		return nil, nil, false
	}
	return b[:end], b[end:], true
}

func parseHello(b []byte) (h hello, ok bool) {
	if len(b) < helloSize || !isHello(b) {
		return h, false
	}
	n := int(b[22])
	if n < 1 || n > key.MaxKeys || len(b) != helloSize+n*keyIDSize {
		return h, false
	}
	h.asks = b[3]&1 != 0
	h.addr = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[4:20])).Unmap(), binary.BigEndian.Uint16(b[20:]))
	h.keys = parseIDs(b[helloSize:])
	return h, h.addr.Port() != 0 && !h.addr.Addr().IsUnspecified() && !h.addr.Addr().IsMulticast()
}

// maxUnknown is the length of the longest UNKNOWN: shorter than the INIT that it answers.
const maxUnknown = headerSize + key.MaxKeys*keyIDSize

// appendUnknown is the answer to an INIT under a key that we have not: our keys' ids.
// Nothing proves it, so all that it does is to have a person told.
func appendUnknown(b []byte, index uint32, number uint64, ours []key.ID) []byte {
	return appendIDs(appendHeader(b, header{typ: typeUnknown, index: index, number: number}), ours)
}

func appendIDs(b []byte, ids []key.ID) []byte {
	for _, id := range ids {
		b = binary.BigEndian.AppendUint32(b, uint32(id))
	}
	return b
}

func parseIDs(b []byte) (ids []key.ID) {
	for ; len(b) >= keyIDSize; b = b[keyIDSize:] {
		ids = append(ids, key.ID(binary.BigEndian.Uint32(b)))
	}
	return ids
}
