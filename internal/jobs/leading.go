package jobs

import (
	"slices"
	"time"
)

// onLeading begins a leadership, or takes news of the voters of this one.
func (s *Scheduler) onLeading(e Leading) {
	isNew := !s.lead.Leading || e.Epoch != s.lead.Epoch
	isChanged := !isNew && !slices.Equal(s.voters, e.Voters)
	if isNew { // of one that goes on, onClockSet knows better
		s.lead.Since = e.Since.Round(0)
	}
	if s.lead.Since.After(s.now) { // a clock that was set before this was heard
		s.lead.Since = s.now
	}
	s.lead.Leading, s.lead.Epoch = true, e.Epoch
	s.voters, s.need = slices.Clone(e.Voters), e.Need
	if s.isQuorum() {
		s.ledger.raiseFence(e.Epoch)
		s.mustSave = true
	}
	if isNew {
		s.beginStudy()
		return
	}
	s.widenStudy()
	if isChanged {
		s.tellVoters()
	}
	for _, c := range slices.Clone(s.claims) {
		s.count(c)
	}
}

// onNotLeading ends a leadership. What becomes of its runs is policy.
func (s *Scheduler) onNotLeading() {
	s.lead.Leading, s.tookBack = false, false
	s.study = study{}
	s.telling, s.tellAt = nil, time.Time{}
}

// onClosing ends what runs here, also what may outlive a leadership.
func (s *Scheduler) onClosing() {
	s.closing = true
	for i := range s.mine {
		s.mine[i].job.OnLoss = OnLossKill
	}
	s.decidedEdits = nothingSaved // all is to be looked at again
}

func (s *Scheduler) isQuorum() bool { return s.voters != nil }

// leadership is what may be decided on. A host whose disk fails decides nothing,
// nor does one that has told a later leader what it knows.
func (s *Scheduler) leadership() Leadership {
	l := s.lead
	l.Leading = l.Leading && !s.isDeposed() && !s.closing
	l.DiskFailed = l.Leading && s.diskFailed
	l.Leading = l.Leading && !s.diskFailed
	l.Learning = s.isQuorum() && !s.study.isDone(s)
	return l
}

func (s *Scheduler) isDeposed() bool { return s.isQuorum() && s.ledger.fence > s.lead.Epoch }
