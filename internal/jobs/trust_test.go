package jobs

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// What a member that holds the key can say about jobs, and what becomes of it.

// liar is a host that can say anything, to one that has the job "backup" every minute
// and has led nothing.
type liar struct {
	t   *testing.T
	s   *Scheduler
	now time.Time
}

func liarTo(t *testing.T, ledger *Ledger) *liar {
	t.Helper()
	schedule, err := ParseSchedule("* * * * *", "backup", nil)
	if err != nil {
		t.Fatal(err)
	}
	job := Job{Name: "backup", Schedule: schedule, Timeout: 10 * time.Minute}
	s := NewScheduler(SchedulerConfig{Self: here, Table: []Job{job}}, ledger)
	l := &liar{t, s, clock("11:50")}
	s.Step(l.now, Tick{})
	return l
}

// says gives a message as of a leader that the election knows.
func (l *liar) says(m Message) string {
	l.t.Helper()
	return words(l.s.Step(l.now, Heard{From: m.Owner, Message: m, Known: 9}))
}

// tells gives a ledger by push/pull, whoever it is from.
func (l *liar) tells(theirs *Ledger) string {
	l.t.Helper()
	return words(l.s.Step(l.now, Merged{Bytes: []byte(theirs.mustAppend())}))
}

func (l *liar) claims(job string, epoch uint64, owner wire.ID) Message {
	l.t.Helper()
	c := Claim{Job: job, Run: Run{Key: Key{Slot: SlotOf(l.now), Owner: owner, Epoch: epoch}, Phase: Claimed,
		Claimed: MillisOf(l.now), Timeout: 60}}
	return Message{Kind: wire.JobClaim, Epoch: epoch, Owner: owner, Round: 1, Payload: c.ledger().mustAppend()}
}

// isWitnessed: the true leader's claim is.
func (l *liar) isWitnessed() bool {
	l.t.Helper()
	for _, e := range ofKind[Send](l.s.Step(l.now, Heard{From: there, Message: l.claims("backup", 9, there), Known: 9})) {
		return e.Message.Why == ReasonNone
	}
	return false
}

// reaches is the disk after a second, in which nothing of a lie may have come.
func (l *liar) onDisk(wait time.Duration) *Ledger {
	l.t.Helper()
	l.now = l.now.Add(wait)
	disk := &Ledger{}
	for _, e := range ofKind[Save](l.s.Step(l.now, Tick{})) {
		parsed, err := Parse(e.Bytes)
		if err != nil {
			l.t.Fatal(err)
		}
		disk = parsed
	}
	return disk
}

const farAhead = Millis(maxSlot)*1000 - 1000

// A ledger of the year 9999 leaves nothing: no record, no floor, no switch, and no
// memory that claims were forgotten.
func TestCase42_YearNineThousand(t *testing.T) {
	for name, lie := range map[string]func(*Ledger, string){
		"run":    func(l *Ledger, job string) { l.Put(job, runOf(there, farAhead)) },
		"floor":  func(l *Ledger, job string) { l.raise(job, maxSlot, 7) },
		"switch": func(l *Ledger, job string) { l.Pause(job, true, maxSlot.Time()) },
		"ended": func(l *Ledger, job string) {
			r := runOf(there, MillisOf(clock("11:49"))).Refused(maxSlot.Time())
			l.Put(job, r)
		},
	} {
		l := liarTo(t, nil)
		var theirs Ledger
		lie(&theirs, "backup")
		for i := range MaxJobs - 1 {
			lie(&theirs, fmt.Sprintf("junk-%d", i))
		}
		if got := l.tells(&theirs); !strings.Contains(got, "refused") {
			t.Errorf("%s: %s", name, got)
		}
		m := Message{Kind: wire.JobRecord, Epoch: 9, Owner: there, Payload: theirs.parts()[0].mustAppend()}
		if got := l.says(m); !strings.Contains(got, "refused") {
			t.Errorf("%s, in a frame: %s", name, got)
		}
		if disk := l.onDisk(2 * time.Second); len(disk.entries) > 0 || disk.forgot != 0 {
			t.Errorf("%s: on disk: %+v", name, disk)
		}
		if !l.isWitnessed() {
			t.Errorf("%s: the true leader's claim is refused", name)
		}
	}
}

func runOf(owner wire.ID, claimed Millis) Run {
	return Run{Key: Key{Slot: SlotOf(claimed.Time()), Owner: owner, Epoch: 1}, Phase: Claimed, Claimed: claimed, Timeout: 60}
}

// All clocks were two hours ahead, and are set right while a command runs. Its end is taken, though
// its slot is of the future: for this host, were it the next leader, the run would go on
// for two hours, and block its job. No other news of that time is taken.
func TestTheEndOfARunOfTheFuture(t *testing.T) {
	ahead := clock("13:50")
	started := runOf(there, MillisOf(ahead)).Began(ahead)
	ended := started.Finished(clock("11:50"), 0, &Job{})
	late := started.Finished(ahead.Add(30*time.Second), 0, &Job{}) // a moment before its clock was set
	other := runOf(there, MillisOf(ahead.Add(time.Minute))).Refused(ahead.Add(time.Minute))
	again := started
	again.Started++
	for name, tt := range map[string]struct {
		told Run
		want []Run
	}{
		"its end, by the right clock":    {ended, []Run{ended}},
		"its end, by the wrong one":      {late, []Run{late}},
		"its end of the year 9999":       {started.Finished(maxSlot.Time(), 0, &Job{}), []Run{started}},
		"another run":                    {other, []Run{started}},
		"the same, as it is known":       {started, []Run{started}},
		"another start":                  {again, []Run{started}},
		"its end, when that is known":    {ended, []Run{ended}},
		"a later end, when one is known": {late, []Run{ended}},
	} {
		t.Run(name, func(t *testing.T) {
			var known Ledger
			known.Put("backup", started)
			if strings.Contains(name, "known") && tt.told.Phase == Ended {
				known.Put("backup", ended)
			}
			l := liarTo(t, &known)
			var theirs Ledger
			theirs.Put("backup", tt.told)
			m := Message{Kind: wire.JobRecord, Epoch: 1, Owner: there, Payload: theirs.mustAppend()}
			said := l.says(m)
			if e, _ := l.s.ledger.Entry("backup"); !slices.Equal(e.Runs, tt.want) {
				t.Errorf("it has %v, want %v", e.Runs, tt.want)
			}
			isNews := !slices.Contains(tt.want, tt.told)
			if strings.Contains(said, "refused") != isNews {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// A host whose clock was never ahead knows of no such run: an end of the future is a lie there.
func TestNoEndOfTheFutureForARunOfThePresent(t *testing.T) {
	started := runOf(there, MillisOf(clock("11:49"))).Began(clock("11:49"))
	started.Timeout = uint32(MaxTimeout / time.Second)
	var known, theirs Ledger
	known.Put("backup", started)
	theirs.Put("backup", started.Finished(clock("13:50"), 0, &Job{}))
	l := liarTo(t, &known)
	l.says(Message{Kind: wire.JobRecord, Epoch: 1, Owner: there, Payload: theirs.mustAppend()})
	if e, _ := l.s.ledger.Entry("backup"); !slices.Equal(e.Runs, []Run{started}) {
		t.Errorf("it has %v", e.Runs)
	}
}

// A voter that has lost its ledger believes that its clock is behind if somebody says
// so, until the leader's claim shows that it is not.
func TestCase42_AVoterThatLostItsLedger(t *testing.T) {
	l := liarTo(t, nil)
	l.s = NewScheduler(SchedulerConfig{Self: here, Table: l.s.Jobs(), LedgerLost: true}, nil)
	l.s.Step(l.now, Tick{})
	l.now = l.now.Add(2 * Tolerance)
	var theirs Ledger
	theirs.raise("backup", maxSlot, 7)
	l.says(Message{Kind: wire.JobRecord, Epoch: 1, Owner: wire.ID{3}, Payload: theirs.mustAppend()})
	if l.s.ledger.forgot != maxSlot {
		t.Fatal("it was not told so")
	}
	liarsOwn := l.claims("backup", 9, wire.ID{3})
	if l.says(liarsOwn); l.s.ledger.forgot != maxSlot {
		t.Error("who doubts the clock takes it back by a claim")
	}
	if l.isWitnessed() {
		t.Error("a claim is witnessed at once: it may have been witnessed before")
	}
	l.now = l.now.Add(2 * Tolerance)
	if !l.isWitnessed() {
		t.Error("no claim is witnessed any more")
	}
}

// An agent that has taken such times before mends its ledger, and says what it
// found; what may be its own clock's it leaves alone.
func TestCase42_APoisonedDiskIsMended(t *testing.T) {
	now := clock("11:50")
	var l Ledger
	l.raise("backup", maxSlot, 7)
	l.Pause("report", true, maxSlot.Time())
	l.Put("index", runOf(there, farAhead))
	l.Put("index", runOf(here, MillisOf(now)))
	l.raise("set-back", SlotOf(now.Add(24*time.Hour)), 7)
	l.fence, l.forgot = 7+1<<20, maxSlot-1
	was := l.edits
	lines := l.Mend(now, 9)
	if len(lines) != 5 || l.edits == was {
		t.Errorf("%d lines, %d edits: %q", len(lines), l.edits-was, lines)
	}
	if l.fence != 9 || l.forgot != latest(now) {
		t.Errorf("fence %d, forgot %v", l.fence, l.forgot)
	}
	if got := l.ahead(now); len(got) != 1 || got[0].Job != "set-back" {
		t.Errorf("ahead: %v", got)
	}
	if e, _ := l.Entry("index"); len(e.Runs) != 1 || e.Runs[0].Owner != here {
		t.Errorf("runs: %v", e.Runs)
	}
	if again := l.Mend(now, 9); len(again) > 0 {
		t.Errorf("again: %q", again)
	}
	// Where the clock is behind, the newest file says what time it is.
	l.raise("backup", SlotOf(now), 7)
	if lines := l.Mend(now, 9); len(lines) > 0 {
		t.Errorf("of the present: %q", lines)
	}
}

// Jobs of which no table here knows come from the leader alone, and find only the room
// that is left: they drop none, so that no claim is refused as forgotten.
func TestCase43_JunkJobs(t *testing.T) {
	l := liarTo(t, nil)
	junk := func(round int) *Ledger {
		var theirs Ledger
		for i := range MaxJobs {
			theirs.Put(fmt.Sprintf("junk-%d-%d", round, i), runOf(there, MillisOf(l.now.Add(Tolerance))))
		}
		return &theirs
	}
	for round := range 2 {
		l.tells(junk(round))
	}
	if disk := l.onDisk(2 * time.Second); len(disk.entries) > 0 {
		t.Fatalf("by push/pull %d junk jobs are on disk", len(disk.entries))
	}
	for round := range 2 { // now as the leader
		for _, part := range junk(round).parts() {
			l.says(Message{Kind: wire.JobRecord, Epoch: 9, Owner: there, Payload: part.mustAppend()})
		}
		l.says(l.claims(fmt.Sprintf("claimed-%d", round), 9, there))
	}
	disk := l.onDisk(2 * time.Second)
	if n := len(disk.entries); n > MaxJobs || disk.forgot != 0 {
		t.Errorf("%d jobs on disk, forgot %v", n, disk.forgot)
	}
	if b, err := disk.Append(nil); err != nil || len(b) > MaxEncoded/8 {
		t.Errorf("%d bytes on disk, %v", len(b), err)
	}
	l.now = l.now.Add(2 * Tolerance)
	if !l.isWitnessed() {
		t.Error("the true leader's claim is refused")
	}
	// The next table finds its room.
	var table []Job
	for i := range MaxJobs {
		job := l.s.Jobs()[0]
		job.Name = fmt.Sprintf("true-%d", i)
		table = append(table, job)
	}
	l.s.Step(l.now, TableChanged{Jobs: table})
	for i := range MaxJobs {
		l.now = l.now.Add(2 * Tolerance)
		m := l.claims(fmt.Sprintf("true-%d", i), 9, there)
		if got := ofKind[Send](l.s.Step(l.now, Heard{From: there, Message: m, Known: 9})); len(got) != 1 || got[0].Message.Why != ReasonNone {
			t.Fatalf("true-%d: %v", i, got)
		}
	}
}

// A month after the last word of it junk is gone from the disk, and before where room
// is wanted.
func TestCase43_JunkJobsGo(t *testing.T) {
	l := liarTo(t, nil)
	for i := range MaxJobs {
		l.says(l.claims(fmt.Sprintf("junk-%d", i), 9, there))
	}
	one := func() string {
		m := l.claims("late", 9, there)
		return ofKind[Send](l.s.Step(l.now, Heard{From: there, Message: m, Known: 9}))[0].Message.Why.String()
	}
	if why := one(); why != "no-room" {
		t.Errorf("a job more: %s", why)
	}
	l.now = l.now.Add(idleRoom + Tolerance)
	if why := one(); why != "none" {
		t.Errorf("a day later: %s", why)
	}
	l.now = l.now.Add(KeepJob + Tolerance)
	l.says(l.claims("backup", 9, there))
	if got := l.s.ledger.Jobs(); !slices.Equal(got, []string{"backup"}) {
		t.Errorf("a month later: %q", got)
	}
}

// A person's word counts after that of a host that lies, whatever version it claims,
// also where it is on the disk already.
func TestCase44_PauseOfTheHighestVersion(t *testing.T) {
	now := clock("11:50")
	evil := Ledger{entries: []Entry{{Job: "backup", Switch: Switch{Version: math.MaxUint32, Paused: true, At: MillisOf(now.Add(Tolerance))}}}}
	l := liarTo(t, evil.Clone())
	for range 3 {
		l.tells(&evil)
		l.s.Step(l.now, SetPaused{Job: "backup", Token: 1})
		l.tells(&evil)
		if e, _ := l.s.Entry("backup"); e.Switch.Paused || e.Switch.Version == 0 {
			t.Fatalf("it stays paused: %+v", e.Switch)
		}
	}
	disk := l.onDisk(2 * time.Second)
	if e, _ := l.s.Entry("backup"); len(disk.entries) == 1 && disk.entries[0].Switch != e.Switch {
		t.Errorf("on disk: %+v", disk.entries[0].Switch)
	}
	l.now = l.now.Add(2 * Tolerance)
	if !l.isWitnessed() {
		t.Error("the true leader's claim is refused")
	}
}

// A person's word is the later one also where the clock of who was before is ahead.
func TestCase44_TheNextWordIsTheLaterOne(t *testing.T) {
	var a, b Ledger
	a.Pause("backup", true, clock("11:50:30"))
	b.Merge(&a)
	b.Pause("backup", false, clock("11:50"))
	a.Merge(&b)
	for _, l := range []*Ledger{&a, &b} {
		if e, _ := l.Entry("backup"); e.Switch.Paused {
			t.Errorf("still paused: %+v", e.Switch)
		}
	}
}

// A fence is of an epoch that the election knows: no claim and no question is of a
// later one, and no other frame raises it.
func TestCase45_FenceAhead(t *testing.T) {
	for _, ahead := range []uint64{1, 1 << 20, maxEpoch - 9} {
		l := liarTo(t, nil)
		for _, m := range []Message{
			l.claims("backup", 9+ahead, there),
			l.claims("x", 9+ahead, there),
			{Kind: wire.LedgerQuery, Epoch: 9 + ahead, Owner: there},
		} {
			if got := l.says(m); got != "refused" {
				t.Errorf("%d ahead: %v: %s", ahead, m.Kind, got)
			}
		}
		theirs := Ledger{fence: 9 + ahead, forgot: maxSlot}
		theirs.raise("backup", 1, 7)
		l.tells(&theirs)
		l.says(Message{Kind: wire.JobRecord, Epoch: 9 + ahead, Owner: there, Payload: theirs.mustAppend()})
		if l.s.ledger.fence != 0 || !l.isWitnessed() {
			t.Errorf("%d ahead: fence %d, and the true leader's claim is refused", ahead, l.s.ledger.fence)
		}
	}
}

// A name is neither an option, nor a path, nor hidden, in a ledger, a claim and a table;
// a ledger that has one that was allowed once is read without it.
func TestCase46_NamesOfJobs(t *testing.T) {
	for _, name := range []string{"", ".", "..", "...", ".hidden", "-rf", "--", "-", "_x", "a/b", "../x", "/etc/passwd", "a\\b",
		"a b", "a\nb", "a\x00b", "a\x1b[2J", "$(id)", "`id`", "a;b", "a&b", "a*", "<b>", "ａ", "а", "a\u202eb", "\xff", strings.Repeat("a", MaxName+1)} {
		if IsName(name) {
			t.Errorf("%q is taken for a name", name)
		}
		if _, err := (&Ledger{entries: []Entry{{Job: name}}}).Append(nil); err == nil {
			t.Errorf("%q is written", name)
		}
		if len(name) > 255 {
			continue
		}
		body := []byte{formatVersion, 0, 0, 0, 1, byte(len(name))}
		body = append(body, name...)
		body = append(body, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		l, err := Parse(sealed(body))
		if isFormerName(name) != (err == nil) || err == nil && len(l.entries) > 0 {
			t.Errorf("%q: read as %v, %v", name, l, err)
		}
	}
	for _, name := range []string{"a", "A-1_x.sh", "0", strings.Repeat("a", MaxName)} {
		if !IsName(name) {
			t.Errorf("%q is not taken for a name", name)
		}
	}
}

// Of a run that is open here others know no more than that it is lost, once its time is
// over: nobody ends a command by saying so.
func TestNobodyElseEndsARun(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, nil)...)
	w.lasts = time.Hour
	w.runTo("12:00:11")
	h := w.host(1)
	e, _ := h.s.Entry("a")
	own := e.Runs[len(e.Runs)-1]
	for _, phase := range []Phase{Lost, Ended} {
		outcome := Vanished
		if phase == Ended {
			outcome = Succeeded
		}
		var lie Ledger
		lie.Put("a", own.closed(w.now, phase, outcome))
		w.step(h, Heard{From: w.host(2).id, Message: Message{Kind: wire.JobRecord, Epoch: 1, Owner: w.host(2).id,
			Payload: lie.mustAppend()}, Known: 1})
		w.step(h, Merged{Bytes: []byte(lie.mustAppend())})
	}
	w.hasNot("ends the command", "run 12:00:10 ended")
	if r, _ := h.s.ledger.run("a", own.Key); r != own {
		t.Errorf("its record is %v", r)
	}
	w.runTo("12:00:20.1") // its timeout
	w.has("ends the command of 12:00:10 (timed-out)")
}

// The answer of a voter that says it has more than anybody can have is not waited for.
func TestPartsAreBounded(t *testing.T) {
	w := newLan(t, 3, true, everyTen(t, nil)...)
	w.lead(1, 1)
	s := w.host(1).s
	for _, m := range []Message{{Count: maxParts + 1}, {Count: 1, Place: 1}, {Count: math.MaxUint16, Place: math.MaxUint16}} {
		m.Kind, m.Epoch, m.Owner, m.Round, m.Payload = wire.LedgerPart, 1, w.host(1).id, s.study.round, (&Ledger{}).mustAppend()
		if got := words(s.Step(w.now, Heard{From: w.host(2).id, Message: m, Known: 1})); got != "refused" {
			t.Errorf("part %d of %d: %s", m.Place, m.Count, got)
		}
	}
}

// A host whose clock is off by more than Tolerance is told apart: each side can name
// the other.
func TestAClockThatIsOffIsNamed(t *testing.T) {
	l := liarTo(t, nil)
	var theirs Ledger
	theirs.raise("backup", SlotOf(l.now.Add(Tolerance+time.Second)), 7)
	effects := l.s.Step(l.now, Heard{From: there, Message: Message{Kind: wire.JobRecord, Epoch: 9, Owner: there,
		Payload: theirs.mustAppend()}, Known: 9})
	if got := ofKind[Refused](effects); len(got) != 1 || got[0] != (Refused{From: there, Why: "ahead"}) {
		t.Errorf("records of the future: %v", effects)
	}
	s, now, claim := claimant(t)
	effects = s.Step(now, Heard{From: wire.ID{2}, Message: Message{Kind: wire.JobWitness, Epoch: claim.Epoch, Owner: claim.Owner,
		Round: claim.Round, Why: ReasonAhead}, Known: claim.Epoch})
	if got := ofKind[Refused](effects); len(got) != 1 || got[0] != (Refused{From: wire.ID{2}, Why: "claim-ahead"}) {
		t.Errorf("a claim of the future: %v", effects)
	}
}

// FuzzClaim: no bytes make a claim that is larger than one that is written.
func FuzzClaim(f *testing.F) {
	c := Claim{Job: "backup", Schedule: 7, Run: runOf(there, 1780315200005)}
	b, _ := c.Append(nil)
	f.Add(b[:len(b)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := ParseClaim(sealed(slices.Clone(body)))
		if err != nil {
			return
		}
		b, err := c.Append(nil)
		if err != nil || len(b) > MaxClaim {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		again, err := ParseClaim(b)
		if err != nil || again != c {
			t.Fatalf("%v comes back as %v, %v", c, again, err)
		}
	})
}

// FuzzMerged: whatever ledgers another host tells, in whatever order, what reaches the
// disk is of the present, of jobs that are known, and within its bounds; and a person's
// word counts.
func FuzzMerged(f *testing.F) {
	var l Ledger
	l.raise("backup", SlotOf(clock("11:49")), 7)
	l.Put("backup", runOf(there, MillisOf(clock("11:49"))))
	l.Pause("backup", true, clock("11:50"))
	b := l.mustAppend()
	f.Add([]byte(b[:len(b)-4]), true)
	f.Add([]byte(b[:len(b)-4]), false)
	f.Fuzz(func(t *testing.T, body []byte, asLeader bool) {
		l := liarTo(t, nil)
		payload := sealed(slices.Clone(body))
		if asLeader {
			l.says(Message{Kind: wire.JobRecord, Epoch: 9, Owner: there, Payload: string(payload)})
		} else {
			l.s.Step(l.now, Merged{Bytes: payload})
		}
		l.s.Step(l.now, SetPaused{Job: "backup", Paused: false, Token: 1})
		if e, _ := l.s.Entry("backup"); e.Switch.Paused {
			t.Fatalf("stays paused: %+v", e.Switch)
		}
		disk := l.onDisk(2 * time.Second)
		if _, isCut := disk.past(l.now.Add(time.Second), &Ledger{}); isCut || disk.fence > 9 || disk.forgot > latest(l.now) || len(disk.entries) > MaxJobs {
			t.Fatalf("on disk: %+v", disk)
		}
		if !asLeader && len(disk.entries) > 1 {
			t.Fatalf("%d jobs on disk", len(disk.entries))
		}
		if lines := disk.Mend(l.now, 9); len(lines) > 0 {
			t.Fatalf("to be mended: %q", lines)
		}
	})
}
