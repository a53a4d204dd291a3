package election

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each thing that keeps a node from standing, from claiming or from asking for its turn,
// and each reason for which others leave it out, is in a story that asks why.
func TestEachConjunctHasAStory(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "testdata", "election", "*", "why*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	var told strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		told.Write(text)
	}
	isTold := func(words ...string) bool {
		for _, word := range words {
			if strings.Contains(told.String(), word) {
				return true
			}
		}
		return false
	}
	for b := range barCount {
		if b != BarSameID && !isTold("bars="+b.String(), ","+b.String()+" ", ","+b.String()+",") { // that one is TestASameIDIsABar's
			t.Errorf("no story has the bar %s", b)
		}
	}
	for h := NoHurdle + 1; h < hurdleCount; h++ {
		if !isTold("hurdle=" + h.String()) {
			t.Errorf("no story has the hurdle %s", h)
		}
	}
	for p := NoPreemption + 1; p < preemptionCount; p++ {
		if !isTold("preempt=" + p.String()) {
			t.Errorf("no story has a node that %s", p)
		}
	}
	for u := Fit + 1; u < unfitCount; u++ {
		if !isTold(":" + u.String()) {
			t.Errorf("no story leaves a member out for %s", u)
		}
	}
}

// A node that another agent of its id keeps out says so.
func TestASameIDIsABar(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.follows(2, 1)
	n.node.refused = true
	if got := n.node.Status().Bars; !got.Has(BarSameID) {
		t.Errorf("bars are %q, expected same-id", got)
	}
}
