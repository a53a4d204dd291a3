package jobs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// has and hasNot look for a line in what happened since the last look.
func (w *lan) has(texts ...string) {
	w.t.Helper()
	got := w.trace.String()
	for _, text := range texts {
		if !strings.Contains(got, text) {
			w.t.Errorf("until %s: no %q in\n%s", shortTime(w.now), text, got)
		}
	}
	w.trace.Reset()
}

func (w *lan) hasNot(texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		if strings.Contains(w.trace.String(), text) {
			w.t.Errorf("until %s: %q in\n%s", shortTime(w.now), text, w.trace.String())
		}
	}
}

// runTo lets time pass until a time of the first day.
func (w *lan) runTo(text string) { w.run(clock(text).Sub(w.now)) }

// ready is a lan whose n1 leads in epoch 1 and has adopted its jobs.
func ready(t *testing.T, n int, quorum bool, table ...Job) *lan {
	t.Helper()
	w := newLan(t, n, quorum, table...)
	w.lead(1, 1)
	w.runTo("12:00:05")
	w.has("n1 a: adopt")
	return w
}

func everyTen(t *testing.T, change func(*Job)) []Job { return tableOf(t, change, "@every 10s") }

// ofKind gives the effects of one type, in their order.
func ofKind[E Effect](effects []Effect) []E {
	var out []E
	for _, e := range effects {
		if found, ok := e.(E); ok {
			out = append(out, found)
		}
	}
	return out
}

func words(effects []Effect) string {
	var out []string
	for _, e := range effects {
		word, _, _ := strings.Cut(e.String(), " ")
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func TestJ1_NothingStartsWithoutAMajority(t *testing.T) {
	w := ready(t, 5, true, everyTen(t, nil)...)
	w.cutOff(4, true)
	w.cutOff(5, true)
	w.runTo("12:00:12")
	w.has("begins 12:00:10")
	w.cutOff(3, true)
	w.runTo("12:00:25")
	w.hasNot("begins")
	w.has("start 12:00:20", "give up 12:00:20 no-majority")
	w.cutOff(4, false)
	w.runTo("12:00:32")
	w.has("begins 12:00:30")
}

// In a group of two, one and a half are two.
func TestJ1_HalfIsNoMajority(t *testing.T) {
	w := ready(t, 4, true, everyTen(t, nil)...)
	w.cutOff(3, true)
	w.cutOff(4, true)
	w.runTo("12:00:15")
	w.hasNot("begins")
}

func TestAClaimIsRepeated(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, nil)...)
	w.keep[wire.JobClaim] = true
	w.runTo("12:00:11")
	w.hasNot("begins")
	w.keep[wire.JobClaim] = false
	w.runTo("12:00:12")
	w.has("begins 12:00:10")
}

// What was given up stays given up.
func TestJ1_AnAnswerThatComesLateStartsNothing(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, nil)...)
	w.delay = 1500 * time.Millisecond
	w.runTo("12:00:19")
	w.hasNot("begins")
	w.has("give up 12:00:10 no-majority")
}

// claimant is a leader of three whose claim, which it gives, waits for answers.
func claimant(t *testing.T) (*Scheduler, time.Time, Message) {
	t.Helper()
	others := []wire.ID{{2}, {3}}
	s := NewScheduler(SchedulerConfig{Self: here, Table: everyTen(t, nil)}, nil)
	now := clock("12:00:01")
	s.Step(now, Peers{others})
	sent := ofKind[Send](s.Step(now, Leading{Epoch: 5, Since: now, Voters: append(others, here), Need: 2}))
	if len(sent) != 2 || sent[0].Message.Kind != wire.LedgerQuery {
		t.Fatalf("a new leader sends %v", sent)
	}
	answer := sent[0].Message
	answer.Kind = wire.LedgerPart
	for _, id := range others {
		s.Step(now, Heard{From: id, Message: answer, Known: known})
	}
	s.Step(clock("12:00:05"), Tick{})
	now = clock("12:00:10")
	effects := s.Step(now, Tick{})
	if got := words(effects); got != "a: save send send" {
		t.Fatalf("a claim is %s", got)
	}
	return s, now, ofKind[Send](effects)[0].Message
}

// An answer is to one claim of one leadership.
func TestJ1_AnAnswerToAnotherClaimStartsNothing(t *testing.T) {
	for name, change := range map[string]func(*Message){
		"another round": func(m *Message) { m.Round++ },
		"another epoch": func(m *Message) { m.Epoch++ },
		"another owner": func(m *Message) { m.Owner = wire.ID{2} },
		"a refusal":     func(m *Message) { m.Why = ReasonTaken },
	} {
		s, now, claim := claimant(t)
		answer := Message{Kind: wire.JobWitness, Epoch: claim.Epoch, Owner: claim.Owner, Round: claim.Round}
		change(&answer)
		if got := s.Step(now, Heard{From: wire.ID{2}, Message: answer, Known: known}); len(ofKind[Begin](got)) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	s, now, claim := claimant(t)
	answer := Message{Kind: wire.JobWitness, Epoch: claim.Epoch, Owner: claim.Owner, Round: claim.Round}
	for range 2 { // the same voter twice is one
		if got := s.Step(now, Heard{From: wire.ID{9}, Message: answer, Known: known}); len(ofKind[Begin](got)) > 0 {
			t.Errorf("a host that is no voter: %v", got)
		}
	}
	if got := words(s.Step(now, Heard{From: wire.ID{2}, Message: answer, Known: known})); got != "save begin send send" {
		t.Errorf("a majority gives %s", got)
	}
}

// A voter that refused may witness a later copy; one that has witnessed stays.
func TestAVotersLastWordCounts(t *testing.T) {
	s, now, claim := claimant(t)
	answer := Message{Kind: wire.JobWitness, Epoch: claim.Epoch, Owner: claim.Owner, Round: claim.Round, Why: ReasonAhead}
	s.Step(now, Heard{From: wire.ID{2}, Message: answer, Known: known})
	answer.Why = ReasonNone
	if got := s.Step(now, Heard{From: wire.ID{2}, Message: answer, Known: known}); len(ofKind[Begin](got)) != 1 {
		t.Errorf("%v", got)
	}
}

// Two refusals of three voters decide a claim at once.
func TestAClaimThatCannotWinIsGivenUp(t *testing.T) {
	s, now, claim := claimant(t)
	answer := Message{Kind: wire.JobWitness, Epoch: claim.Epoch, Owner: claim.Owner, Round: claim.Round, Why: ReasonTaken}
	s.Step(now, Heard{From: wire.ID{2}, Message: answer, Known: known})
	got := s.Step(now, Heard{From: wire.ID{3}, Message: answer, Known: known})
	if notes := ofKind[Noted](got); len(notes) != 1 || notes[0].Decision.Why != ReasonNoMajority {
		t.Errorf("%v", got)
	}
}

// The roster changes while a claim waits: who counts is who votes now.
func TestJ1_VotersThatLeftDoNotCount(t *testing.T) {
	s, now, claim := claimant(t)
	answer := Message{Kind: wire.JobWitness, Epoch: claim.Epoch, Owner: claim.Owner, Round: claim.Round}
	s.Step(now, Leading{Epoch: 5, Since: clock("12:00:01"), Voters: []wire.ID{here, {2}, {3}, {4}}, Need: 3})
	if got := s.Step(now, Heard{From: wire.ID{2}, Message: answer, Known: known}); len(ofKind[Begin](got)) > 0 {
		t.Errorf("two of four: %v", got)
	}
	s.Step(now, Leading{Epoch: 5, Since: clock("12:00:01"), Voters: []wire.ID{here, {3}, {4}}, Need: 2})
	if got := s.Step(now, Tick{}); len(ofKind[Begin](got)) > 0 {
		t.Errorf("one of three: %v", got)
	}
	if got := s.Step(now, Heard{From: wire.ID{4}, Message: answer, Known: known}); len(ofKind[Begin](got)) != 1 {
		t.Errorf("two of three: %v", got)
	}
}

// witness is a host that was asked for a claim, which is given.
func witness(t *testing.T, ledger *Ledger) (*Scheduler, time.Time, Heard) {
	t.Helper()
	_, now, claim := claimant(t)
	w := NewScheduler(SchedulerConfig{Self: there, Table: everyTen(t, nil)}, ledger)
	w.Step(now, Tick{})
	return w, now, Heard{From: here, Message: claim, Known: known}
}

func TestJ1_AWitnessSavesBeforeItAnswers(t *testing.T) {
	s, now, claim := witness(t, nil)
	effects := s.Step(now, claim)
	if got := words(effects); got != "save send" {
		t.Fatalf("%s", got)
	}
	sent := ofKind[Send](effects)[0]
	if sent.To != here || sent.Message.Kind != wire.JobWitness || sent.Message.Why != ReasonNone {
		t.Errorf("%v", sent)
	}
	disk, err := Parse(ofKind[Save](effects)[0].Bytes)
	if e, _ := disk.Entry("a"); err != nil || len(e.Runs) != 1 || disk.fence != 5 {
		t.Errorf("on disk: %+v, %v", e, err)
	}
	if got := words(s.Step(now, claim)); got != "send" {
		t.Errorf("asked again: %s", got)
	}
}

// What a witness was told of by gossip is not on its disk yet.
func TestJ1_AWitnessSavesWhatItKnewByHearsay(t *testing.T) {
	s, now, claim := witness(t, nil)
	heard := claim
	heard.Message.Kind = wire.JobRecord
	if got := words(s.Step(now, heard)); got != "" {
		t.Fatalf("a record: %s", got)
	}
	if got := words(s.Step(now, claim)); got != "save send" {
		t.Errorf("%s", got)
	}
}

func TestWhatIsHeardIsSavedSoon(t *testing.T) {
	s, now, claim := witness(t, nil)
	claim.Message.Kind = wire.JobRecord
	s.Step(now, claim)
	if got := s.Deadline(); !got.Equal(now.Add(saveWithin)) {
		t.Errorf("deadline %v", got)
	}
	if got := words(s.Step(now.Add(saveWithin), Tick{})); got != "save" {
		t.Errorf("%s", got)
	}
}

// A witness whose disk fails is silent, also about what it has in memory.
func TestJ1_AWitnessWithoutADiskIsSilent(t *testing.T) {
	s, now, claim := witness(t, nil)
	s.Step(now, claim)
	s.Step(now, SaveFailed{})
	if got := words(s.Step(now, claim)); got != "" {
		t.Errorf("%s", got)
	}
	if got := words(s.Step(now, SaveRecovered{})); got != "save" {
		t.Errorf("%s", got)
	}
	if got := words(s.Step(now, claim)); got != "send" {
		t.Errorf("%s", got)
	}
}

// Who sends a claim is its claimant, in its own name.
func TestClaimsOfOthersAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Heard){
		"sent by another": func(h *Heard) { h.From = wire.ID{3} },
		"another's name":  func(h *Heard) { h.From, h.Message.Owner = wire.ID{3}, wire.ID{3} },
		"another epoch":   func(h *Heard) { h.Message.Epoch++ },
		"no claim":        func(h *Heard) { h.Message.Payload = "none" },
	} {
		s, now, claim := witness(t, nil)
		change(&claim)
		if got := words(s.Step(now, claim)); got != "refused" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Once it has told a leader what it knows, a host witnesses nothing of an earlier
// one, nor after a restart.
func TestADeposedLeaderFindsNoWitness(t *testing.T) {
	s, now, claim := witness(t, nil)
	query := Message{Kind: wire.LedgerQuery, Epoch: 6, Owner: wire.ID{3}}
	effects := s.Step(now, Heard{From: wire.ID{3}, Message: query, Known: known})
	if got := words(effects); got != "save send" {
		t.Fatalf("it tells with %s", got)
	}
	disk, err := Parse(ofKind[Save](effects)[0].Bytes)
	if err != nil {
		t.Fatal(err)
	}
	again, _, _ := witness(t, disk)
	for _, s := range []*Scheduler{s, again} {
		got := ofKind[Send](s.Step(now, claim))
		if len(got) != 1 || got[0].Message.Why != ReasonDeposed {
			t.Errorf("%v", got)
		}
	}
	query.Epoch, query.Owner = 5, here
	if got := words(s.Step(now, Heard{From: here, Message: query, Known: known})); got != "refused" {
		t.Errorf("nor does it tell one: %s", got)
	}
}

// A voter that has lost its ledger refuses what it may have witnessed, of others
// and of its own, for ever.
func TestJ1_AVoterThatForgotRefuses(t *testing.T) {
	_, now, claim := witness(t, nil)
	s := NewScheduler(SchedulerConfig{Self: there, Table: everyTen(t, nil), LedgerLost: true}, nil)
	effects := s.Step(now.Add(-50*time.Second), Tick{})
	if got := words(effects); got != "save" {
		t.Fatalf("it begins with %s", got)
	}
	disk, err := Parse(ofKind[Save](effects)[0].Bytes)
	if err != nil {
		t.Fatal(err)
	}
	again := NewScheduler(SchedulerConfig{Self: there, Table: everyTen(t, nil)}, disk)
	for _, s := range []*Scheduler{s, again} {
		got := ofKind[Send](s.Step(now, claim))
		if len(got) != 1 || got[0].Message.Why != ReasonForgot {
			t.Errorf("%v", got)
		}
	}

	w := newLan(t, 3, true, everyTen(t, nil)...)
	w.host(1).lostLedger = true
	w.boot(w.host(1), everyTen(t, nil))
	w.lead(1, 1)
	w.runTo("12:00:15")
	w.has("begins 12:00:10") // both others have witnessed it
	w.cutOff(3, true)
	w.runTo("12:01:05")
	w.hasNot("begins")
	w.has("give up 12:00:30 no-majority")
	w.runTo("12:01:15")
	w.has("begins 12:01:10")
}

// A leader that has told a later one what it knows is none any more.
func TestADeposedLeaderDecidesNothing(t *testing.T) {
	s, now, claim := claimant(t)
	s.Step(now, Heard{From: wire.ID{3}, Message: Message{Kind: wire.LedgerQuery, Epoch: 6, Owner: wire.ID{3}}, Known: known})
	answer := Message{Kind: wire.JobWitness, Epoch: claim.Epoch, Owner: claim.Owner, Round: claim.Round}
	if got := s.Step(now, Heard{From: wire.ID{2}, Message: answer, Known: known}); len(ofKind[Begin](got)) > 0 {
		t.Errorf("%v", got)
	}
	if got := s.Explain(); len(got) != 1 || got[0].Why != ReasonNotLeading {
		t.Errorf("%v", got)
	}
	if e, _ := s.Entry("a"); e.Runs[0].Outcome != Unclaimed {
		t.Errorf("%v", e.Runs)
	}
}

func TestALeaderDecidesNothingBeforeAMajorityHasTold(t *testing.T) {
	w := newLan(t, 5, true, everyTen(t, nil)...)
	for i := 3; i <= 5; i++ {
		w.cutOff(i, true)
	}
	w.lead(1, 1)
	w.run(time.Minute)
	w.hasNot("adopt", "start")
	if got := w.host(1).s.Explain(); len(got) != 1 || got[0].Why != ReasonLearning {
		t.Errorf("%v", got)
	}
	w.cutOff(3, false)
	w.run(3 * time.Second)
	w.has("n1 a: adopt")
}

// In available mode nobody is waited for.
func TestAvailableModeSettlesAlone(t *testing.T) {
	w := newLan(t, 3, false, everyTen(t, nil)...)
	w.cutOff(1, true)
	w.lead(1, 1)
	w.runTo("12:00:11")
	w.has("adopt", "begins 12:00:10")
}

// The new leader learns from the voters what runs on the old one, though nobody
// had told it.
func TestJ4_ANewLeaderKnowsWhatItsPredecessorStarted(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, func(j *Job) { j.OnLoss = OnLossFinish })...)
	w.lasts = 8 * time.Second
	w.cut[[2]int{1, 3}] = true
	w.runTo("12:00:11")
	w.has("n1 a: begins 12:00:10")
	w.step(w.host(1), NotLeading{})
	w.cutOff(1, true)
	w.lead(3, 2)
	w.runTo("12:00:14")
	if e, _ := w.host(3).s.Entry("a"); len(e.Runs) != 1 || !e.Runs[0].Open() {
		t.Errorf("n3 knows of %v", e.Runs)
	}
	w.runTo("12:00:25")
	w.hasNot("begins 12:00:20")
	w.cutOff(1, false)
	w.gossip(w.host(1), w.host(3))
	w.runTo("12:00:32")
	w.has("n3 a: begins 12:00:30")
}

// A vanished host's run blocks until it must be over: from when the next leader
// came, if it may have begun as late as that, for its timeout, the grace and a
// second.
func TestJ3_AVanishedRunIsLostWhenItMustBeOver(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, nil)...)
	w.lasts = time.Hour
	w.runTo("12:00:11")
	w.crash(w.host(1))
	w.run(time.Second)
	w.lead(2, 2)
	w.runTo("12:00:27")
	w.hasNot("lose")
	w.runTo("12:00:28") // n2 leads since :12, 10 s, 5 s, 1 s
	w.has("n2 a: lose 12:00:10 vanished")
}

// A ledger of many parts is told whole, in frames.
func TestALedgerIsToldInParts(t *testing.T) {
	ledger := fullest()
	ledger.entries = ledger.entries[4:] // room for the job of the table, and none of the hosts' own
	if got := len(ledger.parts()); got != (MaxJobs-4)*3 {
		t.Errorf("%d parts", got)
	}
	w := newLan(t, 3, true, everyTen(t, nil)...)
	w.host(2).disk, _ = ledger.Append(nil)
	w.boot(w.host(2), w.host(1).s.Jobs())
	w.now = ledgerTime(ledger)
	w.keep[wire.JobRecord] = true
	w.cutOff(3, true)
	w.lead(1, 1<<40)
	w.run(1500 * time.Millisecond)
	for _, name := range ledger.Jobs() {
		want, _ := ledger.Entry(name)
		if got, _ := w.host(1).s.Entry(name); !slices.Equal(got.Runs, want.Runs) {
			t.Fatalf("%s: %d runs of %d have arrived", name, len(got.Runs), len(want.Runs))
		}
	}
	if w.host(1).s.leadership().Learning {
		t.Error("and that was not all")
	}
}

// ledgerTime is a time at which nothing of the ledger is in the future.
func ledgerTime(l *Ledger) time.Time {
	var latest Slot
	for _, e := range l.entries {
		latest = max(latest, e.activity())
	}
	return latest.Time()
}

// A host whose ledger changes while it tells is asked from the beginning.
func TestPartsAreOfOneLedger(t *testing.T) {
	s := NewScheduler(SchedulerConfig{Self: here, Table: everyTen(t, nil)}, nil)
	now := clock("12:00:01")
	sent := ofKind[Send](s.Step(now, Leading{Epoch: 5, Since: now, Voters: []wire.ID{here, {2}, {3}}, Need: 2}))
	q := sent[0].Message
	tell := func(place, count uint16, digest uint64) Message {
		t.Helper()
		m := Message{Kind: wire.LedgerPart, Epoch: q.Epoch, Owner: q.Owner, Round: q.Round, Place: place, Count: count,
			Digest: digest, Payload: (&Ledger{}).mustAppend()}
		sent := ofKind[Send](s.Step(now, Heard{From: wire.ID{2}, Message: m, Known: known}))
		if len(sent) == 0 {
			return Message{}
		}
		return sent[0].Message
	}
	isLearning := func() bool { return s.leadership().Learning }
	if next := tell(0, 3, 77); next.Place != 1 {
		t.Fatalf("then it asks %v", next)
	}
	if next := tell(1, 3, 78); next.Place != 0 || next.Kind != wire.LedgerQuery {
		t.Fatalf("of another ledger: then it asks %v", next)
	}
	for place := range uint16(3) {
		if !isLearning() {
			t.Fatalf("told with %d of 3 parts", place)
		}
		tell(place, 3, 78)
	}
	if isLearning() {
		t.Error("not told with all parts")
	}
}

// A part that does not arrive is asked for again, ever more slowly.
func TestAHostIsAskedAgain(t *testing.T) {
	w := newLan(t, 3, true, everyTen(t, nil)...)
	w.keep[wire.LedgerQuery] = true
	w.frames = true
	w.lead(1, 1)
	w.run(20 * time.Second)
	if n := strings.Count(w.trace.String(), "n1 → n2 LEDGER_QUERY"); n < 8 || n > 16 {
		t.Errorf("asked %d times in 20 s", n)
	}
	w.keep[wire.LedgerQuery] = false
	w.run(3 * time.Second)
	w.has("adopt")
}

// Where nobody waits for an answer, asking ends.
func TestAskingEnds(t *testing.T) {
	w := newLan(t, 3, false, everyTen(t, nil)...)
	w.keep[wire.LedgerQuery] = true
	w.frames = true
	w.lead(1, 1)
	w.run(2 * time.Minute)
	if n := strings.Count(w.trace.String(), "n1 → n2 LEDGER_QUERY"); n != 1+maxAsks {
		t.Errorf("asked %d times", n)
	}
}

// What a failed save wanted to start is not running, and people are told.
func TestASaveThatFailsStartsNothing(t *testing.T) {
	for _, quorum := range []bool{false, true} {
		w := ready(t, 3, quorum, everyTen(t, nil)...)
		w.host(1).full = true
		w.step(w.host(1), Ask{Job: "a", Token: 7})
		w.runTo("12:00:15")
		w.hasNot("begins")
		w.has("save fails", "reply 7: ")
		for _, r := range entryRuns(w.host(1)) {
			if r.Open() {
				t.Errorf("open: %v", r)
			}
		}
		w.host(1).full = false
		w.step(w.host(1), SaveRecovered{})
		w.runTo("12:00:32")
		w.has("begins 12:00:30")
	}
}

func entryRuns(h *lanHost) []Run {
	e, _ := h.s.Entry("a")
	return e.Runs
}

// Commands end in time though the disk fails.
func TestTimeoutsNeedNoDisk(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, func(j *Job) { j.OnLoss, j.Timeout = OnLossFinish, 5*time.Second })...)
	w.lasts = time.Hour
	w.runTo("12:00:11")
	w.host(1).full = true
	w.step(w.host(1), SetPaused{Job: "a", Paused: true, Token: 1})
	w.has("save fails", "reply 1: the job ledger cannot be saved")
	w.runTo("12:00:17")
	w.has("ends the command of 12:00:10 (timed-out)")
}

func TestALeaseThatIsOverAtTheStart(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, func(j *Job) { j.Retries = 2 })...)
	w.host(1).leaseEnd = true
	w.runTo("12:00:12")
	w.has("does not begin 12:00:10", "run 12:00:10 ended unclaimed")
}

// A run that is replaced in the step that would start it never begins; else its
// end would come before its beginning.
func TestNothingEndsBeforeItBegins(t *testing.T) {
	table := everyTen(t, func(j *Job) { j.Overlap = OverlapReplace })
	s := NewScheduler(SchedulerConfig{Self: here, Table: table}, nil)
	now := clock("12:00:01")
	s.Step(now, Leading{Epoch: 5, Since: now, Voters: []wire.ID{here, {2}}, Need: 2})
	q := Message{Kind: wire.LedgerPart, Epoch: 5, Owner: here, Round: 1}
	s.Step(now, Heard{From: wire.ID{2}, Message: q, Known: known})
	s.Step(clock("12:00:05"), Tick{})
	sent := ofKind[Send](s.Step(clock("12:00:10"), Ask{Job: "a", Token: 3}))
	if len(sent) != 1 {
		t.Fatalf("%v", sent)
	}
	answer := Message{Kind: wire.JobWitness, Epoch: 5, Owner: here, Round: sent[0].Message.Round}
	effects := s.Step(clock("12:00:20"), Heard{From: wire.ID{2}, Message: answer, Known: known})
	if len(ofKind[Begin](effects)) > 0 || len(ofKind[End](effects)) > 0 {
		t.Errorf("%v", effects)
	}
	for _, r := range ofKind[Reply](effects) {
		if r.Err == nil {
			t.Errorf("%v", r)
		}
	}
}

// After a restart the runs of the life before have ended, and everybody is told.
func TestARestartEndsItsRuns(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, nil)...)
	w.lasts = time.Hour
	w.runTo("12:00:12")
	w.crash(w.host(1))
	w.boot(w.host(1), w.host(2).s.Jobs())
	w.has("n1 a: run 12:00:10 ended interrupted")
	w.run(time.Second)
	if r := entryRuns(w.host(2)); r[0].Outcome != Interrupted {
		t.Errorf("n2: %v", r)
	}
}

// A run that others count as lost while it goes on is ended, and says so.
func TestALostRunThatGoesOnIsEnded(t *testing.T) {
	w := ready(t, 3, false, everyTen(t, nil)...)
	w.lasts = time.Hour
	w.runTo("12:00:20.005") // its time has ended
	r := entryRuns(w.host(1))[0]
	lost := Ledger{}
	lost.Put("a", r.closed(w.now, Lost, Vanished))
	w.step(w.host(1), Merged{[]byte(lost.mustAppend())})
	w.has("ends the command of 12:00:10 (killed)")
	w.run(time.Second)
	w.has("run 12:00:10 ended killed exit=143")
}

// One that had not begun, or waits for its next attempt, just ends.
func TestALostRunThatDoesNotRunEnds(t *testing.T) {
	for _, phase := range []Phase{Claimed, Waiting} {
		w := ready(t, 3, true, everyTen(t, func(j *Job) { j.Retries, j.RetryDelay = 1, time.Minute })...)
		w.exit, w.lasts = 1, 100*time.Millisecond
		w.keep[wire.JobWitness] = phase == Claimed
		w.runTo("12:00:11")
		r := entryRuns(w.host(1))[0]
		if r.Phase != phase {
			t.Fatalf("%v", r)
		}
		lost := Ledger{}
		lost.Put("a", r.closed(w.now, Lost, Vanished))
		w.step(w.host(1), Merged{[]byte(lost.mustAppend())})
		if r := entryRuns(w.host(1))[0]; r.Phase != Ended || len(w.host(1).s.mine) > 0 || len(w.host(1).s.claims) > 0 {
			t.Errorf("%v: %v", phase, r)
		}
	}
}

// A command that its holder has ended did not fail, whatever it made of its TERM. While its host leads on, the run has the
// attempts that are left.
func TestAnAttemptThatItsHolderHasEnded(t *testing.T) {
	for _, exit := range []uint8{0, 137} {
		w := ready(t, 1, false, everyTen(t, func(j *Job) { j.Retries, j.RetryDelay = 1, time.Second })...)
		w.exit, w.killed = exit, true
		w.runTo("12:00:11.5")
		w.has("run 12:00:10 waiting killed")
		w.runTo("12:00:14.5")
		w.has("begins 12:00:10 attempt=2", "run 12:00:10 ended killed")
	}
}

func TestAttemptsEndWithTheirLeadership(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, func(j *Job) { j.Retries, j.RetryDelay, j.OnLoss = 2, 3*time.Second, OnLossFinish })...)
	w.exit = 1
	w.runTo("12:00:15")
	w.has("begins 12:00:10 attempt=1", "run 12:00:10 waiting failed exit=1", "begins 12:00:10 attempt=2")
	w.run(time.Second)
	w.step(w.host(1), NotLeading{})
	w.runTo("12:00:40")
	w.hasNot("attempt=3")
}

func TestLossOfLeadershipEndsCommands(t *testing.T) {
	for _, policy := range []OnLoss{OnLossKill, OnLossFinish} {
		w := ready(t, 3, true, everyTen(t, func(j *Job) { j.OnLoss = policy })...)
		w.lasts = 5 * time.Second
		w.runTo("12:00:11")
		w.trace.Reset()
		w.step(w.host(1), NotLeading{})
		if policy == OnLossKill {
			w.has("ends the command of 12:00:10 (killed)")
		} else {
			w.hasNot("ends the command")
		}
		w.runTo("12:00:19")
		w.has("run 12:00:10 ended")
	}
}

func TestAPersonsWish(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, nil)...)
	ask := func(host int, job string) {
		w.step(w.host(host), Ask{Job: job, Token: 7})
		w.run(50 * time.Millisecond)
	}
	ask(1, "a")
	w.has("a: begins 12:00:05 by hand", "reply 7: ok")
	ask(1, "a") // two wishes of one second are one slot: the second waits for the next
	w.runTo("12:00:06")
	w.has("reply 7: job a was not started: overlap")
	ask(2, "a")
	w.has("reply 7: job a was not started: not-leading")
	ask(1, "b")
	w.has(`reply 7: no job is called "b"`)
	w.runTo("12:00:07")
	w.keep[wire.JobClaim] = true
	ask(1, "a")
	w.runTo("12:00:09.5")
	w.has("reply 7: job a was not started: no-majority")
}

// A wish waits for the run that it replaces, and for a leader that settles.
func TestAWishThatWaits(t *testing.T) {
	w := newLan(t, 3, true, everyTen(t, func(j *Job) { j.Overlap = OverlapReplace })...)
	w.lead(1, 1)
	w.step(w.host(1), Ask{Job: "a", Token: 7})
	w.lasts = time.Hour
	w.run(time.Second)
	w.hasNot("reply")
	w.run(2 * time.Second)
	w.has("reply 7: ok")
	w.step(w.host(1), Ask{Job: "a", Token: 8})
	w.run(time.Second)
	w.has("ends the command", "ended replaced", "reply 8: ok")
	w.cutOff(1, true)
	w.lead(1, 2)
	w.step(w.host(1), Ask{Job: "a", Token: 9})
	w.run(time.Minute)
	w.has("reply 9: job a was not started: learning")
}

func TestTooManyWishes(t *testing.T) {
	w := newLan(t, 3, true, everyTen(t, nil)...)
	w.lead(1, 1)
	for i := range maxAsked + 1 {
		w.step(w.host(1), Ask{Job: "a", Token: uint64(i)})
	}
	w.has("reply 64: job a was not started: too-many-waiting")
}

// A pause is known everywhere at once, whoever says it.
func TestAPauseIsToldToAll(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, nil)...)
	w.step(w.host(3), SetPaused{Job: "a", Paused: true, Token: 1})
	w.has("n3 reply 1: ok")
	w.runTo("12:00:25")
	w.hasNot("start")
	w.step(w.host(2), SetPaused{Job: "a", Token: 2})
	w.step(w.host(2), SetPaused{Job: "a", Token: 3})
	w.step(w.host(2), SetPaused{Job: "x", Token: 4})
	w.has("reply 2: ok", "reply 3: ok", `reply 4: no job is called "x"`)
	w.runTo("12:00:32")
	w.has("begins 12:00:30")
}

// A job that is taken out of the table while it runs keeps its timeout, and
// starts no more.
func TestAJobThatLeavesTheTable(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, func(j *Job) { j.Timeout = 5 * time.Second })...)
	w.lasts = time.Hour
	w.runTo("12:00:11")
	w.step(w.host(1), TableChanged{})
	w.runTo("12:00:35")
	w.has("ends the command of 12:00:10 (timed-out)")
	w.hasNot("12:00:20")
	if s := w.host(1).s; len(s.mine) > 0 || !s.Deadline().IsZero() {
		t.Errorf("%v, deadline %v", s.mine, s.Deadline())
	}
}

// A ledger of a clock that is ahead is not taken, nor one that is damaged.
func TestLedgersThatAreRefused(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, nil)...)
	ahead := Ledger{}
	ahead.raise("a", SlotOf(w.now.Add(time.Hour)), 1)
	w.step(w.host(1), Merged{[]byte(ahead.mustAppend())})
	w.has("refuses ahead")
	w.step(w.host(1), Merged{[]byte("none")})
	w.has("refuses ledger")
	w.step(w.host(1), Heard{From: wire.ID{2}, Message: Message{Kind: 19}, Known: known})
	w.has("refuses kind")
	w.runTo("12:00:11")
	w.has("begins 12:00:10")
}

// A clock that is set back repeats nothing, and what is under way goes on.
func TestAClockThatIsSetBack(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, nil)...)
	w.keep[wire.JobClaim] = true
	w.runTo("12:00:10.5")
	w.setClock(1, -30*time.Second)
	w.keep[wire.JobClaim] = false
	w.runTo("12:00:12")
	w.has("begins 12:00:10")
	w.runTo("12:00:39")
	w.hasNot("begins")
	w.runTo("12:00:52")
	w.has("begins 12:00:20")
}

// Clocks that were two hours ahead at first keep nothing from its slots once they are
// right.
func TestClocksThatWereAllAhead(t *testing.T) {
	for _, isQuorum := range []bool{true, false} {
		w := ready(t, 3, isQuorum, everyTen(t, nil)...)
		w.runTo("12:00:10.5")
		w.has("begins 12:00:10")
		for n := range 3 {
			w.setClock(n+1, -2*time.Hour)
		}
		w.runTo("12:00:22")
		w.has("begins 10:00:20")
	}
}

// Where more ran while all clocks were ahead than is remembered, a job stands still until a
// person resumes it from now: on all hosts, also on one that hears of it later.
func TestResumedFromNow(t *testing.T) {
	for _, isQuorum := range []bool{true, false} {
		w := ready(t, 3, isQuorum, everyTen(t, nil)...)
		w.runTo("12:03:01.5")
		for n := range 3 {
			w.setClock(n+1, -2*time.Hour)
		}
		w.trace.Reset()
		w.runTo("12:03:31")
		w.hasNot("begins")
		w.cutOff(3, true)
		w.step(w.host(2), SetPaused{Job: "a", FromNow: true, Token: 1})
		w.has("n2 reply 1: ok")
		w.runTo("12:03:41")
		w.has("begins 10:03:40")
		w.cutOff(3, false)
		w.gossip(w.host(3), w.host(1))
		for _, h := range w.hosts {
			if ahead := h.s.Ahead(w.clockOf(h)); ahead != nil {
				t.Errorf("n%d: %v", h.number, ahead)
			}
		}
	}
}

// What runs as a job is resumed from now goes on, and blocks the next slot.
func TestResumedFromNowDuringARun(t *testing.T) {
	w := ready(t, 3, true, everyTen(t, func(j *Job) { j.Timeout = time.Minute })...)
	w.runTo("12:03:09")
	w.lasts = 15 * time.Second
	w.runTo("12:03:11")
	for n := range 3 {
		w.setClock(n+1, -2*time.Hour)
	}
	w.step(w.host(2), SetPaused{Job: "a", FromNow: true, Token: 1})
	w.trace.Reset()
	w.runTo("12:03:24")
	w.hasNot("begins")
	w.runTo("12:03:26")
	w.has("begins 10:03:20")
}

// Repeated, late and unasked answers do no harm.
func TestAnswersOutOfTurn(t *testing.T) {
	s, now, _ := claimant(t)
	for _, m := range []Message{
		{Kind: wire.LedgerPart, Epoch: 5, Owner: here, Round: 1},
		{Kind: wire.LedgerPart, Epoch: 4, Owner: here, Round: 1, Count: 1},
		{Kind: wire.JobWitness, Epoch: 5, Owner: here, Round: 1},
	} {
		if got := words(s.Step(now, Heard{From: wire.ID{3}, Message: m, Known: known})); got != "" {
			t.Errorf("%v: %s", m, got)
		}
	}
	for _, ev := range []Event{Exited{Job: "a"}, StartFailed{Job: "a"}} {
		if got := words(s.Step(now, ev)); got != "refused" {
			t.Errorf("%v: %s", ev, got)
		}
	}
}

func TestErrorsNameTheirReason(t *testing.T) {
	var err error = &NotRunError{Job: "a", Why: ReasonBlocked}
	var notRun *NotRunError
	if !errors.As(err, &notRun) || err.Error() != "job a was not started: blocked-by-another-host" {
		t.Errorf("%v", err)
	}
	notRun.Why, notRun.Until = ReasonSettling, clock("12:00:02")
	if want := "job a was not started: settling until 2026-06-01T12:00:02Z"; err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
