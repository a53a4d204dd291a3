package mutants

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// samples are run by default: one that schedules catch soon, and one that only directed tests can, of a package that the simulator
// does not play.
var samples = map[string]catcher{"leader-without-drift": bySchedules, "sealed-frame-opens-twice": byTests}

// Every mutant's lines are in the code, once, and what it makes of them compiles.
func TestMutantsApply(t *testing.T) {
	mutants := readMutants(t)
	var dirs []string
	for _, m := range mutants {
		dirs = append(dirs, m.packages()...)
	}
	slices.Sort(dirs)
	c := newChecker(t, slices.Compact(dirs)...)
	together := map[string][]batch{} // by directory
	for _, m := range mutants {
		changed, err := m.apply()
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		for _, dir := range m.packages() {
			together[dir] = add(together[dir], m.name, changed)
		}
	}
	for dir, batches := range together {
		for _, b := range batches {
			if c.check(dir, b.changed()) == nil {
				continue
			}
			for name, changed := range b {
				if err := c.check(dir, changed); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}

// batch is mutants that are checked together, since each changes other files: what each makes of them, by its name.
type batch map[string]map[string][]byte

// add puts a mutant into the first batch in which nobody changes a file of its.
func add(batches []batch, name string, changed map[string][]byte) []batch {
	for _, b := range batches {
		taken := b.changed()
		if !slices.ContainsFunc(slices.Collect(maps.Keys(changed)), func(file string) bool { return taken[file] != nil }) {
			b[name] = changed
			return batches
		}
	}
	return append(batches, batch{name: changed})
}

// changed gives the files of all.
func (b batch) changed() map[string][]byte {
	all := map[string][]byte{}
	for _, changed := range b {
		maps.Copy(all, changed)
	}
	return all
}

var aTest = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// What a mutant names is there: each test, in a package that is asked.
func TestMutantsNameTestsThatAre(t *testing.T) {
	known := map[string]bool{} // "package test"
	for _, m := range readMutants(t) {
		for _, pkg := range m.tested() {
			if known[pkg] {
				continue
			}
			known[pkg] = true
			files, _ := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, found := range aTest.FindAllSubmatch(text, -1) {
					known[pkg+" "+string(found[1])] = true
				}
			}
		}
		for _, name := range m.tests {
			if !slices.ContainsFunc(m.tested(), func(pkg string) bool { return known[pkg+" "+name] }) {
				t.Errorf("%s names %s, which is in none of %v", m.name, name, m.tested())
			}
		}
	}
}

// Every mutant that is run is caught, and by the tests that its text names.
func TestMutants(t *testing.T) {
	if testing.Short() && os.Getenv("BULLY_MUTANTS") == "" {
		t.Skip("builds and runs mutants")
	}
	chosen := slices.DeleteFunc(readMutants(t), func(m *mutant) bool { return !isChosen(m.name) })
	if len(chosen) == 0 {
		t.Fatalf("no mutant is called %q", os.Getenv("BULLY_MUTANTS"))
	}
	wanted, known := map[string]catcher{"": byBoth, "schedules": bySchedules, "tests": byTests}[os.Getenv("BULLY_MUTANTS_BY")]
	if !known {
		t.Fatalf("BULLY_MUTANTS_BY is %q, expected schedules or tests", os.Getenv("BULLY_MUTANTS_BY"))
	}
	if wanted == bySchedules {
		chosen = slices.DeleteFunc(chosen, func(m *mutant) bool { return !m.isPlayed() })
	}
	r := newRunner(t)
	var results []*result
	for _, m := range chosen {
		by := wanted
		if os.Getenv("BULLY_MUTANTS") == "" {
			by = samples[m.name]
		}
		res := r.run(m, by)
		results = append(results, res)
		t.Log(res)
		if !res.isCaught() && wanted != bySchedules { // what no schedule catches a test must, and has its own run
			t.Errorf("%s survives: nothing notices when this is out: %s (%s)", m.name, m.out, m.rule)
		}
		for _, name := range res.missed {
			t.Errorf("%s: %s passes without this: %s (%s)", m.name, name, m.out, m.rule)
		}
	}
	if len(results) > len(samples) {
		t.Log(table(results))
	}
}

func isChosen(name string) bool {
	switch want := os.Getenv("BULLY_MUTANTS"); want {
	case "":
		_, isSample := samples[name]
		return isSample
	case "all":
		return true
	default:
		return strings.Contains(name, want)
	}
}

// String gives a result on one line.
func (r *result) String() string {
	return fmt.Sprintf("%s (%s): schedules: %s; tests: %s; %.0f s", r.m.name, r.m.rule, r.schedules(), r.directed(), r.took.Seconds())
}

func (r *result) schedules() string {
	if r.seed == 0 {
		return fmt.Sprintf("held in %d", r.played)
	}
	broke, _, _ := strings.Cut(r.broke, ":")
	return fmt.Sprintf("%s at seed %d", broke, r.seed)
}

func (r *result) directed() string {
	switch {
	case len(r.failed) == 0:
		return "none"
	case len(r.m.tests) > 0 && len(r.missed) == 0 && len(r.failed) > len(r.m.tests):
		return fmt.Sprintf("%s and %d more", strings.Join(r.m.tests, " "), len(r.failed)-len(r.m.tests))
	case len(r.failed) > 3:
		return fmt.Sprintf("%s and %d more", strings.Join(r.failed[:3], " "), len(r.failed)-3)
	}
	return strings.Join(r.failed, " ")
}

// table is what a run of all is for.
func table(results []*result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nmutant\trule\tschedules\ttests\tseconds")
	caught, bySchedules := 0, 0
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f\n", r.m.name, r.m.rule, r.schedules(), r.directed(), r.took.Seconds())
		if r.isCaught() {
			caught++
		}
		if r.seed != 0 {
			bySchedules++
		}
	}
	w.Flush()
	fmt.Fprintf(&b, "%d of %d caught, %d of them by schedules", caught, len(results), bySchedules)
	return b.String()
}
