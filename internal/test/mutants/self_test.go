package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A text that says nothing, or not enough, is no mutant.
func TestMutantTextsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"out: a rule\n-- old election/node.go --\na\n-- new --\nb\n":                      "rule or out is missing",
		"rule: R4\nout: a rule\nwhy: none\n-- old election/node.go --\na\n-- new --\nb\n": "neither",
		"rule: R4\nout: a rule\n":                                       "sections come in pairs",
		"rule: R4\nout: a rule\n-- old election/node.go --\na\n":        "sections come in pairs",
		"rule: R4\nout: a rule\n-- election/node.go --\na\n-- new --\n": "are not old and new",
	} {
		path := filepath.Join(t.TempDir(), "some.txt")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readMutant(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want …%s…", text, err, want)
		}
	}
}

// A mutant whose lines are gone, or are there twice, or make no program of it, is
// found out.
func TestMutantsThatDoNotApply(t *testing.T) {
	for name, e := range map[string]edit{
		"gone":            {file: "election/node.go", old: "\tno such line\n", new: "\n"},
		"twice":           {file: "election/node.go", old: "}\n", new: "\n"},
		"half a line":     {file: "election/smallest.go", old: "package election\n"[3:], new: "\n"},
		"no such file":    {file: "election/no.go", old: "a\n", new: "b\n"},
		"found elsewhere": {file: "election/smallest.go", old: "package election_test\n", new: "\n"},
	} {
		if _, err := (&mutant{edits: []edit{e}}).apply(); err == nil {
			t.Errorf("%s: applies", name)
		}
	}
	c := newChecker(t, "election")
	if err := c.check("election", nil); err != nil {
		t.Errorf("the code as it is: %v", err)
	}
	for name, text := range map[string]string{
		"no syntax":       "package election\nfunc {",
		"no type":         "package election\nvar seq uint32 = \"one\"",
		"unused variable": "package election\nfunc idle() { unused := 1 }",
		"gone elsewhere":  "package election\n", // what other files need
	} {
		if err := c.check("election", map[string][]byte{"election/smallest.go": []byte(text)}); err == nil {
			t.Errorf("%s: compiles", name)
		}
	}
}

// A mutant that changes nothing survives: what is caught is caught for a reason.
func TestAnIdleMutantSurvives(t *testing.T) {
	if testing.Short() {
		t.Skip("plays schedules")
	}
	r := newRunner(t)
	idle := &mutant{name: "idle", edits: []edit{{file: "election/lease/lease.go", old: "package lease\n", new: "package lease // as it is\n"}}}
	overlay, err := r.overlay(idle)
	if err != nil {
		t.Fatal(err)
	}
	res := &result{m: idle}
	r.playTo(res, overlay, 20)
	if res.isCaught() || res.played != 20 {
		t.Errorf("after %d schedules: %v", res.played, res)
	}
}
