package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/sim"
)

// simulate runs the command and gives its exit code and what it printed.
func simulate(t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	var out, errs strings.Builder
	code := Main(append([]string{program, "sim"}, args...), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestSimRefusesWhatItCannotPlay(t *testing.T) {
	for args, want := range map[string]string{
		"--seed x":                     `--seed is "x": expected a number`,
		"--schedules 0":                `--schedules is "0": expected a number from 1`,
		"--nodes 2001":                 `--nodes is 2001: expected at most 2000`,
		"--mode both":                  `--mode is "both": expected available or quorum`,
		"--algorithm bad":              `--algorithm is "bad": expected classic, enhanced or smallest`,
		"--port open":                  `--port is "open": expected clear or sealed`,
		"--attack forger --port clear": "expected --port sealed, since an attack is one on sessions",
		"--for soon":                   `--for is "soon"`,
		"chart tables":                 `unexpected argument "tables"`,
	} {
		code, _, errs := simulate(t, strings.Fields(args)...)
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q; want exit 2 and %q", args, code, errs, want)
		}
	}
}

// The report has every kind of fault, and the figures of the run.
func TestSimReport(t *testing.T) {
	code, out, errs := simulate(t, "--schedules", "20", "--nodes", "3")
	if code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if !regexp.MustCompile(`^20 schedules, [0-9.]+ cluster-hours, [0-9]+ steps \([0-9]+ per second and core\), 0 violations\n`).MatchString(out) {
		t.Errorf("the first line is %q", out)
	}
	for kind := sim.Fault(0); kind.String() != "unknown"; kind++ {
		if !strings.Contains(out, "  "+kind.String()+" ") {
			t.Errorf("the report does not mention %v", kind)
		}
	}
}

// A violation is shown with the line that plays it again, and is a failure.
func TestSimReportsViolations(t *testing.T) {
	var out strings.Builder
	c := &call{console: newConsole(strings.NewReader(""), &out, &out)}
	totals := simTotals{schedules: 2, failed: []sim.Result{
		{Seed: 9, Scenario: "3 nodes", Violation: &sim.Violation{Invariant: 5, Text: "I5: n1 acts"}},
		{Seed: 4, Scenario: "5 nodes", Violation: &sim.Violation{Invariant: 12, Text: "I12: no agreement"}},
	}}
	err := c.simReport(sim.Options{Mode: sim.Quorum, Nodes: 3}, &totals)
	if exitCode(err) != exitNo {
		t.Errorf("violations end with exit code %d", exitCode(err))
	}
	first := strings.Index(out.String(), "bully-agent sim --seed 4 --nodes 3 --mode quorum --trace")
	second := strings.Index(out.String(), "bully-agent sim --seed 9 --nodes 3 --mode quorum --trace")
	if first < 0 || second < first || !strings.Contains(out.String(), "I5: n1 acts") {
		t.Errorf("the report is\n%s", out.String())
	}
}

// The same seed prints the same trace.
func TestSimTrace(t *testing.T) {
	_, first, _ := simulate(t, "--seed", "7", "--trace")
	_, second, _ := simulate(t, "--seed", "7", "--trace")
	if first != second || !strings.Contains(first, "hash ") || strings.Count(first, "\n") < 50 {
		t.Errorf("two traces of %d and %d bytes", len(first), len(second))
	}
}
