package keeper

import (
	"maps"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/hookrun"
)

// The keeper's part in singleton jobs, of which hooks.Lanes decide when an attempt begins and ends.

// sweepJobs removes the output of jobs that are not known any more: a worker's.
func (k *keeper) sweepJobs(dir string, known []string) {
	isKnown := func(job string) bool { return slices.Contains(known, job) }
	if err := hookrun.HistoryIn(dir).Sweep(isKnown); err != nil {
		k.out.named("jobs").Warn("output of former jobs not all removed", "err", err)
	}
}

// obeyForJobs is obey's for orders about jobs.
func (k *keeper) obeyForJobs(o order) {
	switch o.Do {
	case toRecover: // a life needs one
		if !k.bounds.hasRecovered {
			k.bounds.hasRecovered = true
			go k.recoverJobs(k.hands)
		}
	case toBegin:
		if o.Job != nil {
			k.begin(*o.Job, o.Lease)
		}
	case toSweep: // likewise
		if !k.bounds.hasSwept {
			k.bounds.hasSwept = true
			go k.sweepJobs(k.settings.Dir, slices.AppendSeq(o.Known, maps.Keys(k.settings.Jobs)))
		}
	case toEnd:
		k.step(hooks.JobStopped{ID: o.Run, Cause: cause(o.Cause)})
	case toLose:
		k.step(hooks.LeadershipLost{Cause: cause(o.Cause)})
	}
}

// cause is one as it may stand in a record.
func cause(text string) string {
	if hooks.IsWord(text) {
		return text
	}
	return "unknown"
}

// begin has an attempt of a job begin by what the settings say of it: they alone have the command, and the
// timeout only shrinks.
func (k *keeper) begin(a hooks.JobAttempt, lease time.Time) {
	job, isKnown := k.settings.Jobs[a.Job]
	if why := unnamed(a, isKnown); why != "" {
		k.refuseJob(hooks.JobResult{ID: a.ID, Job: a.Job, Exit: hooks.ExitNotRun, Err: why})
		return
	}
	a.Command, a.Timeout, a.Slot, a.Event, a.Tied = job.Command, job.within(a.Timeout), sane(a.Slot), a.Event.Sane(), a.Tied || job.Tied
	k.step(hooks.JobAsked{Attempt: a, Lease: lease, AtOnce: job.AtOnce})
}

// sayJob tells how an attempt has ended.
func (k *keeper) sayJob(e hooks.TellJob) {
	if e.IsRefused {
		k.refuseJob(e.Result)
		return
	}
	k.say(report{Say: sayJob, Job: &e.Result})
}

// refuseJob answers an attempt that may not begin.
func (k *keeper) refuseJob(res hooks.JobResult) {
	k.noteRefusal("job", res.Err)
	k.say(report{Say: sayJob, Job: &res})
}

// within is an attempt's timeout: what was asked for, and no longer than the job's own.
func (j Job) within(timeout time.Duration) time.Duration {
	if j.Timeout > 0 && (timeout <= 0 || timeout > j.Timeout) {
		return j.Timeout
	}
	return max(timeout, 0)
}

// recoverJobs ends what former lives have left, and says so: a worker's.
func (k *keeper) recoverJobs(hands *hookrun.Hands) {
	r := report{Say: sayRecovered}
	if err := hands.RecoverJobs(k.ctx); err != nil {
		r.Err = err.Error()
	}
	k.post(func() { k.say(r) })
}
