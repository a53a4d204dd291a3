package attack

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
)

// Datagrams of the seal begin with b7 5e, a version and a type; see docs/protocol.md. The attacker
// has no key, so that it can make what looks right up to the first check.
const (
	sealMagic0, sealMagic1 = 0xb7, 0x5e
	sealVersion            = 1

	sealInit, sealResp, sealData = 1, 2, 3
	sealHandshake                = 104 // bytes of INIT and RESP
	sealStream                   = 1   // the kind of INIT that begins a stream
)

// IsSealed reports whether a datagram looks sealed.
func IsSealed(b []byte) bool { return len(b) >= 16 && b[0] == sealMagic0 && b[1] == sealMagic1 }

// Fake is a datagram of the seal with noise inside: a handshake under a key that was heard of, or
// data for an index that was heard of or for any.
func (f *Forger) Fake(heard []Packet) Packet {
	r := f.Random
	typ := byte(1 + r.IntN(3))
	size := sealHandshake
	if typ == sealData {
		size = 33 + r.IntN(1200)
	}
	b := noise(r, size)
	b[0], b[1], b[2], b[3] = sealMagic0, sealMagic1, sealVersion<<4|typ, 0
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

// Call begins a stream as an INIT that was heard begins a session, with noise for the rest.
func (f *Forger) Call(heard []Packet) []byte {
	b := noise(f.Random, sealHandshake)
	b[0], b[1], b[2], b[3] = sealMagic0, sealMagic1, sealVersion<<4|sealInit, sealStream
	if inits := calls(heard); len(inits) > 0 {
		copy(b[4:8], pick(f.Random, inits).Payload[4:8])
	}
	return b
}

// calls are the INITs among what was heard, of which there are few: they name a key. The newest hundred.
func calls(heard []Packet) (inits []Packet) {
	for _, p := range heard {
		if IsSealed(p.Payload) && p.Payload[2] == sealVersion<<4|sealInit {
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
