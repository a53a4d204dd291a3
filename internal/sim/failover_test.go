package sim

import (
	"testing"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// TestFailoverCost is I19 and protocol 5: what a usual failover costs, by counting
// the datagrams of the very code that ships.
func TestFailoverCost(t *testing.T) {
	for _, algorithm := range []election.Algorithm{election.Classic, election.Enhanced, election.Smallest} {
		for _, n := range []int{5, 10, 20, 100} {
			f := Fail(Options{Seed: 1, Nodes: n, Algorithm: algorithm})
			if want := uint64(2 * (n - 2)); f.Violation != nil || f.Datagrams != want {
				t.Errorf("%v, %d nodes, available mode: %d datagrams, want %d; %v", algorithm, n, f.Datagrams, want, f.Violation)
			}
			f = Fail(Options{Seed: 1, Nodes: n, Algorithm: algorithm, Mode: Quorum})
			voters := min(n, wire.MaxVoters)
			if want := uint64(4 * (voters - 2)); f.Violation != nil || f.Datagrams != want {
				t.Errorf("%v, %d nodes, quorum mode: %d datagrams, want %d; %v", algorithm, n, f.Datagrams, want, f.Violation)
			}
		}
	}
}
