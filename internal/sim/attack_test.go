package sim

import "testing"

// TestAttacks: whoever forges frames, and whatever of, the invariants that the attack
// leaves hold while it lasts, and one leader is there again when it ends.
func TestAttacks(t *testing.T) {
	count := uint64(60)
	if testing.Short() {
		count = 14
	}
	count = number(t, "BULLY_ATTACKS", count)
	var total tally
	for _, attack := range []Attack{Stranger, Forger, Insider} {
		for seed := uint64(1); seed <= count; seed++ {
			play(t, Options{Seed: seed, Attack: attack}, &total)
		}
	}
	for _, f := range []Fault{Guessed, Forged, Impersonated} {
		if total.faults[f] == 0 {
			t.Errorf("%v never took effect", f)
		}
	}
}
