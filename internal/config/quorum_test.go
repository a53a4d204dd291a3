package config

import (
	"slices"
	"strings"
	"testing"
)

func TestVotersThatAreAQuorum(t *testing.T) {
	for expect, want := range map[string]string{
		"0": "", "3": "", "5": "", "15": "",
		"4":  "expect = 4 is even: a majority is 3, so the loss of one is survived, as with 3 voters; one more host with role = \"witness\"",
		"14": "expect = 14 is even: a majority is 8, so the loss of 6 is survived, as with 13 voters; ",
	} {
		c := mustLoad(t, Source{Flags: map[string][]string{"expect": {expect}}}, alpha())
		notes := strings.Join(c.Notes, "\n")
		if (want == "") != (notes == "") || !strings.HasPrefix(notes, want) {
			t.Errorf("expect %s: notes %q, want %q", expect, notes, want)
		}
	}
}

func TestTwoWaysToSayThatANodeDoesNotLead(t *testing.T) {
	for text, want := range map[string]string{
		``: "voter", `role = "voter"`: "voter", `role = "witness"`: "witness", `role = "observer"`: "observer",
		`voter = false`: "observer", `voter = true`: "voter",
		"voter = false\nrole = \"observer\"": "observer",
	} {
		n := mustLoad(t, Source{Path: writeFile(t, "election.expect = 3\n[node]\n"+text)}, alpha()).Node
		if n.Role != want || n.Voter != (want == "voter") {
			t.Errorf("%q: role %s, voter %t", text, n.Role, n.Voter)
		}
	}
}

// A slip in the name of a variable is silent otherwise. What hooks are told, and what other programs have, is none.
func TestNotesOnVariablesThatAreNoSettings(t *testing.T) {
	for name, meant := range map[string]string{
		"BULLY_PRIORTY": "BULLY_PRIORITY", "BULLY_STATEDIR": "BULLY_STATE_DIR", "BULLY_ON_BECOME_LEADERS": "BULLY_ON_BECOME_LEADER",
		"BULLY_PRIORITY": "", "BULLY_NODE": "", "BULLY_NODE_ADDR": "", "BULLY_TIME": "", "BULLY_ROLE": "", "BULLY_JOB": "",
		"BULLY_JOB_SLOT": "", "BULLY_JOB_RUN_ID": "", "BULLY_CONFIG": "", "BULLY_E2E": "", "BULLY_E2E_BINARY": "", "BULLY_MUTANTS": "",
		"BULL_PRIORTY": "",
	} {
		l := newLoader(Source{Names: []string{"PATH", name}, Env: func(n string) (string, bool) { return "x", n == name }}, alpha())
		l.noteSlips()
		var want []string
		if meant != "" {
			want = []string{name + " in the environment is no setting: did you mean " + meant + "?"}
		}
		if !slices.Equal(l.config.Notes, want) {
			t.Errorf("%s: notes %q, want %q", name, l.config.Notes, want)
		}
	}
}

func TestNotesOnWhatMeansNothing(t *testing.T) {
	for text, want := range map[string][]string{
		"election.candidate_set = 3":                                {"candidate_set means nothing to algorithm classic"},
		"election.known_minimum = 3":                                {"known_minimum means nothing to algorithm classic"},
		"election.algorithm = 'enhanced'\nelection.candidate_set=3": nil,
		"election.algorithm = 'smallest'\nelection.known_minimum=3": nil,
		"node.role = 'witness'":                                     {`role = "witness" has nothing to vote for in available mode: it only acknowledges; set expect for quorum mode`},
		"node.role = 'witness'\nelection.expect = 3":                nil,
	} {
		c := mustLoad(t, Source{Path: writeFile(t, text)}, alpha())
		if !slices.Equal(c.Notes, want) {
			t.Errorf("%q: notes %q, want %q", text, c.Notes, want)
		}
	}
}
