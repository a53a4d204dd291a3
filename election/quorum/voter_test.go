package quorum

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// voter is one of three that has seen the counter 7, granted 7/2 and followed 6/2.
func voter(change func(*Voter)) Voter {
	v := Voter{ID: id(1), Roster: formed(16, 1, 2, 3), Most: time.Second,
		Votes: Votes{Seen: 7, Granted: epoch(7, 2), Accepted: epoch(6, 2)}}
	if change != nil {
		change(&v)
	}
	return v
}

// The rules of protocol 4.3, in their order.
func TestAVoterJudgesAClaim(t *testing.T) {
	bound := func(v *Voter) { v.Bound = 300 * time.Millisecond }
	for _, c := range []struct {
		name   string
		voter  Voter
		claim  Claim
		want   wire.AckVerdict
		remain time.Duration
	}{
		{"of the next counter", voter(nil), Claim{Epoch: epoch(8, 3)}, wire.Accept, 0},
		{"of what it granted, once more", voter(nil), Claim{Epoch: epoch(7, 2)}, wire.Accept, 0},
		{"of a counter that it granted to another", voter(nil), Claim{Epoch: epoch(7, 3)}, wire.AckStale, 0},
		{"of a counter below", voter(nil), Claim{Epoch: epoch(6, 2)}, wire.AckStale, 0},
		{"below what it has only heard of", voter(func(v *Voter) { v.Seen = 9 }), Claim{Epoch: epoch(8, 3)}, wire.AckStale, 0},
		{"of a counter that another has led in", voter(func(v *Voter) { v.Seen, v.Accepted = 8, epoch(8, 2) }), Claim{Epoch: epoch(8, 3)}, wire.AckStale, 0},
		{"of what it follows", voter(func(v *Voter) { v.Seen, v.Accepted = 8, epoch(8, 3) }), Claim{Epoch: epoch(8, 3)}, wire.Accept, 0},
		{"while bound to another", voter(bound), Claim{Epoch: epoch(8, 3)}, wire.AckLeased, 300 * time.Millisecond},
		{"stale while bound to another", voter(bound), Claim{Epoch: epoch(6, 3)}, wire.AckStale, 0},
		{"while claiming, by a better one", voter(func(v *Voter) { bound(v); v.Yields = true }), Claim{Epoch: epoch(8, 3)}, wire.Accept, 0},
		{"while mute", voter(func(v *Voter) { bound(v); v.Mute = time.Second }), Claim{Epoch: epoch(8, 3)}, wire.AckHold, time.Second},
		{"for the longest promise", voter(nil), Claim{Epoch: epoch(8, 3), Length: time.Second}, wire.Accept, 0},
		{"for longer", voter(nil), Claim{Epoch: epoch(8, 3), Length: time.Second + 1}, wire.NotVoter, 0},
		{"by a stranger", voter(func(v *Voter) { v.Roster = formed(16, 1, 2, 4) }), Claim{Epoch: epoch(8, 3)}, wire.NotVoter, 0},
		{"with an older roster", voter(func(v *Voter) { v.Roster.Version = 17 }), Claim{Epoch: epoch(8, 3)}, wire.NotVoter, 0},
	} {
		c.claim.By, c.claim.Roster = c.claim.Epoch.Owner, 16
		if got, remain := c.voter.Judge(c.claim); got != c.want || remain != c.remain {
			t.Errorf("%s: %v for %v, want %v for %v", c.name, got, remain, c.want, c.remain)
		}
	}
}

// The answer to the question before a claim says what the claim would meet; the
// counter is not known yet.
func TestAVoterAnswersACanvass(t *testing.T) {
	bound := func(v *Voter) { v.Bound = 300 * time.Millisecond }
	for _, c := range []struct {
		name   string
		voter  Voter
		want   wire.Verdict
		remain time.Duration
	}{
		{"nothing stands in the way", voter(nil), wire.Yes, 0},
		{"bound to another", voter(bound), wire.Leased, 300 * time.Millisecond},
		{"claims itself, and is worse", voter(func(v *Voter) { bound(v); v.Yields = true }), wire.Yes, 0},
		{"mute", voter(func(v *Voter) { bound(v); v.Mute = time.Second }), wire.Hold, time.Second},
		{"has a newer roster", voter(func(v *Voter) { v.Roster.Version = 17 }), wire.Stale, 0},
		{"has a newer roster, and is mute", voter(func(v *Voter) { v.Roster.Version, v.Mute = 17, 1 }), wire.Stale, 0},
		{"does not know the asker", voter(func(v *Voter) { v.Roster = formed(16, 1, 2, 4) }), wire.Ineligible, 0},
		{"has no roster, and a later one is asked with", voter(func(v *Voter) { v.Roster = Roster{} }), wire.Yes, 0},
	} {
		if got, remain := c.voter.Answer(Claim{By: id(3), Roster: 16}); got != c.want || remain != c.remain {
			t.Errorf("%s: %v for %v, want %v for %v", c.name, got, remain, c.want, c.remain)
		}
	}
}

// A claimant is told the highest counter, and whose it is if it was granted. Where a
// counter is used up for all, no owner's claim of it compares above the answer.
func TestWhichCountersAreUsedUp(t *testing.T) {
	v := Votes{Seen: 7, Granted: epoch(7, 2)}
	if got := v.Highest(); got != epoch(7, 2) {
		t.Errorf("told %v, want what was granted", got)
	}
	v.Seen = 8
	if got := v.Highest(); got != (wire.Epoch{Counter: 8}) {
		t.Errorf("told %v, want what was heard of", got)
	}
	if above := AboveAll(7); epoch(7, 255).Compare(above) >= 0 || epoch(8, 0).Compare(above) <= 0 {
		t.Errorf("%v is not the last of its counter", above)
	}
}
