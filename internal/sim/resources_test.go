package sim

import (
	"testing"
)

// TestResourcesOfLeaders plays schedules in which leaders have resources, and wants that each of their faults took effect.
func TestResourcesOfLeaders(t *testing.T) {
	count := uint64(75)
	if isLong() {
		count = 5000
	}
	count = number(t, "BULLY_SCHEDULES", count)
	first := number(t, "BULLY_SEED", 1)
	var total tally
	for seed := first; seed < first+count; seed++ {
		o := Options{Seed: seed, Nodes: 3 + int(seed%3), Mode: Mode(1 + seed%2), noJobs: true, resources: true}
		if !isLong() {
			o.Port = portOf(seed)
		}
		play(t, o, &total)
	}
	for kind := ResourceRefused; kind <= ResourceByKernel; kind++ {
		t.Logf("%-20s %d", kind, total.faults[kind])
		if total.faults[kind] == 0 && count >= 75 && kind < ResourceHeldOn {
			t.Errorf("fault %v never took effect", kind)
		}
	}
}
