package session

import (
	"cmp"
	"maps"
	"slices"
)

// A map gives its entries in no order. Where the order decides what is sent first, or for what a random byte is
// used, the table goes through them in one: the same calls with the same random bytes give the same datagrams.

// peersInOrder are all peers, sorted by life. The slice is good until the next call.
func (t *Table) peersInOrder() []*peer {
	t.byLife = slices.AppendSeq(t.byLife[:0], maps.Values(t.peers))
	slices.SortFunc(t.byLife, func(a, b *peer) int { return a.compare(b.Life) })
	return t.byLife
}

// routesInOrder are all routes. Those come first for which something waits, then those that are kept warm, in their order, then the
// rest. Of told addresses those come first that were tried less. The slice is good until the next call.
func (t *Table) routesInOrder() []*route {
	t.byPlace = slices.AppendSeq(t.byPlace[:0], maps.Values(t.routes))
	slices.SortFunc(t.byPlace, func(a, b *route) int { return cmp.Or(cmp.Compare(a.place(), b.place()), a.to.Compare(b.to)) })
	return t.byPlace
}

// place is when a route's turn comes: the lower, the earlier.
func (r *route) place() int {
	switch {
	case len(r.waiting) > 0:
		return 0
	case r.rank > 0:
		return r.rank
	case r.isProven:
		return maxRoutes + 1
	}
	return maxRoutes + 1 + r.tries
}
