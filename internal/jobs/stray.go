package jobs

import "slices"

// settleStrays makes the records of this host's own runs say what is the case:
// after the start, and when others have told theirs.
func (s *Scheduler) settleStrays() {
	s.strays = false
	for _, stray := range s.ledger.disown(s.now, s.cfg.Self, s.isMine) {
		s.note(Decision{Job: stray.job, Slot: stray.run.Slot, Run: stray.run})
		s.tellAll(stray.job, stray.run)
	}
	for _, m := range slices.Clone(s.mine) {
		if r, ok := s.ledger.run(m.job.Name, m.key); ok && r.Phase == Lost && !m.isLost {
			s.answerLost(m, r)
		}
	}
}

// answerLost ends a run that others count as lost although it is open here:
// another may have started by now.
func (s *Scheduler) answerLost(m mine, r Run) {
	job := m.job.Name
	switch {
	case m.runs:
		s.open(job, m.key).isLost = true
		s.before = append(s.before, End{Job: job, Key: m.key, Outcome: Killed})
	case r.Attempt == 0:
		s.dropClaim(job, m.key, ReasonVanished)
		s.over(job, r.Refused(s.now))
	default:
		s.over(job, r.closed(s.now, Ended, Failed))
	}
}
