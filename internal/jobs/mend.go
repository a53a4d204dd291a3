package jobs

import (
	"fmt"
	"slices"
	"time"
)

// Mend takes out of a ledger that was read from this host's disk what no agent writes
// there: an older one took it from a host that lied, or from one whose clock was wrong,
// and the job would not run before the year 9999. now is the present, or the newest
// time that is known to have passed if that is later: a clock that is behind makes
// nothing false. epoch is the highest counter that this host's election has on its
// disk. It gives a line for each thing that it took out.
//
//   - Times more than KeepJob ahead. Less is left alone: this host's own clock may have
//     been ahead for a moment, and what ran then does not run again (takeBack).
//   - A fence above epoch: the election had that on disk before. Who leads would
//     be refused as deposed.
func (l *Ledger) Mend(now time.Time, epoch uint64) []string {
	var lines []string
	note := func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf(format, args...))
		l.edits++
	}
	limit := SlotOf(now.Add(KeepJob))
	if l.fence > epoch {
		note("the fence, epoch %d, is above all epochs that this host knows, the highest of which is %d", l.fence, epoch)
		l.fence = epoch
	}
	if l.forgot > limit && l.forgot != maxSlot { // that one is lostLedger's
		note("starts before %v would not be witnessed", l.forgot)
		l.forgot = latest(now)
	}
	for i := range l.entries {
		e := &l.entries[i]
		if e.Floor > limit {
			note("job %s is settled until %v", e.Job, e.Floor)
			e.Floor, e.Schedule = 0, 0
		}
		if at := SlotOf(e.Switch.At.Time()); at > limit {
			note("job %s was paused or resumed at %v", e.Job, at)
			e.Switch = Switch{}
		}
		was := len(e.Runs)
		e.Runs = slices.DeleteFunc(e.Runs, func(r Run) bool { return r.newest() > limit })
		if n := was - len(e.Runs); n > 0 {
			note("job %s has %d runs of a time later than %v", e.Job, n, limit)
		}
	}
	return lines
}
