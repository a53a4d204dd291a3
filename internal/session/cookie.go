package session

import (
	"crypto/hmac"
	"io"
	"net/netip"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
)

// A cookie proves that an INIT comes from where it says (WireGuard, 5.4.7). Who asks for one computes no curve, and keeps
// nothing. It travels under a key of the cluster's, bound to the INIT that it answers: a stranger on the way learns none.
type cookie [cookieSize]byte

const (
	cookieNonce = chacha20poly1305.NonceSizeX
	// cookieFor is how long a secret makes cookies.
	cookieFor = 2 * time.Minute
)

// sign is what stands at the end of INIT: a MAC over all before it, keyed with the cookie; zeros without one.
func (c cookie) sign(b []byte) []byte {
	if c == (cookie{}) {
		return c[:]
	}
	var k [32]byte
	copy(k[:], c[:])
	mac := keyed(k, b)
	return mac[:]
}

// baker makes the cookies of one host.
type baker struct {
	secret [32]byte
	until  time.Time
}

// bake is the cookie of a source.
func (m *baker) bake(now time.Time, rng io.Reader, from netip.AddrPort) (cookie, error) {
	if !now.Before(m.until) {
		if _, err := io.ReadFull(rng, m.secret[:]); err != nil {
			return cookie{}, err
		}
		m.until = now.Add(cookieFor)
	}
	text, err := from.MarshalBinary()
	return cookie(keyed(m.secret, text)), err
}

// isSigned reports whether an INIT has the cookie of its source.
func (m *baker) isSigned(now time.Time, from netip.AddrPort, init []byte) bool {
	if !now.Before(m.until) {
		return false
	}
	c, err := m.bake(now, nil, from)
	end := handshakeSize - cookieSize
	return err == nil && hmac.Equal(c.sign(init[:end]), init[end:])
}

// appendCookie is what an INIT is answered with that is to come again.
func appendCookie(b []byte, rng io.Reader, k *secret, h header, init []byte, c cookie) ([]byte, error) {
	b = appendHeader(b, header{typ: typeCookie, index: indexOf(init), number: h.number})
	var nonce [cookieNonce]byte
	if _, err := io.ReadFull(rng, nonce[:]); err != nil {
		return nil, err
	}
	aead, err := chacha20poly1305.NewX(k.cookie[:])
	if err != nil {
		panic("BUG: " + err.Error())
	}
	mac := macOf(init)
	return aead.Seal(append(b, nonce[:]...), nonce[:], c[:], mac[:]), nil
}

// openCookie reads COOKIE, which answers a call.
func (c *call) openCookie(b []byte) (got cookie, cause Cause) {
	aead, err := chacha20poly1305.NewX(c.secret.cookie[:])
	if err != nil {
		panic("BUG: " + err.Error())
	}
	nonce := b[headerSize : headerSize+cookieNonce]
	if _, err := aead.Open(got[:0], nonce, b[headerSize+cookieNonce:], c.mac[:]); err != nil {
		return got, CauseForged
	}
	return got, CauseNone
}
