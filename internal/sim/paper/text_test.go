package paper

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTextAtThePapersSizes: the tables of the paper, and all of it in a terminal's
// width.
func TestTextAtThePapersSizes(t *testing.T) {
	text := Text(Tables([]int{5, 10, 20}))
	for _, want := range []string{
		"                   n = 5            n = 10           n = 20\n" +
			"                   sent live cast   sent live cast   sent live cast\n" +
			"  Bully             *24   24   15    *99   99   55   *399  399  210\n" +
			"  Enhanced Bully     *9    7    4    *18   16    6    *38   36   11\n" +
			"  Smallest id        12   12   *6     27   27  *11     57   57  *21\n",
		"  Bully              *4    3    1     *9    8    1    *19   18    1\n" +
			"  Enhanced Bully     *4    3    1     *9    8    1    *19   18    1\n" +
			"  Smallest id         4    3   *1      9    8   *1     19   18   *1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("these lines are missing:\n%s\nin:\n%s", want, text)
		}
	}
	for line := range strings.SplitSeq(Text(Tables([]int{5, 10, 20})), "\n") {
		if columns := utf8.RuneCountInString(line); columns > textWidth {
			t.Errorf("%d columns: %s", columns, line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("line ends in a space: %q", line)
		}
	}
}

func TestEveryRowIsExplained(t *testing.T) {
	for _, table := range Tables([]int{MinSize, 4}) {
		if table.About == "" {
			t.Errorf("%s: nothing said about it", table.Title)
		}
		for _, row := range table.Rows {
			if !strings.HasSuffix(row.Note, ".") || len(row.Counts) != 2 {
				t.Errorf("%s, %s: note %q, %d counts", table.Title, row.Name, row.Note, len(row.Counts))
			}
			for i, c := range row.Counts {
				if c.Sent == 0 {
					t.Errorf("%s, %s: nothing was sent for n = %d", table.Title, row.Name, table.Sizes[i])
				}
			}
		}
	}
}

func TestWhatWasNotRunShowsAsADash(t *testing.T) {
	storm := Tables([]int{unguardedMax, unguardedMax + 1})[3]
	last := storm.Rows[len(storm.Rows)-1]
	if last.Counts[0].Sent == 0 || last.Counts[1] != NotRun {
		t.Fatalf("run for %v: %+v", storm.Sizes, last.Counts)
	}
	if text := Text([]Table{storm}); !strings.Contains(text, fmt.Sprint(last.Counts[0].Sent)+" 524287 262144      -    -    -\n") {
		t.Errorf("no dashes for what was not run:\n%s", text)
	}
}

// TestOurs: rows of the caller's are shown as they are.
func TestOurs(t *testing.T) {
	ours := Ours([]int{5}, []Row{{Name: "Best node", Note: "As counted.", Counts: []Count{{Sent: 8, Live: 6, Broadcast: 8}}}, {Name: "Joiner", Note: "Asks nobody.", Counts: []Count{{}}}})
	if text := Text([]Table{ours}); !strings.Contains(text, "  Best node      8    6    8\n  Joiner         0    0    0\n") || !strings.Contains(text, "  Best node: As counted.\n") {
		t.Errorf("unexpected table:\n%s", text)
	}
}
