package sim

import "testing"

// TestAttacks: whoever forges frames, and whatever of, the invariants that the attack
// leaves hold while it lasts, and one leader is there again when it ends. Agents have sealed ports alone.
func TestAttacks(t *testing.T) {
	count := uint64(12)
	if testing.Short() {
		count = 8
	}
	if isLong() {
		count = 240
	}
	count = number(t, "BULLY_ATTACKS", count)
	var total tally
	for seed := uint64(1); seed <= count; seed++ {
		for _, attack := range []Attack{Stranger, Forger} {
			play(t, Options{Seed: seed, Attack: attack, Port: SealedPort}, &total)
		}
	}
	for seed := uint64(1); seed <= max(count/4, 8); seed++ {
		play(t, Options{Seed: seed, Attack: Insider, Port: SealedPort}, &total)
	}
	for _, f := range []Fault{Guessed, Forged, Impersonated} {
		if total.faults[f] == 0 {
			t.Errorf("%v never took effect", f)
		}
	}
}
