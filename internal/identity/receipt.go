package identity

import (
	"encoding/binary"

	"golang.org/x/crypto/blake2s"
)

// Receipt is what a host has others keep of one of its lives: a keyed hash of the life's incarnation. The key follows from
// the host's private key, so nobody else can make one, or tell a true one. To others it is 16 bytes without a meaning.
type Receipt [16]byte

// receiptLabel keeps the key of receipts apart from all other uses of the private key.
const receiptLabel = "bully-agent receipt 1"

// Receipt is that of the host's life with an incarnation. It panics if there is no private key.
func (p Private) Receipt(incarnation uint32) (r Receipt) {
	if p.IsZero() {
		panic("BUG: a receipt under no private key")
	}
	key, err := blake2s.New256(p.at.bytes[:])
	if err != nil {
		panic("BUG: a private key of 32 bytes is no key: " + err.Error())
	}
	key.Write([]byte(receiptLabel))
	h, err := blake2s.New128(key.Sum(nil))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	h.Write(binary.BigEndian.AppendUint32(nil, incarnation))
	h.Sum(r[:0])
	return r
}

// IsZero reports whether it is none.
func (r Receipt) IsZero() bool { return r == Receipt{} }
