// Package pictures draws the pictures of the documents, and holds the files in docs against what it draws.
package pictures

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/fence"
	"github.com/bully-agent/bully-agent/internal/test/browser"
	"github.com/bully-agent/bully-agent/internal/test/glass"
)

const docs = "../../../docs"

// pictures are in the order of their pages.
var pictures = []struct {
	page, file string
	draw       func() *drawing
}{
	{"how-it-works.md", "states.svg", states},
	{"how-it-works.md", "handover.svg", handover},
	{"how-it-works.md", "torn.svg", tornNetwork},
	{"how-it-works.md", "processes.svg", processes},
	{"how-it-works.md", "fenced.svg", fencedDisk},
	{"how-it-works.md", "rotation.svg", rotation},
	{"figures.md", "failover.svg", failover},
}

// screens are terminals, of which make pictures has kept in testdata what was seen.
var screens = []struct{ page, file, screen, title string }{
	{"operating.md", "lab.svg", "lab.txt", "lab: five agents, the leader killed twice, and who took over"},
	{"page.md", "top.svg", "top.txt", "top: members, who leads, and what has happened"},
}

// TestPictures holds each file against its script. BULLY_PICTURES names a directory to draw them into, and make pictures says so.
func TestPictures(t *testing.T) {
	for _, p := range pictures {
		keepOrHold(t, p.file, p.draw().svg())
	}
	for _, s := range screens {
		seen, err := os.ReadFile(filepath.Join("testdata", s.screen))
		if err != nil {
			t.Fatal(err)
		}
		keepOrHold(t, s.file, string(glass.Show(string(seen)).Picture(s.title)))
	}
}

func keepOrHold(t *testing.T, file, drawn string) {
	t.Helper()
	if to := os.Getenv(browser.PicturesVariable); to != "" {
		if err := os.WriteFile(filepath.Join(to, file), []byte(drawn), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if found := read(t, file); found != drawn {
		t.Errorf("docs/%s is not what its script draws: make pictures", file)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each text stays within its box or the picture, and clear of each other text, in the broadest font in use.
func TestTextsHaveTheirPlace(t *testing.T) {
	for _, p := range pictures {
		d := p.draw()
		if len(d.labels) < 10 {
			t.Errorf("%s: only %d texts", p.file, len(d.labels))
		}
		for i, l := range d.labels {
			if !l.within.has(l.at) {
				t.Errorf("%s: %q leaves its place by %.0f: it is at %.0f, within %.0f", p.file, l.text, beyond(l), l.at, l.within)
			}
			for _, other := range d.labels[:i] {
				if l.at.overlaps(other.at) {
					t.Errorf("%s: %q and %q overlap, at %.0f and %.0f", p.file, other.text, l.text, other.at, l.at)
				}
			}
		}
	}
}

// beyond is how far a text leaves its place.
func beyond(l label) float64 {
	return max(l.within.left-l.at.left, l.at.right-l.within.right, l.within.top-l.at.top, l.at.bottom-l.within.bottom)
}

// Each page shows its pictures, by their titles.
func TestThePagesShowEachPicture(t *testing.T) {
	at := map[string]int{}
	for _, p := range pictures {
		link := fmt.Sprintf("![%s](%s)", p.draw().title, p.file)
		i := strings.Index(read(t, p.page)[at[p.page]:], link)
		if i < 0 {
			t.Errorf("docs/%s has no %s after the picture before", p.page, link)
			continue
		}
		at[p.page] += i
	}
	for _, s := range screens {
		if link := fmt.Sprintf("![%s](%s)", s.title, s.file); !strings.Contains(read(t, s.page), link) {
			t.Errorf("docs/%s has no %s", s.page, link)
		}
	}
}

// What was measured is refused where it cannot be: a picture of it would lie.
func TestRacesAreReadOrRefused(t *testing.T) {
	rounds, all, err := races("# words\nrounds 3\nkill 1 2.5 4  a program, 1 s\n")
	if want := (race{"kill", "a program, 1 s", 1, 2.5, 4}); err != nil || rounds != 3 || len(all) != 1 || all[0] != want {
		t.Errorf("%d rounds of %v, error %v", rounds, all, err)
	}
	for _, text := range []string{"kill 1 2 x\n", "cut 3 2 4 p\n", "cut 0 2 4 p\n", "cut\n", "cut 1 5 4 p\n"} {
		if _, _, err := races(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// Each state of the election has its place.
func TestEachStateIsDrawn(t *testing.T) {
	seen := 0
	for s, p := range inOrder() {
		seen++
		if p == (point{}) {
			t.Errorf("%v has no place", s)
		}
	}
	if seen != len(at) || seen < 10 {
		t.Errorf("%d states, %d places", seen, len(at))
	}
}

// A fence takes and refuses the writes that the picture says.
func TestTheFenceDoesWhatIsDrawn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fence")
	for _, w := range writes {
		err := fence.Check(t.Context(), file, fence.Epoch{Counter: w.epoch, Owner: w.by}, fence.Options{})
		var refused *fence.Refused
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if taken := err == nil; taken != w.taken {
			t.Errorf("%s writes in epoch %d: taken %v, expected %v", w.by, w.epoch, taken, w.taken)
		}
	}
}

// At each time of the rotation all hosts accept what each begins with.
func TestTheHostsOfARotationHearEachOther(t *testing.T) {
	all, err := rings()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range turns {
		for _, from := range at.steps {
			for _, to := range at.steps {
				if !slices.Contains(all[to], all[from][0]) {
					t.Errorf("%v: a host that has taken step %d does not hear one that has taken %d", at.says, to, from)
				}
			}
		}
	}
}
