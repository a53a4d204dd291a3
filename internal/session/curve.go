package session

import (
	"crypto/ecdh"
	"errors"
	"io"

	"github.com/flynn/noise"
)

// curve is X25519 for one end of one handshake. It keeps both private keys as crypto/ecdh has them, so each product takes one curve.
type curve struct {
	static    *ecdh.PrivateKey
	ephemeral *ecdh.PrivateKey // nil: not made yet
}

// Noise gives a pair's private part back as it is. It says here which of the two is meant, so Noise sees no private key.
const (
	ofStatic    = "s"
	ofEphemeral = "e"
)

func (c *curve) GenerateKeypair(rng io.Reader) (noise.DHKey, error) {
	var raw [keySize]byte
	defer clear(raw[:])
	if _, err := io.ReadFull(rng, raw[:]); err != nil {
		return noise.DHKey{}, err
	}
	k, err := ecdh.X25519().NewPrivateKey(raw[:])
	if err != nil {
		return noise.DHKey{}, err
	}
	c.ephemeral = k
	return noise.DHKey{Private: []byte(ofEphemeral), Public: k.PublicKey().Bytes()}, nil
}

func (c *curve) DH(which, public []byte) ([]byte, error) {
	theirs, err := ecdh.X25519().NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	var ours *ecdh.PrivateKey
	switch string(which) {
	case ofStatic:
		ours = c.static
	case ofEphemeral:
		ours = c.ephemeral
	}
	if ours == nil {
		return nil, errNoPrivateKey
	}
	return ours.ECDH(theirs) // the error is about a public key of low order
}

// errNoPrivateKey is returned for a private key that this end does not have.
var errNoPrivateKey = errors.New("no such private key")

func (*curve) DHLen() int     { return keySize }
func (*curve) DHName() string { return "25519" }
