package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// findings are what a lab's task came to.
type findings struct {
	failed  error     // why the task did not get to its end; nil if it did
	samples []samples // of --fault
	calm    *calm     // of --watch
}

// report judges what happened and prints the result, as text or as one JSON document. The error says in one line that a
// promise was broken or the task failed.
func (l *lab) report(f findings) error {
	l.isJudged = true
	r := l.rules()
	r.OneInTheEnd = f.failed == nil && !l.isLive()
	r.End = time.Since(l.journal.begun)
	records := l.journal.all()
	v := verdict.Judge(records, r)
	switch {
	case l.JSON:
		if err := l.printJSON(records, v, f); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	case f.samples != nil:
		printSamples(l.Out, f.samples)
		printChecks(l.Out, v)
	case f.calm != nil:
		fmt.Fprintf(l.Out, "\n%v\n", f.calm)
		printChecks(l.Out, v)
	default:
		printChecks(l.Out, v)
		printFaults(l.Out, v.Faults)
	}
	if !l.JSON && slices.ContainsFunc(records, func(r verdict.Record) bool { return r.What == verdict.Paused }) {
		fmt.Fprintln(l.Out, "  note    a frozen agent cannot run its lose hook: another leader in that time is no breach")
	}
	if !l.JSON && v.Late != "" {
		fmt.Fprintln(l.Out, "  note    "+v.Late)
	}
	if f.failed != nil {
		return f.failed
	}
	if !v.Held() {
		return errors.New("the verdict is that a promise was broken")
	}
	return nil
}

// rules are the bounds that the verdict works with.
func (l *lab) rules() verdict.Rules {
	return verdict.Rules{Lease: leases[l.Profile], Allowance: 250 * time.Millisecond, Heal: 30 * time.Second, // Allowance: arbitrary
		Quorum: l.isQuorum(), ShortHooks: l.LoseHook < l.stopBudget()}
}

// printChecks prints a line for each promise, and one for each place where it was broken.
func printChecks(w io.Writer, v verdict.Verdict) {
	fmt.Fprintln(w, "\nverdict")
	for _, c := range v.Checks {
		name := c.Name
		if c.Word() == "-" {
			name += ": " + c.Untested
		}
		fmt.Fprintf(w, "  %-6s  %s\n", c.Word(), name)
		for _, b := range c.Breaches {
			fmt.Fprintf(w, "          %s\n", b)
		}
	}
}

// printFaults prints a line for each fault.
func printFaults(w io.Writer, verdicts []verdict.Fault) {
	if len(verdicts) == 0 {
		return
	}
	fmt.Fprintln(w, "\nfaults")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range verdicts {
		word := "held"
		if len(f.Breaches) > 0 {
			word = "BROKEN"
		}
		fmt.Fprintf(table, "  %s\t+%s\t%s\t%s\t%s\n", word, verdict.Seconds(f.At), f.Node, f.What, f.Outcome())
	}
	table.Flush()
}

// The JSON document. Names and units are kept; new ones may be added.
type (
	jsonReport struct {
		Nodes    int          `json:"nodes"`
		Netns    bool         `json:"netns"`
		Mode     string       `json:"mode"`
		Algo     string       `json:"algorithm"`
		Profile  string       `json:"profile"`
		Preempt  string       `json:"preempt"`
		Schedule string       `json:"scheduling"`
		Weather  string       `json:"weather,omitempty"`
		Busy     int          `json:"busy,omitempty"`  // spinning processes
		Held     bool         `json:"held"`            // every promise was kept and the task done
		Error    string       `json:"error,omitempty"` // why the task was not done
		Checks   []jsonCheck  `json:"checks"`
		Samples  []jsonTimes  `json:"samples"`
		Watch    *jsonWatch   `json:"watch,omitempty"`
		Faults   []jsonFault  `json:"faults"`
		Timeline []jsonRecord `json:"timeline"`
	}
	jsonCheck struct {
		Promise  string   `json:"promise"`
		Held     bool     `json:"held"`
		Breaches []string `json:"breaches"`
		// Untested is what did not happen, so that Held says nothing.
		Untested string `json:"untested,omitempty"`
	}
	jsonTimes struct {
		Fault string    `json:"fault"`
		Runs  int       `json:"runs"`
		MinMS float64   `json:"min_ms"`
		P50MS float64   `json:"p50_ms"`
		P95MS float64   `json:"p95_ms"` // of fewer than 50 runs it says little
		MaxMS float64   `json:"max_ms"`
		AllMS []float64 `json:"all_ms"` // in the order of the runs

		LetGo *jsonTimes `json:"let_go,omitempty"` // from the fault to the begin of the old leader's lose hook
		// In how many runs the old leader's lose hook had ended before the new one's become hook began.
		LetGoFirst *int `json:"let_go_first,omitempty"`
	}
	jsonWatch struct {
		Seconds float64 `json:"seconds"`
		Changes int     `json:"changes"` // the greater of the next two
		Begun   int     `json:"leaderships_begun"`
		Ended   int     `json:"leaderships_ended"`
	}
	jsonFault struct {
		AtMS      float64  `json:"at_ms"`
		Node      string   `json:"node"`
		Fault     string   `json:"fault"`
		Led       bool     `json:"led"`
		Successor string   `json:"successor,omitempty"`
		GapMS     float64  `json:"gap_ms,omitempty"`
		Breaches  []string `json:"breaches"`
	}
	jsonRecord struct {
		AtMS  float64 `json:"at_ms"`
		Node  string  `json:"node"`
		What  string  `json:"what"`
		Epoch uint64  `json:"epoch,omitempty"`
		Owner string  `json:"epoch_owner,omitempty"`
		Cause string  `json:"cause,omitempty"`
	}
)

func (l *lab) printJSON(records []verdict.Record, v verdict.Verdict, found findings) error {
	doc := jsonReport{Nodes: l.Nodes, Netns: l.Netns, Mode: l.Mode, Algo: l.Algorithm, Profile: l.Profile, Preempt: l.Preempt, Schedule: l.Scheduling,
		Busy: l.Busy, Held: v.Held() && found.failed == nil,
		Checks: []jsonCheck{}, Samples: []jsonTimes{}, Faults: []jsonFault{}, Timeline: []jsonRecord{}}
	if found.failed != nil {
		doc.Error = found.failed.Error()
	}
	if sky := l.weather(); !sky.IsFine() {
		doc.Weather = sky.String()
	}
	if c := found.calm; c != nil {
		doc.Watch = &jsonWatch{(c.to - c.from).Seconds(), c.changes(), c.begun, c.ended}
	}
	for _, c := range v.Checks {
		doc.Checks = append(doc.Checks, jsonCheck{c.Name, c.Held(), texts(c.Breaches), c.Untested})
	}
	for _, s := range found.samples {
		if len(s.rounds) > 0 {
			doc.Samples = append(doc.Samples, s.json())
		}
	}
	for _, f := range v.Faults {
		doc.Faults = append(doc.Faults, jsonFault{AtMS: ms(f.At), Node: f.Node, Fault: f.What.Token(),
			Led: f.Led, Successor: f.Successor, GapMS: ms(f.Gap), Breaches: texts(f.Breaches)})
	}
	for _, r := range records {
		doc.Timeline = append(doc.Timeline, jsonRecord{ms(r.At), r.Node, r.What.Token(), r.Epoch.Counter, r.Epoch.Owner, r.Cause})
	}
	out := json.NewEncoder(l.Out)
	out.SetIndent("", "  ")
	return out.Encode(doc)
}

func (s samples) json() jsonTimes {
	t := newJSONTimes(s.fault, s.times())
	if times := s.letGo(); len(times) > 0 {
		own, first := newJSONTimes(s.fault, times), s.lostFirst()
		t.LetGo, t.LetGoFirst = &own, &first
	}
	return t
}

func newJSONTimes(fault string, times []time.Duration) jsonTimes {
	t := jsonTimes{Fault: fault, Runs: len(times), MinMS: ms(slices.Min(times)), MaxMS: ms(slices.Max(times)),
		P50MS: ms(percentile(times, 0.5)), P95MS: ms(percentile(times, 0.95))}
	for _, d := range times {
		t.AllMS = append(t.AllMS, ms(d))
	}
	return t
}

// ms is d in milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

func texts(breaches []verdict.Breach) []string {
	list := []string{}
	for _, b := range breaches {
		list = append(list, strings.TrimSpace(b.String()))
	}
	return list
}
