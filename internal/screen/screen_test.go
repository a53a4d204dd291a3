package screen

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/test/glass"
)

func many(n int) Picture {
	p := Picture{Title: []string{"a title", "and a second line of it that is longer than some screens are wide"}, Head: []string{"NAME", "STATE"},
		Message: "a message", Help: "up · down · quit"}
	for i := range n {
		p.Rows = append(p.Rows, Row{Cells: []string{fmt.Sprintf("n%03d", i), strings.Repeat("x", i)}})
	}
	for i := range 100 {
		p.Recent = append(p.Recent, fmt.Sprintf("event %d", i))
	}
	p.Rows[0].Paint = "32"
	return p
}

// Whatever the size of the terminal: nothing wraps or scrolls, every line arrives whole, and nothing of a larger picture
// before is left.
func TestPictureFitsTheScreen(t *testing.T) {
	for _, size := range []struct{ width, height int }{{20, 7}, {8, 3}, {1, 1}, {80, 24}, {200, 60}, {80, 200}} {
		at := glass.New(size.width, size.height)
		for _, n := range []int{150, 3} {
			p := many(n)
			for _, p.Selected = range []int{0, n / 2, n - 1} {
				lines := p.Lines(size.width, size.height)
				at.Write(drawn(lines, size.width, size.height))
				want := make([]string, 0, len(lines))
				for _, l := range lines {
					want = append(want, strings.TrimRight(strings.TrimSuffix(strings.TrimPrefix(l, "\x1b[32m"), "\x1b[0m"), " "))
				}
				if got := strings.TrimRight(at.String(), "\n"); got != strings.TrimRight(strings.Join(want, "\n"), "\n") {
					t.Fatalf("%v: on the screen is\n%s\nand not\n%s", size, got, strings.Join(want, "\n"))
				}
				if at.Scrolled > 0 {
					t.Errorf("%v: it scrolls", size)
				}
				if size.height > 10 && !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, fmt.Sprintf("> n%03d", p.Selected)) }) {
					t.Errorf("%v: row %d is selected and not shown", size, p.Selected)
				}
			}
		}
	}
}

// What is no terminal gets the table without what a terminal needs.
func TestPictureAsText(t *testing.T) {
	p := many(2)
	if got, want := p.Text(), p.Title[0]+"\n"+p.Title[1]+"\n\nNAME  STATE\nn000  \nn001  x\n\na message\n"; got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// On a narrow screen lines go on below themselves, and the columns that are there are whole.
func TestPictureOnANarrowScreen(t *testing.T) {
	p := Picture{Title: []string{"alpha: leader · cluster home-lab, available mode"}, Head: []string{"NAME", "STATUS", "ADDRESS"},
		Rows:   []Row{{Cells: []string{"alpha", "alive, leader", "192.168.1.11:7950"}}},
		Recent: []string{"10:00:00  agent started", "10:00:01  became leader of all the hosts epoch=1"}, Message: "a message of some words more", Help: "q quit"}
	const want = `alpha: leader · cluster
  home-lab, available mode

  NAME   STATUS
> alpha  alive, leader

10:00:00  agent started
10:00:01  became leader of
          all the hosts
          epoch=1
a message of some words
  more
q quit`
	if got := strings.Join(p.Lines(26, 16), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p.Title = []string{"one", "two", "three", "four", "five"}
	if got := p.Lines(26, 9); got[4] != "five" || got[6] != "  NAME   STATUS" {
		t.Errorf("a title that leaves no room for folding: %q", got)
	}
}

// Whatever the width, folding loses no word.
func TestFoldKeepsAllWords(t *testing.T) {
	for _, line := range []string{"", "one", "a  column and what follows it", "averylongwordthatfitsnowhere and more", "  leading", "x  averylongwordbehindacolumn"} {
		for width := 1; width < 40; width++ {
			folded := fold(line, width)
			for _, part := range folded {
				if len([]rune(part)) > width {
					t.Errorf("%q in %d columns: %q", line, width, part)
				}
			}
			if got, want := strings.ReplaceAll(strings.Join(folded, ""), " ", ""), strings.ReplaceAll(line, " ", ""); got != want {
				t.Errorf("%q in %d columns: %q", line, width, folded)
			}
		}
	}
}

// As many notes as have room are shown, the first always, and how many are not.
func TestNotesHaveHalfTheRoom(t *testing.T) {
	p := Picture{Title: []string{"a title"}, Head: []string{"NAME", "STATE"}, Rows: []Row{{Cells: []string{"n1", "x"}}}, More: "(and %d more in status)", Help: "q quit",
		Notes: []string{"note: the first of them", "note: the second, which is one of many words", "note: the third"}, Recent: []string{"one", "two", "three", "four"}}
	for _, test := range []struct {
		width, height int
		want          string
	}{
		{30, 16, "one|two|three|four|note: the first of them|note: the second, which is one|  of many words|note: the third|q quit"},
		{30, 11, "two|three|four|note: the first of them|(and 2 more in status)|q quit"},
		{40, 8, "four|note: the first o (and 2 more in status)|q quit"},
		{40, 6, "note: the first o (and 2 more in status)"},
	} {
		lines := p.Lines(test.width, test.height)
		if got := strings.Join(lines[min(5, len(lines)):], "|"); got != test.want {
			t.Errorf("%d×%d: %q, expected %q", test.width, test.height, got, test.want)
		}
	}
	p.Message = "a message"
	if got := p.Lines(40, 16); got[len(got)-2] != "a message" || !slices.Contains(got, "note: the third") {
		t.Errorf("notes and a message: %q", got)
	}
}

func TestKeys(t *testing.T) {
	tests := map[string][]Key{
		"k":            {'k'},
		"12":           {'1', '2'},
		"\x1b[A\x1b[B": {KeyUp, KeyDown},
		"\x1bOAq":      {KeyUp, 'q'},
		"\x1b":         nil,
		"\x1b[":        nil,
		"\x1b[C":       nil, // right
		"\x1b[1;5A":    {KeyUp},
		"\x1b[3~k":     {'k'}, // delete
		"\x03":         {KeyCtrlC},
		"\x1b[1":       nil,
	}
	for typed, want := range tests {
		if got := decodeKeys([]byte(typed)); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", typed, got, want)
		}
	}
	keys := readKeys(strings.NewReader("s"), t.Context().Done())
	if a, b := <-keys, <-keys; a != 's' || b != KeyEnd {
		t.Errorf("a keyboard that ends: %v, %v", a, b)
	}
}
