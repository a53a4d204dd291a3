package session

import (
	"encoding/binary"

	"github.com/bully-agent/bully-agent/wire"
)

// Sizes in bytes; the layouts are in protocol 10.2.
const (
	headerSize    = 16
	tagSize       = 16 // of the cipher, and of the MAC over INIT, RESP and PROOF
	keySize       = 32
	handshakeSize = headerSize + keySize + keySize + tagSize + lifeSize + tagSize + tagSize // of INIT and RESP
	proofSize     = headerSize + keySize + tagSize + lifeSize + tagSize + tagSize           // of PROOF, which may carry more
	cookieSize    = 16
	cookieMessage = headerSize + cookieNonce + cookieSize + tagSize
	overhead      = headerSize + tagSize

	// MaxInner is the longest frame or gossip that can be sealed: with UDP and IPv6
	// around it, it fits each link that IPv6 allows, 1,280 bytes.
	MaxInner = 1200
	// MaxDatagram is the longest that is ever sent.
	MaxDatagram = MaxInner + overhead
)

const (
	magic0  = wire.Magic0 // shared with plain frames, whose second byte is 0x1e
	magic1  = 0x5E
	version = 2
)

// recordType is what a datagram of ours is; the low four bits of its third byte.
type recordType uint8

const (
	typeInit    recordType = 1
	typeResp    recordType = 2
	typeData    recordType = 3
	typeUnknown recordType = 4 // "I have no key of that id"
	typeProof   recordType = 5
	typeCookie  recordType = 6 // "say this with the next INIT, so that I know where it comes from"
)

// Kind is what a session is for. It is bound into it, so that the handshake of a
// stream cannot be played to the datagrams' port, nor the other way round.
type Kind uint8

const (
	kindDatagrams Kind = 0
	KindStream    Kind = 1 // gossip
	KindTether    Kind = 2 // its end is evidence (protocol 6.4)
	KindQuestion  Kind = 3 // what the doctor asks (protocol 11)
	kinds              = 4
)

// header begins each datagram of ours, and the three handshake messages of a stream.
type header struct {
	typ    recordType
	kind   Kind   // of a handshake's messages; else zero
	index  uint32 // INIT: the key's id; else the receiver's index of the session
	number uint64 // INIT: chosen by its sender; RESP, PROOF, UNKNOWN and COOKIE: INIT's; DATA: the counter
}

func appendHeader(b []byte, h header) []byte {
	b = append(b, magic0, magic1, version<<4|byte(h.typ), byte(h.kind))
	b = binary.BigEndian.AppendUint32(b, h.index)
	return binary.BigEndian.AppendUint64(b, h.number)
}

// parseHeader says what a datagram is, if it can be one of ours by header and size.
func parseHeader(b []byte) (header, Cause) {
	switch {
	case len(b) < 2 || b[0] != magic0 || b[1] != magic1:
		return header{}, CausePlain
	case len(b) < headerSize:
		return header{}, CauseLength
	case b[2]>>4 != version:
		return header{}, CauseVersion
	}
	h := header{recordType(b[2] & 0x0F), Kind(b[3]), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint64(b[8:])}
	if !h.typ.fits(len(b)) {
		return header{}, CauseLength
	}
	if h.kind >= kinds || h.kind != kindDatagrams && h.typ != typeInit && h.typ != typeResp && h.typ != typeProof {
		return header{}, CauseType
	}
	return h, CauseNone
}

// fits reports whether a datagram of this type can be that long. A type that does not
// exist has no length.
func (t recordType) fits(n int) bool {
	switch t {
	case typeInit, typeResp:
		return n == handshakeSize
	case typeProof:
		return n >= proofSize && n <= MaxDatagram
	case typeCookie:
		return n == cookieMessage
	case typeData:
		return n > overhead && n <= MaxDatagram
	case typeUnknown:
		return n > headerSize && n <= maxUnknown && (n-headerSize)%keyIDSize == 0
	}
	return false
}
