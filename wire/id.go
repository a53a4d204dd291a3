package wire

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
)

// ID names a participant for ever: a UUID of version 8 that follows from its public
// key (protocol 2.1). The zero ID means "none".
type ID [16]byte

// errID is returned when a text is not an ID.
var errID = errors.New("id is not a UUID of the form 00112233-4455-8677-8899-aabbccddeeff")

// ParseID reads the text that String writes.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, errID
	}
	digits := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return ID{}, errID
	}
	return id, nil
}

// Compare orders IDs by their bytes, unsigned: the order that breaks ties
// between equal priorities and between equal epoch counters. (Java's
// UUID.compareTo is signed and orders them otherwise.)
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// IsZero reports whether id is "none".
func (id ID) IsZero() bool { return id == ID{} }

// String gives the UUID's 36 characters.
func (id ID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// Short gives the first eight characters, for texts that a person reads.
func (id ID) Short() string { return hex.EncodeToString(id[:4]) }

// Epoch is the number and owner of one leadership. It rises, is on the owner's
// disk before anybody sees it, and is the fencing token of hooks and jobs.
// Only the owner announces it.
type Epoch struct {
	Counter uint64
	Owner   ID
}

// MaxCounter is the highest counter that a joiner takes from others (protocol
// 2.4): far enough from the end of 64 bits that no cluster counts to it.
const MaxCounter = 1<<62 - 1

// Compare orders epochs: by counter, and equal counters by the owner's bytes
// alone, since a priority can change while the epoch lives (R4, as mended).
func (e Epoch) Compare(other Epoch) int {
	return cmp.Or(cmp.Compare(e.Counter, other.Counter), e.Owner.Compare(other.Owner))
}

// IsZero reports whether e is "no epoch".
func (e Epoch) IsZero() bool { return e == Epoch{} }

// String gives counter/owner with the owner shortened, or "none".
func (e Epoch) String() string {
	if e.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%d/%s", e.Counter, e.Owner.Short())
}
