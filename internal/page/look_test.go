package page_test

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/control"
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
	t.Parallel()
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
			tab.Picture(fmt.Sprintf("cluster-%v", v))
			if said := tab.Messages(); len(said) > 0 {
				t.Errorf("the browser noted: %q", said)
			}
		})
	}
}

// What is well, odd, bad and gone differ in more than their colour: their marks have shapes.
func TestMarksHaveShapes(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.with(func() {
		f.members[1].Status = "left"
		f.status.Resources = []control.Resource{{Name: "vip", What: "address", Here: true, OnFail: "hand-over"}}
	})
	tab := browser.Open(t).Open(serve(t, f).address, wide)
	tab.Await(shown + ` && document.querySelector("#resources tbody tr")`)
	looks := browser.Eval[map[string]string](tab, `Object.fromEntries(["good", "odd", "bad", "gone"].map((mark) => {
		const s = getComputedStyle(document.querySelector('td[data-mark="' + mark + '"] > bdi'), "::before");
		const isFilled = s.backgroundColor !== "rgba(0, 0, 0, 0)";
		return [mark, (s.borderRadius === "0px" ? "square" : "round") + (isFilled ? "" : ", hollow")];
	}))`)
	for mark, want := range map[string]string{"good": "round", "odd": "round", "bad": "square", "gone": "round, hollow"} {
		if looks[mark] != want {
			t.Errorf("the mark of what is %s is %s: expected %s", mark, looks[mark], want)
		}
	}
	if same := browser.Eval[bool](tab, `getComputedStyle(document.querySelector('td[data-mark="good"] > bdi'), "::before").backgroundColor === getComputedStyle(document.body).color`); same {
		t.Error("the mark of what is well has no colour")
	}
}

// TestThePageForTheDocuments takes what docs/page.md shows, whole and in each view: make pictures keeps it.
func TestThePageForTheDocuments(t *testing.T) {
	if os.Getenv(browser.PicturesVariable) == "" {
		t.Skip("skipped: make pictures takes them")
	}
	b := browser.Open(t)
	f, reason, lately := newFake(), "kernel upgrade", int64(40)
	f.with(func() {
		f.members = f.members[:3]
		f.members[1].Draining, f.members[1].Maintenance = true, &reason
		f.members[2].Status, f.members[2].RTTMS, f.members[2].HeardMS = "alive", 0.41, &lately
		f.status.Resources = []control.Resource{{Name: "vip", What: "address 192.168.1.50/24 on eth0", Here: true, OnFail: "hand-over"}}
		f.status.Members, f.status.Alive, f.status.Silent = 3, 3, nil
		f.history, f.jobs = f.history[len(f.history)-6:], f.jobs[:2]
	})
	s := serve(t, f)
	for _, v := range views() {
		tab := b.Open(s.address, v)
		tab.Await(shown)
		tab.Await(`document.querySelectorAll("#lease-trace polyline").length === 1 && document.querySelector("#lease-trace polyline").points.numberOfItems > 8`)
		tab.Picture(fmt.Sprintf("page-%v", v))
	}
}

// The document shows the page in each view, to each reader the one that suits.
func TestTheDocumentShowsEachView(t *testing.T) {
	const docs = "../../docs/"
	text, err := os.ReadFile(docs + "page.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views() {
		name := fmt.Sprintf("page-%v.png", v)
		if !strings.Contains(string(text), `="`+name+`"`) {
			t.Errorf("docs/page.md does not show %s", name)
		}
		picture, err := os.ReadFile(docs + name)
		if err != nil {
			t.Error(err)
			continue
		}
		seen, err := png.DecodeConfig(bytes.NewReader(picture))
		if err != nil || seen.Width != v.Width {
			t.Errorf("docs/%s is %d pixels wide, error %v: make pictures", name, seen.Width, err)
		}
	}
}
