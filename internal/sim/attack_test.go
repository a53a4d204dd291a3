package sim

import "testing"

// TestAttacks: whoever forges frames, and whatever of, the invariants that the attack
// leaves hold while it lasts, and one leader is there again when it ends.
func TestAttacks(t *testing.T) {
	count := uint64(60)
	if testing.Short() {
		count = 14
	}
	if isLong() {
		count = 240
	}
	count = number(t, "BULLY_ATTACKS", count)
	var total tally
	for seed := uint64(1); seed <= count; seed++ {
		for _, attack := range []Attack{Stranger, Forger} {
			o := Options{Seed: seed, Attack: attack}
			if !isLong() {
				o.Port = portOf(seed)
			}
			play(t, o, &total)
		}
	}
	for seed := uint64(1); seed <= count/4; seed++ { // inside are those of sealed ports, a quarter of what is drawn
		play(t, Options{Seed: seed, Attack: Insider, Port: SealedPort}, &total)
	}
	for _, f := range []Fault{Guessed, Forged, Impersonated} {
		if total.faults[f] == 0 {
			t.Errorf("%v never took effect", f)
		}
	}
}
