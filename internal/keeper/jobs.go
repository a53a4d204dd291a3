package keeper

import (
	"context"
	"errors"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/hookrun"
)

// Jobs is the part of a Client that runs the commands of singleton jobs. What is tied to
// the leadership has the lease that hooks have. Begin, End and Lost never block;
// all methods may be called by any goroutine. The keeper is started by Client.Recover.
type Jobs struct {
	c         *Client
	results   chan hooks.JobResult // capacity resultRoom
	recovered chan string          // what could not be recovered; empty: nothing

	// Under Client.mu.
	ready bool              // nothing of a former keeper's is left
	open  map[string]string // of runs that go on: their jobs, by id; unless ready, of what a keeper ran that has died
}

func newJobs(c *Client) *Jobs {
	return &Jobs{c: c, results: make(chan hooks.JobResult, resultRoom),
		recovered: make(chan string, 1), open: map[string]string{}}
}

// Jobs gives that part.
func (c *Client) Jobs() *Jobs { return c.jobs }

// Recover sees to it that nothing runs any more that a former life of this agent began,
// and waits for that, until ctx ends.
func (j *Jobs) Recover(ctx context.Context) error {
	select {
	case why := <-j.recovered:
		if why != "" {
			return errors.New(why)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run waits for the end of the Client's own, which ends what jobs run. The error is
// always nil.
func (j *Jobs) Run(context.Context) error {
	<-j.c.ended
	return nil
}

// Results delivers one Result for each Begin.
func (j *Jobs) Results() <-chan hooks.JobResult { return j.results }

// Begin starts an attempt of a job that the keeper has read of, with the command that the
// settings give it; Results tells its end, also if it could not start.
func (j *Jobs) Begin(o hooks.JobAttempt) {
	j.c.mu.Lock()
	defer j.c.mu.Unlock()
	if j.c.keeper == nil || !j.ready {
		pass(j.results, hooks.JobResult{ID: o.ID, Job: o.Job, Err: "not started: no keeper runs", TooLate: true})
		return
	}
	j.open[o.ID] = o.Job
	o.Command = hooks.Command{}
	j.c.give(order{Do: toBegin, Lease: j.c.renewed.silent(), Job: &o})
}

// End ends the attempt with this ID, if it goes on: TERM, grace, KILL.
func (j *Jobs) End(id, cause string) { j.c.order(order{Do: toEnd, Run: id, Cause: cause}) }

// Lost says that the leadership has ended: what is tied to it is told to end, and has its
// grace for that, but not longer than the lease.
func (j *Jobs) Lost(cause string) { j.c.order(order{Do: toLose, Cause: cause}) }

// Sweep removes what is kept of the runs of all jobs but these, and those that are
// configured. It is for the time before the first Begin.
func (j *Jobs) Sweep(known []string) { j.c.order(order{Do: toSweep, Known: known}) }

// Rows lists what is kept of the last runs of a job, which must be a name, the newest
// last; of all jobs, if it is empty.
func (j *Jobs) Rows(job string) ([]hooks.JobRun, error) { return j.history().Rows(job) }

// Output gives the last 64 KiB that a kept run printed.
func (j *Jobs) Output(row hooks.JobRun) ([]byte, error) { return j.history().Output(row) }

func (j *Jobs) history() *hookrun.History { return hookrun.HistoryIn(j.c.cfg.Dir) }

// onEnded passes a result on; the caller holds mu.
func (j *Jobs) onEnded(res hooks.JobResult) {
	delete(j.open, res.ID)
	pass(j.results, res)
}

// onLost: the keeper has died, and with it, in a moment, what it ran for jobs, of which nothing begins
// until then; the caller holds mu.
func (j *Jobs) onLost() { j.ready = false }

// onRecovered: nothing is left of what a keeper that has died ran; the caller holds mu.
func (j *Jobs) onRecovered(why string) {
	for id, job := range j.open {
		pass(j.results, hooks.JobResult{ID: id, Job: job, Exit: hooks.ExitKilled, Cause: hooks.JobKeeperDied, Err: ErrDied.Error()})
	}
	clear(j.open)
	j.ready = true
	select {
	case j.recovered <- why:
	default:
	}
}
