package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// TestM40_OneLeadershipAmongHostsThatAreFarApart: with round trips of up to 300 ms, which is
// no LAN, the profile lan has one leadership in the minute after a leader's death.
func TestM40_OneLeadershipAmongHostsThatAreFarApart(t *testing.T) {
	for _, mode := range []Mode{Available, Quorum} {
		for _, trip := range []time.Duration{time.Millisecond, 90 * time.Millisecond, 160 * time.Millisecond, 200 * time.Millisecond, 240 * time.Millisecond, 300 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s/%v", map[Mode]string{Available: "available", Quorum: "quorum"}[mode], trip), func(t *testing.T) {
				t.Parallel()
				for seed := uint64(1); seed <= 24; seed++ {
					holdFar(t, Options{Seed: seed, Nodes: 3 + int(seed/6%3), Mode: mode, Usual: true, Attack: NoAttack, noJobs: true,
						Algorithm: []election.Algorithm{election.Classic, election.Enhanced, election.Smallest}[seed%3]}, trip, seed%2 == 0)
				}
			})
		}
	}
}

func holdFar(t *testing.T, o Options, trip time.Duration, isHost bool) {
	t.Helper()
	r := FarApart(o, trip, isHost)
	if r.Violation != nil || r.Reigns != 1 || !r.Agreed || r.Gap > gapAllowed+gapTrips*trip {
		t.Errorf("seed %d, %d nodes, %v, host %t: %d leaderships, longest gap %v, agreed %t, %+v", o.Seed, o.Nodes, o.Algorithm, isHost, r.Reigns, r.Gap, r.Agreed, r.Violation)
	}
}
