package session

import (
	"bytes"
	"cmp"
	"crypto/cipher"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"

	"github.com/flynn/noise"
	"golang.org/x/crypto/blake2s"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/wire"
)

const lifeSize = 4 + 8

// Life is one life of a host. The id is that of the host's public key: a handshake computes it, and nobody says it.
type Life struct {
	ID          wire.ID
	Incarnation uint32  // of the host's lives, on its disk
	Random      [8]byte // new for each life
}

// Nonce names the life in frames and in gossip.
func (l Life) Nonce() uint32 { return binary.BigEndian.Uint32(l.Random[:]) }

// append is what a host says of its life, under its key.
func (l Life) append(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, l.Incarnation), l.Random[:]...)
}

func parseLife(id wire.ID, b []byte) Life {
	return Life{id, binary.BigEndian.Uint32(b), [8]byte(b[4:lifeSize])}
}

// compare orders lives, by id first: of two sessions that both ends began at one time,
// the smaller one's is used.
func (l Life) compare(m Life) int {
	return cmp.Or(l.ID.Compare(m.ID), bytes.Compare(l.append(nil), m.append(nil)))
}

// hostKey is what this end proves itself with.
type hostKey struct {
	curve   Curve
	private CurveKey
	public  []byte
	life    Life
}

func newHostKey(c Curve, k identity.Private, incarnation uint32, random [8]byte) hostKey {
	raw := k.Bytes()
	defer clear(raw[:])
	private, err := c(&raw)
	if err != nil {
		panic("BUG: a private key of 32 bytes is refused: " + err.Error())
	}
	public := private.Public()
	return hostKey{c, private, public, Life{identity.Public(public).ID(), incarnation, random}}
}

// suite is that of Noise_XXpsk0_25519_ChaChaPoly_BLAKE2s. There is no negotiation: another
// suite would be another version.
func (k hostKey) suite() noise.CipherSuite {
	return noise.NewCipherSuite(&pairs{make: k.curve, static: k.private}, noise.CipherChaChaPoly, noise.HashBLAKE2s)
}

// pair is the host's keys, as Noise and pairs know them.
func (k hostKey) pair() noise.DHKey { return noise.DHKey{Private: []byte(ofStatic), Public: k.public} }

// secret is a key with what is derived from it: nothing is used for two things.
type secret struct {
	id     key.ID
	psk    [32]byte // Noise's
	mac    [32]byte // of the MAC over INIT, RESP and PROOF
	cookie [32]byte // of what carries a cookie
}

func newSecret(k key.Key) *secret {
	return &secret{id: k.ID, psk: derive(k, "bully-agent seal psk 1"), mac: derive(k, "bully-agent seal mac 1"),
		cookie: derive(k, "bully-agent seal cookie 1")}
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

// sum is the MAC. RESP's is over INIT's MAC as well, and PROOF's over RESP's, so that each answers the one before and no
// other.
func (s *secret) sum(parts ...[]byte) [tagSize]byte { return keyed(s.mac, parts...) }

// keyed is BLAKE2s with 16 bytes and a key.
func keyed(k [32]byte, parts ...[]byte) (mac [tagSize]byte) {
	h, err := blake2s.New128(k[:])
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

func newState(k *secret, s scope, head []byte, self hostKey, isInitiator bool, rng io.Reader) *noise.HandshakeState {
	state, err := noise.NewHandshakeState(noise.Config{CipherSuite: self.suite(), Random: rng, Pattern: noise.HandshakeXX, StaticKeypair: self.pair(),
		Initiator: isInitiator, Prologue: s.prologue(head), PresharedKey: k.psk[:], PresharedKeyPlacement: 0})
	if err != nil {
		panic("BUG: " + err.Error()) // only a key of the wrong length
	}
	return state
}

// peerOf is the id of who has proved itself in a handshake. A key in another form than the one that its number has would
// give its holder one more id.
func peerOf(state *noise.HandshakeState) (wire.ID, Cause) {
	public := identity.Public(state.PeerStatic())
	if !public.IsCanonical() {
		return wire.ID{}, CauseIdentity
	}
	return public.ID(), CauseNone
}

// call is a handshake that this end began.
type call struct {
	state  *noise.HandshakeState
	secret *secret
	self   hostKey
	kind   Kind
	number uint64
	index  uint32        // by which RESP finds it, and then DATA the session
	mac    [tagSize]byte // INIT's
	resp   [tagSize]byte // RESP's
}

// newCall appends INIT to b. It claims nothing: its payload is as many zeros as make it no shorter than RESP. The index of
// a session at each end is the first four bytes of its ephemeral key, which the other end sees anyway.
func newCall(b []byte, rng io.Reader, k *secret, s scope, kd Kind, number uint64, self hostKey, c cookie) ([]byte, *call, error) {
	start := len(b)
	b = appendHeader(b, header{typeInit, kd, uint32(k.id), number})
	began := &call{state: newState(k, s, b[start:], self, true, rng), secret: k, self: self, kind: kd, number: number}
	var nothing [keySize + lifeSize]byte
	b, _, _, err := began.state.WriteMessage(b, nothing[:])
	if err != nil {
		return nil, nil, err // no random bytes
	}
	began.index = indexOf(b[start:])
	began.mac = k.sum(b[start:])
	b = append(b, began.mac[:]...)
	return append(b, c.sign(b[start:])...), began, nil
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

// answered reads RESP: two curves. The peer has proved who it is, and that it has the cluster's key and is there now. What
// a stranger makes up leaves the call as it was. A false RESP of a holder of the key may spoil it: the next INIT is another call.
func (c *call) answered(b []byte) (who Life, index uint32, cause Cause) {
	h, cause := parseHeader(b)
	switch {
	case cause != CauseNone:
		return who, 0, cause
	case h.typ != typeResp || h.kind != c.kind:
		return who, 0, CauseType
	case h.index != c.index || h.number != c.number:
		return who, 0, CauseIndex
	}
	body := b[:handshakeSize-tagSize]
	mac := c.secret.sum(c.mac[:], body)
	if !hmac.Equal(mac[:], b[len(body):]) {
		return who, 0, CauseMAC
	}
	life, _, _, err := c.state.ReadMessage(nil, body[headerSize:])
	if err != nil || len(life) != lifeSize {
		return who, 0, CausePrologue // a holder of the key who does not keep to the rules
	}
	id, cause := peerOf(c.state)
	if cause != CauseNone {
		return who, 0, cause
	}
	if who = parseLife(id, life); who == c.self.life {
		return who, 0, CauseSelf
	}
	c.resp = mac
	return who, indexOf(b), CauseNone
}

// prove appends PROOF, which carries payload behind this end's life: one curve. It is made once. Another one under the same
// key and nonce would break both.
func (c *call) prove(b []byte, index uint32, payload []byte) ([]byte, Pair, error) {
	start := len(b)
	b = appendHeader(b, header{typeProof, c.kind, index, c.number})
	b, send, recv, err := c.state.WriteMessage(b, append(c.self.life.append(nil), payload...))
	if err != nil {
		return nil, Pair{}, err // an ephemeral key of low order
	}
	mac := c.secret.sum(c.resp[:], b[start:])
	return append(b, mac[:]...), newPair(send, recv), nil
}

// request is an INIT whose MAC is right and whose payload was read. No curve has been
// computed for it.
type request struct {
	state  *noise.HandshakeState
	secret *secret
	self   hostKey
	head   header
	remote uint32        // the peer's index
	mac    [tagSize]byte // INIT's

	index uint32        // ours, once there is an answer
	resp  [tagSize]byte // RESP's MAC
}

// checkMAC finds the key of an INIT and checks its MAC, which is all that a forger costs.
func checkMAC(b []byte, h header, ring []*secret) (*secret, Cause) {
	for _, k := range ring {
		if uint32(k.id) != h.index {
			continue
		}
		body, mac := b[:handshakeSize-tagSize-cookieSize], macOf(b)
		if want := k.sum(body); !hmac.Equal(want[:], mac[:]) {
			return nil, CauseMAC
		}
		return k, CauseNone
	}
	return nil, CauseKey
}

// macOf is the MAC that an INIT has. Its cookie stands behind it.
func macOf(init []byte) [tagSize]byte {
	return [tagSize]byte(init[handshakeSize-tagSize-cookieSize:])
}

// readInit opens the payload of an INIT whose MAC is right: some hashes, no curve.
func readInit(b []byte, rng io.Reader, h header, k *secret, s scope, self hostKey) (*request, Cause) {
	r := &request{secret: k, self: self, head: h, state: newState(k, s, b, self, false, rng), remote: indexOf(b), mac: macOf(b)}
	if _, _, _, err := r.state.ReadMessage(nil, b[headerSize:handshakeSize-tagSize-cookieSize]); err != nil {
		return nil, CausePrologue
	}
	return r, CauseNone
}

// answer appends RESP to b: three curves.
func (r *request) answer(b []byte) ([]byte, error) {
	start := len(b)
	b = appendHeader(b, header{typeResp, r.head.kind, r.remote, r.head.number})
	b, _, _, err := r.state.WriteMessage(b, r.self.life.append(nil))
	if err != nil {
		return nil, err // no random bytes, or an ephemeral key of low order
	}
	r.index = indexOf(b[start:])
	r.resp = r.secret.sum(r.mac[:], b[start:])
	return append(b, r.resp[:]...), nil
}

// errNoProof is returned for a PROOF that a stranger has made or damaged. It has cost a hash.
var errNoProof = errors.New("the MAC is wrong")

// proven reads PROOF: one curve. After an error that is not errNoProof the handshake may be of no more use: flynn/noise takes
// back what it has hashed, and not the key that `se` has made.
func (r *request) proven(b []byte) (who Life, payload []byte, keys Pair, err error) {
	body := b[:len(b)-tagSize]
	if mac := r.secret.sum(r.resp[:], body); !hmac.Equal(mac[:], b[len(body):]) {
		return who, nil, keys, errNoProof
	}
	payload, recv, send, err := r.state.ReadMessage(nil, body[headerSize:])
	if err != nil {
		return who, nil, keys, err
	}
	id, cause := peerOf(r.state)
	if cause != CauseNone {
		return who, nil, keys, cause
	}
	return parseLife(id, payload), payload[lifeSize:], newPair(send, recv), nil
}
