package session

import (
	"bytes"
	"crypto/cipher"
	"crypto/hmac"
	"encoding/binary"
	"io"
	"net/netip"

	"github.com/flynn/noise"
	"golang.org/x/crypto/blake2s"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/wire"
)

// suite is Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s. There is no negotiation: another
// suite would be another version.
var suite = noise.NewCipherSuite(noise.DH25519, noise.CipherChaChaPoly, noise.HashBLAKE2s)

const lifeSize = 16 + 8

// Life is one life of a host, as a handshake tells it.
type Life struct {
	ID     wire.ID
	Random [8]byte // new for each life
}

func (i Life) append(b []byte) []byte { return append(append(b, i.ID[:]...), i.Random[:]...) }

func parseLife(b []byte) (i Life) {
	copy(i.ID[:], b)
	copy(i.Random[:], b[len(i.ID):])
	return i
}

// compare orders lives, by id first: of two sessions that both ends began at one time,
// the smaller one's is used.
func (i Life) compare(j Life) int {
	if c := bytes.Compare(i.ID[:], j.ID[:]); c != 0 {
		return c
	}
	return bytes.Compare(i.Random[:], j.Random[:])
}

// secret is a key with what is derived from it: nothing is used for two things.
type secret struct {
	id  key.ID
	psk [32]byte // Noise's
	mac [32]byte // of the MAC over INIT and RESP
}

func newSecret(k key.Key) *secret {
	return &secret{id: k.ID, psk: derive(k, "bully-agent seal psk 1"), mac: derive(k, "bully-agent seal mac 1")}
}

func derive(k key.Key, label string) (out [32]byte) {
	h, err := blake2s.New256(k.Secret[:])
	if err != nil {
		panic("BUG: " + err.Error()) // the key is as long as BLAKE2s takes
	}
	h.Write([]byte(label))
	h.Sum(out[:0])
	return out
}

// sum is the MAC: BLAKE2s with 16 bytes, keyed. RESP's is over INIT's MAC as well, so
// that it answers that INIT and no other.
func (s *secret) sum(parts ...[]byte) (mac [tagSize]byte) {
	h, err := blake2s.New128(s.mac[:])
	if err != nil {
		panic("BUG: " + err.Error())
	}
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(mac[:0])
	return mac
}

// scope is what both ends must agree on without saying it.
type scope struct {
	cluster string
	to      netip.AddrPort // where INIT is sent: the receiver's advertised address; zero for streams
}

// prologue is Noise's: INIT's header, which has version, kind, key id and number, and
// the scope (S2). An INIT that is carried to another host, or cluster, does not open there.
func (s scope) prologue(head []byte) []byte {
	b := append([]byte(nil), head[:headerSize]...)
	to := s.to.Addr().As16()
	if !s.to.IsValid() {
		to = [16]byte{}
	}
	b = append(b, to[:]...)
	b = binary.BigEndian.AppendUint16(b, s.to.Port())
	return append(b, s.cluster...)
}

func newState(k *secret, s scope, head []byte, isInitiator bool, rng io.Reader) *noise.HandshakeState {
	state, err := noise.NewHandshakeState(noise.Config{CipherSuite: suite, Random: rng, Pattern: noise.HandshakeNN,
		Initiator: isInitiator, Prologue: s.prologue(head), PresharedKey: k.psk[:], PresharedKeyPlacement: 0})
	if err != nil {
		panic("BUG: " + err.Error()) // only a key of the wrong length
	}
	return state
}

// call is a handshake that this end began.
type call struct {
	state  *noise.HandshakeState
	secret *secret
	kind   Kind
	number uint64
	index  uint32 // by which RESP finds it, and then DATA the session
	mac    [tagSize]byte
}

// newCall appends INIT to b. The index of a session at each end is the first four bytes
// of its ephemeral key, which the other end sees anyway.
func newCall(b []byte, rng io.Reader, k *secret, s scope, kd Kind, number uint64, self Life) ([]byte, *call, error) {
	start := len(b)
	b = appendHeader(b, header{typeInit, kd, uint32(k.id), number})
	c := &call{state: newState(k, s, b[start:], true, rng), secret: k, kind: kd, number: number}
	b, _, _, err := c.state.WriteMessage(b, self.append(nil))
	if err != nil {
		return nil, nil, err // no random bytes
	}
	c.index = binary.BigEndian.Uint32(b[start+headerSize:])
	c.mac = k.sum(b[start:])
	return append(b, c.mac[:]...), c, nil
}

// Pair is the two ciphers of a session.
type Pair struct{ Send, Recv cipher.AEAD }

func newPair(send, recv *noise.CipherState) Pair {
	// Not Noise's own cipher, which allocates each nonce; the nonces are the same: four
	// zero bytes, then the counter, least byte first.
	aead := func(s *noise.CipherState) cipher.AEAD {
		k := s.UnsafeKey()
		a, err := chacha20poly1305.New(k[:])
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return a
	}
	return Pair{aead(send), aead(recv)}
}

// answered reads RESP. The peer has proved that it has the key and is there now.
func (c *call) answered(b []byte) (peer Life, index uint32, p Pair, cause Cause) {
	h, cause := parseHeader(b)
	switch {
	case cause != CauseNone:
		return peer, 0, p, cause
	case h.typ != typeResp || h.kind != c.kind:
		return peer, 0, p, CauseType
	case h.index != c.index || h.number != c.number:
		return peer, 0, p, CauseIndex
	}
	body := b[:handshakeSize-tagSize]
	if mac := c.secret.sum(c.mac[:], body); !hmac.Equal(mac[:], b[len(body):]) {
		return peer, 0, p, CauseMAC
	}
	payload, send, recv, err := c.state.ReadMessage(nil, body[headerSize:])
	if err != nil || len(payload) != lifeSize {
		return peer, 0, p, CausePrologue // a holder of the key who does not keep to the rules
	}
	return parseLife(payload), binary.BigEndian.Uint32(body[headerSize:]), newPair(send, recv), CauseNone
}

// request is an INIT whose MAC is right and whose payload was read. No curve has been
// computed for it.
type request struct {
	state  *noise.HandshakeState
	secret *secret
	head   header
	peer   Life
	index  uint32 // the peer's
	mac    [tagSize]byte
}

// checkMAC finds the key of an INIT and checks its MAC, which is all that a forger costs.
func checkMAC(b []byte, h header, ring []*secret) (*secret, Cause) {
	for _, k := range ring {
		if uint32(k.id) != h.index {
			continue
		}
		body := b[:handshakeSize-tagSize]
		if mac := k.sum(body); !hmac.Equal(mac[:], b[len(body):]) {
			return nil, CauseMAC
		}
		return k, CauseNone
	}
	return nil, CauseKey
}

// readInit opens the payload of an INIT whose MAC is right: some hashes, no curve.
func readInit(b []byte, rng io.Reader, h header, k *secret, s scope) (*request, Cause) {
	r := &request{secret: k, head: h, state: newState(k, s, b, false, rng), index: binary.BigEndian.Uint32(b[headerSize:])}
	body := b[:handshakeSize-tagSize]
	copy(r.mac[:], b[len(body):])
	payload, _, _, err := r.state.ReadMessage(nil, body[headerSize:])
	if err != nil || len(payload) != lifeSize {
		return nil, CausePrologue
	}
	r.peer = parseLife(payload)
	return r, CauseNone
}

// answer appends RESP to b: the two curves.
func (r *request) answer(b []byte, self Life) (_ []byte, index uint32, p Pair, err error) {
	start := len(b)
	b = appendHeader(b, header{typeResp, r.head.kind, r.index, r.head.number})
	b, recv, send, err := r.state.WriteMessage(b, self.append(nil))
	if err != nil {
		return nil, 0, p, err // no random bytes, or an ephemeral key of low order
	}
	mac := r.secret.sum(r.mac[:], b[start:])
	return append(b, mac[:]...), binary.BigEndian.Uint32(b[start+headerSize:]), newPair(send, recv), nil
}
