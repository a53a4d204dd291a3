package sim

import (
	"github.com/bully-agent/bully-agent/internal/jobs"
)

// The invariants of singleton jobs (jobs/doc.go). They are of quorum mode, J2
// apart.

// jobSlot is what starts at most once.
type jobSlot struct {
	job  string
	slot jobs.Slot
}

// jobStart is the start of a slot.
type jobStart struct {
	who int
	key jobs.Key
}

// failJobs is fail for the invariants of jobs.
func (w *World) failJobs(number int, format string, args ...any) {
	if loose := w.jobs.losing || w.jobs.apart > maxOffset; loose && number >= 3 { // J1 and J2 hold all the same
		return
	}
	w.fail(jobsAt+number, format, args...)
}

// watchBegin holds a start against the invariants.
func (w *World) watchBegin(m *machine, e jobs.Begin) {
	if e.Run.Attempt > 1 {
		w.jobs.counts.Retries++
	} else {
		w.jobs.counts.Starts++
		w.j1OneStartOfASlot(m, e)
	}
	w.j2OnItsOwnDisk(m, e)
	w.j4NoOverlap(m, e)
}

// J1 (quorum): a slot starts once at most, whoever leads. Two runs by hand that
// were asked for in one second are two wishes.
func (w *World) j1OneStartOfASlot(m *machine, e jobs.Begin) {
	if e.Run.Manual {
		return
	}
	slot := jobSlot{e.Job.Name, e.Run.Slot}
	was, known := w.jobs.starts[slot]
	w.jobs.starts[slot] = jobStart{m.number, e.Run.Key}
	if known && w.mode == Quorum {
		w.failJobs(1, "job %s starts on n%d as %v, and started on n%d as %v", slot.job, m.number, e.Run.Key, was.who, was.key)
	}
}

// J2: what starts is on its own host's disk, as running.
func (w *World) j2OnItsOwnDisk(m *machine, e jobs.Begin) {
	ledger, err := jobs.Parse(m.disk.ledger.content)
	if err != nil {
		w.failJobs(2, "job %s starts on n%d without a ledger on disk: %v", e.Job.Name, m.number, err)
		return
	}
	entry, _ := ledger.Entry(e.Job.Name)
	for _, r := range entry.Runs {
		if r == e.Run {
			return
		}
	}
	w.failJobs(2, "job %s starts on n%d as %v, which is not on its disk", e.Job.Name, m.number, e.Run)
}

// J3 (quorum): a run counts as lost only when its command has ended. A host that
// was stopped as a whole ends nothing in time.
func (w *World) j3LostOnlyWhenOver(m *machine, d jobs.Decision) {
	if w.mode != Quorum {
		return
	}
	for _, other := range w.machines {
		for _, c := range other.jobs.commands {
			if c.job == d.Job && c.key == d.Run.Key && !other.suspended {
				w.failJobs(3, "n%d counts %v of job %s as lost, which runs on n%d", m.number, d.Run, d.Job, other.number)
			}
		}
	}
}

// J4 (quorum): a job whose runs may not overlap runs once at a time, over all
// hosts. A host that was stopped as a whole is lost, not known.
func (w *World) j4NoOverlap(m *machine, e jobs.Begin) {
	if w.mode != Quorum || e.Job.Overlap == jobs.OverlapAllow {
		return
	}
	for _, other := range w.machines {
		for _, c := range other.jobs.commands {
			if c.job == e.Job.Name && !other.suspended {
				w.failJobs(4, "job %s starts on n%d as %v while %v runs on n%d", c.job, m.number, e.Run.Key, c.key, other.number)
			}
		}
	}
}
