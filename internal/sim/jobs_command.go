package sim

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/jobs"
)

// jobCommand is a process group that a job runs in. It lives on when its agent
// does not, until it ends, is ended, or the guard's time for it is over.
type jobCommand struct {
	job  string
	key  jobs.Key
	gone bool
}

// beginCommand carries out a Begin: the lease is looked at first.
func (w *World) beginCommand(m *machine, e jobs.Begin) {
	if !w.acts(m) || m.epoch.Counter != e.Run.Epoch {
		w.jobs.counts.Refused++
		w.say(m, "job %s: %v does not begin, the lease has ended", e.Job.Name, e.Run.Key)
		w.jobAfter(0, func() { w.jobStep(m, jobs.StartFailed{Job: e.Job.Name, Key: e.Run.Key}) })
		return
	}
	if w.trace != nil {
		w.say(m, "job %s begins: %v attempt %d", e.Job.Name, e.Run, e.Run.Attempt)
	}
	w.watchBegin(m, e)
	c := &jobCommand{job: e.Job.Name, key: e.Run.Key}
	m.jobs.commands = append(m.jobs.commands, c)
	timeout := time.Duration(e.Run.Timeout) * time.Second
	takes, exit := w.jobs.upTo(timeout*3/2), uint8(w.jobs.rng.IntN(2))
	if w.jobs.rng.IntN(3) > 0 {
		takes = w.jobs.upTo(400 * time.Millisecond)
	}
	w.endAfter(m, c, takes, exit)
	w.endAfter(m, c, timeout+w.jobs.config.Grace, 137) // by the guard
}

// endCommand carries out an End: it takes some of the grace.
func (w *World) endCommand(m *machine, e jobs.End) {
	for _, c := range m.jobs.commands {
		if c.job == e.Job && c.key == e.Key {
			w.endAfter(m, c, w.jobs.upTo(w.jobs.config.Grace), 143)
		}
	}
}

// endAfter ends a command in a while, if it has not ended by then. A suspended
// host runs nothing.
func (w *World) endAfter(m *machine, c *jobCommand, d time.Duration, exit uint8) {
	w.jobAfter(d, func() {
		switch {
		case c.gone || !slices.Contains(m.jobs.commands, c):
		case m.suspended:
			w.endAfter(m, c, 10*time.Millisecond, exit)
		default:
			w.commandEnded(m, c)
			w.jobStep(m, jobs.Exited{Job: c.job, Key: c.key, Exit: exit})
		}
	})
}

func (w *World) commandEnded(m *machine, c *jobCommand) {
	c.gone = true
	m.jobs.commands = slices.DeleteFunc(m.jobs.commands, func(other *jobCommand) bool { return other == c })
}

// killCommands ends all at once, as a starting agent does with what the one
// before has left.
func (w *World) killCommands(m *machine) {
	for _, c := range m.jobs.commands {
		c.gone = true
	}
	m.jobs.commands = nil
}
