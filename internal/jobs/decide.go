package jobs

import (
	"slices"
	"time"
)

// maxDecided bounds for how many jobs a step starts or skips slots, lest the step
// after a long outage takes long. The rest follows at once. Arbitrary.
const maxDecided = 8

// decide carries out what policy says, and people's wishes.
func (s *Scheduler) decide() {
	lead := s.leadership()
	if s.hasNews(lead) {
		s.decideAll(lead)
	}
	s.grantAsks(lead)
	if s.hasNews(lead) {
		s.wake = earlier(s.wake, s.outlook(lead).next(s.cfg.Table))
		s.decidedEdits, s.decidedLead = s.ledger.edits, lead
	}
}

// hasNews reports whether there may be decisions that were not there before.
func (s *Scheduler) hasNews(lead Leadership) bool {
	return s.ledger.edits != s.decidedEdits || lead != s.decidedLead || s.isDue(s.wake)
}

func (s *Scheduler) outlook(lead Leadership) *outlook {
	return &outlook{now: s.now, ledger: s.ledger, lead: lead, mine: s.mine}
}

// decideAll decides about what runs here of jobs that are in no table any more,
// and about the table, from where the step before has stopped.
func (s *Scheduler) decideAll(lead Leadership) {
	s.wake = time.Time{}
	for _, job := range s.retired() {
		s.decideJob(&job, lead, (*outlook).lookAfter)
	}
	n, first, left := len(s.cfg.Table), s.next, maxDecided
	s.next = 0
	for i := range n {
		place := (first + i) % n
		if left == 0 {
			s.next, s.wake = place, s.now
			break
		}
		if s.decideJob(&s.cfg.Table[place], lead, (*outlook).look) {
			left--
		}
	}
	s.decidedEdits, s.decidedLead = s.ledger.edits, lead
}

// retired are the jobs of open runs here that are in no table any more. They have
// timeouts, and start nothing.
func (s *Scheduler) retired() []Job {
	var jobs []Job
	for i := range s.mine {
		job := &s.mine[i].job
		isKnown := slices.ContainsFunc(jobs, func(j Job) bool { return j.Name == job.Name })
		if !isKnown && s.find(job.Name) == nil {
			jobs = append(jobs, *job)
		}
	}
	return jobs
}

// decideJob carries out what is due about one job, and plans the next look at it.
// It reports whether slots were settled.
func (s *Scheduler) decideJob(job *Job, lead Leadership, look func(*outlook, *Job) view) (settled bool) {
	v := look(s.outlook(lead), job)
	if v.isIdle() {
		s.wake = earlier(s.wake, v.wake)
		return false
	}
	for _, d := range v.decisions {
		settled = settled || d.Settles
		s.carryOut(d, 0)
	}
	if v = look(s.outlook(lead), job); !v.isIdle() {
		v.wake = s.now
	}
	s.wake = earlier(s.wake, v.wake)
	return settled
}
