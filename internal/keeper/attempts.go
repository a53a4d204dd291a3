package keeper

import (
	"maps"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/jobrun"
)

// The keeper's part in singleton jobs: it runs what it is told to (package jobrun), and
// ends it with the leadership, with the agent, or when it is told to.

// openJobs makes the Runner of jobs. A silent agent's commands get TERM a whole stop budget
// before the lease ends, of which Budget is the half: nothing comes after them.
func (k *keeper) openJobs(s Settings) (*jobrun.Runner, error) {
	return jobrun.New(jobrun.Config{Dir: s.Dir, Socket: s.Socket, Budget: 2 * s.Budget,
		Grace: s.JobGrace, Logger: k.out.named("jobs"), Post: func(res jobrun.Result) { k.post(func() { k.onJobEnded(res) }) }})
}

// sweepJobs removes the output of jobs that are not known any more: a worker's.
func (k *keeper) sweepJobs(dir string, known []string) {
	isKnown := func(job string) bool { return slices.Contains(known, job) }
	if err := jobrun.HistoryIn(dir).Sweep(isKnown); err != nil {
		k.out.named("jobs").Warn("output of former jobs not all removed", "err", err)
	}
}

// obeyForJobs is obey's for orders about jobs.
func (k *keeper) obeyForJobs(o order) {
	switch o.Do {
	case toRecover:
		jobs := k.jobs
		go k.recoverJobs(jobs)
	case toBegin:
		if !o.Lease.IsZero() {
			k.jobs.Lease(o.Lease)
		}
		if o.Job != nil {
			k.begin(*o.Job)
		}
	case toSweep:
		go k.sweepJobs(k.settings.Dir, slices.AppendSeq(o.Known, maps.Keys(k.settings.Jobs)))
	case toEnd:
		k.jobs.End(o.Run, cause(o.Cause))
	case toLose:
		k.jobs.Lost(cause(o.Cause))
	}
}

// cause is one as it may stand in a record.
func cause(text string) string {
	if hooks.IsWord(text) {
		return text
	}
	return "unknown"
}

// begin runs an attempt of a job by what the settings say of it: they alone have the command, and the
// timeout only shrinks.
func (k *keeper) begin(o jobrun.Order) {
	job, isKnown := k.settings.Jobs[o.Job]
	if why := k.bounds.admitAttempt(o, job, isKnown); why != "" {
		k.refuseJob(o, why)
		return
	}
	o.Command, o.Timeout, o.Slot, o.Event, o.Tied = job.Command, job.within(o.Timeout), sane(o.Slot), o.Event.Sane(), o.Tied || job.Tied
	k.jobs.Begin(o)
}

// within is an attempt's timeout: what was asked for, and no longer than the job's own.
func (j Job) within(timeout time.Duration) time.Duration {
	if j.Timeout > 0 && (timeout <= 0 || timeout > j.Timeout) {
		return j.Timeout
	}
	return max(timeout, 0)
}

// recoverJobs ends what former lives have left, and says so: a worker's.
func (k *keeper) recoverJobs(jobs *jobrun.Runner) {
	r := report{Say: sayRecovered}
	if err := jobs.Recover(k.ctx); err != nil {
		r.Err = err.Error()
	}
	k.post(func() { k.say(r) })
}

func (k *keeper) onJobEnded(res jobrun.Result) {
	delete(k.bounds.attempts, res.ID)
	k.say(report{Say: sayJob, Job: &res})
}
