package quorum

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Canvass is a claimant's question to the voters, who of them would grant: only if
// a majority would does it claim an epoch. Without the question, claims that fail
// would bind voters to nobody, each time for a lease.
type Canvass struct {
	yes   int           // others that would grant
	bound time.Duration // the longest that a voter said it is bound to another, or silent
}

// Note takes a voter's answer, and for how long something stands in its way.
func (c *Canvass) Note(v wire.Verdict, remain time.Duration) {
	switch v {
	case wire.Yes:
		c.yes++
	case wire.Leased, wire.Hold:
		c.bound = max(c.bound, remain)
	}
}

// Outcome is what has come of a question.
type Outcome uint8

// The outcomes.
const (
	Open    Outcome = iota // some have not answered, and it matters
	Won                    // enough would grant
	Wait                   // promises or silence of voters stand in the way, which end
	Refused                // too few would grant
)

// Outcome says what has come of the question, if so many others must grant and
// isAwaited says that one of those asked may answer yet.
func (c *Canvass) Outcome(need int, isAwaited bool) Outcome {
	switch {
	case c.yes >= need:
		return Won
	case isAwaited:
		return Open
	case c.bound > 0:
		return Wait
	}
	return Refused
}

// Bound is the longest that something stands in the way of a voter.
func (c *Canvass) Bound() time.Duration { return c.bound }
