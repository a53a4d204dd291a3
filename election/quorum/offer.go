package quorum

import (
	"slices"

	"github.com/bully-agent/bully-agent/wire"
)

// Offer is a roster that is put before those who are to have it on disk: a
// *Proposal, a *Confirmation or a *Change.
type Offer interface {
	// Offered is the roster.
	Offered() Roster
	// Ack counts the word of id that it has that on disk.
	Ack(id wire.ID)
}

// acks are those who have an offer on disk.
type acks []wire.ID

// Ack counts one more.
func (a *acks) Ack(id wire.ID) { *a = append(*a, id) }

func (a acks) has(id wire.ID) bool { return slices.Contains(a, id) }

// Proposal is the first roster, which all of its voters must accept. It is a
// question, which whoever asks it has not on disk: its own word comes last, with
// the save of what has formed.
type Proposal struct {
	roster Roster
	acks
}

// Propose begins the proposal of a first roster.
func Propose(r Roster) *Proposal { return &Proposal{roster: r} }

// Offered is the roster that is proposed.
func (p *Proposal) Offered() Roster { return p.roster }

// IsAccepted: all of its voters but the proposer itself have accepted.
func (p *Proposal) IsAccepted(self wire.ID) bool {
	isOpen := func(id wire.ID) bool { return id != self && !p.has(id) }
	return !slices.ContainsFunc(p.roster.IDs, isOpen)
}

// Change is a leader's next roster, which differs from the one before by one voter.
// Until a majority of both has it on disk the leader needs the acknowledgements of
// majorities of both: neighbouring majorities overlap.
type Change struct {
	roster Roster
	was    []wire.ID
	acks
}

// NewChange begins the change of a roster to these voters, with this version, by
// self, which has it on disk already.
func NewChange(from Roster, version uint32, to []wire.ID, self wire.ID) *Change {
	return &Change{roster: Roster{Version: version, Formed: true, IDs: to}, was: from.IDs, acks: acks{self}}
}

// Offered is the roster after the change.
func (c *Change) Offered() Roster { return c.roster }

// Was gives the voters before the change.
func (c *Change) Was() []wire.ID { return c.was }

// Holds: a majority of the voters before and one of those after have it on disk.
func (c *Change) Holds() bool { return Has(c.was, c.has) && Has(c.roster.IDs, c.has) }

// Confirmation is the roster as its leader found it, under the leader's own epoch.
// It comes before a leader's first change: else an earlier leader's change, which
// few have, could come back newer than this leader's, and two changes of one roster
// by two leaders may have majorities without a common voter.
type Confirmation struct {
	Change
	// Next are the voters that the leader wants once its roster is confirmed.
	Next []wire.ID
}

// Confirm begins the confirmation of a roster by self, the leader of that epoch
// counter, which then wants the voters next.
func Confirm(found Roster, counter uint64, next []wire.ID, self wire.ID) *Confirmation {
	return &Confirmation{Change: *NewChange(found, FirstVersion(counter), found.IDs, self), Next: next}
}
