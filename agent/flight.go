package agent

import (
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/record"
)

// flight is the seat's flight recorder: it is where the Node is stepped, and keeps what
// went in and, in short, what came out. A nil flight steps and keeps nothing. It belongs to
// the loop.
type flight struct {
	ring    *record.Ring
	memory  []byte    // of the ring
	chance  *rand.PCG // the node's
	picture []byte    // reused
}

// newFlight takes so much memory, but of no page that was not written to. It lies beside
// Go's heap, which would grow by as much again for the sake of its collector.
func newFlight(size int, chance *rand.PCG, log hclog.Logger) *flight {
	if size == 0 {
		return nil
	}
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		log.Warn("nothing is recorded", "err", err)
		return nil
	}
	return &flight{ring: record.NewRing(memory), memory: memory, chance: chance}
}

func (f *flight) close() {
	if f != nil {
		_ = unix.Munmap(f.memory)
	}
}

// step is Node.Step, recorded.
func (f *flight) step(now time.Time, ev election.Event, node *election.Node) []election.Effect {
	if f == nil {
		return node.Step(now, ev)
	}
	if f.ring.IsDue(ev) {
		f.picture = node.AppendPicture(f.picture[:0])
		chance, _ := f.chance.MarshalBinary() // never fails
		f.ring.Begin(now, wallClock(), chance, f.picture)
	}
	effects := node.Step(now, ev)
	f.ring.Note(now, ev, effects)
	return effects
}
