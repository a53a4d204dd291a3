package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/jobrun"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/wire"
)

// jobOf is the job that a run's id begins with; empty, which means all jobs, for
// what is no id.
func jobOf(run string) string {
	run = strings.TrimSuffix(run, manualSuffix)
	for range 3 { // slot, owner, epoch
		run = run[:max(strings.LastIndexByte(run, '-'), 0)]
	}
	return run
}

// manualSuffix ends the id of a run that a person asked for.
const manualSuffix = "-manual"

// eventJob is BULLY_EVENT of a job's command.
const eventJob hooks.Kind = "job"

// runID names a run, by its job, epoch, owner and slot: the same for all its
// attempts, and on all hosts.
func runID(job string, k jobs.Key) string {
	id := fmt.Sprintf("%s-%d-%s-%d", job, k.Epoch, k.Owner.Short(), k.Slot)
	if k.Manual {
		id += manualSuffix
	}
	return id
}

// beginJob starts an attempt, unless the leadership that claimed it is over at
// this moment (R13): then nothing is started.
func (a *agent) beginJob(e jobs.Begin) {
	j, run := &a.jobs, e.Run
	s := a.node.Status()
	mayAct := s.State == election.Lead && s.Epoch.Counter == run.Epoch && a.lease.Load() > a.cfg.Now().UnixNano()
	if !mayAct || !j.over.IsZero() {
		a.stepJobs(jobs.StartFailed{Job: e.Job.Name, Key: run.Key})
		return
	}
	here := &jobRun{job: e.Job.Name, key: run.Key, begun: wallClock()}
	timeout := time.Duration(run.Timeout) * time.Second
	o := jobrun.Order{ID: runID(e.Job.Name, run.Key), Job: e.Job.Name, Slot: run.Slot.Time(), Attempt: int(run.Attempt),
		Timeout: timeout, Command: j.commands[e.Job.Name], Event: a.hookEvent(eventJob, causeOf(run)),
		Tied: e.Job.OnLoss == jobs.OnLossKill}
	o.Event.Epoch = hooks.Epoch{Counter: run.Epoch, Owner: a.state.ID.String()}
	if o.Tied {
		here.tenant = a.tenancy.enter(j.grace)
	}
	j.running[o.ID] = here
	a.counters.add("job_started")
	a.log.Info("job started", "job", e.Job.Name, "slot", run.Slot, "run", o.ID, "attempt", run.Attempt,
		"cause", o.Event.Cause)
	a.event(control.Event{Type: "job", Cause: o.Event.Cause, Epoch: epochOf(run),
		Text: fmt.Sprintf("job %s started, slot %v, attempt %d", e.Job.Name, run.Slot, run.Attempt)})
	j.runner.Begin(o)
}

// causeOf is BULLY_CAUSE of an attempt.
func causeOf(r jobs.Run) string {
	switch {
	case r.Attempt > 1:
		return "retry"
	case r.Manual:
		return "manual"
	}
	return "scheduled"
}

func epochOf(r jobs.Run) *control.Epoch {
	return &control.Epoch{Counter: r.Epoch, Owner: wire.ID(r.Owner).String()}
}

// onJobResult passes the end of an attempt on. The node looks at the clock
// first: what its guard has ended, since this agent stood still until the lease
// was over, was lost with the leadership, and did not fail.
func (a *agent) onJobResult(r jobrun.Result) {
	a.step(election.Tick{})
	run := a.jobs.running[r.ID]
	delete(a.jobs.running, r.ID)
	if run.tenant != nil {
		a.tenancy.leave(run.tenant)
	}
	if r.Err != "" {
		a.log.Warn("job did not run as it should", "job", run.job, "run", r.ID, "err", r.Err)
		a.jobEvent(fmt.Sprintf("job %s did not run as it should: %s", run.job, r.Err), r.Cause)
	}
	switch {
	case r.TooLate:
		a.stepJobs(jobs.StartFailed{Job: run.job, Key: run.key})
		return
	case r.Cause == jobrun.TimedOut:
		a.stepJobs(jobs.Tick{}) // lest it counts as failed: nothing may have been looked at since its time was up
	}
	a.stepJobs(jobs.Exited{Job: run.job, Key: run.key, Exit: r.Exit})
}

// noteJob makes a decision known. What begins is said when it begins.
func (a *agent) noteJob(d jobs.Decision) {
	switch d.Do {
	case 0:
		a.noteRunOver(d)
	case jobs.Skip:
		a.counters.addMany("job_skipped_"+d.Why.String(), uint64(d.Count))
		text := fmt.Sprintf("job %s: %d skipped up to slot %v: %v", d.Job, d.Count, d.Slot, d.Why)
		a.log.Info("job skipped", "job", d.Job, "slot", d.Slot, "count", d.Count, "cause", d.Why)
		a.jobEvent(text, d.Why.String())
	case jobs.GiveUp, jobs.Lose:
		a.counters.add("job_ended_" + d.Run.Outcome.String())
		a.log.Warn("job not run to its end", "job", d.Job, "slot", d.Slot, "run", runID(d.Job, d.Run.Key),
			"outcome", d.Run.Outcome, "cause", d.Why)
		a.jobEvent(fmt.Sprintf("job %s, slot %v: %v, %v", d.Job, d.Slot, d.Run.Outcome, d.Why), d.Run.Outcome.String())
	case jobs.Stop:
		a.log.Info("job is ended", "job", d.Job, "slot", d.Slot, "run", runID(d.Job, d.Run.Key), "cause", d.Why)
	default:
		a.log.Debug("job decided", "decision", d)
	}
}

// noteRunOver says how an attempt ended, and with it the run unless it is tried
// again.
func (a *agent) noteRunOver(d jobs.Decision) {
	r := d.Run
	a.counters.add("job_ended_" + r.Outcome.String())
	took := time.Duration(0)
	text := fmt.Sprintf("job %s %v", d.Job, r.Outcome)
	args := []any{"job", d.Job, "slot", r.Slot, "run", runID(d.Job, r.Key), "outcome", r.Outcome}
	if r.ExitKnown() {
		took = r.Ended.Time().Sub(r.Started.Time()).Round(time.Millisecond)
		text += fmt.Sprintf(" after %v", took)
		args = append(args, "exit", r.Exit, "took", took)
	}
	text += fmt.Sprintf(", slot %v", r.Slot)
	switch r.Outcome {
	case jobs.Failed:
		text += fmt.Sprintf(", exit %d", r.Exit)
	case jobs.Interrupted:
		text += ": how far it came is unknown"
	}
	if r.Phase == jobs.Waiting {
		text += "; another attempt follows"
	}
	log := a.log.Info
	if r.Outcome != jobs.Succeeded {
		log = a.log.Warn
	}
	log("job ended", args...)
	a.event(control.Event{Type: "job", Cause: r.Outcome.String(), Text: text, Epoch: epochOf(r),
		DurationMS: float64(took.Milliseconds())})
}

func (a *agent) jobEvent(text, cause string) {
	a.event(control.Event{Type: "job", Cause: cause, Text: text})
}
