package sim

import (
	"math/rand/v2"
	"time"
)

// unusual is what few clusters have, and what the simulator learnt to draw after
// seeds had been written down: it has a stream of chance of its own, so that
// what a seed plays without it (Options.Usual) is not moved by it.
type unusual struct {
	rng *rand.Rand
}

func (w *World) drawUnusual(o *Options) {
	w.unusual.rng = rand.New(rand.NewPCG(o.Seed, 0x0dd))
}

func (u *unusual) upTo(d time.Duration) time.Duration {
	return time.Duration(u.rng.Float64() * float64(d))
}

// oneIn happens once in n times.
func (u *unusual) oneIn(n int) bool { return u.rng.IntN(n) == 0 }

func (u *unusual) happens(o odds) bool { return o > 0 && u.rng.Uint32() < uint32(o) }
