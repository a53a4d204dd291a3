package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/wire"
)

// What people are shown of jobs.

// notes says in plain words what keeps jobs from running here.
func (j *jobDesk) notes() []string {
	var notes []string
	if took := j.around.now().Sub(j.saving.began); j.saving.isOn && took > slowDisk {
		notes = append(notes, fmt.Sprintf("the job ledger is on its way to the disk for %v: no job starts meanwhile",
			took.Round(time.Second)))
	}
	if j.saving.hasFailed {
		notes = append(notes, fmt.Sprintf("the job ledger takes no writes: no job starts here: %v", j.saving.why))
	}
	for _, a := range j.scheduler.Ahead(j.wall()) {
		notes = append(notes, fmt.Sprintf("job %s is settled until %v: the clock of this host was set back, or that of a "+
			"leader was wrong. It starts nothing before; once the clocks are right: bully-agent jobs resume --from-now %[1]s",
			a.Job, a.Until.Local().Format(time.RFC3339)))
	}
	if note := j.apart.note(j.around.now(), j.around.nameOf); note != "" {
		notes = append(notes, note)
	}
	if n := len(j.mended); n > 0 {
		notes = append(notes, fmt.Sprintf("the job ledger held what no host can have written, and was mended as this agent "+
			"started: %s%s", j.mended[0], andMore(n-1)))
	}
	if j.aside != "" {
		notes = append(notes, "the job ledger could not be read and is kept as "+j.aside+
			": what ran is known from the other hosts alone")
	}
	return notes
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d more in the log", n)
}

// apart is the last sign that another host's clock is not like this one's: what the
// one says the other does not take, and jobs do not run.
type apart struct {
	host wire.ID // zero: not known which
	at   time.Time
}

// apartFor is how long people are told after the last sign. Arbitrary: more than
// hosts take to tell each other their ledgers.
const apartFor = 5 * time.Minute

func (a *apart) learn(e jobs.Refused, now time.Time) {
	if e.Why == "ahead" || e.Why == "claim-ahead" {
		*a = apart{e.From, now}
	}
}

func (a *apart) note(now time.Time, nameOf func(wire.ID) string) string {
	if a.at.IsZero() || now.Sub(a.at) > apartFor {
		return ""
	}
	name := "another host"
	if !a.host.IsZero() {
		name = nameOf(a.host)
	}
	return fmt.Sprintf("the clocks of this host and of %s differ by more than %v: neither takes the other's statements "+
		"about jobs, and jobs may not run; correct the wrong clock (NTP)", name, jobs.Tolerance)
}

// list shows all jobs, and gives their schedules in the same order.
func (j *jobDesk) list() (out []control.Job, schedules []jobs.Schedule) {
	why := map[string]jobs.Decision{}
	for _, d := range j.scheduler.Explain() {
		if _, known := why[d.Job]; !known {
			why[d.Job] = d
		}
	}
	for _, job := range j.scheduler.Jobs() {
		out, schedules = append(out, j.controlJob(&job, why[job.Name])), append(schedules, job.Schedule)
	}
	return out, schedules
}

// controlJob shows one job. why is the first of what keeps it waiting; zero if
// nothing does.
func (j *jobDesk) controlJob(job *jobs.Job, why jobs.Decision) control.Job {
	entry, _ := j.scheduler.Entry(job.Name)
	out := control.Job{Name: job.Name, Schedule: job.Schedule.String(), Timezone: job.Schedule.Zone().String(),
		Paused: entry.Switch.Paused, State: "idle", TimeoutSeconds: cmp.Or(job.Timeout, jobs.DefaultTimeout).Seconds(),
		Overlap: job.Overlap.String(), Missed: job.Missed.String(), OnLoss: job.OnLoss.String(), Retries: job.Retries}
	for _, r := range entry.Runs {
		shown := j.controlRun(job.Name, r)
		if r.Open() {
			out.Open = append(out.Open, shown)
			continue
		}
		if out.Last == nil || !shown.Ended.Before(out.Last.Ended) {
			out.Last = &shown
		}
		if r.Outcome == jobs.Succeeded && shown.Ended.After(out.LastSuccess) {
			out.LastSuccess = shown.Ended
		}
	}
	if why.Why != jobs.ReasonNone {
		out.State, out.Why, out.Until = "waiting", why.Why.String(), why.Until
	}
	leads, ready := j.around.leads()
	switch {
	case slices.ContainsFunc(entry.Runs, jobs.Run.Open):
		out.State = "running"
	case out.Paused:
		out.State, out.Why = "paused", jobs.ReasonPaused.String()
	case why.Why == jobs.ReasonNone && leads && !ready:
		out.State, out.Why = "waiting", whyNotReady
	case why.Why == jobs.ReasonNotLeading && leads:
		out.Why = whyNotReady
	}
	return out
}

// whyNotReady is the word for a leader whose become-leader hook has not
// succeeded.
const whyNotReady = "leader-not-ready"

// runs shows those that the ledger knows, by their ids: of one job, or of all.
func (j *jobDesk) runs(name string) map[string]control.JobRun {
	known := map[string]control.JobRun{}
	for _, job := range j.scheduler.Jobs() {
		if name != "" && job.Name != name {
			continue
		}
		entry, _ := j.scheduler.Entry(job.Name)
		for _, r := range entry.Runs {
			shown := j.controlRun(job.Name, r)
			known[shown.Run] = shown
		}
	}
	return known
}

func (j *jobDesk) controlRun(job string, r jobs.Run) control.JobRun {
	out := control.JobRun{Job: job, Run: runID(job, r.Key), Host: j.around.nameOf(r.Owner), Slot: r.Slot.Time(),
		Manual: r.Manual, Epoch: *epochOf(r), Phase: r.Phase.String(), Outcome: r.Outcome.String(), Attempt: int(r.Attempt),
		Started: r.Started.Time(), Ended: r.Ended.Time()}
	if r.ExitKnown() {
		out.Exit = new(int(r.Exit))
	}
	return out
}

// mergeRows adds what was kept here to what the ledger knows: the ledger forgets
// sooner, and knows what became of a run whose attempts are kept.
func (j *jobDesk) mergeRows(known map[string]control.JobRun, rows []hooks.JobRun) (out []control.JobRun) {
	for _, row := range rows {
		r, inLedger := known[row.Run]
		switch {
		case !inLedger:
			r = j.keptRun(row)
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
func (j *jobDesk) keptRun(row hooks.JobRun) control.JobRun {
	outcome := jobs.Succeeded.String()
	switch {
	case isOutcome(row.Cause):
		outcome = row.Cause
	case row.Cause != "":
		outcome = jobs.Killed.String()
	case row.Exit != 0:
		outcome = jobs.Failed.String()
	}
	return control.JobRun{Job: row.Job, Run: row.Run, Host: j.name, Slot: row.Slot,
		Manual: strings.HasSuffix(row.Run, manualSuffix), Epoch: control.Epoch{Counter: row.Epoch, Owner: j.self.String()},
		Phase: jobs.Ended.String(), Outcome: outcome, Attempt: row.Attempt, Exit: &row.Exit, Started: row.Started,
		Ended: row.Started.Add(row.Took)}
}

// isOutcome reports whether the cause of an end is the word of an outcome; the
// others are about the leadership or the agent.
func isOutcome(cause string) bool {
	return cause == jobs.TimedOut.String() || cause == jobs.Replaced.String()
}

// dump is for the log.
func (j *jobDesk) dump() {
	for _, d := range j.scheduler.Explain() {
		j.log.Info("state: job", "waits", d)
	}
	for id, run := range j.running {
		j.log.Info("state: job runs", "run", id, "since", run.begun.Local().Format(time.RFC3339))
	}
}
