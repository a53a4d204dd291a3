package transport

import (
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// Shares bounds what each sender may have pass, so that one that sends without end
// loses its own and nobody else's. Senders share places, of which there is a fixed
// number: whose place another's falls on depends on chance that nobody outside knows. It
// belongs to one goroutine.
type Shares struct {
	each, atOnce time.Duration // of one that passes; of all that pass at once
	mix          uint64
	used         [256]time.Time // until when a place's are paid for
}

// NewShares lets so many of each sender pass in a second, and so many at once.
func NewShares(perSecond, atOnce int) *Shares {
	each := time.Second / time.Duration(perSecond)
	return &Shares{each: each, atOnce: time.Duration(atOnce) * each, mix: rand.Uint64() | 1}
}

// Take reports whether one of the sender's may pass now.
func (s *Shares) Take(sender [16]byte, now time.Time) bool {
	low, high := binary.LittleEndian.Uint64(sender[:]), binary.LittleEndian.Uint64(sender[8:])
	place := &s.used[((low^high>>7)*s.mix)>>56]
	if earliest := now.Add(-s.atOnce); place.Before(earliest) {
		*place = earliest
	}
	if !place.Before(now) {
		return false
	}
	*place = place.Add(s.each)
	return true
}
