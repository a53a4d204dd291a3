package page_test

import (
	"fmt"
	"testing"

	"github.com/bully-agent/bully-agent/internal/test/browser"
)

// views are how the page is looked at in each test of its looks.
func views() (all []browser.View) {
	for _, width := range []int{360, 1400} {
		for _, dark := range []bool{false, true} {
			all = append(all, browser.View{Width: width, Height: 900, Dark: dark, Still: true})
		}
	}
	return all
}

// shown is when all parts of the page have something to show.
const shown = `document.documentElement.dataset.state === "live" && document.querySelectorAll("main section.has-rows").length >= 4`

// beyond names the parts whose table is broader than they are. What is there can be reached, and would not be seen.
const beyond = `[...document.querySelectorAll(".scroll")].filter((s) => s.scrollWidth > s.clientWidth).map((s) => s.getAttribute("aria-labelledby"))`

func TestThePageShowsTheClusterToEverybody(t *testing.T) {
	b := browser.Open(t)
	for _, v := range views() {
		t.Run(v.String(), func(t *testing.T) {
			f := newFake()
			s := serve(t, f)
			tab := b.For(t).Open(s.address, v)
			tab.Await(shown)
			for selector, text := range map[string]string{
				"h1": "alpha leads", "#tenure": "epoch 42", "#lease": "387 ms", "#members": "14 ms", "#members-count": "2 of 4 members alive",
				"#history": "process-gone", "#failovers-count": "8 failures: p50 22 ms, most 2.3 s", "#jobs": "in 7 h 1", "#events": "became leader, alpha, epoch 42",
			} {
				tab.AwaitText(selector, text)
			}
			tab.ExpectAccessible()
			for _, part := range browser.Eval[[]string](tab, beyond) {
				t.Errorf("%s is broader than the page", part)
			}
			tab.ExpectOnly(s.address)
			tab.Picture(fmt.Sprintf("page-%v", v))
			if said := tab.Messages(); len(said) > 0 {
				t.Errorf("the browser noted: %q", said)
			}
		})
	}
}
