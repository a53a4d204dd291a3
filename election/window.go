package election

import "time"

// window remembers which of the last 64 sequence numbers of one peer's life
// were seen, so that a datagram that the network doubled or held back changes
// nothing (I16). Numbers are compared as RFC 1982 does: they may wrap.
//
// It moves no further than a live peer can have come since it moved last, so one
// frame cannot push it beyond all that its true sender will ever send. Where it
// was pushed within that, or stands behind a sender that began anew, the sender
// is asked where it is (restart).
type window struct {
	top  uint32    // highest number seen
	seen uint64    // bit i: top−i was seen
	at   time.Time // when top was reached
	any  bool
	shut bool // which were seen is not known any more: only restart opens it
}

const (
	// jumpAtOnce is how many numbers a sender may be ahead however short the time:
	// what it sends to one peer in a burst, most of it lost. Arbitrary.
	jumpAtOnce = 1024
	// numbersPerSecond is more than any member sends to one other: fifty heartbeats
	// of the fast profile, and what an election adds.
	numbersPerSecond = 1000
)

// admit marks seq as seen and reports whether it is new. Numbers older than
// the window count as seen, and so do those that its sender cannot have reached.
func (w *window) admit(seq uint32, now time.Time) bool {
	ahead := int32(seq - w.top)
	switch {
	case w.shut:
		return false
	case !w.any:
		*w = window{top: seq, seen: 1, at: now, any: true}
		return true
	case ahead > 0 && int64(ahead) > w.reach(now):
		return false
	case ahead > 0:
		w.seen <<= min(uint(ahead), 64)
		w.seen |= 1
		w.top, w.at = seq, now
		return true
	case ahead <= -64:
		return false
	}
	bit := uint64(1) << -ahead
	isNew := w.seen&bit == 0
	w.seen |= bit
	return isNew
}

// reach is how far ahead a number may be now.
func (w *window) reach(now time.Time) int64 {
	return jumpAtOnce + int64(now.Sub(w.at)/(time.Second/numbersPerSecond))
}

// isOutside: a number that admit refused is none of the window's, rather than one that
// was seen.
func (w *window) isOutside(seq uint32) bool {
	ahead := int32(seq - w.top)
	return w.shut || ahead > 0 || ahead <= -64
}

// restart begins anew at the number under which the sender itself has answered a
// question of ours. All below count as seen: nothing old comes in by that.
func (w *window) restart(seq uint32, now time.Time) {
	*w = window{top: seq, seen: ^uint64(0), at: now, any: true}
}
