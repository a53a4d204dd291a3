package attack

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
)

// Datagrams of the seal begin with b7 5e, a version and a type; see docs/protocol.md. The attacker
// has no part in a session, so that it can make what looks right up to the first check.
const (
	sealMagic0, sealMagic1 = 0xb7, 0x5e
	sealVersion            = 2
	sealStream             = 1 // the kind of INIT that begins a stream

	sealInit, sealResp, sealData, sealUnknown, sealProof, sealCookie = 1, 2, 3, 4, 5, 6
)

// IsSealed reports whether a datagram looks sealed.
func IsSealed(b []byte) bool { return len(b) >= 16 && b[0] == sealMagic0 && b[1] == sealMagic1 }

// seal is noise with the header of a type, and as long as that may be.
func (f *Forger) seal(typ byte) []byte {
	size := map[byte]int{sealInit: 140, sealResp: 140, sealData: 33 + f.Random.IntN(1200), sealUnknown: 20, sealProof: 108 + f.Random.IntN(300), sealCookie: 72}
	b := noise(f.Random, size[typ])
	b[0], b[1], b[2], b[3] = sealMagic0, sealMagic1, sealVersion<<4|typ, 0
	return b
}

// Fake is a datagram of the seal with noise inside: a handshake under a key that was heard of, or
// data for an index that was heard of or for any.
func (f *Forger) Fake(heard []Packet) Packet {
	r := f.Random
	typ := byte(sealInit + r.IntN(sealCookie))
	b := f.seal(typ)
	binary.BigEndian.PutUint64(b[8:], r.Uint64N(1<<20))
	to := pick(r, f.Targets)
	if inits := calls(heard); typ == sealInit && len(inits) > 0 && r.IntN(4) > 0 {
		other := pick(r, inits)
		copy(b[4:16], other.Payload[4:16]) // a key that they have: this one costs its MAC
		to = other.To
	} else if len(heard) > 0 && r.IntN(2) == 0 {
		if other := pick(r, heard); IsSealed(other.Payload) {
			copy(b[4:16], other.Payload[4:16]) // index or key id, and number
			to = other.To
		}
	}
	from := f.Own
	if other := pick(r, f.Targets); r.IntN(2) == 0 && other != to {
		from = other
	}
	return Packet{From: from, To: to, Payload: b}
}

// Answers are what whoever hears an INIT can say to its sender before its receiver does: that the key is unknown, that a
// cookie is missing, and a RESP. There are none to other datagrams.
func (f *Forger) Answers(p Packet) (all []Packet) {
	if p.IsStream || !isInit(p.Payload) {
		return nil
	}
	const index = 16 // INIT's own, which begins its ephemeral key
	for _, typ := range []byte{sealUnknown, sealCookie, sealResp} {
		b := f.seal(typ)
		copy(b[4:8], p.Payload[index:])
		copy(b[8:16], p.Payload[8:16])
		all = append(all, Packet{From: p.To, To: p.From, Payload: b})
	}
	return all
}

func isInit(b []byte) bool {
	return IsSealed(b) && len(b) == 140 && b[2] == sealVersion<<4|sealInit
}

// Call begins a stream as an INIT that was heard begins a session, with noise for the rest.
func (f *Forger) Call(heard []Packet) []byte {
	b := f.seal(sealInit)
	b[3] = sealStream
	if inits := calls(heard); len(inits) > 0 {
		copy(b[4:8], pick(f.Random, inits).Payload[4:8])
	}
	return b
}

// calls are the INITs among what was heard, of which there are few: they name a key. The newest hundred.
func calls(heard []Packet) (inits []Packet) {
	for _, p := range heard {
		if isInit(p.Payload) {
			inits = append(inits, p)
		}
	}
	return inits[max(0, len(inits)-100):]
}

// Crowded is Fake from one of 1,000 addresses of a network, of which only the first 1,000 are used.
func (f *Forger) Crowded(crowd netip.Prefix, heard []Packet) Packet {
	p := f.Fake(heard)
	a, n := crowd.Addr().As4(), f.Random.IntN(1000)
	a[2], a[3] = a[2]+byte(n>>8), byte(n)
	p.From = netip.AddrPortFrom(netip.AddrFrom4(a), uint16(1024+f.Random.IntN(60000)))
	return p
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
