package sim

import (
	"slices"

	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// Each host keeps the receipts of others, which prove to a host that its state is an older copy (S19). Sealed ports have those that
// ship. In the others an oracle does the same: a host knows the highest incarnation of each other one that it has heard.

// receiptFile is what a state directory has of them.
type receiptFile struct {
	kept  []session.Receipt  // of sealed ports
	heard map[wire.ID]uint32 // of those in clear: incarnations
	later uint32             // a later life of this host itself that was proven; zero: none was
}

// copied is what a backup has.
func (f receiptFile) copied() receiptFile {
	heard := make(map[wire.ID]uint32)
	for id, n := range f.heard { // in no order: each is copied by itself
		heard[id] = n
	}
	return receiptFile{slices.Clone(f.kept), heard, f.later}
}

// areOfOthers reports whether the host with this id has met another one, in this life or an earlier one.
func (f *receiptFile) areOfOthers(self wire.ID) bool {
	for id := range f.heard { // in no order: one is enough
		if id != self {
			return true
		}
	}
	return slices.ContainsFunc(f.kept, func(r session.Receipt) bool { return r.ID != self })
}

// hear keeps the incarnation of a life, unless that is one of the past.
func (f *receiptFile) hear(id wire.ID, incarnation uint32) {
	if f.heard == nil {
		f.heard = make(map[wire.ID]uint32)
	}
	f.heard[id] = max(f.heard[id], incarnation)
}

// keepReceipts writes what is new in the table, as the agent does: it tries again while the disk takes no writes.
func (s *sealedPort) keepReceipts() {
	if s.m.disk.full || s.m.disk.errors {
		return
	}
	if kept, version := s.table.Receipts(s.written); version != s.written {
		s.m.disk.receipts.kept, s.written = kept, version
	}
}

// knows is the incarnation of a host's life of which the port has a receipt; zero: it has none.
func (s *sealedPort) knows(id wire.ID) uint32 {
	if s.known == nil || s.knownAt != s.written {
		s.known, s.knownAt = make(map[wire.ID]uint32), s.written
		for _, r := range s.m.disk.receipts.kept {
			s.known[r.ID] = r.Incarnation
		}
	}
	return s.known[id]
}

func (c *clearPort) knows(id wire.ID) uint32 { return c.m.disk.receipts.heard[id] }

// isPast reports whether what a life has sent is dropped, since a later one of its host was heard; then it is told so.
func (c *clearPort) isPast(p *packet) bool {
	incarnation := p.incarnation
	if later := c.knows(p.sender); incarnation < later {
		from, life := p.from, p.by
		c.w.after(c.w.net.weather.delay, func() {
			if from.life == life && from.isUp() && !c.w.isCut(c.m, from) {
				c.w.proveOlder(from, later)
			}
		})
		return true
	}
	c.m.disk.receipts.hear(p.sender, incarnation)
	return false
}

// proveOlder has an agent learn that its state is an older copy. Its port is closed from now on, and it ends: a leader first lets go.
func (w *World) proveOlder(m *machine, later uint32) {
	if m.isOlder {
		return
	}
	m.isOlder, m.refused, m.mustEnd = true, true, true
	m.disk.receipts.later = later
	w.proofs++
	w.say(m, "its state is an older copy: it had life %d", later)
	life := m.life
	w.after(0, func() {
		if m.life == life {
			w.endFor(m)
		}
	})
}

// isOlderCopy: the state directory knows that it is one, and no agent starts with it.
func (m *machine) isOlderCopy() bool { return m.disk.receipts.later > m.disk.state.Incarnation }

// refusesOlderCopy: an agent does not start, for that.
func (w *World) refusesOlderCopy(m *machine) bool {
	if m.isOlderCopy() {
		w.say(m, "does not start: its state is an older copy")
	}
	return m.isOlderCopy()
}

// meets notes that a process has opened something of a host that has a receipt of a later life of it. Two lives of one id that are
// there at a time prove nothing: which of them a host hears changes.
func (w *World) meets(m *machine, p *packet) {
	if p.knows > m.disk.state.Incarnation && w.beyond == Restored {
		m.hasMet = true
	}
}

// i29OlderStatesPromiseNothing: I29: a host whose state is an older copy neither votes, stands nor acknowledges once it has met
// another that has a receipt of its later life.
func (w *World) i29OlderStatesPromiseNothing(m *machine, f *wire.Frame) {
	switch f.Kind {
	case wire.Heartbeat, wire.Resign, wire.Leave, wire.ResignAck:
		return // of a leader that lets go
	}
	if m.hasMet {
		w.fail(29, "n%d sends %v in life %d after it was shown that it had a later one", m.number, f, m.disk.state.Incarnation)
	}
}
