package jobs

import (
	"slices"
	"time"
)

// find gives a job's definition in the table, nil if it is not there.
func (s *Scheduler) find(name string) *Job {
	if i := slices.IndexFunc(s.cfg.Table, func(j Job) bool { return j.Name == name }); i >= 0 {
		return &s.cfg.Table[i]
	}
	return nil
}

// onTableChanged takes a new table. What is open here keeps its definition.
func (s *Scheduler) onTableChanged(e TableChanged) {
	s.cfg.Table = slices.Clone(e.Jobs)
	s.lead.Grace = orDefault(e.Grace, s.lead.Grace)
	s.decidedEdits = nothingSaved // all is to be looked at again
}

// prune brings the ledger within its bounds, and keeps what the table has.
func (s *Scheduler) prune() { s.ledger.Prune(s.now, s.cfg.Table) }

// Bytes is what this host knows of all jobs, for push/pull; another host's Merged
// takes it. It leaves out what this host owes as a witness, which is nobody
// else's: that would change the bytes with every epoch.
func (s *Scheduler) Bytes() []byte { return []byte(s.ledger.told().mustAppend()) }

// Ahead are the jobs that start nothing before a time that is ahead of now by more than
// Tolerance: this host's clock was set back, or is wrong, or was.
func (s *Scheduler) Ahead(now time.Time) []Ahead { return s.ledger.ahead(now) }

// Jobs is the table, in its order, for reading.
func (s *Scheduler) Jobs() []Job { return s.cfg.Table }

// Explain says what each job of the table waits for, as of the last Step: Waits,
// with a Reason each. A job without one waits for its next slot.
func (s *Scheduler) Explain() []Decision {
	isNoWait := func(d Decision) bool { return d.Do != Wait }
	return slices.DeleteFunc(s.outlook(s.leadership()).due(s.cfg.Table), isNoWait)
}

// Entry is what the ledger knows of a job: floor, pause and runs, the newest
// last. It is only for reading, until the next Step.
func (s *Scheduler) Entry(job string) (Entry, bool) { return s.ledger.Entry(job) }
