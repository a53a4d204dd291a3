package election

// window remembers which of the last 64 sequence numbers of one peer's life
// were seen, so that a datagram that the network doubled or held back changes
// nothing (I16). Numbers are compared as RFC 1982 does: they may wrap.
type window struct {
	top  uint32 // highest number seen
	seen uint64 // bit i: top−i was seen
	any  bool
}

// admit marks seq as seen and reports whether it is new. Numbers older than
// the window count as seen.
func (w *window) admit(seq uint32) bool {
	ahead := int32(seq - w.top)
	switch {
	case !w.any:
		*w = window{top: seq, seen: 1, any: true}
		return true
	case ahead > 0:
		w.seen <<= min(uint(ahead), 64)
		w.seen |= 1
		w.top = seq
		return true
	case ahead <= -64:
		return false
	}
	bit := uint64(1) << -ahead
	isNew := w.seen&bit == 0
	w.seen |= bit
	return isNew
}
