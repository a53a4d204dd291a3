package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestKeepersAreCutBetweenEffects kills keepers between any two of their effects that come one after
// the other, and counts how often.
func TestKeepersAreCutBetweenEffects(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	count, least := uint64(300), uint64(0)
	if os.Getenv("BULLY_SIM") == "long" {
		count, least = 20_000, 100
	}
	count = number(t, "BULLY_SCHEDULES", count)
	first := number(t, "BULLY_SEED", 1)
	var came, cuts Pairs
	for seed := first; seed < first+count; seed++ {
		r := Run(Options{Seed: seed, Nodes: 3 + int(seed%2), cutKeepers: true, noJobs: true, resources: seed%4 >= 2})
		came.Add(&r.Pairs)
		cuts.Add(&r.Cuts)
		if r.Violation != nil {
			t.Errorf("seed %d: %s", seed, r.Violation.Text)
		}
	}
	for i := range came {
		for j, n := range came[i] {
			if n == 0 {
				continue
			}
			t.Logf("%-12s %-12s came %7d  cut %5d", effectNames[i], effectNames[j], n, cuts[i][j])
			if cuts[i][j] < least && n >= 2*least {
				t.Errorf("of keepers that had done %s and were to do %s %d were killed, want %d", effectNames[i], effectNames[j], cuts[i][j], least)
			}
		}
	}
}
