package config

import "fmt"

// What quorum mode asks of the number of voters.
const (
	fewestVoters = 3  // a majority of two is both: the loss of either stops everything
	mostVoters   = 15 // each claim and each lease waits for a majority of them (protocol 4.3)
)

// expectField reads the number of voters: none at all, or enough for a quorum.
var expectField = field{
	parse: func(l *loader, v value) *Error {
		n, err := parseInteger(v, "0 or 3–15")
		switch {
		case err != nil:
			return err
		case n == 1 || n == 2:
			return wrong("%d is no quorum that outlives the loss of a voter: expected 0 or 3–15", n).
				hint(`0 is available mode; with two hosts, a third small one with role = "witness" makes three`)
		case n != 0 && (n < fewestVoters || n > mostVoters):
			return wrong("%d is out of range: expected 0 or 3–15", n)
		}
		l.config.Election.Expect = int(n)
		return nil
	},
	get: func(c *Config) any { return c.Election.Expect },
}

// noteElection says what is allowed and most likely not what was meant.
func (l *loader) noteElection() {
	e, n := l.config.Election, l.config.Node
	note := func(format string, args ...any) {
		l.config.Notes = append(l.config.Notes, fmt.Sprintf(format, args...))
	}
	if e.Expect > 0 && e.Expect%2 == 0 {
		note(`expect = %d is even: a majority is %d, so %s, as with %d voters; one more host with role = "witness", which votes `+
			`and never leads, makes it odd`, e.Expect, e.Expect/2+1, survives(e.Expect), e.Expect-1)
	}
	if n.Role == "witness" && e.Expect == 0 {
		note(`role = "witness" has nothing to vote for in available mode: it only acknowledges; set expect for quorum mode`)
	}
	if e.CandidateSet > 0 && e.Algorithm != "enhanced" {
		note("candidate_set means nothing to algorithm %s", e.Algorithm)
	}
	if e.KnownMinimum > 0 && e.Algorithm != "smallest" {
		note("known_minimum means nothing to algorithm %s", e.Algorithm)
	}
}

// survives says how many voters may be lost.
func survives(voters int) string {
	lost := voters - (voters/2 + 1)
	if lost == 1 {
		return "the loss of one is survived"
	}
	return fmt.Sprintf("the loss of %d is survived", lost)
}
