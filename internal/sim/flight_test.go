package sim

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election"
	flight "github.com/bully-agent/bully-agent/internal/record"
)

// Each node of a schedule is recorded, and its record replayed: under everything that the
// simulator does to it, a Node that is restored from its picture does what the first one
// did, and comes to the same state. Small rings make for many pictures.
func TestRecordsOfSchedulesReplay(t *testing.T) {
	seeds := uint64(15)
	if testing.Short() {
		seeds = 5
	}
	steps, segments := uint64(0), uint64(0)
	for seed := range seeds {
		recorders := map[*election.Node]*recorder{}
		o := Options{Seed: seed, noJobs: true}
		o.flight = func(m *machine, now time.Time, ev election.Event, step func() []election.Effect) []election.Effect {
			r := recorders[m.node]
			if r == nil {
				r = &recorder{ring: flight.NewRing(make([]byte, flight.MinMemory)), id: m.id.String()}
				recorders[m.node] = r
			}
			if r.ring.IsDue(ev) {
				chance, _ := m.chance.MarshalBinary()
				r.ring.Begin(now, now, chance, m.node.AppendPicture(nil))
			}
			effects := step()
			r.ring.Note(now, ev, effects)
			return effects
		}
		if v := Run(o).Violation; v != nil {
			t.Fatalf("seed %d: %v", seed, v)
		}
		for _, r := range recorders {
			n, s := r.replay(t, seed)
			steps, segments = steps+n, segments+s
		}
	}
	t.Logf("%d schedules: %d steps in %d segments", seeds, steps, segments)
}

type recorder struct {
	ring *flight.Ring
	id   string
}

func (r *recorder) replay(t *testing.T, seed uint64) (steps, segments uint64) {
	t.Helper()
	file := flight.AppendHeader(nil, &flight.Header{Schema: flight.Schema(), Self: flight.Name{ID: r.id}})
	first, end := r.ring.Segments()
	for number := first; number < end; number++ {
		file, _ = r.ring.AppendSegment(file, number)
	}
	rec, err := flight.Parse(flight.AppendEnd(file, end-first))
	if err != nil || len(rec.Flaws) > 0 {
		t.Fatalf("seed %d: %v, %q", seed, err, rec.Flaws)
	}
	player := rec.Play()
	for {
		m, more := player.Next()
		if !more {
			break
		}
		if steps++; m.Difference != nil {
			t.Fatalf("seed %d: step %d, %v: recorded %s, came %s", seed, m.Number, m.Event, m.Difference.Recorded, m.Difference.Came)
		}
	}
	if flaws := player.Flaws(); len(flaws) > 0 {
		t.Fatalf("seed %d: %q", seed, flaws)
	}
	return steps, end - first
}
