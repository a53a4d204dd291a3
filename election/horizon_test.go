package election

import (
	"testing"
	"time"
)

// The ends of what is believed of a counter, by one that knows its cluster's and by one
// that does not.
func TestHorizon(t *testing.T) {
	now := time.Unix(1000, 0)
	const known = 7
	for _, tc := range []struct {
		name          string
		ahead         uint64
		isEstablished bool
		before        func(*horizon)
		want          bool
	}{
		{"what was missed", smallJump, true, nil, false},
		{"one jump", onceJump, true, nil, false},
		{"further", onceJump + 1, true, nil, true},
		{"by a new host too", onceJump, false, nil, false},
		{"further, by a new host", onceJump + 1, false, nil, true},
		{"a second jump", smallJump + 1, true, func(h *horizon) { h.noteJump(0, smallJump+1, now.Add(-jumpPause+1)) }, true},
		{"after a pause", smallJump + 1, true, func(h *horizon) { h.noteJump(0, smallJump+1, now.Add(-jumpPause)) }, false},
		{"no jump before", smallJump + 1, true, func(h *horizon) { h.noteJump(0, smallJump, now) }, false},
		{"what somebody goes on saying", maxJump, true, func(h *horizon) { h.noteFar(hostID(2), known+maxJump, true, now.Add(-jumpAsFrom)) }, false},
		{"not for long enough", maxJump, true, func(h *horizon) { h.noteFar(hostID(2), known+maxJump, true, now.Add(-jumpAsFrom+1)) }, true},
		{"beyond all", maxJump + 1, true, func(h *horizon) { h.noteFar(hostID(2), known+maxJump, true, now.Add(-jumpAsFrom)) }, true},
		{"what two say, to a new host", 3 * maxJump, false, func(h *horizon) {
			h.noteFar(hostID(2), known+3*maxJump, false, now)
			h.noteFar(hostID(3), known+3*maxJump, false, now)
		}, false},
		{"what one says twice at once", 3 * maxJump, false, func(h *horizon) {
			h.noteFar(hostID(2), known+3*maxJump, false, now)
			h.noteFar(hostID(2), known+3*maxJump, false, now)
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h horizon
			if tc.before != nil {
				tc.before(&h)
			}
			if got := h.isBeyond(known+tc.ahead, known, tc.isEstablished, now); got != tc.want {
				t.Errorf("%d ahead is beyond: %t", tc.ahead, got)
			}
		})
	}
}
