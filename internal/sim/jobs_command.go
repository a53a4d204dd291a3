package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/jobs"
)

// Commands of jobs begin and end as hooks.Lanes decide. A machine has Lanes for them alone: those of its keeper move the
// election, which jobs are not to. So a keeper that is killed ends no job here.

// jobLanes are those of one life of an agent, and of what outlives it.
type jobLanes struct {
	hooks.Lanes
	asked map[string]jobs.Begin // what has no result, by the run's id
}

func (w *World) newJobLanes() *jobLanes {
	return &jobLanes{asked: map[string]jobs.Begin{},
		Lanes: hooks.NewLanes(hooks.LanesConfig{Budget: w.base.StopBudget / 2}, hooks.Config{Grace: w.jobs.config.Grace}, hooks.Page{})}
}

// jobCommand is a process group that a job runs in, and its holder. It lives on when its agent
// does not, until it ends, is ended, or its terms say so.
type jobCommand struct {
	id    string
	job   string
	key   jobs.Key
	terms ending.Terms
	looks time.Time // when its holder looks at the deadline; zero: it does not
	cause string    // of its end, as it was told first
	gone  bool
}

func jobID(job string, key jobs.Key) string { return fmt.Sprintf("%s %v", job, key) }

// beginCommand carries out a Begin: the lease is looked at first.
func (w *World) beginCommand(m *machine, e jobs.Begin) {
	if !w.acts(m) || m.epoch.Counter != e.Run.Epoch {
		w.jobs.counts.Refused++
		w.say(m, "job %s: %v does not begin, the lease has ended", e.Job.Name, e.Run.Key)
		w.jobAfter(0, func() { w.jobStep(m, jobs.StartFailed{Job: e.Job.Name, Key: e.Run.Key}) })
		return
	}
	id := jobID(e.Job.Name, e.Run.Key)
	m.jobs.lanes.asked[id] = e
	w.stepJobLanes(m, hooks.JobAsked{Lease: m.client.lease, AtOnce: e.Job.AtOnce(), Attempt: hooks.JobAttempt{ID: id, Job: e.Job.Name,
		Attempt: int(e.Run.Attempt), Timeout: time.Duration(e.Run.Timeout) * time.Second, Tied: e.Job.OnLoss == jobs.OnLossKill}})
}

// stepJobLanes has a machine's Lanes for jobs know of something, and carries out what comes of it.
func (w *World) stepJobLanes(m *machine, ev hooks.LaneEvent) {
	l := m.jobs.lanes
	if l == nil {
		return
	}
	for _, effect := range slices.Clone(l.Step(m.clock.time(w.now), ev)) {
		switch e := effect.(type) {
		case hooks.Hold:
			w.holdJob(m, e)
		case hooks.Allow:
			c := m.jobs.command(e.ID)
			c.terms = e.Terms
			w.mindTerms(m, c)
		case hooks.Release:
			c := m.jobs.command(e.ID)
			c.cause = cmp.Or(c.cause, e.Cause)
			w.endAfter(m, c, w.jobs.upTo(w.jobs.config.Grace), hooks.Held{HasBegun: true, Code: 143, Cause: c.cause})
		case hooks.FileRun:
			w.stepJobLanes(m, hooks.RunFiled{ID: e.ID})
		case hooks.TellJob:
			w.jobAfter(0, func() { w.tellJob(m, l, e.Result) })
		}
	}
}

// tellJob has the agent hear of an attempt's end, if it lives.
func (w *World) tellJob(m *machine, l *jobLanes, res hooks.JobResult) {
	e, isOpen := l.asked[res.ID]
	delete(l.asked, res.ID)
	switch {
	case !isOpen || m.jobs.lanes != l:
		return
	case res.TooLate:
		w.jobs.counts.Refused++
		w.jobStep(m, jobs.StartFailed{Job: e.Job.Name, Key: e.Run.Key})
		return
	case res.Cause == hooks.JobTimedOut:
		w.jobStep(m, jobs.Tick{})
	}
	w.jobStep(m, jobs.Exited{Job: e.Job.Name, Key: e.Run.Key, Exit: res.Exit, Killed: res.Cause != ""})
}

// holdJob is a holder's beginning: it looks at its terms, and starts the command.
func (w *World) holdJob(m *machine, h hooks.Hold) {
	e := m.jobs.lanes.asked[h.Attempt.ID]
	c := &jobCommand{id: h.Attempt.ID, job: e.Job.Name, key: e.Run.Key, terms: h.Terms}
	now := m.clock.time(w.now)
	isLate := func(by time.Time) bool { return !by.IsZero() && !now.Before(by) }
	if isLate(h.Terms.StartBy) || isLate(h.Terms.Deadline) {
		m.jobs.commands = append(m.jobs.commands, c)
		w.endAfter(m, c, 0, hooks.Held{Code: -1, Cause: hooks.CauseAgentDied, IsSilent: true})
		return
	}
	if w.trace != nil {
		w.say(m, "job %s begins: %v attempt %d", e.Job.Name, e.Run, e.Run.Attempt)
	}
	w.watchBegin(m, e)
	m.jobs.commands = append(m.jobs.commands, c)
	takes, exit := w.jobs.upTo(h.Attempt.Timeout*3/2), w.jobs.rng.IntN(2)
	if w.jobs.rng.IntN(3) > 0 {
		takes = w.jobs.upTo(400 * time.Millisecond)
	}
	w.endAfter(m, c, takes, hooks.Held{HasBegun: true, Code: exit})
	w.mindTerms(m, c)
}

// mindTerms has a holder end its command at the deadline, which may move.
func (w *World) mindTerms(m *machine, c *jobCommand) {
	by := c.terms.Deadline
	if by.IsZero() || !c.looks.IsZero() && !by.Before(c.looks) {
		return
	}
	c.looks = by
	w.jobAfter(max(time.Duration(m.clock.when(by, w.now)-w.now), time.Millisecond), func() {
		if c.gone || !c.looks.Equal(by) {
			return
		}
		c.looks = time.Time{}
		if deadline := c.terms.Deadline; deadline.IsZero() || m.clock.time(w.now).Before(deadline) {
			w.mindTerms(m, c)
			return
		}
		w.endAfter(m, c, 0, hooks.Held{HasBegun: true, Code: 137, Cause: cmp.Or(c.cause, hooks.CauseAgentDied), IsSilent: c.cause == ""})
	})
}

// endCommand carries out an End: it takes some of the grace.
func (w *World) endCommand(m *machine, e jobs.End) {
	w.stepJobLanes(m, hooks.JobStopped{ID: jobID(e.Job, e.Key), Cause: e.Outcome.String()})
}

// endAfter ends a command in a while, if it has not ended by then. A suspended
// host runs nothing.
func (w *World) endAfter(m *machine, c *jobCommand, d time.Duration, end hooks.Held) {
	w.jobAfter(d, func() {
		switch {
		case c.gone:
		case m.suspended:
			w.endAfter(m, c, 10*time.Millisecond, end)
		default:
			c.gone = true
			m.jobs.commands = slices.DeleteFunc(m.jobs.commands, func(other *jobCommand) bool { return other == c })
			w.stepJobLanes(m, hooks.JobEnded{ID: c.id, Held: end})
		}
	})
}

// command gives one that goes on.
func (h *jobHost) command(id string) *jobCommand {
	return h.commands[slices.IndexFunc(h.commands, func(c *jobCommand) bool { return c.id == id })]
}

// killCommands ends all at once, as a starting agent does with what the one
// before has left, and as a host does that is off.
func (w *World) killCommands(m *machine) {
	for _, c := range m.jobs.commands {
		c.gone = true
	}
	m.jobs.commands, m.jobs.lanes = nil, nil
}
