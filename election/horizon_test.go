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
		{"a second jump", smallJump + 1, true, func(h *horizon) { h.noteRise(0, smallJump+1, source{isEstablished: true}, now.Add(-jumpPause+1)) }, true},
		{"after a pause", smallJump + 1, true, func(h *horizon) { h.noteRise(0, smallJump+1, source{isEstablished: true}, now.Add(-jumpPause)) }, false},
		{"no jump before", smallJump + 1, true, func(h *horizon) { h.noteRise(0, smallJump, source{isEstablished: true}, now) }, false},
		{"what somebody goes on saying", maxJump, true, func(h *horizon) {
			h.noteFar(hostID(2), known+maxJump, source{isEstablished: true}, now.Add(-jumpAsFrom))
		}, false},
		{"not for long enough", maxJump, true, func(h *horizon) {
			h.noteFar(hostID(2), known+maxJump, source{isEstablished: true}, now.Add(-jumpAsFrom+1))
		}, true},
		{"beyond all", maxJump + 1, true, func(h *horizon) {
			h.noteFar(hostID(2), known+maxJump, source{isEstablished: true}, now.Add(-jumpAsFrom))
		}, true},
		{"what two say, to a new host", 3 * maxJump, false, func(h *horizon) {
			h.noteFar(hostID(2), known+3*maxJump, source{}, now)
			h.noteFar(hostID(3), known+3*maxJump, source{}, now)
		}, false},
		{"what one says twice at once", 3 * maxJump, false, func(h *horizon) {
			h.noteFar(hostID(2), known+3*maxJump, source{}, now)
			h.noteFar(hostID(2), known+3*maxJump, source{}, now)
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h horizon
			if tc.before != nil {
				tc.before(&h)
			}
			if got := h.isBeyond(known+tc.ahead, known, source{isEstablished: tc.isEstablished}, now); got != tc.want {
				t.Errorf("%d ahead is beyond: %t", tc.ahead, got)
			}
		})
	}
}

// All that are new together have what one host's word is worth at once, in a minute.
func TestHorizonOfThoseThatAreNew(t *testing.T) {
	now, strangers, known := time.Unix(1000, 0), source{isEstablished: true, isNew: true}, uint64(7)
	var h horizon
	says := func(ahead uint64) bool {
		if h.isBeyond(known+ahead, known, strangers, now) {
			return false
		}
		h.noteRise(known, known+ahead, strangers, now)
		known += ahead
		return true
	}
	for _, tc := range []struct {
		ahead uint64
		after time.Duration
		want  bool
	}{
		{smallJump + 1, 0, false},
		{smallJump - 1, 0, true},
		{2, 0, false},
		{1, strangeFor - 1, true},
		{1, 0, false},
		{0, 0, true}, // nothing new
		{smallJump, 1, true},
	} {
		now = now.Add(tc.after)
		if got := says(tc.ahead); got != tc.want {
			t.Errorf("%d more, %v later: believed is %t", tc.ahead, tc.after, got)
		}
	}
	if h.isBeyond(known+onceJump, known, source{isEstablished: true}, now) {
		t.Error("a host that has a place of its own is not believed beside them")
	}
}
