package agent

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// shares bounds the frames that each sender may have wait for the loop, so that one
// that sends without end loses its own and nobody else's. Senders share places, of
// which there is a fixed number: whose place another's falls on depends on chance that
// nobody outside knows. It belongs to one goroutine.
type shares struct {
	mix  uint64
	used [256]time.Time // until when a place's frames are paid for
}

const (
	// sharePerSecond is more than any member sends to one other, job frames included.
	sharePerSecond = 2000
	// shareAtOnce is half of the inbox.
	shareAtOnce = inboxSize / 2
)

func newShares() *shares { return &shares{mix: rand.Uint64() | 1} }

// take reports whether a frame of the sender's may pass now.
func (s *shares) take(id wire.ID, now time.Time) bool {
	const each = time.Second / sharePerSecond
	low, high := binary.LittleEndian.Uint64(id[:]), binary.LittleEndian.Uint64(id[8:])
	place := &s.used[((low^high>>7)*s.mix)>>56]
	if earliest := now.Add(-shareAtOnce * each); place.Before(earliest) {
		*place = earliest
	}
	if !place.Before(now) {
		return false
	}
	*place = place.Add(each)
	return true
}
