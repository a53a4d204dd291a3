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

// routesInOrder are all routes: those to which something is sent, then those that are kept warm, in their order.
func (t *Table) routesInOrder() []*route {
	return slices.SortedFunc(maps.Values(t.routes), func(a, b *route) int { return cmp.Or(cmp.Compare(a.rank, b.rank), a.to.Compare(b.to)) })
}
