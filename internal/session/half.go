package session

import (
	"net/netip"
	"slices"
	"time"
)

const (
	halfFor   = 3 * time.Second // how long a RESP waits for its PROOF
	maxHalves = 512
	perHalves = 16 // of one source; this machine excepted
	// maxFailed is how many PROOFs with a right MAC may fail at one half. Arbitrary.
	maxFailed = 4
)

// half is an INIT that was answered, and of which nobody has proved to be its sender.
type half struct {
	*request
	from   netip.Addr
	began  time.Time
	failed int // PROOFs with a right MAC that proved nothing

	refusal []byte        // what PROOF was answered with, of a host that the list does not have; nil: none has come
	proof   [tagSize]byte // that PROOF's MAC
}

// halves are those that wait for PROOF, in the order in which they came.
//
// Invariant: a half stands under no id, no life and no address: nothing that its sender has claimed decides anything.
type halves []*half

// add notes one, and gives those that have to go for it: of the sources that have most.
func (hs *halves) add(h *half) (gone []*half) {
	if n := hs.count(h.from); n >= perHalves && !h.from.IsLoopback() {
		gone = append(gone, hs.oldest(h.from))
	} else if len(*hs) >= maxHalves {
		gone = append(gone, hs.oldest(hs.busiest()))
	}
	for _, g := range gone {
		hs.remove(g)
	}
	*hs = append(*hs, h)
	return gone
}

func (hs halves) count(from netip.Addr) (n int) {
	for _, h := range hs {
		if h.from == from {
			n++
		}
	}
	return n
}

func (hs halves) busiest() (most netip.Addr) {
	by := make(map[netip.Addr]int)
	for _, h := range hs {
		if by[h.from]++; by[h.from] > by[most] {
			most = h.from
		}
	}
	return most
}

func (hs halves) oldest(from netip.Addr) *half {
	i := slices.IndexFunc(hs, func(h *half) bool { return h.from == from })
	return hs[i]
}

func (hs *halves) remove(h *half) {
	*hs = slices.DeleteFunc(*hs, func(g *half) bool { return g == h })
}
