// Package spec checks the model of quorum mode (quorum.pml) with Spin, and that
// the model's constants are the code's.
package spec

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/election/quorum"
)

// How much is searched: by default the smallest bounds and a variant of each promise;
// with BULLY_SPEC=all (make spec) every variant, and disks that fail; with
// BULLY_SPEC=full the larger bounds too, some minutes in all.
const (
	always = iota
	inAll
	inFull
)

// searched is how much is.
var searched = map[string]int{"all": inAll, "full": inFull}[os.Getenv("BULLY_SPEC")]

// bounds are the runs of the sound model.
var bounds = []struct {
	name   string
	flags  []string
	from   int // from how much on it is searched
	states int // at least, or the model has lost something
}{
	{"2 counters, disks take all writes", []string{"-DMAXC=2", "-DGOODDISK"}, always, 1_500_000},
	{"2 counters", []string{"-DMAXC=2"}, inAll, 3_000_000},
	{"3 counters", []string{"-DGOODDISK"}, inFull, 10_000_000},
	{"3 frames in flight", []string{"-DMAXC=2", "-DSLOTS=3", "-DGOODDISK"}, inFull, 10_000_000},
	{"a lease of 4 ticks", []string{"-DMAXC=2", "-DNOMINAL=4", "-DGOODDISK"}, inFull, 5_000_000},
}

func TestTheModelKeepsItsPromises(t *testing.T) {
	needTools(t)
	for _, b := range bounds {
		t.Run(b.name, func(t *testing.T) {
			if searched < b.from {
				t.Skip("skipped: make spec, or BULLY_SPEC=full, has it")
			}
			t.Parallel()
			// -DSYMMETRY: states that differ in the voters' names only are one.
			m := build(t, append(b.flags, "-DSYMMETRY"), "-O2")
			r := m.run(t, "-m1000000", "-w24")
			t.Logf("%d states, depth %d, %v", r.states, r.depth, r.took.Round(100*time.Millisecond))
			if r.errors != 0 {
				t.Errorf("the model breaks a promise: %s", r.broken)
			}
			if !r.isComplete {
				t.Errorf("the search is not complete:\n%s", r.output)
			}
			if r.states < b.states {
				t.Errorf("%d states, expected at least %d", r.states, b.states)
			}
		})
	}
}

// variants are the model with one rule taken away. Each breaks the promise that
// the rule is for; S1, S3 and S4 are in README.md.
var variants = []struct {
	name, breaks string
	hasCrash     bool // the counter-example needs one; without crashes there are fewer states
	from         int  // from how much on it is searched
}{
	{"BREAK_ANCHOR", "S1", false, inAll},
	{"BREAK_EARLY", "S1", false, inAll},
	{"BREAK_GATE", "S1", false, inAll},
	{"BREAK_HOLD", "S1", true, inAll},
	{"BREAK_LOWER", "S1", false, inFull},
	{"BREAK_MARGIN", "S1", false, always},
	{"BREAK_QUORUM", "S3", false, always},
	{"BREAK_RESIGN", "S1", false, inAll},
	{"BREAK_REVIVE", "S1", false, inAll},
	{"BREAK_SAVE", "S4", false, always},
	{"BREAK_SELF", "S1", false, inAll},
	{"BREAK_VOTE", "S3", true, inAll},
	{"REACH", "reach", false, always}, // no rule: the sound model gets as far as the last counter
}

// asserted is what the assertion of a promise reads like in Spin's words.
var asserted = map[string]string{
	"S1":    "role==2",
	"S3":    "owner[",
	"S4":    ".disk>=",
	"reach": ".epoch<",
}

func TestWithoutARuleAPromiseBreaks(t *testing.T) {
	needTools(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			if searched < v.from {
				t.Skip("skipped: make spec has it")
			}
			t.Parallel()
			// Breadth first, so that the counter-example is a shortest one. Hardly
			// optimised, since compiling takes longer than searching. That no index
			// leaves its array is checked in the sound model, and costs a third here.
			flags := []string{"-DSYMMETRY", "-DSHORTEST", "-DGOODDISK", "-D" + v.name}
			if !v.hasCrash {
				flags = append(flags, "-DNOCRASH")
			}
			m := build(t, flags, "-Og", "-DBFS", "-DNOBOUNDCHECK")
			r := m.run(t, "-w22")
			t.Logf("%d steps, %d states, %v", r.depth-startSteps, r.states, r.took.Round(100*time.Millisecond))
			if r.errors == 0 {
				t.Fatalf("no counter-example: the rule is not needed, or the model does not see why\n%s", r.output)
			}
			if !strings.Contains(r.broken, asserted[v.breaks]) {
				t.Errorf("expected a breach of %s, got %q", v.breaks, r.broken)
			}
		})
	}
}

// startSteps of every run only start the processes.
const startSteps = 4

// needTools skips a test on a host without the tools.
func needTools(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("spin"); err != nil {
		t.Skip("skipped: spin is not installed; apt-get install spin")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("skipped: a C compiler is not installed; apt-get install gcc libc6-dev")
	}
}

// slots lets no more searches run at once than there are processors, nor more
// than two: each takes up to 2 GB.
var slots = make(chan struct{}, min(2, runtime.NumCPU()))

// model is a compiled verifier.
type model struct{ dir string }

// build lets Spin write a verifier and compiles it. -DNOREDUCE: all steps touch
// what all can see, so that partial order reduction finds nothing.
func build(t *testing.T, flags []string, cflags ...string) model {
	t.Helper()
	readModel(t) // so that the test's cache knows of the files
	m := model{dir: t.TempDir()}
	source, err := filepath.Abs("quorum.pml")
	if err != nil {
		t.Fatal(err)
	}
	slots <- struct{}{}
	defer func() { <-slots }()
	m.must(t, "spin", append(slices.Clone(flags), "-a", source)...)
	m.must(t, "gcc", append(cflags, "-w", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c")...)
	return m
}

func (m model) must(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = m.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// result is what a search said.
type result struct {
	errors, states, depth int
	isComplete            bool
	broken                string        // the assertion, if one failed
	took                  time.Duration // of processor time: other tests run beside
	output                string
}

var (
	summary   = regexp.MustCompile(`depth reached (\d+), errors: (\d+)`)
	stored    = regexp.MustCompile(`(?m)^\s*(\d+) states, stored$`)
	violation = regexp.MustCompile(`pan:\d+: (.*)`)
)

func (m model) run(t *testing.T, args ...string) result {
	t.Helper()
	slots <- struct{}{}
	defer func() { <-slots }()
	cmd := exec.Command("./pan", args...)
	cmd.Dir = m.dir
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run the search: %v", err)
	}
	return parse(t, string(out), cmd.ProcessState.UserTime())
}

func parse(t *testing.T, out string, took time.Duration) result {
	t.Helper()
	r := result{took: took, output: out}
	sum, count := summary.FindStringSubmatch(out), stored.FindStringSubmatch(out)
	if sum == nil || count == nil {
		t.Fatalf("the search ended without a summary:\n%s", out)
	}
	r.depth, r.errors, r.states = number(t, sum[1]), number(t, sum[2]), number(t, count[1])
	r.isComplete = !strings.Contains(out, "not completed") && !strings.Contains(out, "depth too small") &&
		!strings.Contains(out, "out of memory") && strings.Contains(out, "Full statespace search")
	if v := violation.FindStringSubmatch(out); v != nil {
		r.broken = v[1]
	}
	return r
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func readModel(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"quorum.pml", "reduce.pml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// A search that was cut short is not taken for a proof.
func TestACutSearchIsNotComplete(t *testing.T) {
	const end = "\nFull statespace search for:\nState-vector 104 byte, depth reached 99, errors: 0\n  1448675 states, stored\n"
	if r := parse(t, end, 0); !r.isComplete || r.states != 1448675 || r.depth != 99 {
		t.Errorf("a complete search was read as %+v", r)
	}
	for _, cut := range []string{"error: max search depth too small", "Warning: Search not completed", "pan: out of memory"} {
		if r := parse(t, cut+end, 0); r.isComplete {
			t.Errorf("%q was taken for a complete search", cut)
		}
	}
}

// constant finds what a #define of the model says.
func constant(t *testing.T, name, pattern string) []string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^#define `+name+`\s+`+pattern).FindAllStringSubmatch(readModel(t), -1)
	if len(found) != 1 {
		t.Fatalf("the model has %d definitions of %s that read %s, expected 1", len(found), name, pattern)
	}
	return found[0][1:]
}

func integer(t *testing.T, name string) int {
	t.Helper()
	return number(t, constant(t, name, `(\d+)\b`)[0])
}

// margin is k in (NOMINAL ± k*DRIFT): a length's distance from the nominal one.
func margin(t *testing.T, name string) int {
	t.Helper()
	m := constant(t, name, `\(NOMINAL ([+-]) (\d)\*DRIFT\)`)
	k := number(t, m[1])
	if m[0] == "-" {
		return -k
	}
	return k
}

func TestDriftIsTheCodes(t *testing.T) {
	if got, want := integer(t, "DRIFT_PERCENT"), lease.Drift*100; float64(got) != want {
		t.Errorf("the model says %d %%, the code %v %%", got, want)
	}
}

// The defaults cannot be read from outside, but the hash that members compare is
// over them: the model's words, spelled out, must give the same.
func TestDefaultsAreTheCodes(t *testing.T) {
	const h = 50 * time.Millisecond
	length := time.Duration(integer(t, "LEASE_HEARTBEATS")) * h
	spelled := election.Config{Heartbeat: h, Lease: length, StopBudget: length / time.Duration(integer(t, "STOP_SHARE"))}
	if spelled.Hash() != (election.Config{}).Hash() {
		t.Errorf("a heartbeat of %v, a lease of %v and a stop budget of %v are not the defaults",
			spelled.Heartbeat, spelled.Lease, spelled.StopBudget)
	}
	for _, other := range []election.Config{
		{Heartbeat: h, Lease: length + h, StopBudget: spelled.StopBudget},
		{Heartbeat: h, Lease: length, StopBudget: spelled.StopBudget + 1},
	} {
		if other.Hash() == spelled.Hash() {
			t.Errorf("%+v has the hash of the defaults: this test sees nothing", other)
		}
	}
}

func TestAMajorityOfThreeIsTheCodes(t *testing.T) {
	need := constant(t, "NEED", `(\d+)\s+/\* a majority`)[0]
	if got, want := number(t, need), quorum.Size(integer(t, "N")); got != want {
		t.Errorf("the model needs %d of its voters, the code %d", got, want)
	}
}

// LEADER and WAIT are the code's lengths up to the square of the drift.
func TestLengthsAreTheCodes(t *testing.T) {
	for _, nominal := range []time.Duration{160 * time.Millisecond, 400 * time.Millisecond, 8 * time.Second} {
		near := time.Duration(2*lease.Drift*lease.Drift*float64(nominal)) + time.Microsecond
		for name, code := range map[string]time.Duration{
			"LEADER": lease.LeaderLength(nominal), "WAIT": lease.WaitLength(nominal),
		} {
			model := nominal + time.Duration(float64(margin(t, name))*lease.Drift*float64(nominal))
			if d := (model - code).Abs(); d > near {
				t.Errorf("%s of %v: the model says %v, the code %v", name, nominal, model, code)
			}
		}
	}
}

// What the model is built on, of the code's lengths: a slow leader has let go
// when a fast voter is free, and not much sooner; a fast voter that rebooted is
// silent for as long as its promise would have run.
func TestLengthsHoldByClocksThatRunApart(t *testing.T) {
	if d, k := integer(t, "DRIFT"), margin(t, "LEADER"); k*d+d != -d {
		t.Errorf("in the model a slow leader acts %+d ticks beside NOMINAL, a fast voter keeps %+d: not the worst case", k*d+d, -d)
	}
	if d, k := integer(t, "DRIFT"), margin(t, "WAIT"); k*d-d < -d {
		t.Errorf("in the model a fast voter is silent for %+d ticks beside NOMINAL, and keeps promises for %+d", k*d-d, -d)
	}
	for _, nominal := range []time.Duration{160 * time.Millisecond, 400 * time.Millisecond, 8 * time.Second} {
		acts := float64(lease.LeaderLength(nominal)) / (1 - lease.Drift)
		kept := float64(nominal) / (1 + lease.Drift)
		silent := float64(lease.WaitLength(nominal)) / (1 + lease.Drift)
		if acts > kept+1 || acts < 0.99*kept { // lengths are whole nanoseconds
			t.Errorf("lease %v: a slow leader acts for %.0f ns, a fast voter keeps its promise for %.0f ns", nominal, acts, kept)
		}
		if silent < kept {
			t.Errorf("lease %v: a fast voter that rebooted is silent for %.0f ns of %.0f ns", nominal, silent, kept)
		}
	}
}
