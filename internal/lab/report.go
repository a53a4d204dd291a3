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
	r := l.rules()
	r.oneInTheEnd = f.failed == nil && !l.isLive()
	r.end = time.Since(l.journal.begun)
	records := l.journal.all()
	v := judge(records, r)
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
		printFaults(l.Out, v.faults)
	}
	if !l.JSON && slices.ContainsFunc(records, func(r record) bool { return r.what == paused }) {
		fmt.Fprintln(l.Out, "  note    a frozen agent cannot run its lose hook: another leader in that time is no breach")
	}
	if !l.JSON && v.late != "" {
		fmt.Fprintln(l.Out, "  note    "+v.late)
	}
	if f.failed != nil {
		return f.failed
	}
	if !v.held() {
		return errors.New("the verdict is that a promise was broken")
	}
	return nil
}

// printChecks prints a line for each promise, and one for each place where it was broken.
func printChecks(w io.Writer, v verdict) {
	fmt.Fprintln(w, "\nverdict")
	for _, c := range v.checks {
		name := c.name
		if c.word() == "-" {
			name += ": " + c.untested
		}
		fmt.Fprintf(w, "  %-6s  %s\n", c.word(), name)
		for _, b := range c.breaches {
			fmt.Fprintf(w, "          %s\n", b)
		}
	}
}

// printFaults prints a line for each fault.
func printFaults(w io.Writer, verdicts []faultVerdict) {
	if len(verdicts) == 0 {
		return
	}
	fmt.Fprintln(w, "\nfaults")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range verdicts {
		word := "held"
		if len(f.breaches) > 0 {
			word = "BROKEN"
		}
		fmt.Fprintf(table, "  %s\t+%s\t%s\t%s\t%s\n", word, seconds(f.fault.at), f.fault.node, f.fault.what, f.outcome())
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

// tokens are the kinds of records as JSON names them.
var tokens = [...]string{
	started: "started", became: "became-leader", losing: "losing-leadership", lost: "lost-leadership", killed: "kill", stopped: "stop", paused: "pause",
	continued: "continue", ordered: "handover", cut: "cut", dropped: "carrier", plugged: "plug", exited: "exited", agreed: "agreed",
}

func (l *lab) printJSON(records []record, v verdict, found findings) error {
	doc := jsonReport{Nodes: l.Nodes, Netns: l.Netns, Mode: l.Mode, Algo: l.Algorithm, Profile: l.Profile, Preempt: l.Preempt,
		Busy: l.Busy, Held: v.held() && found.failed == nil,
		Checks: []jsonCheck{}, Samples: []jsonTimes{}, Faults: []jsonFault{}, Timeline: []jsonRecord{}}
	if found.failed != nil {
		doc.Error = found.failed.Error()
	}
	if sky := l.weather(); !sky.isFine() {
		doc.Weather = sky.String()
	}
	if c := found.calm; c != nil {
		doc.Watch = &jsonWatch{(c.to - c.from).Seconds(), c.changes(), c.begun, c.ended}
	}
	for _, c := range v.checks {
		doc.Checks = append(doc.Checks, jsonCheck{c.name, c.held(), texts(c.breaches), c.untested})
	}
	for _, s := range found.samples {
		if len(s.rounds) > 0 {
			doc.Samples = append(doc.Samples, s.json())
		}
	}
	for _, f := range v.faults {
		doc.Faults = append(doc.Faults, jsonFault{AtMS: ms(f.fault.at), Node: f.fault.node, Fault: tokens[f.fault.what],
			Led: f.led, Successor: f.successor, GapMS: ms(f.gap), Breaches: texts(f.breaches)})
	}
	for _, r := range records {
		doc.Timeline = append(doc.Timeline, jsonRecord{ms(r.at), r.node, tokens[r.what], r.epoch.counter, r.epoch.owner, r.cause})
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

func texts(breaches []breach) []string {
	list := []string{}
	for _, b := range breaches {
		list = append(list, strings.TrimSpace(b.String()))
	}
	return list
}
