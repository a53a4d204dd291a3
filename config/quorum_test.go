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
