package quorum

import (
	"bytes"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Votes is what a voter knows of epochs, from its disk.
type Votes struct {
	Seen     uint64     // the highest counter seen or made
	Granted  wire.Epoch // the last that it granted
	Accepted wire.Epoch // the highest that it followed or led in
}

// HasGrantedAbove: it granted an epoch above e, so e has ended for it.
func (v Votes) HasGrantedAbove(e wire.Epoch) bool { return v.Granted.Counter > e.Counter }

// hasGrantedAnother: it granted e's counter to another. It must not grant it twice
// (I4), but may follow e: where e is in force, the other never can be.
func (v Votes) hasGrantedAnother(e wire.Epoch) bool {
	return v.Granted.Counter == e.Counter && v.Granted.Owner != e.Owner
}

// HasUsedUp: another than e's owner has led this node in e's counter. A majority
// grants a counter once, so that was in available mode, of which the voters that
// grant e now need not have heard.
func (v Votes) HasUsedUp(e wire.Epoch) bool {
	return v.Accepted.Counter == e.Counter && v.Accepted.Owner != e.Owner
}

// Highest tells a claimant which counters are used up here.
func (v Votes) Highest() wire.Epoch {
	if v.Granted.Counter == v.Seen {
		return v.Granted
	}
	return wire.Epoch{Counter: v.Seen} // heard of, by whomever
}

// AboveAll refuses a counter to everybody, whatever the order of the owners.
func AboveAll(counter uint64) wire.Epoch { return wire.Epoch{Counter: counter, Owner: LastID} }

// LastID is above every id, and nobody's.
var LastID = wire.ID(bytes.Repeat([]byte{0xff}, len(wire.ID{})))

// Claim is what a claimant asks a voter for, or about.
type Claim struct {
	By     wire.ID
	Roster uint32        // the version that the claimant has
	Epoch  wire.Epoch    // that it claims; the question before has none
	Length time.Duration // of the promise that it asks for
}

// Voter is all that a voter judges a claimant by.
type Voter struct {
	Votes
	ID     wire.ID
	Roster Roster
	Mute   time.Duration // a restarted voter keeps silent for so long (M5)
	Bound  time.Duration // by a promise to another than the claimant
	Yields bool          // it claims itself, and the claimant is better
	Most   time.Duration // the longest promise that it makes
}

// Judge says whether the voter grants a claim, by the rules of protocol 4.3, and
// else for how long something that ends stands in the way.
func (v Voter) Judge(c Claim) (wire.AckVerdict, time.Duration) {
	switch {
	case !v.mayElect(c) || c.Length > v.Most:
		return wire.NotVoter, 0
	case v.Mute > 0:
		return wire.AckHold, v.Mute
	case c.Epoch.Counter < v.Seen || v.HasGrantedAbove(c.Epoch) || v.hasGrantedAnother(c.Epoch) || v.HasUsedUp(c.Epoch):
		return wire.AckStale, 0
	case v.isBound():
		return wire.AckLeased, v.Bound
	}
	return wire.Accept, 0
}

// Answer says whether the voter would grant a claim now, if one came (pre-vote).
// Nothing is promised by that.
func (v Voter) Answer(question Claim) (wire.Verdict, time.Duration) {
	switch {
	case !v.mayElect(question) && question.Roster < v.Roster.Version:
		return wire.Stale, 0 // its roster is older than ours
	case !v.mayElect(question):
		return wire.Ineligible, 0
	case v.Mute > 0:
		return wire.Hold, v.Mute
	case v.isBound():
		return wire.Leased, v.Bound
	}
	return wire.Yes, 0
}

func (v Voter) mayElect(c Claim) bool { return v.Roster.MayElect(v.ID, c.By, c.Roster) }

// isBound: a promise to another stands in the way. Of two claimants the better one
// goes on, if the other does not lead yet (rule 3 of protocol 4.3).
func (v Voter) isBound() bool { return v.Bound > 0 && !v.Yields }
