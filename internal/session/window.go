package session

// windowSize is how far behind the newest number one may be and still be taken: more
// than a LAN reorders, and than a leader's will (M24) is behind when it is sent.
const windowSize = 1024

// maxNumber is beyond what a session can send, so that nothing here wraps.
const maxNumber = 1 << 62

// window is which numbers of a session were there (S4, RFC 6479): a ring of bits, one word
// more than the size needs, since the newest word is filled step by step.
//
// Invariant: it is moved by numbers only whose tag was right.
type window struct {
	next uint64 // the highest taken, plus one
	bits [windowSize/64 + 1]uint64
}

func (w *window) word(n uint64) *uint64 { return &w.bits[n/64%uint64(len(w.bits))] }

// isFresh reports whether n was not taken and is not too old to tell.
func (w *window) isFresh(n uint64) bool {
	switch {
	case n >= w.next:
		return n < maxNumber
	case w.next-n > windowSize:
		return false
	}
	return *w.word(n)&(1<<(n%64)) == 0
}

// take marks n, which was fresh.
func (w *window) take(n uint64) {
	if n >= w.next {
		// The words that no number has been in yet begin anew, up to that of n.
		for i, first := uint64(0), (w.next+63)/64; i < uint64(len(w.bits)) && first+i <= n/64; i++ {
			*w.word((first + i) * 64) = 0
		}
		w.next = n + 1
	}
	*w.word(n) |= 1 << (n % 64)
}
