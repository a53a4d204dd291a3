package transport

import (
	"hash/maphash"
	"time"
)

// Shares bounds what each sender may have pass, so that one that sends without end
// loses its own and nobody else's. Senders share places, of which there is a fixed
// number: whose place another's falls on depends on chance that nobody outside knows. It
// belongs to one goroutine.
type Shares struct {
	each, atOnce time.Duration // of one that passes; of all that pass at once
	seed         maphash.Seed
	used         [256]time.Time // until when a place's are paid for
}

// NewShares lets so many of each sender pass in a second, and so many at once.
func NewShares(perSecond, atOnce int) *Shares {
	each := time.Second / time.Duration(perSecond)
	return &Shares{each: each, atOnce: time.Duration(atOnce) * each, seed: maphash.MakeSeed()}
}

// Take reports whether one of the sender's may pass now.
func (s *Shares) Take(sender [16]byte, now time.Time) bool {
	place := s.place(sender)
	if earliest := now.Add(-s.atOnce); place.Before(earliest) {
		*place = earliest
	}
	if !place.Before(now) {
		return false
	}
	*place = place.Add(s.each)
	return true
}

// place is where the sender's are counted. A hash, since the addresses of a LAN differ in a
// few bits: with less, many of them fall on one place at a time.
func (s *Shares) place(sender [16]byte) *time.Time {
	return &s.used[maphash.Bytes(s.seed, sender[:])%uint64(len(s.used))]
}
