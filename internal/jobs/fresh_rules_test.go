package jobs

import (
	"testing"
	"time"

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

// A run by hand settles no slot of the schedule at its witness: what is due before it, and in
// its very second, still starts.
func TestAWitnessedRunByHandSettlesNoSlot(t *testing.T) {
	now := clock("12:00")
	byHand := Claim{"a", 7, Run{Key: Key{Slot: SlotOf(now), Manual: true, Epoch: 1, Owner: here},
		Phase: Claimed, Claimed: MillisOf(now), Timeout: 60}}
	var l Ledger
	if why := l.Admit(now, byHand); why != ReasonNone {
		t.Fatalf("a run by hand: %v", why)
	}
	for _, slot := range []Slot{SlotOf(now) - 1, SlotOf(now)} {
		due := byHand
		due.Run.Slot, due.Run.Manual = slot, false
		if why := l.Admit(now, due); why != ReasonNone {
			t.Errorf("slot %v: %v", slot, why)
		}
	}
}

// Nor at its leader: a person asks in the very second of a slot, and that still starts.
func TestARunByHandTakesNoSlot(t *testing.T) {
	r := rigOf(t, "@hourly", nil).at("12:00")
	for _, d := range Manual(r.now, &r.job, &r.ledger, r.lead) {
		r.ledger.Apply(d)
	}
	if run := r.run(); !run.Manual || run.Slot != SlotOf(r.now) {
		t.Fatalf("%v is no run by hand of 12:00", run)
	}
	r.put(r.run().Refused(r.now)) // it is in nobody's way
	r.due("start 12:00 on-time")
}

// What a leader tells new voters a part at a time ends with its leadership.
func TestTellingEndsWithTheLeadership(t *testing.T) {
	now := clock("12:00")
	s := NewScheduler(SchedulerConfig{Self: here}, fullLedger(now))
	s.Step(now, Leading{Epoch: 5, Since: now, Voters: []wire.ID{here, there}, Need: 2})
	s.Step(now, Leading{Epoch: 5, Since: now, Voters: []wire.ID{here, there, {3}}, Need: 2})
	if len(s.telling) == 0 {
		t.Fatal("all was told in one step")
	}
	s.Step(now, NotLeading{})
	if sent := ofKind[Send](s.Step(now.Add(time.Second), Tick{})); len(sent) > 0 {
		t.Errorf("%d messages after the leadership, the first: %v", len(sent), sent[0])
	}
}
