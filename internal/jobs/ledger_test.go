package jobs

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/bully-agent/bully-agent/wire"
)

// drawRun is a run that an agent can have written, of few keys, so that ledgers
// know different versions of one.
func drawRun(t *rapid.T) Run {
	r := Run{
		Key: Key{
			Slot:   Slot(rapid.IntRange(1000, 1030).Draw(t, "slot")),
			Manual: rapid.IntRange(0, 4).Draw(t, "manual") == 0,
			Epoch:  uint64(rapid.IntRange(1, 3).Draw(t, "epoch")),
			Owner:  wire.ID{byte(rapid.IntRange(1, 3).Draw(t, "owner"))},
		},
		Phase:   Phase(rapid.IntRange(int(Claimed), int(Ended)).Draw(t, "phase")),
		Exit:    uint8(rapid.IntRange(0, 2).Draw(t, "exit")),
		Claimed: Millis(1_000_000 + rapid.IntRange(0, 3).Draw(t, "claimed")),
		Timeout: uint32(rapid.IntRange(1, 2).Draw(t, "timeout")),
	}
	if r.Phase >= Stopping {
		r.Outcome = Outcome(rapid.IntRange(int(Succeeded), int(Vanished)).Draw(t, "outcome"))
		r.Ended = Millis(rapid.IntRange(0, 3).Draw(t, "ended")) * 999_999 // zero and before the claim, too
	}
	if r.Attempt = uint8(rapid.IntRange(0, 2).Draw(t, "attempt")); r.Attempt > 0 {
		r.Started = Millis(999_999 + rapid.IntRange(0, 3).Draw(t, "started"))
	}
	return r
}

func drawLedger(t *rapid.T) *Ledger {
	var l Ledger
	for range rapid.IntRange(0, 12).Draw(t, "runs") {
		l.Put(drawJob(t), drawRun(t))
	}
	for range rapid.IntRange(0, 3).Draw(t, "floors") {
		l.raise(drawJob(t), Slot(rapid.IntRange(1000, 1030).Draw(t, "floor")), rapid.Uint64Range(1, 3).Draw(t, "schedule"))
	}
	for range rapid.IntRange(0, 3).Draw(t, "switches") {
		l.Pause(drawJob(t), rapid.Bool().Draw(t, "paused"), time.Unix(rapid.Int64Range(1000, 1005).Draw(t, "at"), 0))
	}
	for range rapid.IntRange(0, 2).Draw(t, "from now") {
		l.ResumeFromNow(drawJob(t), time.Unix(rapid.Int64Range(1000, 1005).Draw(t, "at"), 0))
	}
	return &l
}

func drawJob(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "job") }

func merged(all ...*Ledger) *Ledger {
	var l Ledger
	for _, other := range all {
		l.Merge(other)
	}
	return &l
}

// differ compares what ledgers say, not how often they were changed.
func differ(a, b *Ledger) string {
	return cmp.Diff(a, b, cmp.AllowUnexported(Ledger{}), cmpopts.IgnoreFields(Ledger{}, "edits"))
}

// Whoever hears what in which order, and how often, knows the same in the end.
func TestMergeIsALeastUpperBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawLedger(t), drawLedger(t), drawLedger(t)
		before := a.Clone()
		for name, pair := range map[string][2]*Ledger{
			"commutative": {merged(a, b), merged(b, a)},
			"associative": {merged(merged(a, b), c), merged(a, merged(b, c))},
			"idempotent":  {merged(a, b, b, a), merged(a, b)},
			"neutral":     {merged(a, &Ledger{}), a},
			"untouched":   {a, before},
		} {
			if diff := differ(pair[0], pair[1]); diff != "" {
				t.Fatalf("not %s: %s", name, diff)
			}
		}
	})
}

// Versions of one run are in a total order, in which a host's last word is last.
func TestVersionsAreOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawRun(t), drawRun(t), drawRun(t)
		b.Key, c.Key = a.Key, a.Key
		switch {
		case a.compare(b) != -b.compare(a):
			t.Fatal("not antisymmetric")
		case a.compare(b) == 0 && a != b:
			t.Fatal("two versions are equal")
		case a.compare(b) < 0 && b.compare(c) < 0 && a.compare(c) >= 0:
			t.Fatal("not transitive")
		case a.Phase == Ended && b.Phase != Ended && a.compare(b) < 0:
			t.Fatalf("%v after %v", b, a)
		case a.Phase == Lost && b.Open() && a.compare(b) < 0:
			t.Fatalf("%v after %v", b, a)
		}
	})
}

// Every step of a run's life is later than the one before.
func TestALifeRises(t *testing.T) {
	at := clock("12:00")
	job := Job{Retries: 1}
	claimed := Run{Key: Key{Slot: SlotOf(at)}, Phase: Claimed, Claimed: MillisOf(at), Timeout: 1}
	running := claimed.Began(at)
	waiting := running.Finished(at, 1, &job)
	again := waiting.Began(at)
	life := []Run{claimed, running, running.stopping(TimedOut), waiting, again, again.stopping(Killed), again.closed(at, Lost, Vanished), again.Finished(at, 0, &job)}
	for i, r := range life[1:] {
		if r.compare(life[i]) <= 0 {
			t.Errorf("%v is not later than %v", r, life[i])
		}
		if !r.valid() {
			t.Errorf("%v is not valid", r)
		}
	}
	if over := again.Finished(at, 1, &job); over.Phase != Ended || over.Outcome != Failed {
		t.Errorf("after its last attempt: %v", over)
	}
	if lost, own := again.closed(at, Lost, Vanished), running.Finished(at, 0, &job); own.compare(lost) <= 0 {
		t.Errorf("%v is later than its own host's word, %v", lost, own)
	}
}

func TestAdmit(t *testing.T) {
	now := clock("12:00")
	at := func(text string, epoch uint64, owner wire.ID) Claim {
		return Claim{"backup", 7, Run{Key: Key{Slot: SlotOf(clock(text)), Epoch: epoch, Owner: owner}, Phase: Claimed, Claimed: MillisOf(now), Timeout: 60}}
	}
	var l Ledger
	admits := func(c Claim, want Reason) {
		t.Helper()
		before := l.Clone()
		if got := l.Admit(now, c); got != want {
			t.Errorf("%v: %v, want %v", c.Run, got, want)
		}
		if want != ReasonNone && differ(before, &l) != "" {
			t.Error("a refused claim is written down")
		}
	}
	first := at("12:00", 1, here)
	admits(first, ReasonNone)
	admits(first, ReasonNone) // its answer was lost
	admits(at("12:00", 2, there), ReasonTaken)
	admits(at("12:00", 2, here), ReasonTaken) // a life later, nobody knows whether it started
	admits(at("11:00", 2, there), ReasonSettled)
	l.Put("backup", first.Run.Began(now))
	admits(first, ReasonOver) // an old datagram
	admits(at("12:01", 2, there), ReasonNone)
	admits(at("12:01:01", 2, there), ReasonAhead)
	admits(at("12:01", 1, there), ReasonDeposed)
	admits(first, ReasonDeposed)
	begun := at("11:59", 3, here)
	begun.Run = begun.Run.Began(now)
	admits(begun, ReasonOver)
	byHand := at("11:00", 2, there)
	byHand.Run.Manual = true
	admits(byHand, ReasonNone)
	byHand.Run.Owner = here
	admits(byHand, ReasonTaken)
	if e, _ := l.Entry("backup"); e.Schedule != 7 || e.Floor != SlotOf(clock("12:01")) {
		t.Errorf("a claim settles what is before it: %+v", e)
	}
}

// Of two claimants of a slot the second is refused by every witness of the
// first, also when somebody tells the witness of the second by gossip.
func TestGossipDoesNotChangeAWitness(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLedger(t)
		l.Prune(time.Unix(1000, 0), nil)
		first := Claim{drawJob(t), 1, drawRun(t)}
		first.Run.Phase, first.Run.Outcome = Claimed, 0
		now := time.Unix(1030, 0)
		if l.Admit(now, first) != ReasonNone {
			return
		}
		second := first
		second.Run.Epoch = first.Run.Epoch%3 + 1
		for range rapid.IntRange(0, 3).Draw(t, "times") {
			other := drawLedger(t)
			other.Put(second.Job, second.Run)
			l.Merge(other)
			if rapid.Bool().Draw(t, "prune") {
				l.Prune(now, nil)
			}
		}
		if got := l.Admit(now, second); got == ReasonNone {
			t.Fatalf("witnessed %v and %v", first.Run, second.Run)
		}
	})
}

// What was settled before stays settled, and the bounds hold.
func TestPruneForgetsNoSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &Ledger{}
		for range rapid.IntRange(0, 8).Draw(t, "ledgers") {
			l.Merge(drawLedger(t))
		}
		before := l.Clone()
		now := time.Unix(rapid.Int64Range(1000, 1030).Draw(t, "now"), 0)
		l.Prune(now, nil)
		for _, name := range before.Jobs() {
			was, _ := before.Entry(name)
			is, _ := l.Entry(name)
			for slot := Slot(999); slot < 1032; slot++ {
				if was.settled(slot) && !is.settled(slot) {
					t.Fatalf("%s: slot %d is open again", name, slot)
				}
			}
			if len(is.Runs) > MaxRuns {
				t.Fatalf("%d runs are left", len(is.Runs))
			}
			again := l.Clone()
			if again.Prune(now, nil); differ(again, l) != "" {
				t.Fatal("pruning twice is not once")
			}
		}
		if _, err := l.Append(nil); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPruneKeepsTheNewestAndWhatIsOpen(t *testing.T) {
	var l Ledger
	at := func(i int) Run {
		return Run{Key: Key{Slot: Slot(i + 1)}, Phase: Claimed, Claimed: Millis(i + 1), Timeout: 1}
	}
	l.Put("a", at(0)) // open for long
	for i := 1; i < 100; i++ {
		l.Put("a", at(i).Refused(time.Unix(1, 0)))
	}
	l.Prune(time.Unix(100, 0), []Job{{Name: "a"}})
	e, _ := l.Entry("a")
	if len(e.Runs) != KeepEnded+1 || e.Runs[0] != at(0) || e.Runs[KeepEnded].Slot != 100 || e.Floor != 84 {
		t.Errorf("%d runs, floor %d: %v", len(e.Runs), e.Floor, e.Runs)
	}
}

// A run by hand is of no slot of the schedule: when it is forgotten none is settled, so
// that what is due at its time still starts.
func TestAForgottenRunByHandSettlesNoSlot(t *testing.T) {
	var l Ledger
	for i := range KeepEnded + 5 {
		r := Run{Key: Key{Slot: Slot(1000 + i), Manual: true}, Phase: Claimed, Claimed: 1, Timeout: 1}
		l.Put("a", r.Refused(time.Unix(1, 0)))
	}
	l.Prune(time.Unix(1000, 0), []Job{{Name: "a"}})
	e, _ := l.Entry("a")
	if len(e.Runs) != KeepEnded || e.settled(1000) {
		t.Errorf("%d runs are left, and slot 1000 is settled: %v", len(e.Runs), e.settled(1000))
	}
}

// A job that is in no table goes after KeepJob or to make room; the table's stay.
func TestPruneForgetsJobs(t *testing.T) {
	var l Ledger
	now := time.Unix(1e9, 0)
	var table []Job
	for i := range MaxJobs + 20 {
		name := fmt.Sprintf("j%03d", i)
		l.raise(name, SlotOf(now.Add(-time.Duration(i)*time.Hour)), 1)
		if i%2 == 1 {
			table = append(table, Job{Name: name})
		}
	}
	l.raise("old", SlotOf(now.Add(-KeepJob-time.Hour)), 1)
	l.Prune(now, table)
	if got := len(l.Jobs()); got != MaxJobs {
		t.Errorf("%d jobs are left", got)
	}
	for _, j := range table {
		if _, ok := l.Entry(j.Name); !ok {
			t.Errorf("%s is gone", j.Name)
		}
	}
	for _, name := range []string{"old", "j146", "j110"} { // the idle ones that were heard of last the longest ago
		if _, ok := l.Entry(name); ok {
			t.Errorf("%s is still there", name)
		}
	}
	if _, ok := l.Entry("j000"); !ok {
		t.Error("j000, of which was just heard, is gone")
	}
}

func TestDisown(t *testing.T) {
	var l Ledger
	now := clock("12:00")
	mine := Run{Key: Key{Slot: 1, Owner: here}, Phase: Claimed, Claimed: 1, Timeout: 1}
	running, theirs, over := mine, mine, mine
	running.Slot, theirs.Owner, over.Slot = 2, there, 3
	for _, r := range []Run{mine, running, theirs, over.Refused(now)} {
		l.Put("a", r)
	}
	got := l.disown(now, here, func(job string, k Key) bool { return job == "a" && k == running.Key })
	if len(got) != 1 || got[0].job != "a" || got[0].run.Key != mine.Key || got[0].run.Phase != Ended || got[0].run.Outcome != Interrupted {
		t.Errorf("%v", got)
	}
	if e, _ := l.Entry("a"); e.Runs[0] != got[0].run || e.Runs[1] != theirs || e.Runs[2] != running || e.Runs[3].Outcome != Unclaimed {
		t.Errorf("%v", e.Runs)
	}
}

// What a clock that is ahead wrote is left out, and nothing else.
func TestThePastOfALedger(t *testing.T) {
	now := clock("12:00")
	future := now.Add(2 * Tolerance)
	r := Run{Key: Key{Slot: SlotOf(now)}, Phase: Claimed, Claimed: 1, Timeout: 1}
	for name, spoil := range map[string]func(*Ledger){
		"floor":  func(l *Ledger) { l.raise("b", SlotOf(future), 1) },
		"switch": func(l *Ledger) { l.Pause("b", true, future) },
		"run":    func(l *Ledger) { l.Put("b", Run{Key: Key{Slot: SlotOf(future)}, Phase: Claimed}) },
	} {
		for _, job := range []string{"b", "c"} {
			var l Ledger
			l.raise("a", SlotOf(now), 1)
			l.Put(job, r)
			want := l.Clone()
			if got, cut := l.past(now, &Ledger{}); cut || !sameEntries(got, &l) {
				t.Errorf("%s: the present is the future: %v", name, got.entries)
			}
			spoil(&l)
			if got, cut := l.past(now, &Ledger{}); !cut || !sameEntries(got, want) {
				t.Errorf("%s: %v, want %v", name, got.entries, want.entries)
			}
		}
	}
}

func sameEntries(a, b *Ledger) bool { return a.told().mustAppend() == b.told().mustAppend() }

func TestAheadNamesAllJobs(t *testing.T) {
	now := clock("12:00")
	var l Ledger
	l.raise("a", latest(now), 1)
	if got := l.ahead(now); got != nil {
		t.Errorf("%v", got)
	}
	l.raise("b", latest(now)+1, 1)
	l.raise("c", latest(now)+2, 1)
	want := []Ahead{{"b", (latest(now) + 1).Time()}, {"c", (latest(now) + 2).Time()}}
	if got := l.ahead(now); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// A floor of the future goes back to the present, as long as the records tell all that
// ran above it.
func TestAFloorOfAWrongClockIsTakenBack(t *testing.T) {
	now := clock("12:00")
	for _, c := range []struct {
		runs int
		open bool
		back bool
	}{{0, false, true}, {KeepEnded - 1, false, true}, {KeepEnded, false, false}, {KeepOpen - 1, true, true}, {KeepOpen, true, false}} {
		var l Ledger
		slot := SlotOf(now.Add(2 * time.Hour))
		for i := range c.runs {
			r := Run{Key: Key{Slot: slot + Slot(i), Owner: there, Epoch: 5}, Phase: Claimed, Claimed: MillisOf(now), Timeout: 60}
			if !c.open {
				r = r.Refused(now)
			}
			l.Put("a", r)
		}
		l.raise("a", slot+Slot(c.runs), 1)
		if l.takeBack(now); (len(l.ahead(now)) == 0) != c.back {
			t.Errorf("%+v: ahead %v", c, l.ahead(now))
		}
		if e, _ := l.Entry("a"); c.back && (e.Floor != SlotOf(now) || e.Schedule != 1 || c.runs > 0 && !e.settled(slot)) {
			t.Errorf("%+v: floor %v of schedule %d, settled %t", c, e.Floor, e.Schedule, e.settled(slot))
		}
	}
}

// A job that is resumed from now loses what is of the future, and nothing else: not what
// clocks within Tolerance say, nor what still runs. One that is not ahead loses nothing.
func TestResumeFromNow(t *testing.T) {
	now := clock("12:00")
	near, far := latest(now), latest(now)+1
	ended := func(slot Slot) Run {
		r := Run{Key: Key{Slot: slot, Owner: there, Epoch: 5}, Phase: Claimed, Claimed: MillisOf(slot.Time()), Timeout: 60}
		return r.Refused(slot.Time())
	}
	open := ended(far + 1)
	open.Phase, open.Outcome, open.Ended = Claimed, 0, 0
	var l Ledger
	l.Pause("a", true, far.Time())
	l.Put("a", ended(near))
	l.Put("a", ended(far))
	l.Put("a", open)
	l.raise("a", far, 1)
	l.Put("b", ended(near))
	l.raise("b", near, 1)
	l.ResumeFromNow("a", now)
	l.ResumeFromNow("b", now)
	e, _ := l.Entry("a")
	if e.Floor != SlotOf(now) || e.Schedule != 1 || !slices.Equal(e.Runs, []Run{ended(near), open}) {
		t.Errorf("floor %v of schedule %d, runs %v", e.Floor, e.Schedule, e.Runs)
	}
	if want := (Switch{Version: 1, FromNow: true, At: MillisOf(now)}); e.Switch != want {
		t.Errorf("switch %+v, want %+v", e.Switch, want)
	}
	if b, _ := l.Entry("b"); b.Floor != near || len(b.Runs) != 1 {
		t.Errorf("floor %v, runs %v", b.Floor, b.Runs)
	}
}

// A word of others that a job is resumed from now counts once, and not after a later word.
func TestAnEarlierResumeFromNowChangesNothing(t *testing.T) {
	now := clock("12:00")
	var theirs, l Ledger
	theirs.ResumeFromNow("a", now)
	l.Merge(&theirs)
	l.raise("a", latest(now)+1, 1)
	l.reopen(&theirs, now)
	if e, _ := l.Entry("a"); e.Floor != latest(now)+1 {
		t.Errorf("a word that is known lowers the floor to %v", e.Floor)
	}
	l.Pause("a", true, now.Add(time.Second))
	l.reopen(&theirs, now)
	if e, _ := l.Entry("a"); e.Floor != latest(now)+1 || !e.Switch.Paused {
		t.Errorf("an earlier word counts: %+v", e)
	}
}

// A word that a job is resumed from now wins over a pause or a resumption that is dated ahead of the
// clock: that is no later word.
func TestAResumeFromNowWinsOverTheFuture(t *testing.T) {
	now := clock("12:00")
	future := now.Add(time.Hour)
	for _, paused := range []bool{true, false} {
		var theirs, l Ledger
		theirs.ResumeFromNow("a", now)
		l.raise("a", SlotOf(future), 1)
		l.Pause("a", true, future)
		if !paused {
			l.Pause("a", false, future)
		}
		l.reopen(&theirs, now)
		l.Merge(&theirs)
		want := Switch{Version: 1, FromNow: true, At: MillisOf(now)}
		if e, _ := l.Entry("a"); e.Switch != want || e.Floor != SlotOf(now) {
			t.Errorf("paused %t: switch %+v and floor %v, want %+v and %v", paused, e.Switch, e.Floor, want, SlotOf(now))
		}
	}
}

// The byte of a switch, as hosts send it: 0 resumed, 1 paused, 2 resumed from now. An
// agent that knows the first two alone takes the third for resumed.
func TestBytesOfASwitch(t *testing.T) {
	for state, want := range map[string]Switch{
		"00": {Version: 3, At: 1000},
		"01": {Version: 3, Paused: true, At: 1000},
		"02": {Version: 3, FromNow: true, At: 1000},
		"03": {Version: 3, At: 1000},
	} {
		body, err := hex.DecodeString("01" + "00" + "00" + "00" + "01" + // version, fence, forgot, no owners, a job
			"0161" + "05" + "0000000000000007" + // its name "a", floor 5, schedule 7
			"03" + state + "e807" + "00") // the switch: version 3, state, at 1,000 ms; no runs
		if err != nil {
			t.Fatal(err)
		}
		b := binary.BigEndian.AppendUint32(body, crc32.Checksum(body, castagnoli))
		l, err := Parse(b)
		if err != nil {
			t.Fatalf("%s: %v", state, err)
		}
		if e, _ := l.Entry("a"); e.Switch != want {
			t.Errorf("%s: %+v, want %+v", state, e.Switch, want)
		}
		if again := l.mustAppend(); state != "03" && again != string(b) {
			t.Errorf("%s: written as %x, want %x", state, again, b)
		}
	}
}

func TestLedgerSurvivesItsEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLedger(t)
		l.Prune(time.Unix(1000, 0), nil)
		b, err := l.Append([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(b[len("before"):])
		if err != nil {
			t.Fatal(err)
		}
		if diff := differ(l, got); diff != "" {
			t.Fatal(diff)
		}
		for i := range len(b) - len("before") {
			if _, err := Parse(b[len("before") : len("before")+i]); !errors.Is(err, ErrDamaged) {
				t.Fatalf("cut after %d bytes: %v", i, err)
			}
		}
		c := Claim{drawJob(t), rapid.Uint64().Draw(t, "schedule"), drawRun(t)}
		b, err = c.Append(nil)
		if err != nil || len(b) > MaxClaim {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		if back, err := ParseClaim(b); err != nil || back != c {
			t.Fatalf("%v, %v", back, err)
		}
	})
}

// fullest is the largest ledger that can be written.
func fullest() *Ledger {
	var l Ledger
	for i := range MaxJobs {
		name := fmt.Sprintf("%03d", i) + strings.Repeat("x", MaxName-3)
		e := Entry{Job: name, Floor: maxSlot, Schedule: 1<<64 - 1, Switch: Switch{Version: 1<<32 - 1, Paused: true, At: Millis(maxSlot) * 1000}}
		for j := range MaxRuns {
			r := Run{
				Key: Key{Slot: maxSlot - 1<<31 + Slot(j)<<25, Epoch: 1<<62 - 1, Owner: wire.ID{byte(i), byte(j)}}, Phase: Ended, Outcome: Vanished, Attempt: MaxRetries + 1, Exit: 255,
				Claimed: Millis(maxSlot) * 1000, Started: 1, Ended: 1, Timeout: uint32(MaxTimeout / time.Second),
			}
			if j < KeepOpen {
				r.Phase, r.Outcome = Stopping, Vanished
			}
			e.Runs = append(e.Runs, r)
		}
		l.entries = append(l.entries, e)
	}
	return &l
}

func TestEncodingIsBounded(t *testing.T) {
	l := fullest()
	before := l.Clone()
	l.Prune(maxSlot.Time(), nil)
	if diff := differ(before, l); diff != "" {
		t.Fatal("it is beyond the bounds of Prune")
	}
	b, err := l.Append(nil)
	if err != nil || len(b) > MaxEncoded {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	got, err := Parse(b)
	if err != nil || differ(got, l) != "" {
		t.Fatalf("does not come back: %v", err)
	}
	e := &l.entries[0]
	c, err := Claim{e.Job, e.Schedule, e.Runs[0]}.Append(nil)
	if err != nil || len(c) > MaxClaim {
		t.Errorf("a claim of %d bytes, %v", len(c), err)
	}
	t.Logf("a full ledger has %d bytes, a full claim %d", len(b), len(c))
	e.Runs = append(e.Runs, Run{})
	if _, err := l.Append(nil); !errors.Is(err, ErrBounds) {
		t.Errorf("a run too many: %v", err)
	}
	l = fullest()
	l.raise("z", 1, 1)
	if _, err := l.Append(nil); !errors.Is(err, ErrBounds) {
		t.Errorf("a job too many: %v", err)
	}
}

// The bytes are read without this code: a format that changes needs a version.
func TestEncodingIsStable(t *testing.T) {
	var l Ledger
	l.raise("backup", 1780315200, 0x1122334455667788)
	l.Pause("backup", true, time.UnixMilli(1780315200123))
	r := Run{Key: Key{Slot: 1780315200, Epoch: 300, Owner: here}, Phase: Claimed, Claimed: 1780315200005, Timeout: 600}
	l.Put("backup", r.Began(time.UnixMilli(1780315200015)).Finished(time.UnixMilli(1780315201005), 3, &Job{}))
	l.raiseFence(300)
	l.forgot = 5
	b, err := l.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = "01" + "ac02" + "05" + "01" + "01000000000000000000000000000000" + "01" + "06" + "6261636b7570" +
		"c0e8f5d006" + "1122334455667788" + "01" + "01" + "fbb4b898e833" + "01" + "c0e8f5d006" + "06" + "02" + "ac02" + "00" +
		"01" + "03" + "85b4b898e833" + "16" + "d20f" + "d804" + "619f6b96"
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// sealed gives bytes their checksum, so that what they say is looked at.
func sealed(body []byte) []byte {
	return binary.BigEndian.AppendUint32(body, crc32.Checksum(body, castagnoli))
}

func TestBadLedgers(t *testing.T) {
	good, _ := fullest().Append(nil)
	flipped := bytes.Clone(good)
	flipped[100] ^= 1
	job := func(name string, rest ...byte) []byte {
		return append(append([]byte{1, 0, 0, 1}, append(make([]byte, 16), 1, byte(len(name)))...), append([]byte(name), rest...)...)
	}
	schedule := make([]byte, 8)
	entry := func(runs ...byte) []byte { return job("a", append(append([]byte{0}, schedule...), runs...)...) }
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"empty":              {nil, ErrDamaged},
		"short":              {good[:4], ErrDamaged},
		"flipped":            {flipped, ErrDamaged},
		"another version":    {sealed([]byte{2, 0, 0}), ErrVersion},
		"huge":               {make([]byte, 1), ErrDamaged},
		"beyond the bound":   {sealed(append([]byte{1}, make([]byte, MaxEncoded)...)), ErrBounds},
		"something after it": {sealed([]byte{1, 0, 0, 0, 0, 0}), ErrDamaged},
		"a fence too high":   {sealed(append([]byte{1}, bytes.Repeat([]byte{0xff}, 10)...)), ErrDamaged},
		"many owners":        {sealed([]byte{1, 0, 0, 0xff, 0xff, 0x7f}), ErrBounds},
		"owners missing":     {sealed([]byte{1, 0, 0, 5}), ErrDamaged},
		"many jobs":          {sealed([]byte{1, 0, 0, 0, 0xff, 0x01}), ErrBounds},
		"no name":            {sealed(job("")), ErrBounds},
		"a bad name":         {sealed(job("a/b", append([]byte{0}, append(schedule, 0, 0)...)...)), ErrBounds},
		"a floor too far":    {sealed(job("a", append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, append(schedule, 0, 0)...)...)), ErrBounds},
		"many runs":          {sealed(entry(0, 0x7f)), ErrBounds},
		"a phase too many":   {sealed(entry(0, 1, 9, 0x0f, 1, 0, 0, 0, 0, 1, 0, 0, 1)), ErrBounds},
		"no such owner":      {sealed(entry(0, 1, 9, 1, 0, 0, 5, 0, 0, 1, 0, 0, 1)), ErrBounds},
		"no timeout":         {sealed(entry(0, 1, 9, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0)), ErrBounds},
		"the same run twice": {sealed(entry(0, 2, 9, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1)), ErrBounds},
	} {
		if _, err := Parse(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := Parse(sealed(entry(0, 1, 9, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1))); err != nil {
		t.Errorf("the good one: %v", err)
	}
	if _, err := ParseClaim(good); !errors.Is(err, ErrBounds) {
		t.Errorf("a ledger as a claim: %v", err)
	}
}

// Whatever comes in gives an error or a ledger that is within its bounds and
// survives being written.
func FuzzParse(f *testing.F) {
	var l Ledger
	l.raise("backup", 1780315200, 7)
	l.Put("backup", Run{Key: Key{Slot: 1780315200, Epoch: 3, Owner: here}, Phase: Claimed, Claimed: 1780315200005, Timeout: 600})
	l.Pause("report", true, time.Unix(1, 0))
	for _, ledger := range []*Ledger{{}, &l} {
		b, _ := ledger.Append(nil)
		f.Add(b[:len(b)-4])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := Parse(sealed(bytes.Clone(body)))
		if err != nil {
			return
		}
		b, err := l.Append(nil)
		if err != nil {
			t.Fatalf("cannot be written: %v", err)
		}
		again, err := Parse(b)
		if err != nil || differ(l, again) != "" {
			t.Fatalf("does not survive: %v", err)
		}
	})
}

// A record whose times are far ahead is not taken, though its slot has passed: it
// would block its job, and where it is pruned all claims, until then.
func TestRecordsFromTheFuture(t *testing.T) {
	now := clock("12:00")
	for _, c := range []struct {
		ahead time.Duration
		taken bool
	}{{Tolerance, true}, {Tolerance + time.Second, false}, {24 * 365 * time.Hour, false}} {
		r := Run{Key: Key{Slot: SlotOf(now), Owner: there, Epoch: 5}, Phase: Claimed, Claimed: MillisOf(now.Add(c.ahead)), Timeout: 60}
		var theirs, ours Ledger
		theirs.Put("backup", r)
		if past, cut := theirs.past(now, &Ledger{}); cut == c.taken || (len(past.entries) > 0) != c.taken {
			t.Errorf("told of one %v ahead: %v, cut %t", c.ahead, past.entries, cut)
		}
		if why := ours.Admit(now, Claim{"backup", 7, r}); (why == ReasonNone) != c.taken {
			t.Errorf("asked for one %v ahead: %v", c.ahead, why)
		}
	}
}
