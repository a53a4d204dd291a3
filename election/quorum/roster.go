package quorum

import (
	"math"
	"slices"

	"github.com/bully-agent/bully-agent/wire"
)

// Roster is the set of voters of quorum mode, in the order of their ids. It is
// never changed in place. The zero Roster is none.
//
// Counting whom one sees instead would let two parts of a network each find a
// majority of itself; so who may vote is agreed on once and written down.
type Roster struct {
	// Version orders rosters: zero is none, 1 the first; a change made by the
	// leader of an epoch is sixteen times its counter plus the number of the
	// change, so that no two rosters have one version.
	Version uint32
	// Formed: all of the first roster's voters have it on disk. Before that
	// nobody leads. A later roster is formed by its leader's word.
	Formed bool
	IDs    []wire.ID
}

// Has reports whether id may vote.
func (r Roster) Has(id wire.ID) bool { return slices.Contains(r.IDs, id) }

// IsNone: nobody has agreed on a roster here.
func (r Roster) IsNone() bool { return r.Version == 0 }

// IsSane: the ids are sorted, each is there once, and there are enough.
func (r Roster) IsSane() bool {
	isRising := func(i int) bool { return i == 0 || r.IDs[i-1].Compare(r.IDs[i]) < 0 }
	for i, id := range r.IDs {
		if id.IsZero() || !isRising(i) {
			return false
		}
	}
	return len(r.IDs) >= 2
}

// Equals: the same voters under the same version. One that has formed equals the
// proposal of it.
func (r Roster) Equals(o Roster) bool { return r.Version == o.Version && slices.Equal(r.IDs, o.IDs) }

// overlaps: the two have a voter in common.
func (r Roster) overlaps(o Roster) bool { return slices.ContainsFunc(r.IDs, o.Has) }

// With gives the voters and one more, sorted.
func (r Roster) With(id wire.ID) []wire.ID {
	out := append(r.Without(id), id)
	slices.SortFunc(out, wire.ID.Compare)
	return out
}

// Without gives the voters, except for one.
func (r Roster) Without(id wire.ID) []wire.ID {
	return slices.DeleteFunc(slices.Clone(r.IDs), func(v wire.ID) bool { return v == id })
}

// Judge says what a voter with this roster answers to the proposal of a first
// one, if it expects so many voters and these are present: it accepts one that
// names exactly those whom it sees, and in all its life no other.
func (r Roster) Judge(proposal Roster, expect int, present []wire.ID) wire.AckVerdict {
	switch {
	case !r.IsNone() && slices.Equal(r.IDs, proposal.IDs):
		return wire.Accept
	case !r.IsNone():
		return wire.NotVoter
	case proposal.Version != 1 || len(proposal.IDs) != expect || !slices.Equal(proposal.IDs, present):
		return wire.AckHold // we do not see the same members, not yet perhaps
	}
	return wire.Accept
}

// IsFirst: this is the first roster, and so is r, of the same voters.
func (r Roster) IsFirst(o Roster) bool { return r.Version == 1 && r.Equals(o) }

// TakesFromLeader: a leader's roster takes the place of this one on self's disk. It
// is newer, or it replaces a proposal that was accepted and never formed: a voter
// that both name has accepted the other one, so ours cannot form any more. Of a
// roster with nobody in common we know nothing.
func (r Roster) TakesFromLeader(theirs Roster, self wire.ID) bool {
	if r.IsNone() {
		return theirs.Has(self)
	}
	return (theirs.Version > r.Version || !r.Formed) && r.overlaps(theirs)
}

// TakesFromVoter: a voter's word that there is a newer roster is enough. Majorities
// overlap all the same: no version is made by that, and versions rise on each disk
// as they do under a leader.
func (r Roster) TakesFromVoter(theirs Roster) bool {
	return r.Formed && theirs.Version > r.Version && r.overlaps(theirs)
}

// MayElect: self, which has this roster, and a claimant that has that version are
// in one roster. A newer one than ours is the claimant's to judge by: it is the
// word of a leader that we missed, and majorities of neighbouring rosters overlap;
// it may be the one that takes this node in. One with an older roster would bring
// the past back.
func (r Roster) MayElect(self, claimant wire.ID, version uint32) bool {
	switch {
	case version < r.Version:
		return false
	case r.IsNone():
		return version > 1 // of the first roster are those alone who accepted it
	case version == r.Version:
		return r.Has(self) && r.Has(claimant)
	}
	return true
}

// IsBehind: whoever leads with that version has a roster that this one must become.
func (r Roster) IsBehind(version uint32) bool {
	return !r.IsNone() && (r.Version < version || !r.Formed)
}

const (
	// ChangesPerEpoch is how many versions one epoch's leader can make: one that
	// confirms what it found, and fifteen changes.
	ChangesPerEpoch = 16
	// LastChangeable is the last epoch counter whose versions fit in 32 bits.
	LastChangeable = math.MaxUint32 / ChangesPerEpoch
)

// NextVersion is the version of the roster that follows this one under the leader
// of that epoch counter; 0 if it has used up those of its epoch, or no version of
// its epoch can be written.
func (r Roster) NextVersion(counter uint64) uint32 {
	if counter > LastChangeable {
		return 0
	}
	first := counter * ChangesPerEpoch
	next := max(first+1, uint64(r.Version)+1)
	if next >= first+ChangesPerEpoch || next > math.MaxUint32 {
		return 0
	}
	return uint32(next)
}

// FirstVersion is what the leader of that epoch counter confirms the roster as that
// it found. It holds where NextVersion is not 0.
func FirstVersion(counter uint64) uint32 { return uint32(counter * ChangesPerEpoch) }
