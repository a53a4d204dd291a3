package session

import (
	"crypto/ecdh"
	"errors"
	"io"

	"github.com/flynn/noise"
)

// Curve makes what handshakes compute with of 32 private bytes, which the caller clears. X25519 is the one that ships. The simulator has
// a model of it, for products of keys took much of its time.
type Curve func(raw *[keySize]byte) (CurveKey, error)

// CurveKey is a private key of a Curve.
type CurveKey interface {
	Public() []byte
	// Shared is the product with another's public key. Both owners compute the same.
	Shared(public []byte) ([]byte, error)
}

// X25519 is the curve of RFC 7748.
func X25519(raw *[keySize]byte) (CurveKey, error) {
	k, err := ecdh.X25519().NewPrivateKey(raw[:])
	return x25519Key{k}, err
}

// x25519Key keeps the private key as crypto/ecdh has it, so each product takes one curve.
type x25519Key struct{ private *ecdh.PrivateKey }

func (k x25519Key) Public() []byte { return k.private.PublicKey().Bytes() }

func (k x25519Key) Shared(public []byte) ([]byte, error) {
	theirs, err := ecdh.X25519().NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	return k.private.ECDH(theirs) // the error is about a public key of low order
}

// pairs is the curve for one end of one handshake, as Noise asks for it. It keeps both private keys.
type pairs struct {
	make      Curve
	static    CurveKey
	ephemeral CurveKey // nil: not made yet
}

// Noise gives a pair's private part back as it is. It says here which of the two is meant, so Noise sees no private key.
const (
	ofStatic    = "s"
	ofEphemeral = "e"
)

func (p *pairs) GenerateKeypair(rng io.Reader) (noise.DHKey, error) {
	var raw [keySize]byte
	defer clear(raw[:])
	if _, err := io.ReadFull(rng, raw[:]); err != nil {
		return noise.DHKey{}, err
	}
	k, err := p.make(&raw)
	if err != nil {
		return noise.DHKey{}, err
	}
	p.ephemeral = k
	return noise.DHKey{Private: []byte(ofEphemeral), Public: k.Public()}, nil
}

func (p *pairs) DH(which, public []byte) ([]byte, error) {
	var ours CurveKey
	switch string(which) {
	case ofStatic:
		ours = p.static
	case ofEphemeral:
		ours = p.ephemeral
	}
	if ours == nil {
		return nil, errNoPrivateKey
	}
	return ours.Shared(public)
}

// errNoPrivateKey is returned for a private key that this end does not have.
var errNoPrivateKey = errors.New("no such private key")

func (*pairs) DHLen() int     { return keySize }
func (*pairs) DHName() string { return "25519" }
