package sim

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// The best host crashes every ten seconds, and is started again at once: it remembers nothing,
// but the others do, and after some times it no longer gets its turn.
func TestABestHostThatCrashesMovesTheLeadFewTimes(t *testing.T) {
	for _, mode := range []Mode{Available, Quorum} {
		for _, algorithm := range []election.Algorithm{election.Classic, election.Enhanced, election.Smallest} {
			w := newCalm(&Options{Seed: 1, Nodes: 3, Mode: mode, Algorithm: algorithm, Usual: true, Attack: NoAttack, noJobs: true})
			w.populate()
			w.castAlike()
			w.record = newRecord(w.net.size)
			w.raging = true
			for _, m := range w.machines {
				w.boot(m)
			}
			best := w.machines[2]
			if algorithm == election.Smallest {
				best = w.machines[0]
			}
			w.runUntil(int64(10*time.Second), nil)
			if !w.acts(best) {
				t.Fatal("the best does not lead")
			}
			moves := 0
			for range 60 {
				w.kill(best, Crash)
				w.after(500*time.Millisecond, func() { w.boot(best) })
				moves += w.watch(10 * time.Second).reigns
			}
			if moves > 12 || w.failure != nil {
				t.Errorf("mode %d, %v: %d leaderships in ten minutes, %+v", mode, algorithm, moves, w.failure)
			}
			t.Logf("mode %d, %v: %d leaderships", mode, algorithm, moves)
		}
	}
}
