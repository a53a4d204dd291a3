package wire

import (
	"encoding/binary"
	"encoding/hex"

	"golang.org/x/crypto/blake2s"
)

// A will ends the life of a leader whose process is dead (protocol M24, M25). The
// leader's COORDINATOR and HEARTBEAT carry the hash of a secret, which its keeper
// says when nothing of the leadership is left. Nobody else knows the secret, so it
// goes in clear, and anybody's copy is true. It names nobody: who does not follow the
// leader learns nothing from it.
//
// The hash is made in two steps, so that no more than the first one's result has to be
// known to whoever sends or compares hashes: a recording or a log can show that.

// Secret is what a will says. It is random, and of one keeper of one agent.
type Secret [32]byte

// String does not show it: a log may have readers.
func (Secret) String() string { return "secret" }

// GoString is String.
func (Secret) GoString() string { return "secret" }

// Commitment is what of a secret may be shown. The zero Commitment is that of none.
type Commitment [32]byte

// IsZero: nobody holds a secret.
func (c Commitment) IsZero() bool { return c == Commitment{} }

// WillHash is what COORDINATOR and HEARTBEAT say of a secret. The zero WillHash says that
// there is none.
type WillHash [16]byte

// IsZero: the sender has left no will.
func (h WillHash) IsZero() bool { return h == WillHash{} }

// String gives the first bytes, by which people tell hashes apart.
func (h WillHash) String() string { return hex.EncodeToString(h[:4]) }

// String gives the first bytes, by which people tell commitments apart.
func (c Commitment) String() string { return hex.EncodeToString(c[:4]) }

const (
	secretLabel = "will secret 1"
	willLabel   = "will 1"
)

// Commit is the first step, of which nobody finds the way back.
func (s Secret) Commit() Commitment {
	var b [len(secretLabel) + len(s)]byte
	copy(b[:], secretLabel)
	copy(b[len(secretLabel):], s[:])
	return blake2s.Sum256(b[:])
}

// Hash is the second step, for one epoch that one life of its owner has announced.
func (c Commitment) Hash(cluster uint32, e Epoch, incarnation, nonce uint32) WillHash {
	b := make([]byte, 0, len(willLabel)+4+2+8+len(e.Owner)+8+len(c))
	b = append(b, willLabel...)
	b = binary.BigEndian.AppendUint32(b, cluster)
	b = append(b, 0, 0) // number of the leadership
	b = binary.BigEndian.AppendUint64(b, e.Counter)
	b = append(b, e.Owner[:]...)
	b = binary.BigEndian.AppendUint32(b, incarnation)
	b = binary.BigEndian.AppendUint32(b, nonce)
	b = append(b, c[:]...)
	sum := blake2s.Sum256(b)
	return WillHash(sum[:])
}

const (
	// WillSize is the bytes of a will's datagram.
	WillSize = willHeader + len(Secret{})

	willHeader = 16
	willMagic1 = 0xD1
)

// AppendWill writes the datagram of a will behind dst and returns the longer slice.
func AppendWill(dst []byte, s Secret) []byte {
	var header [willHeader]byte
	header[0], header[1], header[2] = Magic0, willMagic1, version
	return append(append(dst, header[:]...), s[:]...)
}

// ParseWill gives the secret of the will that fills b; false if b is none. Whether it
// ends anybody the hash says.
func ParseWill(b []byte) (s Secret, ok bool) {
	if len(b) != WillSize || b[0] != Magic0 || b[1] != willMagic1 || b[2]>>4 != Major {
		return s, false
	}
	return Secret(b[willHeader:]), true
}
