package jobs

import (
	"errors"
	"slices"
)

// ErrDisk is what a person is told whose wish did not reach the disk.
var ErrDisk = errors.New("the job ledger cannot be saved: see why the state directory takes no writes")

// nothingSaved is no number of edits that a ledger ever has.
const nothingSaved = ^uint64(0)

// onSaveFailed takes back what the last step wanted to be on disk. Until the
// disk is back this host witnesses nothing, starts nothing and tells nothing, but
// which of its runs have ended: memory is ahead of the disk.
func (s *Scheduler) onSaveFailed() {
	dropped, over := s.after, s.justOver
	s.before, s.after, s.justOver = s.before[:0], nil, nil
	s.diskFailed, s.savedEdits = true, nothingSaved
	for _, c := range s.claims { // policy gives them up
		s.tookBack = s.tookBack || !c.Run.Manual
	}
	for _, o := range over {
		s.tellAll(o.job, o.run)
	}
	for _, effect := range dropped {
		switch e := effect.(type) {
		case Begin:
			s.unbegin(e.Job.Name, e.Run.Key)
			s.tookBack = s.tookBack || !e.Run.Manual
		case Reply:
			s.reply(e.Token, e.Run, ErrDisk)
		}
	}
}

// Stalled reports whether this host leads and jobs are due that do not start, since
// the ledger cannot be saved: a start was taken back, or one would come now, as of the
// last Step. Another host may do better.
func (s *Scheduler) Stalled() bool {
	lead := s.leadership()
	if !lead.DiskFailed || s.tookBack {
		return lead.DiskFailed
	}
	lead.Leading, lead.DiskFailed, lead.Learning = true, false, false // it asks nobody meanwhile
	isStart := func(d Decision) bool { return d.Do == Start }
	return slices.ContainsFunc(s.outlook(lead).due(s.cfg.Table), isStart)
}

// onSaveRecovered tries the disk with all that is known.
func (s *Scheduler) onSaveRecovered() {
	if s.diskFailed {
		s.diskFailed, s.mustSave = false, true
	}
}
