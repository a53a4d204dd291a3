package sim

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// graphs is how many graphs of links that stay cut a test run draws for each mode.
// BULLY_GRAPHS asks for another number (make graphs), each watched for ten minutes then,
// BULLY_SEED for the first.
const graphs = 36

// TestQ1_LinksThatStayCut is Q1 for links that are cut between some pairs for good: in quorum
// mode somebody leads wherever a voter reaches a majority directly, and in neither mode
// the leadership goes from host to host.
func TestQ1_LinksThatStayCut(t *testing.T) {
	watched, count := time.Minute, uint64(graphs)
	if os.Getenv("BULLY_GRAPHS") != "" {
		watched, count = 10*time.Minute, number(t, "BULLY_GRAPHS", graphs)
	}
	first := number(t, "BULLY_SEED", 1)
	for _, mode := range []Mode{Quorum, Available} {
		t.Run(map[Mode]string{Quorum: "quorum", Available: "available"}[mode], func(t *testing.T) {
			var worst Links
			var mu sync.Mutex
			t.Run("graphs", func(t *testing.T) {
				for part := range uint64(2) {
					t.Run(fmt.Sprint(part), func(t *testing.T) {
						t.Parallel()
						for seed := first + part; seed < first+count; seed += 2 {
							r := holdLinks(t, graphOptions(seed, mode), watched)
							mu.Lock()
							worst.Gap, worst.Reigns = max(worst.Gap, r.Gap), max(worst.Reigns, r.Reigns)
							mu.Unlock()
						}
					})
				}
			})
			t.Logf("%d graphs, %v each: longest gap %v, most leaderships %d", count, watched, worst.Gap, worst.Reigns)
		})
	}
}

// Two islands have a leader each, and a host between them hears neither. It gives up the one
// of the higher epoch, and asks who follows the other one: that one hears its leader, so it
// stays. Else it left it for the first, and the two leaders claimed above each other in turn.
func TestR7_WhoHearsALeaderStaysWithIt(t *testing.T) {
	holdLinks(t, graphOptions(731, Available), 2*time.Minute)
}

func graphOptions(seed uint64, mode Mode) Options {
	return Options{Seed: seed, Nodes: 3 + int(seed/3%5), Mode: mode, Usual: true, Attack: NoAttack, noJobs: true,
		Algorithm: []election.Algorithm{election.Classic, election.Enhanced, election.Smallest}[seed%3]}
}

// holdLinks plays one graph and holds it to its bounds.
func holdLinks(t *testing.T, o Options, watched time.Duration) Links {
	t.Helper()
	r := CutLinks(o, watched)
	most := reignsAvailable
	if o.Mode == Quorum {
		most = reignsQuorum
	}
	isGap := o.Mode == Quorum && r.Gap > gapAllowed
	if o.Mode == Quorum && !r.Promised {
		isGap, r.Gap = false, 0
	}
	if r.Violation != nil || isGap || r.Reigns > most {
		t.Errorf("seed %d, %s, cut %s: longest gap %v, %d leaderships, %+v", o.Seed, r.Scenario, r.Cuts, r.Gap, r.Reigns, r.Violation)
	}
	return r
}
