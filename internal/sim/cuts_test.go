package sim

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// cutting is what the schedules in which keepers are cut have in common.
func cutting(seed uint64) Options {
	return Options{Seed: seed, Nodes: 3 + int(seed%2), noJobs: true, cuts: true, resources: seed%4 >= 2}
}

// half is every other of the schedules that cut keepers.
type half struct {
	aim  *aim
	came Pairs
	cuts Pairs
}

// play plays count schedules, of every other seed from first on, or as many as it takes to cut each pair that has come least times.
func (h *half) play(t *testing.T, first, count, least uint64) {
	for ; h.aim.played < count && (least == 0 || !h.hasAll(least)); first += 2 {
		h.aim.played++
		o := cutting(first)
		o.aim = h.aim
		r := Run(o)
		h.came.Add(&r.Pairs)
		h.cuts.Add(&r.Cuts)
		if r.Violation != nil {
			tellCut(t, first, &r)
		}
	}
}

// hasAll reports whether each pair that has come was cut so often, and enough schedules were played for all to have come.
func (h *half) hasAll(least uint64) bool {
	if h.aim.played < 1000 {
		return false
	}
	for last := range h.cuts {
		for next, came := range h.came[last] {
			if came > 0 && h.cuts[last][next] < least {
				return false
			}
		}
	}
	return true
}

// tellCut tells the story of a schedule that failed, and how it is played again: as a line of seeds.txt.
func tellCut(t *testing.T, seed uint64, r *Result) {
	o := cutting(seed)
	o.cutAt = r.cutAt
	words := fmt.Sprintf("%d nodes=%d", seed, o.Nodes)
	if o.resources {
		words += " resources"
	}
	at := strings.ReplaceAll(strings.Trim(fmt.Sprint(r.cutAt), "[]"), " ", ",")
	t.Errorf("%s\n  %s, at %v\n  %s cuts=%s\n%s", r.Violation.Text, r.Scenario, r.Violation.At, words, at, story(o, 60))
}

// TestKeepersAreCutBetweenEffects kills keepers between any two of their effects that come one after
// the other, and counts how often.
func TestKeepersAreCutBetweenEffects(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	count, least := uint64(300), uint64(0)
	if os.Getenv("BULLY_SIM") == "long" {
		count, least = 40_000, 100
	}
	count = number(t, "BULLY_SCHEDULES", count)
	first := number(t, "BULLY_SEED", 1)
	halves := [2]half{{aim: newAim(first)}, {aim: newAim(first + 1)}}
	t.Run("halves", func(t *testing.T) {
		for i := range halves {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				halves[i].play(t, first+uint64(i), count/2, least/2)
			})
		}
	})
	came, cuts := halves[0].came, halves[0].cuts
	came.Add(&halves[1].came)
	cuts.Add(&halves[1].cuts)
	t.Logf("%d schedules", halves[0].aim.played+halves[1].aim.played)
	for i := range came {
		for j, n := range came[i] {
			if n == 0 {
				continue
			}
			t.Logf("%-12s %-12s came %7d  cut %5d", effectNames[i], effectNames[j], n, cuts[i][j])
			if cuts[i][j] < least {
				t.Errorf("of keepers that had done %s and were to do %s %d were killed, want %d", effectNames[i], effectNames[j], cuts[i][j], least)
			}
		}
	}
}

// TestCutsAreRepeated: by its seed and the places of its cuts a schedule is the same once more, whatever has aimed at them.
func TestCutsAreRepeated(t *testing.T) {
	aim := newAim(1)
	cuts := 0
	for seed := uint64(1); seed <= 12; seed++ {
		o := cutting(seed)
		aim.played++
		o.aim = aim
		first := Run(o)
		o.aim, o.cutAt = nil, first.cutAt
		if again := Run(o); again.Hash != first.Hash || again.Cuts != first.Cuts {
			t.Errorf("seed %d, cut at %d, has hash %x, and %x when that is repeated", seed, first.cutAt, first.Hash, again.Hash)
		}
		cuts += len(first.cutAt)
	}
	if cuts < 30 {
		t.Errorf("%d keepers were killed in 12 schedules", cuts)
	}
}
