package lab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100) // 100 ms down to 1 ms
	for i := range hundred {
		hundred[i] = time.Duration(100-i) * time.Millisecond
	}
	tests := []struct {
		times []time.Duration
		p     float64
		want  time.Duration
	}{
		{hundred, 0.5, 50 * time.Millisecond},
		{hundred, 0.95, 95 * time.Millisecond},
		{hundred, 1, 100 * time.Millisecond},
		{hundred, 0.001, time.Millisecond},
		{hundred[:20], 0.95, 99 * time.Millisecond}, // the second slowest of 20
		{hundred[:3], 0.5, 99 * time.Millisecond},
		{hundred[:2], 0.5, 99 * time.Millisecond}, // measured, not between the two
		{hundred[:1], 0.5, 100 * time.Millisecond},
	}
	for _, tt := range tests {
		if got := percentile(tt.times, tt.p); got != tt.want {
			t.Errorf("p%v of %d: %v, want %v", tt.p*100, len(tt.times), got, tt.want)
		}
	}
	if hundred[0] != 100*time.Millisecond {
		t.Error("the samples were sorted in place")
	}
}

func TestPrintSamples(t *testing.T) {
	var out strings.Builder
	const ms = time.Millisecond
	printSamples(&out, []samples{
		{"kill", []round{{took: 412 * ms}, {took: 398 * ms}, {took: 1203 * ms}}},
		{"stop", []round{{9400 * time.Microsecond, 2 * ms, true, true}, {12 * ms, 3 * ms, true, false}, {11 * ms, 2 * ms, true, true}}},
		{"pause", nil},
	})
	want := `
           fault   runs      min      p50       p95       max   old let go first
            kill      3   398 ms   412 ms   1.203 s   1.203 s                  -
            stop      3   9.4 ms    11 ms     12 ms     12 ms             2 of 3
   its lose hook      3   2.0 ms   2.0 ms    3.0 ms    3.0 ms                   
           pause      0        -        -         -         -                  -

the p95 of 3 runs is just their slowest one: it says something from --repeat 50 on
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("got:%s\nwant:%s", got, want)
	}
}

// What one round was is read from the records since its fault.
func TestNewRound(t *testing.T) {
	const ms = time.Millisecond
	tests := map[string]struct {
		lines string
		want  round
	}{
		"let go first": {`
			1.000 n3 cut
			1.300 n3 losing 1
			1.350 n3 lost 1
			1.400 n2 became 2`, round{400 * ms, 300 * ms, true, true}},
		"let go at the same time, but first": {`
			1.000 n3 cut
			1.300 n3 losing 1
			1.400 n3 lost 1
			1.400 n2 became 2`, round{400 * ms, 300 * ms, true, true}},
		"still at it": {`
			1.000 n3 cut
			1.300 n3 losing 1
			1.400 n2 became 2
			1.400 n3 lost 1`, round{400 * ms, 300 * ms, true, false}},
		"killed in the middle of its hook": {`
			1.000 n3 cut
			1.300 n3 losing 1
			1.400 n2 became 2`, round{400 * ms, 300 * ms, true, false}},
		"killed, and cleaned up at its restart": {`
			1.000 n3 killed
			1.010 n2 became 2
			1.200 n3 losing 1 unclean-restart
			1.210 n3 lost 1 unclean-restart`, round{took: 10 * ms}},
		"somebody else's hooks": {`
			1.000 n3 killed
			1.010 n1 losing 1
			1.015 n1 lost 1
			1.020 n2 became 2`, round{took: 20 * ms}},
	}
	for name, tt := range tests {
		records := history(t, tt.lines)
		heir := slices.IndexFunc(records, func(r verdict.Record) bool { return r.What == verdict.Became })
		if got := newRound(records[0], records[heir], records[1:]); got.hasLet != tt.want.hasLet || got.lostFirst != tt.want.lostFirst ||
			(got.took-tt.want.took).Abs() > time.Microsecond || (got.letGo-tt.want.letGo).Abs() > time.Microsecond {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestWatchCountsWhatBeginsAndEnds(t *testing.T) {
	records := history(t, `
		0.5 n3 became 1
		2.0 n3 losing 1
		2.1 n3 lost 1
		3.0 n2 became 2
		3.5 n1 became 3
		9.0 n1 losing 3`)
	for to, want := range map[time.Duration]int{1 * time.Second: 0, 2500 * time.Millisecond: 1, 3200 * time.Millisecond: 1, 4 * time.Second: 2} {
		c := calm{from: time.Second, to: to}
		if c.count(records); c.changes() != want {
			t.Errorf("from 1 s to %v: %v, want %d", to, &c, want)
		}
	}
}

func TestEnoughRunsNeedNoWarning(t *testing.T) {
	var out strings.Builder
	printSamples(&out, []samples{{"kill", make([]round, honestP95)}})
	if strings.Contains(out.String(), "p95 of") {
		t.Errorf("a warning about %d runs:\n%s", honestP95, out.String())
	}
	out.Reset()
	printSamples(&out, []samples{{"kill", make([]round, honestP95-1)}})
	if !strings.Contains(out.String(), "p95 of 49 runs is just their third slowest one") {
		t.Errorf("no warning about %d runs:\n%s", honestP95-1, out.String())
	}
}

func history(t *testing.T, lines string) []verdict.Record {
	t.Helper()
	records, err := verdict.ParseStory(lines)
	if err != nil {
		t.Fatal(err)
	}
	return records
}
