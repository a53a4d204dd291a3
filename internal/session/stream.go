package session

import (
	"crypto/cipher"
	"encoding/binary"

	"golang.org/x/crypto/chacha20poly1305"
)

// A sealed stream begins with INIT, RESP and PROOF, as datagrams do, and then has records in
// each direction, numbered from 0 without saying so:
//
//	offset  size  field
//	0       2     length of what follows: 17 to 16,400
//	2       n     ciphertext
//	2+n     16    tag, over the length too
//
// Inside it is what a plain one would have.
const (
	// LengthSize is how much of a record comes before its body.
	LengthSize = 2
	// MaxRecord is the most that one record carries.
	MaxRecord = 16 << 10
)

// Direction is the records of one direction of a stream, as one end counts them.
type Direction struct {
	aead  cipher.AEAD
	count uint64
	nonce [chacha20poly1305.NonceSize]byte
}

// Out seals what this end writes.
func (p Pair) Out() Direction { return Direction{aead: p.Send} }

// In opens what the other end wrote.
func (p Pair) In() Direction { return Direction{aead: p.Recv} }

func (d *Direction) next() []byte {
	binary.LittleEndian.PutUint64(d.nonce[4:], d.count)
	d.count++
	return d.nonce[:]
}

// Seal appends the next record, which carries part: MaxRecord bytes at most.
func (d *Direction) Seal(b, part []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, uint16(len(part)+tagSize))
	return d.aead.Seal(b, d.next(), part, b[start:])
}

// BodySize reads how long the body of a record is. It is zero if no record has that length.
func BodySize(length [LengthSize]byte) int {
	n := int(binary.BigEndian.Uint16(length[:]))
	if n <= tagSize || n > MaxRecord+tagSize {
		return 0
	}
	return n
}

// Open decrypts the body of the next record in place.
func (d *Direction) Open(length [LengthSize]byte, body []byte) (part []byte, cause Cause) {
	part, err := d.aead.Open(body[:0], d.next(), body, length[:])
	if err != nil {
		return nil, CauseForged
	}
	return part, CauseNone
}
