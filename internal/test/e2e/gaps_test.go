package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// target holds a figure against what it is to be. It fails where figures are taken: elsewhere the machine is busy with other tests.
func target(t *testing.T, what string, is, most time.Duration) {
	t.Helper()
	t.Logf("%s: %v, at most %v is wanted", what, is.Round(100*time.Microsecond), most)
	if rounds() > 1 && is > most {
		t.Errorf("%s: %v, want at most %v", what, is.Round(100*time.Microsecond), most)
	}
}

// gaps are the longest times without an answer of one fault, a round each, the shortest first.
type gaps []time.Duration

func gapsOf(all []failover) (g gaps) {
	for _, f := range all {
		g = append(g, f.gap)
	}
	slices.Sort(g)
	return g
}

// p50 is the one in the middle.
func (g gaps) p50() time.Duration { return g[len(g)/2] }

// upTo are the bounds of what is counted together.
var upTo = []time.Duration{10 * time.Millisecond, 15 * time.Millisecond, 20 * time.Millisecond, 25 * time.Millisecond, 30 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, vipBound}

// String is a histogram, a line for each count from the first to the last.
func (g gaps) String() string {
	counts := make([]int, len(upTo)+1)
	for _, gap := range g {
		i, _ := slices.BinarySearch(upTo, gap)
		counts[i]++
	}
	isSome := func(n int) bool { return n > 0 }
	first := slices.IndexFunc(counts, isSome)
	var text strings.Builder
	left := len(g)
	for i := first; left > 0; i++ {
		bound := "more"
		if i < len(upTo) {
			bound = "≤ " + upTo[i].String()
		}
		fmt.Fprintf(&text, "%8s %4d %s\n", bound, counts[i], strings.Repeat("#", counts[i]))
		left -= counts[i]
	}
	return text.String()
}

// keep appends them, in milliseconds, to the file that BULLY_GAPS names: a line for a fault.
func (g gaps) keep(t *testing.T, fault string) {
	t.Helper()
	path := os.Getenv("BULLY_GAPS")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(t, err)
	line := fault + ":"
	for _, gap := range g {
		line += " " + strconv.FormatFloat(float64(gap)/float64(time.Millisecond), 'f', 1, 64)
	}
	_, err = fmt.Fprintln(f, line)
	must(t, err)
	must(t, f.Close())
}

func TestGapsAreCounted(t *testing.T) {
	g := gaps{9 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond, 21 * time.Millisecond, 6 * time.Second}
	lines := strings.Split(strings.TrimSpace(g.String()), "\n")
	if len(lines) != len(upTo)+1 || lines[0] != "≤ 10ms    1 #" || !strings.HasSuffix(lines[2], "≤ 20ms    2 ##") || !strings.HasSuffix(lines[len(upTo)], "more    1 #") {
		t.Errorf("got\n%s", g)
	}
	if g.p50() != 20*time.Millisecond {
		t.Errorf("p50 %v", g.p50())
	}
}
