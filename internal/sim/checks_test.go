package sim

import (
	"testing"
)

// TestChecksOfHosts plays schedules in which hosts have checks, and wants that each of their faults took effect.
func TestChecksOfHosts(t *testing.T) {
	count := uint64(30)
	if isLong() {
		count = 3000
	}
	count = number(t, "BULLY_SCHEDULES", count)
	first := number(t, "BULLY_SEED", 1)
	var total tally
	for seed := first; seed < first+count; seed++ {
		o := Options{Seed: seed, Nodes: 2 + int(seed%4), noJobs: true, checks: true}
		if !isLong() {
			o.Port = portOf(seed)
		}
		play(t, o, &total)
	}
	for kind := CheckFails; kind <= CheckSticks; kind++ {
		t.Logf("%-20s %d", kind, total.faults[kind])
		if total.faults[kind] == 0 && count >= 30 {
			t.Errorf("fault %v never took effect", kind)
		}
	}
}
