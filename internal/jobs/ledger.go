package jobs

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// What Prune keeps of each job, and for how long it keeps jobs that are in no
// table any more. More costs space on every host and in every exchange.
const (
	KeepEnded = 16 // runs that have ended, the newest
	KeepOpen  = 16 // runs that are not: MaxActive, and those of hosts that were cut off
	KeepJob   = 30 * 24 * time.Hour
)

// Tolerance is how far hosts' clocks may differ. A claim further in the future
// is refused, lest one wrong clock settle a year of slots. Arbitrary: hosts
// without NTP are further apart, with NTP far closer.
const Tolerance = time.Minute

// Ledger is what is known about runs, of all jobs. The zero Ledger knows
// nothing. It belongs to whoever steps it: there is no lock.
//
//   - A slot at or below a job's floor is settled: it has run, or it will not.
//   - A slot above the floor with a record is settled too.
//   - Floors only rise, and records only go to a later version of themselves.
//   - What this host owes as a witness is its own: Merge leaves fence and forgot
//     alone.
type Ledger struct {
	entries []Entry // by name

	// fence is the highest epoch in which this host has told a leader what it
	// knows, or witnessed a claim, or led. Claims of lower ones are refused, so
	// that a leader knows all that its predecessors can have started.
	fence uint64

	// forgot is the highest slot that this host may have witnessed and forgotten:
	// it lost a ledger, or Prune dropped a job. Claims up to it are refused. Its
	// own too. While it is maxSlot the present is not known: see lostledger.go.
	forgot Slot

	edits uint64 // changes so far: what is on disk is of one of them
}

// Entry is one job's part of the ledger.
type Entry struct {
	Job string

	// Floor is the highest slot that is settled along with all below it.
	// Schedule is the Hash of the schedule whose slots they were.
	Floor    Slot
	Schedule uint64

	Switch Switch
	Runs   []Run // by key; never more than one of each
}

// Switch is whether the job is paused, and since when it is as it is. The later At is
// the later word; of two with one At, "paused" is. A time has a bound for everybody,
// the present, and a count has none but its last number, which a host that lies would
// take for itself.
type Switch struct {
	Version uint32 // how often it was set, as far as known; zero: never
	Paused  bool
	FromNow bool // resumed, and what is of a time ahead of the clock is forgotten; never with Paused
	At      Millis
}

func (s Switch) compare(other Switch) int {
	return cmp.Or(cmp.Compare(s.At, other.At), compareBool(s.Paused, other.Paused), compareBool(s.FromNow, other.FromNow),
		cmp.Compare(s.Version, other.Version))
}

func (s Switch) next(now time.Time) Switch {
	return Switch{Version: min(s.Version, math.MaxUint32-1) + 1, At: max(MillisOf(now), s.At+1)}
}

// floor is Floor, or when the job was resumed: slots of a pause are not missed.
func (e *Entry) floor() Slot {
	if e.Switch.Version == 0 || e.Switch.Paused {
		return e.Floor
	}
	return max(e.Floor, SlotOf(e.Switch.At.Time()))
}

// find gives the place of a run with this key.
func (e *Entry) find(k Key) (int, bool) {
	return slices.BinarySearchFunc(e.Runs, k, func(r Run, k Key) int { return r.Key.Compare(k) })
}

// run is the record of a run.
func (l *Ledger) run(job string, k Key) (Run, bool) {
	e, _ := l.Entry(job)
	if i, ok := e.find(k); ok {
		return e.Runs[i], true
	}
	return Run{}, false
}

// claims are the runs of one slot, whoever claimed it.
func (e *Entry) claims(slot Slot, manual bool) []Run {
	first, _ := e.find(Key{Slot: slot, Manual: manual})
	last := first
	for last < len(e.Runs) && e.Runs[last].Slot == slot && e.Runs[last].Manual == manual {
		last++
	}
	return e.Runs[first:last]
}

// settled reports whether a slot of the schedule must not be claimed.
func (e *Entry) settled(slot Slot) bool { return slot <= e.floor() || len(e.claims(slot, false)) > 0 }

// newestSlot is the newest slot that may have been witnessed.
func (e *Entry) newestSlot() Slot {
	newest := e.floor()
	for _, r := range e.Runs {
		newest = max(newest, r.Slot)
	}
	return newest
}

// activity is the last thing that is known of the job, for Prune.
func (e *Entry) activity() Slot {
	latest := max(e.floor(), SlotOf(e.Switch.At.Time()))
	for _, r := range e.Runs {
		latest = max(latest, r.newest())
	}
	return latest
}

// Entry is what is known of a job; Runs is the ledger's own and only for
// reading.
func (l *Ledger) Entry(job string) (Entry, bool) {
	if i, ok := l.find(job); ok {
		return l.entries[i], true
	}
	return Entry{Job: job}, false
}

// Jobs are the names that the ledger knows, sorted.
func (l *Ledger) Jobs() []string {
	names := make([]string, len(l.entries))
	for i := range l.entries {
		names[i] = l.entries[i].Job
	}
	return names
}

func (l *Ledger) find(job string) (int, bool) {
	return slices.BinarySearchFunc(l.entries, job, func(e Entry, job string) int { return strings.Compare(e.Job, job) })
}

// entry finds a job's part, or makes it.
func (l *Ledger) entry(job string) *Entry {
	i, ok := l.find(job)
	if !ok {
		l.entries = slices.Insert(l.entries, i, Entry{Job: job})
		l.edits++
	}
	return &l.entries[i]
}

// Put takes a version of a run. An older version than the one that is known
// changes nothing.
func (l *Ledger) Put(job string, r Run) {
	e := l.entry(job)
	switch i, ok := e.find(r.Key); {
	case !ok:
		e.Runs = slices.Insert(e.Runs, i, r)
		l.edits++
	case r.compare(e.Runs[i]) > 0:
		e.Runs[i] = r
		l.edits++
	}
}

// Apply writes down what a decision says; a Wait says nothing. It must be on
// disk, and a Start witnessed too, before the command runs.
func (l *Ledger) Apply(d Decision) {
	if d.Settles {
		l.raise(d.Job, d.Slot, d.schedule)
	}
	if d.Run.Phase != 0 {
		l.Put(d.Job, d.Run)
	}
}

// raise settles all slots up to this one.
func (l *Ledger) raise(job string, slot Slot, schedule uint64) {
	if e := l.entry(job); slot > e.Floor {
		e.Floor, e.Schedule = slot, schedule
		l.edits++
	}
}

// forget refuses, for ever, claims of all slots up to this one.
func (l *Ledger) forget(until Slot) {
	if l.forgot != until {
		l.forgot = until
		l.edits++
	}
}

// hasForgotten gives ReasonForgot for a slot of which this host cannot know.
func (l *Ledger) hasForgotten(slot Slot) Reason {
	if slot <= l.forgot {
		return ReasonForgot
	}
	return ReasonNone
}

// raiseFence refuses claims of lower epochs from now on; once it is on disk, for
// ever.
func (l *Ledger) raiseFence(epoch uint64) {
	if epoch > l.fence {
		l.fence = epoch
		l.edits++
	}
}

// Pause stops a job's slots from starting, or lets them start again from now
// on; runs are left alone. It reports whether that changed anything. It is a later word
// than all that is known here, whatever clocks say.
func (l *Ledger) Pause(job string, paused bool, now time.Time) bool {
	e := l.entry(job)
	if e.Switch.Paused == paused {
		return false
	}
	e.Switch = e.Switch.next(now)
	e.Switch.Paused = paused
	l.edits++
	return true
}

// ResumeFromNow lets a job's slots start from now on, also where the ledger knows a
// future that keeps them from it: the clocks were ahead, and so many runs were made
// that takeBack leaves the floor. A slot that started meanwhile starts again.
func (l *Ledger) ResumeFromNow(job string, now time.Time) {
	e := l.entry(job)
	e.reopen(now)
	e.Switch = e.Switch.next(now)
	e.Switch.FromNow = true
	l.edits++
}

// reopen forgets the future of the jobs that another ledger says are resumed from now,
// where that is news. A switch of the future is no later word. Merge follows.
func (l *Ledger) reopen(other *Ledger, now time.Time) {
	for _, theirs := range other.entries {
		e := l.entry(theirs.Job)
		if theirs.Switch.FromNow && (theirs.Switch.compare(e.Switch) > 0 || e.Switch.isAhead(now)) {
			e.reopen(now)
			l.edits++
		}
	}
}

// reopen forgets what is ahead of the clock by more than Tolerance. By this host's clock,
// not by the word's: what was witnessed since stays (J1). Open runs stay, since they block.
func (e *Entry) reopen(now time.Time) {
	limit := latest(now)
	e.Runs = slices.DeleteFunc(e.Runs, func(r Run) bool { return r.Slot > limit && !r.Open() })
	if e.Floor > limit {
		e.Floor = SlotOf(now)
	}
	if e.Switch.isAhead(now) {
		e.Switch = Switch{}
	}
}

// isAhead reports whether this is the word of a clock that was ahead.
func (s Switch) isAhead(now time.Time) bool { return SlotOf(s.At.Time()) > latest(now) }

// Claim is a leader's wish to run a slot, as it asks the others to witness it.
type Claim struct {
	Job      string
	Schedule uint64 // its Hash: the slot settles those before it
	Run      Run
}

// Admit takes a claim, if it may be witnessed: ReasonNone, or why not. What
// it wrote must be on disk before the answer is sent, so that nobody ever
// witnesses two claimants of one slot. Asked again about the same claim, the
// answer is the same.
func (l *Ledger) Admit(now time.Time, c Claim) Reason {
	if c.Run.Epoch < l.fence {
		return ReasonDeposed
	}
	if why := l.hasForgotten(c.Run.Slot); why != ReasonNone {
		return why
	}
	e, _ := l.Entry(c.Job)
	if why := e.refuse(now, c.Run); why != ReasonNone {
		return why
	}
	l.raiseFence(c.Run.Epoch)
	l.Put(c.Job, c.Run)
	if !c.Run.Manual {
		l.raise(c.Job, c.Run.Slot, c.Schedule)
	}
	return ReasonNone
}

func (e *Entry) refuse(now time.Time, r Run) Reason {
	if r.newest() > latest(now) {
		return ReasonAhead
	}
	for _, other := range e.claims(r.Slot, r.Manual) {
		if other.Key != r.Key {
			return ReasonTaken
		}
	}
	switch i, ok := e.find(r.Key); {
	case ok && e.Runs[i].Phase > Claimed, r.Phase != Claimed:
		return ReasonOver
	case !ok && !r.Manual && r.Slot <= e.floor():
		return ReasonSettled
	}
	return ReasonNone
}

// stray is a record of an own run, of which nothing runs here.
type stray struct {
	job string
	run Run // as it is now
}

// disown ends the open runs of self that are not running here, and gives them:
// after a restart those of the life before, later those that somebody told us
// of who had missed their end.
func (l *Ledger) disown(now time.Time, self wire.ID, running func(job string, k Key) bool) []stray {
	var ended []stray
	for i := range l.entries {
		e := &l.entries[i]
		for j, r := range e.Runs {
			if r.Owner == self && r.Open() && !running(e.Job, r.Key) {
				e.Runs[j] = r.closed(now, Ended, Interrupted)
				ended = append(ended, stray{e.Job, e.Runs[j]})
				l.edits++
			}
		}
	}
	return ended
}

// takeBack takes floors back to the present that are ahead of it by more than Tolerance:
// the clock was wrong, and what keeps a slot of the future from a second start is its
// record. Where so many runs of the future are known that one may have been forgotten,
// the floor stays: it alone tells.
func (l *Ledger) takeBack(now time.Time) {
	limit := latest(now)
	for i := range l.entries {
		e := &l.entries[i]
		if e.Floor > limit && e.remembersAfter(limit) {
			e.Floor = SlotOf(now)
			l.edits++
		}
	}
}

// remembersAfter reports whether no run of a slot after this one can have been
// forgotten: prune drops the oldest of more than it keeps.
func (e *Entry) remembersAfter(slot Slot) bool {
	var open, ended int
	for _, r := range e.Runs {
		switch {
		case r.Slot <= slot:
		case r.Open():
			open++
		default:
			ended++
		}
	}
	return open < KeepOpen && ended < KeepEnded
}

// Ahead is a job that starts nothing before a time that is ahead of the clock.
type Ahead struct {
	Job   string
	Until time.Time
}

// ahead are the jobs of which the ledger knows the future, by more than Tolerance.
func (l *Ledger) ahead(now time.Time) []Ahead {
	var all []Ahead
	for i := range l.entries {
		if e := &l.entries[i]; e.floor() > latest(now) {
			all = append(all, Ahead{e.Job, e.floor().Time()})
		}
	}
	return all
}

// latest is the newest slot that another host can mean by the present.
func latest(now time.Time) Slot { return SlotOf(now.Add(Tolerance)) }

// past is what the ledger knows up to the present, and of runs that ours knows too. The rest
// is of a clock that is ahead of ours by more than Tolerance: were it merged, the job
// would not run before that time. It reports whether anything was left out.
func (l *Ledger) past(now time.Time, ours *Ledger) (past *Ledger, cut bool) {
	limit := latest(now)
	past = &Ledger{entries: slices.Clone(l.entries)}
	for i := range past.entries {
		e := &past.entries[i]
		if e.Floor > limit {
			e.Floor, e.Schedule, cut = 0, 0, true
		}
		if e.Switch.isAhead(now) {
			e.Switch, cut = Switch{}, true
		}
		known := slices.DeleteFunc(slices.Clone(e.Runs), func(r Run) bool { return r.newest() > limit && !ours.bears(limit, e.Job, r) })
		cut = cut || len(known) < len(e.Runs)
		e.Runs = known
	}
	isEmpty := func(e Entry) bool { return e.Floor == 0 && e.Switch.Version == 0 && len(e.Runs) == 0 }
	past.entries = slices.DeleteFunc(past.entries, isEmpty)
	return past, cut
}

// bears reports whether a record of the future says nothing new of a run that is known here
// to be of the future, or ends it: clocks were ahead when it began, and were set since. So
// nothing begins or is prolonged, and an end is the last word of a run.
func (l *Ledger) bears(limit Slot, job string, r Run) bool {
	own, known := l.run(job, r.Key)
	if !known || own.newest() <= limit {
		return false
	}
	endsBy := own.newest() + Slot(own.Timeout) + Slot(Tolerance/time.Second)
	isEnd := own.Open() && r.Phase == Ended && r.newest() <= endsBy
	return isEnd || r.compare(own) <= 0
}

// Clone is a copy that shares nothing.
func (l *Ledger) Clone() *Ledger {
	c := &Ledger{entries: slices.Clone(l.entries), fence: l.fence, forgot: l.forgot, edits: l.edits}
	for i := range c.entries {
		c.entries[i].Runs = slices.Clone(c.entries[i].Runs)
	}
	return c
}
