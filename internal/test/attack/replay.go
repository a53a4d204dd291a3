package attack

import (
	"math/rand/v2"
	"net/netip"
	"slices"
)

// What is done with datagrams that were heard. Pieces of streams are left out: nobody can repeat
// them but to a connection that is gone.

// Datagrams gives the datagrams of a tape.
func Datagrams(tape []Packet) []Packet {
	return slices.DeleteFunc(slices.Clone(tape), func(p Packet) bool { return p.IsStream })
}

// Repeat gives the same ones again, n times.
func Repeat(tape []Packet, n int) []Packet { return slices.Repeat(tape, n) }

// Shuffle gives them in any order.
func Shuffle(random *rand.Rand, tape []Packet) []Packet {
	tape = slices.Clone(tape)
	random.Shuffle(len(tape), func(i, j int) { tape[i], tape[j] = tape[j], tape[i] })
	return tape
}

// Reflect sends each back to who sent it, as if by who got it.
func Reflect(tape []Packet) []Packet {
	return each(tape, func(p Packet) Packet {
		p.From, p.To = p.To, p.From
		return p
	})
}

// Divert sends each to another host than it was for.
func Divert(random *rand.Rand, tape []Packet, hosts []netip.AddrPort) []Packet {
	return each(tape, func(p Packet) Packet {
		p.To = pick(random, hosts)
		return p
	})
}

// Relay sends each under another address.
func Relay(tape []Packet, from netip.AddrPort) []Packet {
	return each(tape, func(p Packet) Packet {
		p.From = from
		return p
	})
}

// Mutate changes each: a bit or some bytes of it flipped, its end cut off, lengthened, or the head
// of one before the tail of another. Half of the frames in clear have a right checksum again.
func Mutate(random *rand.Rand, tape []Packet) []Packet {
	return each(tape, func(p Packet) Packet {
		b := slices.Clone(p.Payload)
		if len(b) == 0 {
			return p
		}
		switch random.IntN(5) {
		case 0:
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
		case 1:
			for range 1 + random.IntN(8) {
				b[random.IntN(len(b))] = byte(random.Uint32())
			}
		case 2:
			b = b[:random.IntN(len(b))]
		case 3:
			b = append(b, make([]byte, 1+random.IntN(600))...)
		case 4:
			other := pick(random, tape).Payload
			at := random.IntN(len(b))
			b = append(b[:at:at], other[min(at, len(other)):]...)
		}
		if isFrame(b) && random.IntN(2) == 0 {
			b = reseal(b)
		}
		p.Payload = b
		return p
	})
}

// Reachable leaves out what its target's kernel would take for its own.
func Reachable(packets []Packet) []Packet {
	return slices.DeleteFunc(packets, func(p Packet) bool { return p.From.Addr() == p.To.Addr() })
}

func each(tape []Packet, change func(Packet) Packet) []Packet {
	changed := make([]Packet, 0, len(tape))
	for _, p := range tape {
		changed = append(changed, change(p))
	}
	return changed
}
