// Package identity is who a host is: an X25519 key pair (RFC 7748). The private key never leaves the host's state, and
// the id follows from the public key, so that nobody else can speak under the id.
//
// A key is never replaced under its id: a new key is a new host.
package identity

import (
	"crypto/ecdh"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/blake2s"

	"github.com/bully-agent/bully-agent/wire"
)

// Size is how many bytes a private key has, and a public one.
const Size = 32

// label keeps the hash of a public key apart from all other uses of BLAKE2s.
const label = "bully-agent id 1"

// Private is a host's private key. The zero Private is none.
//
// Package fmt calls no method of an unexported field, so String alone hides no key. The bytes are behind two pointers
// for that: fmt follows one at most, also for a verb that does not fit. So == compares no keys: see Equal.
type Private struct {
	at *scalar
}

// scalar is the second pointer.
type scalar struct {
	bytes *[Size]byte
}

// Generate makes a private key of the first 32 bytes of random. The error is the reader's, or the missing of bytes.
func Generate(random io.Reader) (Private, error) {
	var raw [Size]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return Private{}, fmt.Errorf("make a private key: %w", err)
	}
	return FromBytes(raw), nil
}

// FromBytes is the key that Bytes gave. Each 32 bytes are a key: RFC 7748, 5 sets and clears five bits at each use. All
// zeros stand for none, which no chance of 2^256 makes.
func FromBytes(raw [Size]byte) Private {
	if raw == ([Size]byte{}) {
		return Private{}
	}
	return Private{&scalar{&raw}}
}

// Bytes are the key itself, for the state record and the handshake alone; zeros if there is none.
func (p Private) Bytes() [Size]byte {
	if p.IsZero() {
		return [Size]byte{}
	}
	return *p.at.bytes
}

// IsZero reports whether there is no key.
func (p Private) IsZero() bool { return p.at == nil }

// Equal reports whether both are the same key, in a time that tells nothing of them.
func (p Private) Equal(other Private) bool {
	a, b := p.Bytes(), other.Bytes()
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// Public is the public key: the scalar's product with the base point. It panics if there is no private key.
func (p Private) Public() Public {
	if p.IsZero() {
		panic("BUG: the public key of no private key")
	}
	private, err := ecdh.X25519().NewPrivateKey(p.at.bytes[:])
	if err != nil {
		panic("BUG: a private key of 32 bytes is refused: " + err.Error())
	}
	return Public(private.PublicKey().Bytes())
}

// hidden is what a private key shows of itself.
const hidden = "(private key)"

// String tells nothing of the key.
func (p Private) String() string { return hidden }

// GoString is String: %#v tells nothing either.
func (p Private) GoString() string { return hidden }

// Format is String for each verb, also for %x and %p.
func (p Private) Format(f fmt.State, _ rune) { io.WriteString(f, hidden) }

// MarshalText refuses: what writes values as text, such as JSON, has no business with a private key.
func (p Private) MarshalText() ([]byte, error) { return nil, errWritten }

// errWritten is returned when a private key would be written as text.
var errWritten = errors.New("a private key is not written as text")

// Public is a host's public key, in the 32 bytes of RFC 7748: a number below 2^255, least byte first.
type Public [Size]byte

// ID is the host's id: BLAKE2s-256 of the label and the key, of which the first 16 bytes are a UUID of version 8 (RFC
// 9562, 5.8). The version tells it from the ids of chance that hosts had before, which are of version 4.
func (p Public) ID() wire.ID {
	sum := blake2s.Sum256(append([]byte(label), p[:]...))
	id := wire.ID(sum[:16])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// IsCanonical reports whether the key is the one form of its number: bit 255 is clear, and the number is below
// p = 2^255 - 19. X25519 takes other forms too, with the same result; each would give its holder one more id. A host
// refuses them.
func (p Public) IsCanonical() bool {
	if p[Size-1] != 0x7f {
		return p[Size-1] < 0x7f
	}
	for _, b := range p[1 : Size-1] {
		if b != 0xff {
			return true
		}
	}
	return p[0] < 0xed
}
