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
	told  Roster        // the newest that a voter told of; none: ours is
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

// Tell takes a voter's word that there is this roster, which is newer than ours.
func (c *Canvass) Tell(r Roster) {
	if r.Version > c.told.Version {
		r.Formed = true
		c.told = r
	}
}

// Told is the newest roster that a voter told of.
func (c *Canvass) Told() Roster { return c.told }

// Outcome is what has come of a question.
type Outcome uint8

// The outcomes.
const (
	Open     Outcome = iota // some have not answered, and it matters
	Won                     // enough would grant
	Outdated                // too few would grant, and there is a newer roster
	Wait                    // promises or silence of voters stand in the way, which end
	Refused                 // too few would grant
)

// Outcome says what has come of the question, if so many others must grant and
// isAwaited says that one of those asked may answer yet.
func (c *Canvass) Outcome(need int, isAwaited bool) Outcome {
	switch {
	case c.yes >= need:
		return Won
	case isAwaited:
		return Open
	case !c.told.IsNone():
		return Outdated
	case c.bound > 0:
		return Wait
	}
	return Refused
}

// Bound is the longest that something stands in the way of a voter.
func (c *Canvass) Bound() time.Duration { return c.bound }
