package sim

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bully-agent/bully-agent/election"
)

// schedules is how many a test run plays.
// BULLY_SCHEDULES asks for another number, BULLY_SEED for one of them, BULLY_SIM=long (make schedules) for all at length.
const (
	schedules      = 300
	longSchedules  = 3000
	shortSchedules = 150
	chunk          = 50 // schedules of one subtest
	sealedPlayed   = 3  // of those that draw sealed ports one in so many has them: the handshakes would take most of the time
	leastOfAFault  = 1
)

// isLong reports whether somebody has the time for all.
func isLong() bool { return os.Getenv("BULLY_SIM") == "long" }

// TestMain has garbage collected less often: little is live, much is garbage.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// tally adds up what schedules that run side by side came to.
type tally struct {
	mu     sync.Mutex
	faults Faults
	steps  uint64
	hours  float64
	failed int
	hashes map[uint64]bool // nil: none are kept
}

func (c *tally) add(r *Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults.Add(&r.Faults)
	c.steps += r.Steps
	c.hours += r.Lasted.Hours()
	if r.Violation != nil {
		c.failed++
	}
	if c.hashes != nil {
		c.hashes[r.Hash] = true
	}
}

func number(t *testing.T, variable string, fallback uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// TestSchedules lets hosts, disks, networks, failure detectors, hooks and
// operators do their worst, holds every step to the invariants, then takes all
// faults away and wants one leader. A schedule depends on nothing but its seed.
func TestSchedules(t *testing.T) {
	count := uint64(schedules)
	switch {
	case isLong():
		count = longSchedules
	case testing.Short():
		count = shortSchedules
	}
	count = number(t, "BULLY_SCHEDULES", count)
	first := number(t, "BULLY_SEED", 1)
	isOne := os.Getenv("BULLY_SEED") != "" && os.Getenv("BULLY_SCHEDULES") == ""
	if isOne {
		count = 1
	}
	total := tally{hashes: map[uint64]bool{}}
	t.Run("all", func(t *testing.T) {
		for from := first; from < first+count; from += chunk {
			to := min(from+chunk, first+count)
			t.Run(fmt.Sprintf("from=%d", from), func(t *testing.T) {
				t.Parallel()
				for seed := from; seed < to; seed++ {
					o := Options{Seed: seed}
					if !isLong() && !isOne {
						o.Port = portOf(seed)
					}
					play(t, o, &total)
				}
			})
		}
	})
	t.Logf("%d schedules, %.1f cluster-hours, %d steps, %d violations", count, total.hours, total.steps, total.failed)
	if different := uint64(len(total.hashes)); different != count { // the hash is over something
		t.Errorf("%d schedules have %d hashes", count, different)
	}
	if count >= schedules {
		for kind, n := range total.faults {
			t.Logf("%-20s %d", Fault(kind), n)
			if isOfResources := Fault(kind) >= ResourceRefused && Fault(kind) <= ResourceByKernel; n < leastOfAFault && !isOfResources {
				t.Errorf("fault %v took effect %d times, want %d", Fault(kind), n, leastOfAFault)
			}
		}
	}
}

// portOf seals one in sealedPlayed of the schedules that draw sealed ports: the port's chance is not that of the rest.
func portOf(seed uint64) Port {
	if newWorld(&Options{Seed: seed}).ports.isSealed && seed%sealedPlayed != 0 {
		return ClearPort
	}
	return AnyPort
}

// play plays one schedule; a failed one is played again to tell its story.
func play(t *testing.T, o Options, total *tally) {
	t.Helper()
	r := Run(o)
	total.add(&r)
	if r.Violation == nil {
		return
	}
	t.Errorf("%s\n  %s, at %v\n  %s\n%s", r.Violation.Text, r.Scenario, r.Violation.At, o.Replay(), story(o, 60))
}

// story gives the last lines of a schedule's trace.
func story(o Options, lines int) string {
	var all []string
	o.Trace = func(line string) {
		if all = append(all, line); len(all) > 4*lines {
			all = append(all[:0], all[len(all)-lines:]...)
		}
	}
	Run(o)
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// TestSeedsThatFoundSomething plays the schedules that once broke an invariant.
func TestSeedsThatFoundSomething(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "..", "testdata", "sim", "seeds.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var total tally
	seeds := 0
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(text) == "" {
			continue
		}
		play(t, parseSeed(t, text), &total)
		seeds++
	}
	if err := lines.Err(); err != nil || seeds == 0 {
		t.Fatalf("%d seeds read, error %v", seeds, err)
	}
}

// parseSeed reads "SEED [nodes=N] [mode=available|quorum] [algorithm=NAME] [attack=forger|stranger|insider] [port=clear|sealed] [usual] [resources] [unchecked] [cuts=PLACE,…]".
func parseSeed(t *testing.T, text string) Options {
	t.Helper()
	words := strings.Fields(text)
	seed, err := strconv.ParseUint(words[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Seed: seed}
	for _, word := range words[1:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "usual":
			o.Usual = true
		case "resources":
			o.resources = true
		case "unchecked":
			o.noChecks = true
		case "cuts":
			o.cuts, o.noJobs, o.cutAt = true, true, places(t, value)
		case "attack":
			o.Attack = map[string]Attack{"forger": Forger, "stranger": Stranger, "insider": Insider}[value]
		case "port":
			o.Port = map[string]Port{"clear": ClearPort, "sealed": SealedPort}[value]
		case "nodes":
			if o.Nodes, err = strconv.Atoi(value); err != nil {
				t.Fatal(err)
			}
		case "mode":
			o.Mode = map[string]Mode{"available": Available, "quorum": Quorum}[value]
		case "algorithm":
			for _, a := range []election.Algorithm{election.Classic, election.Enhanced, election.Smallest} {
				if a.String() == value {
					o.Algorithm = a
				}
			}
		default:
			t.Fatalf("seed %d: unknown word %q", seed, word)
		}
	}
	return o
}

// places reads where keepers are killed.
func places(t *testing.T, text string) (at []uint64) {
	t.Helper()
	if text == "" {
		return nil
	}
	for _, word := range strings.Split(text, ",") {
		place, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, place)
	}
	return at
}

// TestSchedulesRepeat: the same seed gives the same run, down to the bytes of
// every frame, whether or not it is written down.
func TestSchedulesRepeat(t *testing.T) {
	count, told := uint64(8), uint64(4)
	if isLong() {
		count, told = 1000, 10
	}
	for seed := uint64(1); seed <= count; seed++ {
		first, second := Run(Options{Seed: seed}), Run(Options{Seed: seed})
		if first.Hash != second.Hash || first.Steps != second.Steps || first.Faults != second.Faults {
			t.Fatalf("seed %d: two runs differ: hash %x and %x, %d and %d steps", seed, first.Hash, second.Hash, first.Steps, second.Steps)
		}
		if seed > told {
			continue
		}
		a, b := story(Options{Seed: seed}, 1_000_000), story(Options{Seed: seed}, 1_000_000)
		if a != b || len(a) < 1000 {
			t.Fatalf("seed %d: two traces of %d and %d bytes differ", seed, len(a), len(b))
		}
		if traced := Run(Options{Seed: seed, Trace: func(string) {}, Beats: true}); traced.Hash != first.Hash {
			t.Fatalf("seed %d: the trace changes the run", seed)
		}
	}
}

// TestOptionsAreObeyed: what is asked for is not drawn.
func TestOptionsAreObeyed(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		for _, mode := range []Mode{Available, Quorum} {
			scenario := newWorld(&Options{Seed: seed, Nodes: 4, Mode: mode}).describe()
			word := map[Mode]string{Available: "available mode", Quorum: "quorum mode"}[mode]
			if !strings.HasPrefix(scenario, "4 nodes, "+word) {
				t.Errorf("seed %d: asked for 4 nodes in %s, drawn %s", seed, word, scenario)
			}
		}
	}
}

// TestLargeFailover: where nothing else goes wrong a failover of a large group
// costs an announcement and an acknowledgement for each survivor (I19).
func TestLargeFailover(t *testing.T) {
	sizes := []int{5, 50, 200}
	if testing.Short() {
		sizes = sizes[:2]
	}
	for _, n := range sizes {
		f := Fail(Options{Seed: 1, Nodes: n})
		if f.Violation != nil {
			t.Fatalf("%d nodes: %s", n, f.Violation.Text)
		}
		if limit := uint64(2*(n-2) + 2); f.Datagrams > limit {
			t.Errorf("%d nodes: %d datagrams, want at most %d", n, f.Datagrams, limit)
		}
		t.Logf("%d nodes: agreed %v after the host went, %d datagrams", n, f.Took, f.Datagrams)
	}
}

// TestFaultsHaveNames: each kind can be reported.
func TestFaultsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for kind := range faultKinds {
		name := kind.String()
		if name == "" || name == "unknown" || seen[name] {
			t.Errorf("fault %d is called %q", kind, name)
		}
		seen[name] = true
	}
}
