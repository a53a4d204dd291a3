package session

import (
	"cmp"
	"maps"
	"slices"
)

// A map gives its entries in no order. Where the order decides what is sent first, or for what a random byte is
// used, the table goes through them in one: the same calls with the same random bytes give the same datagrams.

// peersInOrder are all peers, sorted by life.
func (t *Table) peersInOrder() []*peer {
	return slices.SortedFunc(maps.Values(t.peers), func(a, b *peer) int { return a.compare(b.Life) })
}

// routesInOrder are all routes: those for which something waits, then those that are kept warm, in their order, then the rest.
func (t *Table) routesInOrder() []*route {
	return slices.SortedFunc(maps.Values(t.routes), func(a, b *route) int { return cmp.Or(cmp.Compare(a.place(), b.place()), a.to.Compare(b.to)) })
}

// place is when a route's turn comes: the lower, the earlier.
func (r *route) place() int {
	switch {
	case len(r.waiting) > 0:
		return 0
	case r.rank > 0:
		return r.rank
	}
	return maxRoutes + 1
}
