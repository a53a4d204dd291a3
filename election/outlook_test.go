package election

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
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
		if !isTold("bars="+b.String(), ","+b.String()+" ", ","+b.String()+",") {
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

// A node says that it gave its leader up, and when, until it hears that one again or meets its next life.
func TestGivenUpAndBack(t *testing.T) {
	givenUp := func(n *story) bool {
		c, _ := n.node.Candidate(hostID(4))
		return !c.GivenUp.IsZero()
	}
	for name, back := range map[string]func(n *story){
		"heard": func(n *story) { n.hearsAndForgets(n.actor(4).says(wire.Frame{Kind: wire.Query})) },
		"next life": func(n *story) {
			m := n.actor(4).member(Alive)
			m.Incarnation, m.Nonce = m.Incarnation+1, m.Nonce+1
			n.happens(MemberChanged{m})
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := storyOf(t, 1, Config{}, 2, 3, 4)
			n.follows(4, 1)
			if givenUp(n) {
				t.Error("its leader is given up")
			}
			for n.node.state != Stagger {
				n.waits(10 * time.Millisecond)
				n.forgets()
			}
			n.hearsAndForgets(n.actor(3).heartbeat(2))
			n.is(Follow)
			if !givenUp(n) {
				t.Error("it follows another, and the first is not given up")
			}
			back(n)
			n.forgets()
			if givenUp(n) {
				t.Error("it is back, and given up still")
			}
		})
	}
}

// By the policy the best of all takes the lead from the one that has it: by rank where priorities are equal, and nobody
// who cannot lead now.
func TestTheBestTakesTheLeadBack(t *testing.T) {
	equal := func(n *story) {
		n.node.cfg.Priority = 7
		for _, p := range n.node.peers {
			p.Priority = 7
		}
	}
	observes := func(n *story) {
		m := n.actor(5).member(Alive)
		m.Part = Observer
		n.happens(MemberChanged{m})
	}
	barred := func(n *story) { n.happens(Barred{Bar: BarCheck, On: true}) }
	for name, tc := range map[string]struct {
		policy  Policy
		changes []func(n *story)
		want    wire.ID
	}{
		"priority":                  {PreemptPriority, nil, hostID(5)},
		"never":                     {PreemptNever, nil, wire.ID{}},
		"priority, and all equal":   {PreemptPriority, []func(*story){equal}, wire.ID{}},
		"always, and all equal":     {PreemptAlways, []func(*story){equal}, hostID(5)},
		"the best observes":         {PreemptPriority, []func(*story){observes}, hostID(4)},
		"always, the best observes": {PreemptAlways, []func(*story){equal, observes}, hostID(4)},
		"the next is barred too":    {PreemptPriority, []func(*story){observes, barred}, hostID(3)},
	} {
		n := storyOf(t, 4, Config{Preempt: tc.policy}, 2, 3, 5)
		n.follows(2, 1)
		for _, change := range tc.changes {
			change(n)
			n.forgets()
		}
		if got := n.node.Outlook().TakesBack; got != tc.want {
			t.Errorf("%s: %s takes the lead back, want %s", name, got.Short(), tc.want.Short())
		}
	}
	n := leading(t)
	n.meets(5)
	if got := n.node.Outlook().TakesBack; got != hostID(5) {
		t.Errorf("%s takes the lead from this leader", got.Short())
	}
}
