package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks/jobrun"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// jobNotes says in plain words what keeps jobs from running as they should.
func (a *agent) jobNotes() []string {
	var notes []string
	if took := a.cfg.Now().Sub(a.jobs.wroteAt); a.jobs.writing && took > slowDisk {
		notes = append(notes, fmt.Sprintf("the job ledger is on its way to the disk for %v: no job starts meanwhile",
			took.Round(time.Second)))
	}
	if a.jobs.failed {
		notes = append(notes, fmt.Sprintf("the job ledger takes no writes: no job starts here: %v", a.jobs.passOn.why))
	}
	if job, until, ok := a.jobs.scheduler.Ahead(); ok {
		notes = append(notes, fmt.Sprintf("job %s is settled until %v: the clock of this host was set back, or that of a "+
			"leader was wrong. It starts nothing before; give it another name on all hosts, which begins anew, and reload",
			job, until.Local().Format(time.RFC3339)))
	}
	if a.jobs.aside != "" {
		notes = append(notes, "the job ledger could not be read and is kept as "+a.jobs.aside+
			": what ran is known from the other hosts alone")
	}
	var others []string
	for _, m := range a.view.others {
		if m.Status == membership.Alive && m.Jobs != a.view.self.Jobs && m.ConfigHash == a.view.self.ConfigHash {
			others = append(others, m.Name)
		}
	}
	if len(others) > 0 {
		slices.Sort(others)
		notes = append(notes, "the jobs of "+strings.Join(others, ", ")+
			" are not those of this host: make [[job]], timezone, hooks.grace and the system's time zone rules "+
			"(tzdata) the same on all, and reload")
	}
	return notes
}

// Jobs implements control.Backend. Many slots take a while to find, which is not
// the loop's work.
func (a *agent) Jobs(ctx context.Context, next int) (out []control.Job, err error) {
	var schedules []jobs.Schedule
	err = a.lookAtJobs(ctx, func() {
		why := map[string]jobs.Decision{}
		for _, d := range a.jobs.scheduler.Explain() {
			if _, known := why[d.Job]; !known {
				why[d.Job] = d
			}
		}
		for _, j := range a.jobs.scheduler.Jobs() {
			out, schedules = append(out, a.controlJob(&j, why[j.Name])), append(schedules, j.Schedule)
		}
	})
	for i, s := range schedules {
		out[i].Next = upcoming(s, next)
	}
	return out, err
}

// upcoming gives the next n slots as the clocks of the schedule's zone show them.
func upcoming(s jobs.Schedule, n int) (slots []time.Time) {
	for at := s.Next(wallClock()); !at.IsZero() && len(slots) < n; at = s.Next(at) {
		slots = append(slots, at.In(s.Zone()))
	}
	return slots
}

// lookAtJobs runs f in the loop, to which all about jobs belongs.
func (a *agent) lookAtJobs(ctx context.Context, f func()) error {
	if !a.call(ctx.Done(), f) {
		return errGone
	}
	return nil
}

// controlJob shows one job. why is the first of what keeps it waiting; zero if
// nothing does.
func (a *agent) controlJob(j *jobs.Job, why jobs.Decision) control.Job {
	entry, _ := a.jobs.scheduler.Entry(j.Name)
	out := control.Job{Name: j.Name, Schedule: j.Schedule.String(), Timezone: j.Schedule.Zone().String(),
		Paused: entry.Switch.Paused, State: "idle", TimeoutSeconds: cmp.Or(j.Timeout, jobs.DefaultTimeout).Seconds(),
		Overlap: j.Overlap.String(), Missed: j.Missed.String(), OnLoss: j.OnLoss.String(), Retries: j.Retries}
	for _, r := range entry.Runs {
		shown := a.controlRun(j.Name, r)
		if r.Open() {
			out.Open = append(out.Open, shown)
		} else if out.Last == nil || !shown.Ended.Before(out.Last.Ended) {
			out.Last = &shown
		}
	}
	if why.Why != jobs.ReasonNone {
		out.State, out.Why, out.Until = "waiting", why.Why.String(), why.Until
	}
	switch {
	case slices.ContainsFunc(entry.Runs, jobs.Run.Open):
		out.State = "running"
	case out.Paused:
		out.State, out.Why = "paused", jobs.ReasonPaused.String()
	case why.Why == jobs.ReasonNone && a.isLeading() && !a.hookReady:
		out.State, out.Why = "waiting", whyNotReady
	case why.Why == jobs.ReasonNotLeading && a.isLeading():
		out.Why = whyNotReady
	}
	return out
}

// whyNotReady is the word for a leader whose become-leader hook has not
// succeeded.
const whyNotReady = "leader-not-ready"

func (a *agent) isLeading() bool { return a.node.Status().State == election.Lead }

func (a *agent) controlRun(job string, r jobs.Run) control.JobRun {
	out := control.JobRun{Job: job, Run: runID(job, r.Key), Host: a.view.name(wire.ID(r.Owner)), Slot: r.Slot.Time(),
		Manual: r.Manual, Epoch: *epochOf(r), Phase: r.Phase.String(), Outcome: r.Outcome.String(), Attempt: int(r.Attempt),
		Started: r.Started.Time(), Ended: r.Ended.Time()}
	if r.ExitKnown() {
		out.Exit = new(int(r.Exit))
	}
	return out
}

// JobRuns implements control.Backend: what the ledger knows of all hosts, and
// what this host has kept of its own runs.
func (a *agent) JobRuns(ctx context.Context, job string) (out []control.JobRun, err error) {
	if job != "" && !jobs.IsName(job) {
		return nil, refusedJob(&jobs.UnknownJobError{Job: job})
	}
	rows, err := a.jobs.runner.Rows(job)
	if err != nil {
		return nil, fmt.Errorf("read job output: %w", err)
	}
	err = a.lookAtJobs(ctx, func() {
		known := map[string]control.JobRun{}
		for _, j := range a.jobs.scheduler.Jobs() {
			if job != "" && j.Name != job {
				continue
			}
			entry, _ := a.jobs.scheduler.Entry(j.Name)
			for _, r := range entry.Runs {
				shown := a.controlRun(j.Name, r)
				known[shown.Run] = shown
			}
		}
		out = a.mergeRows(known, rows)
	})
	slices.SortStableFunc(out, func(x, y control.JobRun) int {
		return cmp.Or(x.Slot.Compare(y.Slot), strings.Compare(x.Job, y.Job), strings.Compare(x.Run, y.Run))
	})
	return out, err
}

// mergeRows adds what was kept here to what the ledger knows: the ledger forgets
// sooner, and knows what became of a run whose attempts are kept.
func (a *agent) mergeRows(known map[string]control.JobRun, rows []jobrun.Row) (out []control.JobRun) {
	for _, row := range rows {
		r, inLedger := known[row.Run]
		switch {
		case !inLedger:
			r = a.keptRun(row)
		case r.Attempt > row.Attempt:
			continue // an attempt before the last
		}
		r.Printed, r.Err = row.Printed, row.Err
		known[row.Run] = r
	}
	for _, r := range known {
		out = append(out, r)
	}
	return out
}

// keptRun is a run that the ledger has forgotten.
func (a *agent) keptRun(row jobrun.Row) control.JobRun {
	outcome := jobs.Succeeded.String()
	switch {
	case isOutcome(row.Cause):
		outcome = row.Cause
	case row.Cause != "":
		outcome = jobs.Killed.String()
	case row.Exit != 0:
		outcome = jobs.Failed.String()
	}
	return control.JobRun{Job: row.Job, Run: row.Run, Host: a.cfg.Name, Slot: row.Slot,
		Manual: strings.HasSuffix(row.Run, manualSuffix), Epoch: control.Epoch{Counter: row.Epoch, Owner: a.state.ID.String()},
		Phase: jobs.Ended.String(), Outcome: outcome, Attempt: row.Attempt, Exit: &row.Exit, Started: row.Started,
		Ended: row.Started.Add(row.Took)}
}

// isOutcome reports whether the cause of an end is the word of an outcome; the
// others are about the leadership or the agent.
func isOutcome(cause string) bool {
	return cause == jobs.TimedOut.String() || cause == jobs.Replaced.String()
}

// JobOutput implements control.Backend. Of several attempts it is the last one's.
func (a *agent) JobOutput(_ context.Context, run string) (string, error) {
	rows, err := a.jobs.runner.Rows(jobOf(run))
	if err != nil {
		return "", fmt.Errorf("read job output: %w", err)
	}
	for _, row := range slices.Backward(rows) {
		if row.Run == run {
			text, err := a.jobs.runner.Output(row)
			return strings.ToValidUTF8(string(text), "\uFFFD"), err
		}
	}
	return "", &control.APIError{Status: http.StatusNotFound, Code: "unknown_run",
		Message: fmt.Sprintf("no run %q is kept on this host", run),
		Hint:    "output stays on the host that ran it; see jobs history for which"}
}

// jobCommand gives one of the commands about a job; it returns when that is done
// or was refused.
func (a *agent) jobCommand(ctx context.Context, name string, args map[string]string) error {
	job := args["job"]
	if job == "" || len(args) != 1 {
		return badOrder(`%s takes one argument, "job": the name of a job`, name)
	}
	result := make(chan error, 1)
	w := &wish{ctx: ctx, done: func(err error) { result <- err }}
	if !a.call(ctx.Done(), func() { a.askJob(name, job, w) }) {
		return errGone
	}
	select {
	case err := <-result:
		return refusedJob(err)
	case <-ctx.Done():
		return errGone
	}
}

// wish is what a person waits for.
type wish struct {
	ctx     context.Context // ends when the person waits no more
	done    func(error)     // is called once, if anybody waits
	isAsked bool            // the scheduler knows of it, and not that nobody waits
}

// isStillWished looks at a wish when its turn comes, and drops one that nobody
// waits for any more.
func (j *jobDesk) isStillWished(token uint64) bool {
	w := j.wishes[token]
	w.isAsked = w.ctx.Err() == nil
	if !w.isAsked {
		delete(j.wishes, token)
	}
	return w.isAsked
}

// withdrawn gives the token of a wish that nobody waits for any more, once.
func (j *jobDesk) withdrawn() (token uint64, ok bool) {
	for token, w := range j.wishes {
		if w.isAsked && w.ctx.Err() != nil {
			w.isAsked = false
			return token, true
		}
	}
	return 0, false
}

// askJob passes a wish on.
func (a *agent) askJob(name, job string, w *wish) {
	j := &a.jobs
	if name == "job-run" && !a.isLeading() {
		w.done(&control.APIError{Status: http.StatusConflict, Code: "not_leader", Message: election.ErrNotLeader.Error(),
			Hint: a.whereToAsk()})
		return
	}
	a.tokens++
	j.wishes[a.tokens] = w
	if name == "job-run" {
		a.stepJobs(jobs.Ask{Job: job, Token: a.tokens})
	} else {
		a.stepJobs(jobs.SetPaused{Job: job, Paused: name == "job-pause", Token: a.tokens})
	}
}

// refusedJob turns the scheduler's reason into what the operator is told.
func refusedJob(err error) error {
	if err == nil {
		return nil
	}
	refusal := &control.APIError{Status: http.StatusConflict, Code: "refused", Message: err.Error()}
	var known *control.APIError
	var unknown *jobs.UnknownJobError
	var notRun *jobs.NotRunError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &unknown):
		refusal.Status, refusal.Code = http.StatusNotFound, "unknown_job"
		refusal.Message, refusal.Hint = fmt.Sprintf("no job is called %q", unknown.Job), "see jobs list"
	case errors.Is(err, jobs.ErrDisk):
		refusal.Code, refusal.Hint = "disk_failed", "nothing was changed"
	case errors.As(err, &notRun):
		refusal.Code, refusal.Hint = notRun.Why.String(), hintsNotRun[notRun.Why]
	}
	return refusal
}

// hintsNotRun says what to do about a job that was not started.
var hintsNotRun = map[jobs.Reason]string{
	jobs.ReasonNotLeading: "this host leads, but its become-leader hook has not succeeded; see status",
	jobs.ReasonOverlap:    "a run goes on; see jobs list",
	jobs.ReasonBlocked:    "another host's run goes on, or may; see jobs list",
	jobs.ReasonNoMajority: "too few voters have witnessed it; see status",
	jobs.ReasonSettling:   "this host leads since a moment ago, and hears first what ran elsewhere",
	jobs.ReasonLearning:   "this host leads, but a majority of the voters has not told it what ran; see status",
	jobs.ReasonLoss:       "see status for who leads",
}

// jobDump is for the log.
func (a *agent) jobDump() {
	for _, d := range a.jobs.scheduler.Explain() {
		a.log.Info("state: job", "waits", d)
	}
	for id, run := range a.jobs.running {
		a.log.Info("state: job runs", "run", id, "since", run.begun.Local().Format(time.RFC3339))
	}
}
