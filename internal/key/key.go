// Package key is what proves that a host belongs to the cluster: secrets of 32
// bytes that its hosts share, in a file that is copied to each of them.
package key

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// Size is how many bytes a secret has.
const Size = 32

// MaxKeys bounds a ring: two are in use while a key is replaced.
const MaxKeys = 4

// ID names a key where all may read it: in logs, in status and in each sealed
// datagram. It follows from the secret and says nothing about it.
type ID uint32

// String is eight hexadecimal digits, or "none" of the key that everybody has.
func (id ID) String() string {
	if id.IsOpen() {
		return "none"
	}
	return fmt.Sprintf("%08x", uint32(id))
}

// Key is one secret. Whoever holds it is a member. It is never logged: String
// gives its id.
type Key struct {
	ID     ID        // IDOf the secret
	Made   time.Time // the day on which it was made, UTC
	Secret [Size]byte
}

// String is the key's id: a key that is printed by mistake gives nothing away.
func (k Key) String() string { return k.ID.String() }

// GoString is String: %#v must not tell the secret either.
func (k Key) GoString() string { return k.String() }

// IDOf derives a key's id from its secret, so that a slip in a file is found.
func IDOf(secret [Size]byte) ID {
	sum := sha256.Sum256(append([]byte("bully-agent key id\x00"), secret[:]...))
	return ID(binary.BigEndian.Uint32(sum[:4]))
}

// Ring is the keys of one host: the first begins sessions, all are accepted. At
// most MaxKeys, no two with one id.
type Ring []Key

// Find gives the key with this id.
func (r Ring) Find(id ID) (Key, bool) {
	for _, k := range r {
		if k.ID == id {
			return k, true
		}
	}
	return Key{}, false
}

// IDs are those of the keys, in their order.
func (r Ring) IDs() []ID {
	ids := make([]ID, 0, len(r))
	for _, k := range r {
		ids = append(ids, k.ID)
	}
	return ids
}
