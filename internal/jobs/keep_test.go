package jobs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// A reload says what is claimed from now on. What is open keeps what it was
// claimed with.
func TestAReloadChangesNothingThatRuns(t *testing.T) {
	old := func(j *Job) {
		j.OnLoss, j.Retries, j.RetryDelay, j.Timeout = OnLossFinish, 1, time.Second, 5*time.Second
	}
	w := ready(t, 3, true, everyTen(t, old)...)
	w.lasts, w.exit = 2*time.Second, 1
	w.runTo("12:00:11")
	w.step(w.host(1), TableChanged{Jobs: everyTen(t, nil)}) // no retries, ends with the leadership
	w.runTo("12:00:14")
	w.has("run 12:00:10 waiting failed", "begins 12:00:10 attempt=2")
	w.step(w.host(1), NotLeading{})
	w.runTo("12:00:16")
	w.hasNot("ends the command")
	w.has("run 12:00:10 ended failed")
}

func TestTheGraceIsReloaded(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, nil)...)
	w.lasts = time.Hour
	w.runTo("12:00:11")
	w.crash(w.host(1))
	w.run(time.Second)
	w.lead(2, 2)
	w.step(w.host(2), TableChanged{Jobs: everyTen(t, nil), Grace: 9 * time.Second})
	w.step(w.host(2), TableChanged{Jobs: everyTen(t, nil)}) // as it is
	w.runTo("12:00:31")
	w.hasNot("lose")
	w.runTo("12:00:32") // n2 leads since :12, 10 s, 9 s, 1 s
	w.has("lose 12:00:10 vanished")
}

// An agent that ends, ends what may outlive its leadership, and begins nothing.
func TestAnAgentThatClosesEndsAll(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, func(j *Job) { j.OnLoss = OnLossFinish })...)
	w.lasts = time.Hour
	w.runTo("12:00:11")
	w.step(w.host(1), Closing{})
	w.has("ends the command of 12:00:10 (killed)")
	w.runTo("12:00:32")
	w.hasNot("begins", "start")
}

// A clock that is set forward takes no time from what runs.
func TestTimeoutsAreNotOfTheWallClock(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, func(j *Job) { j.Timeout = 5 * time.Second })...)
	w.lasts = time.Hour
	w.runTo("12:00:12")
	w.setClock(1, 2*time.Hour)
	w.runTo("12:00:14.9")
	w.hasNot("ends the command")
	w.runTo("12:00:15.1")
	w.has("ends the command of 12:00:10 (timed-out)")
}

// The time of a claim begins when its own Save has ended, however long that took.
func TestASlowDiskTakesNoTimeFromAClaim(t *testing.T) {
	s, now, _ := claimant(t)
	now = now.Add(time.Minute) // so long it took
	for _, c := range []struct {
		after time.Duration
		over  bool
	}{{0, false}, {DefaultClaimTimeout - time.Millisecond, false}, {DefaultClaimTimeout, true}} {
		effects := s.Step(now.Add(c.after), Tick{})
		isOver := slices.ContainsFunc(ofKind[Noted](effects), func(n Noted) bool { return n.Decision.Why == ReasonNoMajority })
		if isOver != c.over {
			t.Errorf("%v after the save: %v", c.after, effects)
		}
	}
}

// Whoever asked and went gets the one reply, and nothing starts.
func TestAWishThatIsWithdrawn(t *testing.T) {
	w := newLan(t, 3, true, everyTen(t, nil)...)
	w.lead(1, 1)
	w.step(w.host(1), Ask{Job: "a", Token: 7}) // waits: the leader settles
	w.step(w.host(1), Unask{Token: 7})
	w.has("reply 7: job a was not started: withdrawn")
	w.step(w.host(1), Unask{Token: 7})
	w.runTo("12:00:09")
	w.hasNot("reply", "begins")

	w.keep[wire.JobWitness] = true
	w.step(w.host(1), Ask{Job: "a", Token: 8}) // waits: a claim
	w.run(10 * time.Millisecond)
	w.step(w.host(1), Unask{Token: 8})
	w.has("reply 8: job a was not started: withdrawn")
	w.keep[wire.JobWitness] = false
	w.runTo("12:00:09.9")
	w.hasNot("begins")
	w.step(w.host(1), Unask{Token: 9}) // of nobody
	w.runTo("12:00:12")
	w.has("begins 12:00:10")
}

// The disk is what a person can mend, whatever ended the claim.
func TestAClaimThatLosesItsDisk(t *testing.T) {
	s := NewScheduler(SchedulerConfig{Self: here, Table: everyTen(t, nil)}, nil)
	now := clock("12:00:01")
	s.Step(now, Leading{Epoch: 5, Since: now, Voters: []wire.ID{here, {2}}, Need: 2})
	s.Step(now, Heard{From: wire.ID{2}, Message: Message{Kind: wire.LedgerPart, Epoch: 5, Owner: here, Round: 1}, Known: known})
	now = clock("12:00:05")
	s.Step(now, Tick{})
	s.Step(now, Ask{Job: "a", Token: 3})
	if len(s.claims) != 1 {
		t.Fatal("no claim")
	}
	replies := ofKind[Reply](s.Step(now, SaveFailed{}))
	if len(replies) != 1 || !errors.Is(replies[0].Err, ErrDisk) {
		t.Errorf("%v", replies)
	}
}

// What a host owes as a witness changes with every epoch, and is told to nobody.
func TestAWitnessKeepsItsFenceToItself(t *testing.T) {
	s := NewScheduler(SchedulerConfig{Self: here, Table: everyTen(t, nil), LedgerLost: true}, nil)
	now := clock("12:00")
	s.Step(now, Tick{})
	before := string(s.Bytes())
	effects := s.Step(now, Heard{From: there, Message: Message{Kind: wire.LedgerQuery, Epoch: 7, Owner: there}, Known: known})
	if string(s.Bytes()) != before {
		t.Error("what is told has changed")
	}
	disk, err := Parse(ofKind[Save](effects)[0].Bytes)
	if err != nil || disk.fence != 7 || disk.forgot == 0 {
		t.Errorf("on disk: fence %d, forgot %d, %v", disk.fence, disk.forgot, err)
	}
}

// Each change replaces a voter: after two, those that witnessed the claim may all
// be gone, and who votes now has heard of it.
func TestJ1_TwoRosterChangesLoseNoWitness(t *testing.T) {
	w := newLan(t, 5, true, everyTen(t, nil)...)
	roster := func(numbers ...int) {
		e := Leading{Epoch: 1, Since: w.now, Need: len(numbers)/2 + 1}
		for _, n := range numbers {
			e.Voters = append(e.Voters, w.host(n).id)
		}
		w.step(w.host(1), e)
		w.run(50 * time.Millisecond)
	}
	roster(1, 2, 3)
	w.lasts = time.Hour
	w.runTo("12:00:09")
	w.cutOff(3, true)
	w.runTo("12:00:11")
	w.has("begins 12:00:10")
	for _, h := range w.hosts[2:] { // as if no record had reached them
		h.disk = nil
		w.boot(h, everyTen(t, nil))
	}
	w.cutOff(3, false)
	roster(1, 3)
	roster(1, 3, 4)
	for _, n := range []int{3, 4} {
		if runs := entryRuns(w.host(n)); len(runs) != 1 {
			t.Errorf("n%d knows of %v", n, runs)
		}
	}
}

// A ledger of hundreds of parts is told bit by bit.
func TestNewVotersAreToldBitByBit(t *testing.T) {
	ledger := fullest()
	now := ledgerTime(ledger).Add(time.Second)
	s := NewScheduler(SchedulerConfig{Self: here}, ledger)
	s.Step(now, Leading{Epoch: 1 << 40, Since: now, Voters: []wire.ID{here, {2}}, Need: 2})
	effects := s.Step(now, Leading{Epoch: 1 << 40, Since: now, Voters: []wire.ID{here, {2}, {3}}, Need: 2})
	told := 0
	for range 1000 {
		n := 0
		for _, e := range ofKind[Send](effects) {
			if e.Message.Kind == wire.JobRecord {
				n++
			}
		}
		if n > tellAtOnce {
			t.Fatalf("%d at once", n)
		}
		told += n
		now = now.Add(tellAgain)
		effects = s.Step(now, Tick{})
	}
	if want := 2 * len(s.ledger.parts()); told != want {
		t.Errorf("told %d parts of %d", told, want)
	}
}

// A host that lost its ledger witnesses nothing before its clock shows the
// present, nor after a restart meanwhile.
func TestJ1_AClockThatIsWrongAtBootWitnessesNothing(t *testing.T) {
	_, now, claim := witness(t, nil)
	wrong := now.AddDate(-10, 0, 0)
	cfg := SchedulerConfig{Self: there, Table: everyTen(t, nil), LedgerLost: true, NewestKnown: now.AddDate(0, 0, -3)}
	ask := func(s *Scheduler, at time.Time, slot time.Time) Reason {
		c, err := ParseClaim([]byte(claim.Message.Payload))
		if err != nil {
			t.Fatal(err)
		}
		c.Run.Slot = SlotOf(slot)
		m := claim.Message
		m.Payload = c.ledger().mustAppend()
		for _, e := range ofKind[Send](s.Step(at, Heard{From: here, Message: m, Known: known})) {
			return e.Message.Why
		}
		t.Fatal("no answer")
		return ReasonNone
	}
	first := NewScheduler(cfg, nil)
	disk, err := Parse(ofKind[Save](first.Step(wrong, Tick{}))[0].Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if why := ask(first, wrong, wrong); why != ReasonForgot {
		t.Errorf("before the clock is set: %v", why)
	}
	cfg.LedgerLost = false
	again := NewScheduler(cfg, disk)
	if why := ask(again, wrong, wrong); why != ReasonForgot {
		t.Errorf("after a restart: %v", why)
	}
	for name, s := range map[string]*Scheduler{"in the same life": first, "after a restart": again} {
		if why := ask(s, now, now); why != ReasonForgot {
			t.Errorf("%s, what may have been witnessed: %v", name, why)
		}
		later := now.Add(Tolerance + time.Second)
		if why := ask(s, later, later); why != ReasonNone {
			t.Errorf("%s, a minute later: %v", name, why)
		}
	}
}

// What others say shows that the clock is wrong, though no file does.
func TestJ1_AClockThatIsFoundWrongWitnessesNothing(t *testing.T) {
	_, now, claim := witness(t, nil)
	s := NewScheduler(SchedulerConfig{Self: there, LedgerLost: true}, nil)
	wrong := now.AddDate(-10, 0, 0)
	s.Step(wrong, Tick{})
	for _, at := range []time.Time{wrong, now.Add(time.Second)} {
		sent := ofKind[Send](s.Step(at, claim))
		if len(sent) != 1 || sent[0].Message.Why != ReasonForgot {
			t.Errorf("%v: %v", at, sent)
		}
		s.Step(at, Tick{})
	}
}

// Of a teller whose clock is ahead the rest is taken, and it counts.
func TestATellerThatIsAheadCounts(t *testing.T) {
	s := NewScheduler(SchedulerConfig{Self: here, Table: everyTen(t, nil)}, nil)
	now := clock("12:00:01")
	s.Step(now, Leading{Epoch: 5, Since: now, Voters: []wire.ID{here, {2}}, Need: 2})
	var l Ledger
	l.raise("a", SlotOf(now.Add(time.Hour)), 1)
	l.raise("b", SlotOf(now), 1)
	part := Message{Kind: wire.LedgerPart, Epoch: 5, Owner: here, Round: 1, Count: 1, Payload: l.mustAppend()}
	effects := s.Step(now, Heard{From: wire.ID{2}, Message: part, Known: known})
	if got := ofKind[Refused](effects); len(got) != 1 || got[0].Why != "ahead" {
		t.Errorf("%v", effects)
	}
	if s.leadership().Learning {
		t.Error("still learning")
	}
	if got := strings.Join(s.ledger.Jobs(), " "); got != "b" {
		t.Errorf("known: %s", got)
	}
	if got := s.Ahead(s.now); got != nil {
		t.Errorf("ahead: %v", got)
	}
}

// Nor does one that is set back give any: what runs ends at its timeout, and what
// waits for another attempt gets it when its delay has ended.
func TestAClockThatIsSetBackGivesNoTime(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, func(j *Job) { j.Timeout, j.Retries, j.RetryDelay = 5*time.Second, 1, 3*time.Second })...)
	w.lasts = time.Hour
	w.runTo("12:00:12")
	w.setClock(1, -2*time.Hour)
	w.runTo("12:00:14.9")
	w.hasNot("ends the command")
	w.runTo("12:00:15.1")
	w.has("ends the command of 12:00:10 (timed-out)", "run 12:00:10 waiting timed-out")
	w.setClock(1, -4*time.Hour)
	w.runTo("12:00:17.9")
	w.hasNot("begins")
	w.runTo("12:00:18.1")
	w.has("begins 12:00:10 attempt=2")
}

// A leader whose clock was ahead when it was elected settles for as long as any,
// also if nobody has said so before it heard that it leads.
func TestSettlingIsNotOfTheWallClock(t *testing.T) {
	for _, isTold := range []bool{true, false} {
		w := newLan(t, 3, true, everyTen(t, nil)...)
		h := w.host(1)
		h.skew = 2 * time.Hour
		w.step(h, Tick{})
		e := Leading{Epoch: 1, Since: w.clockOf(h), Voters: []wire.ID{{1}, {2}, {3}}, Need: 2}
		if isTold {
			w.step(h, e)
			w.run(time.Second)
			w.setClock(1, 0)
		} else {
			w.setClock(1, 0)
			w.step(h, e)
			w.run(time.Second)
		}
		w.step(h, e) // as when a voter is another: it began when it began
		w.step(h, Ask{Job: "a", Token: 7})
		w.hasNot("reply")
		w.runTo("12:00:01.9")
		w.hasNot("adopt")
		w.runTo("12:00:02.1")
		w.has("adopt 12:00:02 new", "reply 7: ok")
	}
}
