package jobs

import (
	"slices"
	"time"
)

// mine is a run of this life that is open.
type mine struct {
	job    Job // as when the run was claimed, whatever the table says now
	key    Key
	dueAt  time.Time // end of its attempt, or of the wait for the next; zero: none has begun
	runs   bool      // its command does: Exited will come
	isLost bool      // others count it as lost, and its command was told to end
}

// open finds a run of this life that is open, nil if there is none.
func (s *Scheduler) open(job string, k Key) *mine { return findMine(s.mine, job, k) }

func findMine(all []mine, job string, k Key) *mine {
	if i := slices.IndexFunc(all, func(m mine) bool { return m.job.Name == job && m.key == k }); i >= 0 {
		return &all[i]
	}
	return nil
}

func (s *Scheduler) isMine(job string, k Key) bool { return s.open(job, k) != nil }

func (s *Scheduler) disclaim(job string, k Key) {
	s.mine = slices.DeleteFunc(s.mine, func(m mine) bool { return m.job.Name == job && m.key == k })
}

// carryOut applies a decision and does what it asks for. token is that of the
// person who asked for it, if one did.
func (s *Scheduler) carryOut(d Decision, token uint64) {
	if d.Do == Wait {
		return
	}
	s.ledger.Apply(d)
	s.prune()
	s.note(d)
	switch d.Do {
	case Start:
		s.claim(d, token)
	case Retry:
		s.begin(d.Job, d.Run)
	case Stop:
		s.stop(d)
	case GiveUp:
		s.dropClaim(d.Job, d.Run.Key, d.Why)
		s.disclaim(d.Job, d.Run.Key)
		s.tellAll(d.Job, d.Run)
	case Lose:
		s.tellAll(d.Job, d.Run)
	case Adopt: // lest the next leader takes the job for new
		s.tellAll(d.Job)
	}
}

// begin starts an attempt: its record is in the ledger, and will be on disk.
func (s *Scheduler) begin(job string, r Run) {
	s.mustSave = true
	m := s.open(job, r.Key)
	m.runs, m.dueAt = true, r.end()
	s.after = append(s.after, Begin{Job: m.job, Run: r})
	s.tellAll(job, r)
}

// stop ends a command, before the step's Save: a slow disk must not hold it up.
// One that would begin in this very step does not.
func (s *Scheduler) stop(d Decision) {
	if s.cancel(d) {
		s.over(d.Job, d.Run.closed(s.now, Ended, d.Run.Outcome))
		return
	}
	s.before = append(s.before, End{Job: d.Job, Key: d.Run.Key, Outcome: d.Run.Outcome})
}

// cancel takes a Begin back that nobody has seen, and what was said of it.
func (s *Scheduler) cancel(d Decision) bool {
	isBegin := func(e Effect) bool {
		b, ok := e.(Begin)
		return ok && b.Job.Name == d.Job && b.Run.Key == d.Run.Key
	}
	if !slices.ContainsFunc(s.after, isBegin) {
		return false
	}
	s.after = slices.DeleteFunc(s.after, isBegin)
	for i, e := range s.after {
		if r, ok := e.(Reply); ok && r.Run.Key == d.Run.Key && r.Err == nil {
			s.after[i] = Reply{Token: r.Token, Run: d.Run, Err: &NotRunError{Job: d.Job, Why: d.Why}}
		}
	}
	return true
}

// onExited takes the end of a command.
func (s *Scheduler) onExited(e Exited) {
	m := s.open(e.Job, e.Key)
	if m == nil {
		s.refuse(s.cfg.Self, "exit")
		return
	}
	m.runs = false
	switch r, ok := s.ledger.run(e.Job, e.Key); {
	case !ok: // pruned, since so many newer ones are open
		s.disclaim(e.Job, e.Key)
	case r.Phase == Lost:
		r.Exit = e.Exit
		s.over(e.Job, r.closed(s.now, Ended, Killed))
	default:
		if e.Killed {
			r = r.killed()
		}
		s.over(e.Job, r.Finished(s.now, e.Exit, &m.job))
	}
}

// unbegin takes back an attempt that was on disk and did not start.
func (s *Scheduler) unbegin(job string, k Key) {
	r, ok := s.ledger.run(job, k)
	if !ok || !s.isMine(job, k) {
		s.disclaim(job, k)
		s.refuse(s.cfg.Self, "start")
		return
	}
	if r.Attempt > 1 {
		s.over(job, r.closed(s.now, Ended, Failed))
		return
	}
	s.over(job, r.Refused(s.now))
}

// over writes down that an attempt has ended, and tells everybody.
func (s *Scheduler) over(job string, r Run) {
	s.ledger.Put(job, r)
	s.prune()
	s.note(Decision{Job: job, Slot: r.Slot, Run: r})
	if m := s.open(job, r.Key); m != nil && r.Phase == Waiting {
		m.dueAt = r.again(&m.job)
	}
	if !r.Open() {
		s.disclaim(job, r.Key)
	}
	s.tellAll(job, r)
}
