package jobs

import (
	"fmt"
	"slices"
	"time"
)

// Bounds of people's wishes: how many wait, and how long one waits for the run
// that it replaces, or for a new leader to know what runs. Arbitrary.
const (
	maxAsked = 64
	askLimit = 30 * time.Second
)

// NotRunError says why a job that a person asked for does not run.
type NotRunError struct {
	Job   string
	Why   Reason
	Until time.Time // when that has ended; zero: no time is known
}

// Error gives one line.
func (e *NotRunError) Error() string {
	text := fmt.Sprintf("job %s was not started: %v", e.Job, e.Why)
	if !e.Until.IsZero() {
		text += " until " + e.Until.UTC().Format(time.RFC3339)
	}
	return text
}

// UnknownJobError is returned for a job that is not in the table.
type UnknownJobError struct{ Job string }

// Error gives one line.
func (e *UnknownJobError) Error() string {
	return fmt.Sprintf("no job is called %q; see bully-agent jobs list", e.Job)
}

// ask is a person's wish that waits.
type ask struct {
	Ask
	lookAt time.Time
	until  time.Time
}

func (s *Scheduler) onAsk(e Ask) {
	switch {
	case s.find(e.Job) == nil:
		s.reply(e.Token, Run{}, &UnknownJobError{e.Job})
	case s.diskFailed:
		s.reply(e.Token, Run{}, ErrDisk)
	case len(s.asks) == maxAsked:
		s.reply(e.Token, Run{}, &NotRunError{Job: e.Job, Why: ReasonTooMany})
	default:
		s.asks = append(s.asks, ask{Ask: e, until: s.now.Add(askLimit)})
	}
}

// onUnask forgets a wish, also one whose claim is under way.
func (s *Scheduler) onUnask(token uint64) {
	if i := slices.IndexFunc(s.asks, func(a ask) bool { return a.Token == token }); i >= 0 {
		job := s.asks[i].Job
		s.asks = slices.Delete(s.asks, i, i+1)
		s.reply(token, Run{}, &NotRunError{Job: job, Why: ReasonWithdrawn})
	}
	for _, c := range slices.Clone(s.claims) {
		if c.token == token {
			s.lose(c, ReasonWithdrawn)
		}
	}
}

// grantAsks starts what people wait for, or says why it does not.
func (s *Scheduler) grantAsks(lead Leadership) {
	waiting := s.asks
	s.asks = nil
	for _, a := range waiting {
		if !s.grant(&a, lead) {
			s.asks = append(s.asks, a)
		}
	}
}

// grant reports whether a wish is settled: claimed, or answered.
func (s *Scheduler) grant(a *ask, lead Leadership) bool {
	job := s.find(a.Job)
	if job == nil {
		s.reply(a.Token, Run{}, &UnknownJobError{a.Job})
		return true
	}
	for _, d := range s.outlook(lead).manual(job) {
		switch {
		case d.Do == Start:
			s.carryOut(d, a.Token)
			return true
		case d.Do != Wait:
			s.carryOut(d, 0)
		case passes(d.Why) && !s.isDue(a.until):
			a.lookAt = d.Until
		case d.Why == ReasonDisk:
			s.reply(a.Token, Run{}, ErrDisk)
			return true
		default:
			s.reply(a.Token, d.Run, &NotRunError{a.Job, d.Why, d.Until})
			return true
		}
	}
	return false
}

// passes reports whether a person waits for this, since it ends soon.
func passes(why Reason) bool {
	return slices.Contains([]Reason{ReasonSettling, ReasonLearning, ReasonReplacing, ReasonTaken}, why)
}

// onSetPaused writes the switch into the ledger, on whatever host, and tells
// everybody.
func (s *Scheduler) onSetPaused(e SetPaused) {
	switch {
	case s.find(e.Job) == nil:
		s.reply(e.Token, Run{}, &UnknownJobError{e.Job})
	case s.diskFailed:
		s.reply(e.Token, Run{}, ErrDisk)
	default:
		if s.setPaused(e) {
			s.prune()
			s.tellAll(e.Job)
		}
		s.mustSave = true
		s.reply(e.Token, Run{}, nil)
	}
}

// setPaused reports whether that changed anything.
func (s *Scheduler) setPaused(e SetPaused) bool {
	if !e.FromNow {
		return s.ledger.Pause(e.Job, e.Paused, s.now)
	}
	s.ledger.ResumeFromNow(e.Job, s.now)
	return true
}

func (s *Scheduler) reply(token uint64, r Run, err error) {
	s.after = append(s.after, Reply{Token: token, Run: r, Err: err})
}
