package lab

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// round is what one fault led to.
type round struct {
	took      time.Duration // until the become-leader hook of another node began
	letGo     time.Duration // until the old leader's own lose hook began, if it hasLet
	hasLet    bool          // the old leader ran its lose hook; a killed one cannot
	lostFirst bool          // that had ended when the become hook began
}

// newRound reads one from the records since the fault.
func newRound(fault, heir verdict.Record, records []verdict.Record) round {
	r := round{took: heir.At - fault.At}
	for _, x := range records {
		switch {
		case x.Node != fault.Node || x.Cause == verdict.CauseUncleanRestart:
		case x.What == verdict.Losing && !r.hasLet:
			r.letGo, r.hasLet = x.At-fault.At, true
		case x.What == verdict.Lost && r.hasLet:
			// Equal times: the journal's order is the true one, and at tells no more than it.
			r.lostFirst = x.At <= heir.At && indexOf(records, x) < indexOf(records, heir)
			return r
		}
	}
	return r
}

func indexOf(records []verdict.Record, r verdict.Record) int { return slices.Index(records, r) }

// samples are the rounds of one kind of fault, in order.
type samples struct {
	fault  string
	rounds []round
}

// times are from the fault to the become-leader hook of another node.
func (s samples) times() (times []time.Duration) {
	for _, r := range s.rounds {
		times = append(times, r.took)
	}
	return times
}

// letGo are the times from the fault to the old leader's lose hook, where it ran.
func (s samples) letGo() (times []time.Duration) {
	for _, r := range s.rounds {
		if r.hasLet {
			times = append(times, r.letGo)
		}
	}
	return times
}

// lostFirst is in how many rounds the old leader's lose hook had ended before the new one's become hook began.
func (s samples) lostFirst() (n int) {
	for _, r := range s.rounds {
		if r.lostFirst {
			n++
		}
	}
	return n
}

// honestP95 is how many runs a p95 needs to say more than the maximum does.
const honestP95 = 50

// percentile is the smallest sample that p of all samples do not exceed (nearest rank): a time that was measured,
// never one between two. p is in (0, 1]; times must not be empty.
func percentile(times []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	rank := int(math.Ceil(p * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// printSamples prints a row for each fault and, where the runs are too few, what the p95 is worth.
func printSamples(w io.Writer, all []samples) {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "fault\truns\tmin\tp50\tp95\tmax\told let go first\t\n")
	fewest := honestP95
	for _, s := range all {
		if len(s.rounds) == 0 {
			fmt.Fprintf(table, "%s\t0\t-\t-\t-\t-\t-\t\n", s.fault)
			continue
		}
		fewest = min(fewest, len(s.rounds))
		first := "-" // a killed agent runs no hook
		if n := len(s.letGo()); n > 0 {
			first = fmt.Sprintf("%d of %d", s.lostFirst(), len(s.rounds))
		}
		printTimes(table, s.fault, s.times(), first)
		if times := s.letGo(); len(times) > 0 && s.fault != faultPause { // that of a frozen one measures our patience
			printTimes(table, "its lose hook", times, "")
		}
	}
	table.Flush()
	if fewest < honestP95 {
		place := fewest - int(math.Ceil(0.95*float64(fewest))) // below 50 runs, 0 to 2
		fmt.Fprintf(w, "\nthe p95 of %d runs is just their %s one: it says something from --repeat %d on\n",
			fewest, [...]string{"slowest", "second slowest", "third slowest"}[place], honestP95)
	}
}

func printTimes(w io.Writer, name string, times []time.Duration, note string) {
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t\n", name, len(times), verdict.Span(slices.Min(times)),
		verdict.Span(percentile(times, 0.5)), verdict.Span(percentile(times, 0.95)), verdict.Span(slices.Max(times)), note)
}
