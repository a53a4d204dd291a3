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
	"github.com/bully-agent/bully-agent/internal/jobs"
)

// What the local API tells and does about jobs.

// Jobs implements control.Backend. Many slots take a while to find, which is not
// the loop's work.
func (a *agent) Jobs(ctx context.Context, next int) (out []control.Job, err error) {
	type table struct {
		jobs      []control.Job
		schedules []jobs.Schedule
	}
	now, err := ask(ctx, a, func() (t table, _ error) {
		t.jobs, t.schedules = a.seat.jobs.list()
		return t, nil
	})
	out = now.jobs
	for i, s := range now.schedules {
		out[i].Next, out[i].Due = upcoming(s, next), passed(s)
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

// passed gives the newest slot that has passed, of the last year or so; zero: none has. Schedules
// are asked forward only: how far back it is is found by doubling.
func passed(s jobs.Schedule) (slot time.Time) {
	const longest = 400 * 24 * time.Hour
	now := wallClock()
	for back := time.Minute; back < 2*longest; back *= 2 {
		for at := s.Next(now.Add(-back)); !at.IsZero() && !at.After(now); at = s.Next(at) {
			slot = at.In(s.Zone())
		}
		if !slot.IsZero() {
			break
		}
	}
	return slot
}

// JobRuns implements control.Backend: what the ledger knows of all hosts, and
// what this host has kept of its own runs.
func (a *agent) JobRuns(ctx context.Context, job string) (out []control.JobRun, err error) {
	if job != "" && !jobs.IsName(job) {
		return nil, refusedJob(&jobs.UnknownJobError{Job: job})
	}
	rows, err := a.jobRunner.Rows(job)
	if err != nil {
		return nil, fmt.Errorf("read job output: %w", err)
	}
	out, err = ask(ctx, a, func() ([]control.JobRun, error) { return a.seat.jobs.mergeRows(a.seat.jobs.runs(job), rows), nil })
	slices.SortStableFunc(out, func(x, y control.JobRun) int {
		return cmp.Or(x.Slot.Compare(y.Slot), strings.Compare(x.Job, y.Job), strings.Compare(x.Run, y.Run))
	})
	return out, err
}

// JobOutput implements control.Backend. Of several attempts it is the last one's.
func (a *agent) JobOutput(_ context.Context, run string) (string, error) {
	rows, err := a.jobRunner.Rows(jobOf(run))
	if err != nil {
		return "", fmt.Errorf("read job output: %w", err)
	}
	for _, row := range slices.Backward(rows) {
		if row.Run == run {
			text, err := a.jobRunner.Output(row)
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
	job, fromNow, want := args["job"], false, 1
	if name == "job-resume" && args["from_now"] == "true" {
		fromNow, want = true, 2
	}
	if job == "" || len(args) != want {
		return badOrder(`%s takes one argument, "job": the name of a job; job-resume may have "from_now": "true", too`, name)
	}
	return refusedJob(a.obey(ctx, func(done func(error)) { a.seat.jobs.ask(name, job, fromNow, &wish{ctx: ctx, done: done}) }))
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
