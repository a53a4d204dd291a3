package sim

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// cutting is what the schedules in which keepers are cut have in common.
func cutting(seed uint64) Options {
	return Options{Seed: seed, Nodes: 3 + int(seed%2), noJobs: true, cuts: true, resources: seed%4 >= 2}
}

// never are the pairs of effects that cannot come, and why that is. All others must.
var never = []struct {
	last, next []effectKind
	why        string
}{
	{one(noEffect), allBut(orphansEffect, tellEffect),
		"Lanes have nothing to note, begin or end before orphans are ended, but after a journal that cannot be read, which no world has"},
	{allBut(noteEffect, tellEffect, cleanedEffect), one(orphansEffect),
		"CleanUp comes first, and Opened first or after what was said of the life before"},
	{one(overEffect), allBut(), "Over comes when nothing is left but what hangs. No order comes after it, and of what hangs nothing is noted"},
	{one(cleanedEffect), allBut(noteEffect, orphansEffect), "Opened follows a clean-up"},
	{allBut(noteEffect, orphansEffect, endEffect), one(cleanedEffect),
		"a clean-up ends with what it ends, or with a note: of its process, or that its hook is due yet"},
	{allBut(noteEffect, prepareEffect, beginEffect, tellEffect), one(startEffect),
		"a Prepare comes before a Start, and between them only what goes on beside a leadership: it is void once that ends"},
	{one(orphansEffect), list(beginEffect, freezeEffect, boundEffect, overEffect), "nothing has begun while orphans are ended"},
	{list(noEffect, prepareEffect, startEffect, beginEffect, freezeEffect, boundEffect), one(overEffect),
		"what is under way then has an end, which is noted, told or a resource's"},
	{list(freezeEffect, boundEffect), list(beginEffect, freezeEffect),
		"what is frozen or bounded is of a leadership that ends: nothing of it is begun, and it is frozen once"},
	{list(prepareEffect, endEffect), one(boundEffect), "only what is started, or runs, is bounded"},
}

func one(kind effectKind) []effectKind { return list(kind) }

func list(kinds ...effectKind) []effectKind { return kinds }

// allBut are all effects but these; Lanes begin with none.
func allBut(kinds ...effectKind) (all []effectKind) {
	for kind := noEffect + 1; kind < effectKinds; kind++ {
		if !slices.Contains(kinds, kind) {
			all = append(all, kind)
		}
	}
	return all
}

// whyNever is why an effect cannot come after another; empty: it can.
func whyNever(last, next effectKind) string {
	for _, n := range never {
		if slices.Contains(n.last, last) && slices.Contains(n.next, next) {
			return n.why
		}
	}
	return ""
}

// half is every other of the schedules that cut keepers.
type half struct {
	aim  *aim
	came Pairs
	cuts Pairs
}

// play plays count schedules, of every other seed from first on, or as many as it takes to cut each pair least times.
func (h *half) play(t *testing.T, first, count, least uint64) {
	for ; h.aim.played < count && (least == 0 || !h.hasAll(least)); first += 2 {
		h.aim.begin()
		o := cutting(first)
		o.aim = h.aim
		r := Run(o)
		h.came.Add(&r.Pairs)
		h.cuts.Add(&r.Cuts)
		if r.Violation != nil {
			tellCut(t, first, &r, r.Violation.Text)
		}
		for i := range r.Pairs {
			for j, n := range r.Pairs[i] {
				if why := whyNever(effectKind(i), effectKind(j)); why != "" && n > 0 {
					tellCut(t, first, &r, fmt.Sprintf("%s came after %s, but %s", effectNames[j], effectNames[i], why))
				}
			}
		}
	}
}

// hasAll reports whether each pair that can come was cut so often.
func (h *half) hasAll(least uint64) bool {
	for last := range h.cuts {
		for next := noEffect + 1; next < effectKinds; next++ {
			if h.cuts[last][next] < least && whyNever(effectKind(last), next) == "" {
				return false
			}
		}
	}
	return true
}

// tellCut tells the story of a schedule that failed, and how it is played again: as a line of seeds.txt.
func tellCut(t *testing.T, seed uint64, r *Result, what string) {
	o := cutting(seed)
	o.cutAt = r.cutAt
	words := fmt.Sprintf("%d nodes=%d", seed, o.Nodes)
	if o.resources {
		words += " resources"
	}
	at := strings.ReplaceAll(strings.Trim(fmt.Sprint(r.cutAt), "[]"), " ", ",")
	t.Errorf("%s\n  %s\n  %s cuts=%s\n%s", what, r.Scenario, words, at, story(o, 60))
}

// TestKeepersAreCutBetweenEffects kills keepers between any two of their effects that come one after
// the other, and counts how often.
func TestKeepersAreCutBetweenEffects(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	count, least := uint64(100), uint64(0)
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
		for j := noEffect + 1; j < effectKinds; j++ {
			if whyNever(effectKind(i), j) != "" {
				continue
			}
			t.Logf("%-12s %-12s came %7d  cut %5d", effectNames[i], effectNames[j], came[i][j], cuts[i][j])
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
		aim.begin()
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
