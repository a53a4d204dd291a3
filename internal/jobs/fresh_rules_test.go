package jobs

import (
	"testing"

	"github.com/bully-agent/bully-agent/wire"
)

// Rules that a reader took out one at a time, without having read the tests, and that
// nothing noticed.

// A question in another's name raises no fence: the leader of that epoch has not asked,
// and does not know what it was told.
func TestAQuestionInAnothersNameIsRefused(t *testing.T) {
	s := NewScheduler(SchedulerConfig{Self: here}, nil)
	q := Message{Kind: wire.LedgerQuery, Epoch: 6, Owner: there}
	if got := words(s.Step(clock("12:00"), Heard{From: wire.ID{3}, Message: q, Known: known})); got != "refused" || s.ledger.fence != 0 {
		t.Errorf("%s, fence %d", got, s.ledger.fence)
	}
	if got := words(s.Step(clock("12:00"), Heard{From: there, Message: q, Known: known})); got != "save send" {
		t.Errorf("in its own name: %s", got)
	}
}

// A voter that refused one copy of a claim, since it was behind, and witnessed the next,
// refuses no more: its last word counts.
func TestTheLastWordOfAVoterCounts(t *testing.T) {
	s, now, claim := claimant(t)
	s.Step(now, Leading{Epoch: 5, Since: now, Voters: []wire.ID{here, {2}, {3}, {4}, {5}}, Need: 3})
	says := func(voter byte, why Reason) []Effect {
		return s.Step(now, Heard{From: wire.ID{voter}, Message: Message{Kind: wire.JobWitness, Epoch: claim.Epoch, Owner: claim.Owner,
			Round: claim.Round, Why: why}, Known: known})
	}
	says(2, ReasonAhead)
	says(2, ReasonNone)
	says(3, ReasonSettled)
	says(4, ReasonSettled) // with two that refuse and two that witness the fifth decides
	if got := says(5, ReasonNone); len(ofKind[Begin](got)) != 1 {
		t.Errorf("a majority has witnessed: %v", got)
	}
}

// A leader counts among those that have told what they know: from the beginning it
// witnesses no claim of an earlier one, nor after a restart (J4).
func TestJ4_ALeaderWitnessesNothingOfAnEarlierOne(t *testing.T) {
	s, now, claim := witness(t, nil)
	effects := s.Step(now, Leading{Epoch: 6, Since: now, Voters: []wire.ID{here, there, {3}}, Need: 2})
	saved := ofKind[Save](effects)
	if len(saved) != 1 {
		t.Fatalf("a leader begins with %s", words(effects))
	}
	disk, err := Parse(saved[0].Bytes)
	if err != nil {
		t.Fatal(err)
	}
	again, _, _ := witness(t, disk)
	for _, s := range []*Scheduler{s, again} {
		if got := ofKind[Send](s.Step(now, claim)); len(got) != 1 || got[0].Message.Why != ReasonDeposed {
			t.Errorf("%v", got)
		}
	}
}

// What a ledger knows already changes nothing, so that hosts which tell each other the same
// write nothing.
func TestWhatIsKnownIsNoEdit(t *testing.T) {
	var l Ledger
	l.Put("a", Run{Key: Key{Slot: 1000}, Phase: Claimed, Claimed: 1, Timeout: 1})
	l.Pause("a", true, clock("12:00"))
	before := l.edits
	if l.Merge(l.Clone()); l.edits != before {
		t.Errorf("%d edits by what is known", l.edits-before)
	}
}
