package session

import (
	"encoding/binary"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/bully-agent/bully-agent/internal/key"
)

// maxBefore is how many copies of PROOF go before DATA.
const maxBefore = 8

// session is one pair of keys between two lives of two hosts, for datagrams. Its
// methods are called with the table's lock held.
type session struct {
	index  uint32 // ours, in what arrives
	remote uint32 // the peer's, in what we send
	key    key.ID
	peer   *peer
	began  time.Time // when INIT was sent or came
	isOurs bool      // we sent INIT

	Pair
	sent   uint64 // how many; also the next counter: none is used twice
	window window
	nonce  [chacha20poly1305.NonceSize]byte // scratch; a local one would be garbage

	over *session // that it was begun to replace; nil: none, or the peer began

	// Of one that this end began: PROOF, until the peer is known to have it, and when it is said again.
	proof   []byte
	proofAt time.Time
	pause   time.Duration // before the next
	before  int           // how many went before DATA

	// Of one that the peer began: the MAC of its PROOF, by which a copy is known, and when HELLO was said last.
	proven  [tagSize]byte
	greeted time.Time

	renewAt time.Time // a new session is begun
	diesAt  time.Time // it is forgotten
}

func (s *session) setNonce(n uint64) []byte {
	binary.LittleEndian.PutUint64(s.nonce[4:], n)
	return s.nonce[:]
}

// seal appends the datagram that carries inner, with a counter of its own. b must have
// room for it, if nothing shall be allocated.
func (s *session) seal(b, inner []byte) []byte {
	start := len(b)
	b = appendHeader(b, header{typ: typeData, index: s.remote, number: s.sent})
	b = s.Send.Seal(b, s.setNonce(s.sent), inner, b[start:start+headerSize])
	s.sent++
	return b
}

// open decrypts a datagram in place. The window moves only if its tag is right.
func (s *session) open(b []byte, h header) (inner []byte, cause Cause) {
	if !s.window.isFresh(h.number) {
		return nil, CauseReplayed
	}
	inner, err := s.Recv.Open(b[headerSize:headerSize], s.setNonce(h.number), b[headerSize:], b[:headerSize])
	if err != nil {
		return nil, CauseForged
	}
	s.window.take(h.number)
	return inner, CauseNone
}
