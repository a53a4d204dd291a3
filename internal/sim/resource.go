package sim

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// resource is something that leaders write to and that is fenced: it remembers
// the highest token and refuses lower ones.
type resource struct {
	token   wire.Epoch
	reign   int // of the last writer, in the order of true time
	refused uint64
	wrote   uint64
}

// write lets an acting leader write, now and then slowly: the write is under way
// while the leader may lose its lease, freeze or die.
func (w *World) write(m *machine) {
	token, reign := m.epoch, m.reign
	if w.rng.Uint32()&31 != 0 {
		w.arrive(m, token, reign, true)
		return
	}
	w.after(w.upTo(3*time.Second), func() { w.arrive(m, token, reign, false) })
}

// arrive is the resource's side.
func (w *World) arrive(m *machine, token wire.Epoch, reign int, acts bool) {
	r := &w.resource
	if token.Compare(r.token) < 0 {
		r.refused++
		w.i20LeaderIsNotRefused(m, token, acts)
		return
	}
	w.i20NoOlderWriteAfterNewer(m, token, reign)
	r.token, r.reign = token, max(reign, r.reign)
	r.wrote++
}

// I20: a fenced resource never takes an older leadership's write after a newer
// one's,
func (w *World) i20NoOlderWriteAfterNewer(m *machine, token wire.Epoch, reign int) {
	if w.mode == Quorum && reign < w.resource.reign {
		w.fail(20, "n%d's late write in %v is accepted after one of a newer leadership in %v", m.number, token, w.resource.token)
	}
}

// and never refuses the leader.
func (w *World) i20LeaderIsNotRefused(m *machine, token wire.Epoch, acts bool) {
	if w.mode == Quorum && acts {
		w.fail(20, "the resource refuses n%d, which acts in %v, after %v", m.number, token, w.resource.token)
	}
}
