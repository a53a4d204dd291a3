package sim

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The table of waivers speaks of invariants that the documents have, gives each a reason, and names none twice for a fault.
func TestWaiversNameInvariants(t *testing.T) {
	documents := ""
	for _, path := range []string{filepath.Join("..", "..", "docs", "protocol.md"), filepath.Join("..", "jobs", "doc.go"), "resources_invariants.go"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		documents += string(text)
	}
	seen := map[Fault][]int{}
	for _, row := range waivers {
		if row.why == "" || len(row.broken) == 0 {
			t.Errorf("%v: a row without a reason or an invariant: %+v", row.fault, row)
		}
		for _, number := range row.broken {
			name := invariantName(number)
			if !strings.Contains(documents, "**"+name+"**") && !strings.Contains(documents, "- "+name+", ") {
				t.Errorf("%v: no document has %s", row.fault, name)
			}
			if number >= invariants {
				t.Errorf("%s is beyond the highest number that is kept", name)
			}
			if slices.Contains(seen[row.fault], number) {
				t.Errorf("%v: %s is waived twice", row.fault, name)
			}
			seen[row.fault] = append(seen[row.fault], number)
		}
	}
}

// Schedules with a fault beyond the promise break nothing that its rows do not name.
func TestBeyondThePromise(t *testing.T) {
	first, count := number(t, "BULLY_SEED", 1), number(t, "BULLY_SCHEDULES", 20)
	for _, f := range []Fault{ClockBeyond, SlewBeyond, VMPause, LyingSync, Restored, Clone} {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			var total tally
			for seed := first; seed < first+count; seed++ {
				o := Options{Seed: seed, Attack: NoAttack, beyond: f}
				if !isLong() { // TestBeyondThePromiseSealed has the others
					o.Port = ClearPort
				}
				play(t, o, &total)
			}
			if total.faults[f] == 0 {
				t.Error("it never took effect")
			}
		})
	}
}

// A fault waives what its rows name and nothing else; the usual ones have none.
func TestOtherInvariantsAreJudged(t *testing.T) {
	beyond := []Fault{ClockBeyond, SlewBeyond, VMPause, LyingSync, Restored, Clone, SecondRoster}
	for f := range Fault(faultKinds) {
		w := stage(t, Quorum)
		w.waive(f)
		some := false
		for number, is := range w.waived {
			some = some || is
			w.failure = nil
			w.fail(number, "broken")
			if is == (w.failure != nil) {
				t.Errorf("%v: %s is waived: %t, and judged: %t", f, invariantName(number), is, w.failure != nil)
			}
		}
		if some != slices.Contains(beyond, f) {
			t.Errorf("%v waives something: %t", f, some)
		}
		for _, number := range []int{0, 1, 22, jobsAt + 2} { // of one host alone, its disk or not
			if w.waived[number] {
				t.Errorf("%v waives %s, which no other host's word breaks", f, invariantName(number))
			}
		}
	}
}
