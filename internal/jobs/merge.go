package jobs

import (
	"cmp"
	"slices"
	"time"
)

// Merge takes in what another ledger knows. It is a least upper bound: the
// order and the number of merges do not matter. It forgets nothing, so Prune
// should follow.
func (l *Ledger) Merge(other *Ledger) {
	for i := range other.entries {
		theirs := &other.entries[i]
		e := l.entry(theirs.Job)
		if cmp.Or(cmp.Compare(theirs.Floor, e.Floor), cmp.Compare(theirs.Schedule, e.Schedule)) > 0 {
			e.Floor, e.Schedule = theirs.Floor, theirs.Schedule
			l.edits++
		}
		if theirs.Switch.compare(e.Switch) > 0 {
			e.Switch = theirs.Switch
			l.edits++
		}
		for _, r := range theirs.Runs {
			l.Put(theirs.Job, r)
		}
	}
}

// Prune brings the ledger within its bounds. A record goes only with the floor
// raised over its slot, so that the slot stays settled. Jobs that are in no
// table go when nothing was heard of them for KeepJob, or to make room: should
// one come back, its slots start from then on. No claim of a slot as old as what
// went is witnessed any more, of whatever job.
func (l *Ledger) Prune(now time.Time, table []Job) {
	for i := range l.entries {
		if l.entries[i].prune() {
			l.edits++
		}
	}
	for _, name := range l.surplus(now, table) {
		if i, ok := l.find(name); ok {
			l.forget(max(l.forgot, l.entries[i].newestSlot()))
			l.entries = slices.Delete(l.entries, i, i+1)
			l.edits++
		}
	}
}

// prune reports whether it forgot something.
func (e *Entry) prune() bool {
	var open, ended int
	was := len(e.Runs)
	for i := len(e.Runs) - 1; i >= 0; i-- { // the newest first
		count, keep := &ended, KeepEnded
		if e.Runs[i].Open() {
			count, keep = &open, KeepOpen
		}
		if *count++; *count > keep {
			e.drop(i)
		}
	}
	return len(e.Runs) < was
}

// drop forgets a run, and settles its slot for ever.
func (e *Entry) drop(i int) {
	if r := e.Runs[i]; !r.Manual {
		e.Floor = max(e.Floor, r.Slot)
	}
	e.Runs = slices.Delete(e.Runs, i, i+1)
}

// surplus names the jobs that may go: the one of which was heard last, last.
func (l *Ledger) surplus(now time.Time, table []Job) []string {
	named := make(map[string]bool, len(table))
	for i := range table {
		named[table[i].Name] = true
	}
	var idle []*Entry
	for i := range l.entries {
		if e := &l.entries[i]; !named[e.Job] {
			idle = append(idle, e)
		}
	}
	slices.SortStableFunc(idle, func(a, b *Entry) int { return cmp.Compare(a.activity(), b.activity()) })
	var names []string
	for i, e := range idle {
		if len(l.entries)-i > MaxJobs || e.activity() < SlotOf(now.Add(-KeepJob)) {
			names = append(names, e.Job)
		}
	}
	return names
}

// maxSlot is the last second of the year 9999, beyond which RFC 3339 has no
// name for a time.
const maxSlot Slot = 253402300799

// maxEpoch is the highest counter that an election gives.
const maxEpoch = 1<<62 - 1

// valid reports whether a record can have been written by an agent. It is for
// what comes from a disk or a network.
func (r *Run) valid() bool {
	inTime := func(m Millis) bool { return 0 <= m && m <= Millis(maxSlot)*1000 }
	return 0 <= r.Slot && r.Slot <= maxSlot && r.Epoch <= maxEpoch &&
		Claimed <= r.Phase && r.Phase <= Ended && r.Outcome <= Vanished &&
		(r.Phase < Stopping) == (r.Outcome == 0) && (r.Attempt > 0) == (r.Started > 0) && r.Attempt <= MaxRetries+1 &&
		r.Claimed > 0 && inTime(r.Claimed) && inTime(r.Started) && inTime(r.Ended) &&
		1 <= r.Timeout && r.Timeout <= uint32(MaxTimeout/time.Second)
}
