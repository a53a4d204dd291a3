package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/jobs"
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

// begin starts an attempt, unless the leadership that claimed it has ended at
// this moment (R13): then nothing is started.
func (j *jobDesk) begin(e jobs.Begin) {
	run := e.Run
	if !j.around.mayAct(run.Epoch) || !j.over.IsZero() {
		j.note(jobs.StartFailed{Job: e.Job.Name, Key: run.Key})
		return
	}
	here := &jobRun{job: e.Job.Name, key: run.Key, begun: wallClock()}
	timeout := time.Duration(run.Timeout) * time.Second
	o := hooks.JobAttempt{ID: runID(e.Job.Name, run.Key), Job: e.Job.Name, Slot: run.Slot.Time(), Attempt: int(run.Attempt),
		Timeout: timeout, Event: j.around.hookEvent(eventJob, causeOf(run)),
		Tied: e.Job.OnLoss == jobs.OnLossKill}
	o.Event.Epoch = hooks.Epoch{Counter: run.Epoch, Owner: j.self.String()}
	if o.Tied {
		here.holder = j.holders.enter(j.grace)
	}
	j.running[o.ID] = here
	j.around.count("job_started", 1)
	j.log.Info("job started", "job", e.Job.Name, "slot", run.Slot, "run", o.ID, "attempt", run.Attempt,
		"cause", o.Event.Cause)
	j.around.event(control.Event{Type: "job", Cause: o.Event.Cause, Epoch: epochOf(run),
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
	return &control.Epoch{Counter: r.Epoch, Owner: r.Owner.String()}
}

// onResult notes the end of an attempt, of which the scheduler hears after what the
// turn has made of the leadership.
func (j *jobDesk) onResult(r hooks.JobResult) {
	run := j.running[r.ID]
	delete(j.running, r.ID)
	if run.holder != nil {
		j.holders.leave(run.holder, true)
	}
	if r.Err != "" {
		j.log.Warn("job did not run as it should", "job", run.job, "run", r.ID, "err", r.Err)
		j.event(fmt.Sprintf("job %s did not run as it should: %s", run.job, r.Err), r.Cause)
	}
	switch {
	case r.TooLate:
		j.note(jobs.StartFailed{Job: run.job, Key: run.key})
		return
	case r.Cause == hooks.JobTimedOut:
		j.note(jobs.Tick{}) // lest it counts as killed: nothing may have been looked at since its time was up
	}
	j.note(jobs.Exited{Job: run.job, Key: run.key, Exit: r.Exit, Killed: r.Cause != ""})
}

// noteDecision makes a decision known. What begins is said when it begins.
func (j *jobDesk) noteDecision(d jobs.Decision) {
	switch d.Do {
	case 0:
		j.noteRunOver(d)
	case jobs.Skip:
		j.around.count("job_skipped_"+d.Why.String(), uint64(d.Count))
		text := fmt.Sprintf("job %s: %d skipped up to slot %v: %v", d.Job, d.Count, d.Slot, d.Why)
		j.log.Info("job skipped", "job", d.Job, "slot", d.Slot, "count", d.Count, "cause", d.Why)
		j.event(text, d.Why.String())
	case jobs.GiveUp, jobs.Lose:
		j.around.count("job_ended_"+d.Run.Outcome.String(), 1)
		j.log.Warn("job not run to its end", "job", d.Job, "slot", d.Slot, "run", runID(d.Job, d.Run.Key),
			"outcome", d.Run.Outcome, "cause", d.Why)
		j.event(fmt.Sprintf("job %s, slot %v: %v, %v", d.Job, d.Slot, d.Run.Outcome, d.Why), d.Run.Outcome.String())
	case jobs.Stop:
		j.log.Info("job is ended", "job", d.Job, "slot", d.Slot, "run", runID(d.Job, d.Run.Key), "cause", d.Why)
	default:
		j.log.Debug("job decided", "decision", d)
	}
}

// noteRunOver says how an attempt ended, and with it the run unless it is tried
// again.
func (j *jobDesk) noteRunOver(d jobs.Decision) {
	r := d.Run
	j.around.count("job_ended_"+r.Outcome.String(), 1)
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
	log := j.log.Info
	if r.Outcome != jobs.Succeeded {
		log = j.log.Warn
	}
	log("job ended", args...)
	j.around.event(control.Event{Type: "job", Cause: r.Outcome.String(), Text: text, Epoch: epochOf(r),
		DurationMS: float64(took.Milliseconds())})
}

func (j *jobDesk) event(text, cause string) {
	j.around.event(control.Event{Type: "job", Cause: cause, Text: text})
}
