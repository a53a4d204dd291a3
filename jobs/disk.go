package jobs

import "errors"

// ErrDisk is what a person is told whose wish did not reach the disk.
var ErrDisk = errors.New("the job ledger cannot be saved: see why the state directory takes no writes")

// nothingSaved is no number of edits that a ledger ever has.
const nothingSaved = ^uint64(0)

// onSaveFailed takes back what the last step wanted to be on disk. Until the
// disk is back this host witnesses nothing, tells nothing and starts nothing:
// memory is ahead of the disk.
func (s *Scheduler) onSaveFailed() {
	dropped := s.after
	s.before, s.after = s.before[:0], nil
	s.diskFailed, s.savedEdits = true, nothingSaved
	for _, effect := range dropped {
		switch e := effect.(type) {
		case Begin:
			s.unbegin(e.Job.Name, e.Run.Key)
		case Reply:
			s.reply(e.Token, e.Run, ErrDisk)
		}
	}
}

// onSaveRecovered tries the disk with all that is known.
func (s *Scheduler) onSaveRecovered() {
	if s.diskFailed {
		s.diskFailed, s.mustSave = false, true
	}
}
