package jobs

import (
	"slices"
	"time"
)

// find gives a job's definition in the table, nil if it is not there.
func (s *Scheduler) find(name string) *Job { return jobNamed(s.cfg.Table, name) }

func jobNamed(table []Job, name string) *Job {
	if i := slices.IndexFunc(table, func(j Job) bool { return j.Name == name }); i >= 0 {
		return &table[i]
	}
	return nil
}

// job gives the definition of a job that runs here.
func (s *Scheduler) job(name string) *Job {
	if j := s.find(name); j != nil {
		return j
	}
	if j := jobNamed(s.retired, name); j != nil {
		return j
	}
	return &Job{Name: name}
}

// runsHere reports whether a run of the job is open here.
func (s *Scheduler) runsHere(name string) bool {
	return slices.ContainsFunc(s.mine, func(m mine) bool { return m.job == name })
}

// onTableChanged takes a new table. What runs here keeps its definition.
func (s *Scheduler) onTableChanged(table []Job) {
	known := slices.Concat(s.cfg.Table, s.retired)
	s.cfg.Table = slices.Clone(table)
	s.retired = slices.DeleteFunc(known, func(j Job) bool { return s.find(j.Name) != nil || !s.runsHere(j.Name) })
	s.decidedEdits = nothingSaved // all is to be looked at again
}

// dropRetired forgets definitions whose last run has ended.
func (s *Scheduler) dropRetired() {
	s.retired = slices.DeleteFunc(s.retired, func(j Job) bool { return !s.runsHere(j.Name) })
}

// remains is Due for jobs whose slots do not start any more.
func remains(now time.Time, retired []Job, l *Ledger, lead Leadership) []Decision {
	var all []Decision
	for i := range retired {
		v := lookAfter(now, &retired[i], l, lead)
		all = append(all, v.decisions...)
	}
	return all
}

// nextOf is Next for them.
func nextOf(now time.Time, retired []Job, l *Ledger, lead Leadership) time.Time {
	var next time.Time
	for i := range retired {
		v := lookAfter(now, &retired[i], l, lead)
		next = earlier(next, v.wake)
	}
	return next
}

// Bytes is the whole ledger, for push/pull; another host's Merged takes it.
func (s *Scheduler) Bytes() []byte { return []byte(s.ledger.mustAppend()) }

// Jobs is the table, in its order, for reading.
func (s *Scheduler) Jobs() []Job { return s.cfg.Table }

// Upcoming gives the next n slots of a job after now, fewer if it has fewer; nil
// for a job that is not in the table.
func (s *Scheduler) Upcoming(job string, now time.Time, n int) []time.Time {
	j := s.find(job)
	if j == nil {
		return nil
	}
	var slots []time.Time
	for at := j.Schedule.Next(now); !at.IsZero() && len(slots) < n; at = j.Schedule.Next(at) {
		slots = append(slots, at)
	}
	return slots
}

// Explain says what each job of the table waits for, as of the last Step: Waits,
// with a Reason each. A job without one waits for its next slot.
func (s *Scheduler) Explain() []Decision {
	isNoWait := func(d Decision) bool { return d.Do != Wait }
	return slices.DeleteFunc(Due(s.now, s.cfg.Table, s.ledger, s.leadership()), isNoWait)
}

// Entry is what the ledger knows of a job: floor, pause and runs, the newest
// last. It is only for reading, until the next Step.
func (s *Scheduler) Entry(job string) (Entry, bool) { return s.ledger.Entry(job) }
