package session

import (
	"encoding/binary"
	"net/netip"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
)

// HELLO is what two hosts say to each other about themselves, sealed as frames and gossip are: where to reach the sender,
// which keys it has, and its card. PROOF carries it; it is repeated now and then. Its layout is in protocol 10.2.
type hello struct {
	asks  bool // for an answer
	addr  netip.AddrPort
	keys  []key.ID         // the first begins sessions
	has   uint32           // number of the receiver's card that the sender has; zero: none
	card  card             // its number is zero: none follows
	given identity.Receipt // of the sender's present life, to be kept
	shown Receipt          // of the receiver, which has given it before; its id is not said
	list  identity.Digest  // of the sender's host list; zero: it has none
}

const (
	helloByte = 'H'
	helloSize = 78
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
	b = binary.BigEndian.AppendUint32(b, h.has)
	b = binary.BigEndian.AppendUint32(b, h.card.number)
	b = binary.BigEndian.AppendUint16(b, uint16(len(h.card.text)))
	b = append(b, h.given[:]...)
	b = append(binary.BigEndian.AppendUint32(b, h.shown.Incarnation), h.shown.Text[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(h.list))
	return append(appendIDs(b, h.keys), h.card.text...)
}

// sizeOf is the length of a HELLO, by what its fixed part says.
func sizeOf(b []byte) int {
	return helloSize + int(b[22])*keyIDSize + int(binary.BigEndian.Uint16(b[32:]))
}

// cutHello parts what PROOF carries: HELLO, and what else there is.
func cutHello(b []byte) (hi, rest []byte, ok bool) {
	if len(b) < helloSize || !isHello(b) {
		return nil, nil, false
	}
	end := sizeOf(b)
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
	if n < 1 || n > key.MaxKeys || len(b) != sizeOf(b) {
		return h, false
	}
	cards := helloSize + n*keyIDSize
	h.has, h.card = binary.BigEndian.Uint32(b[24:]), card{binary.BigEndian.Uint32(b[28:]), b[cards:]}
	h.given, h.shown = identity.Receipt(b[34:]), Receipt{Incarnation: binary.BigEndian.Uint32(b[50:]), Text: identity.Receipt(b[54:])}
	if len(h.card.text) > MaxCard || h.card.number == 0 && len(h.card.text) > 0 {
		return h, false
	}
	h.asks = b[3]&1 != 0
	h.addr = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[4:20])).Unmap(), binary.BigEndian.Uint16(b[20:]))
	h.list = identity.Digest(binary.BigEndian.Uint64(b[70:]))
	h.keys = parseIDs(b[helloSize:cards])
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
