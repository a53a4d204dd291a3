package cli

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// runInterval is how often a run is looked at that is waited for.
const runInterval = 200 * time.Millisecond

var runJobCommand = command{
	name: "run", usage: "run a job now, on this host, which must lead", args: "NAME", maxArgs: 1, offer: jobNames,
	about: `The run counts for overlap like any other, and for no slot. It is started in spite of a pause. The command
		returns when the job may start, which it then does, and says with exit code 6 why it may not. How it ends is in
		the history; --wait waits for that, and exits 1 if it did not succeed.`,
	examples: []string{program + " jobs run backup", program + " jobs run --wait backup"},
	options:  []option{{name: "wait", usage: "wait until the run has ended, its further attempts included"}, jsonOption, socketOption},
	action:   runJob,
}

// jobStarted is what run prints with --json.
type jobStarted struct {
	Done bool   `json:"done"`
	Run  string `json:"run"` // its id, empty if it had ended and forgotten at once
	// Outcome is there with --wait.
	Outcome string `json:"outcome,omitempty"`
}

func runJob(c *call) error {
	job := c.Args().First()
	if job == "" {
		return noJobName()
	}
	client := c.client()
	before, err := client.JobRuns(c.Context.Context, job)
	if err != nil {
		return err
	}
	if err := client.RunJob(c.Context.Context, job); err != nil {
		return err
	}
	after, err := client.JobRuns(c.Context.Context, job)
	if err != nil {
		return fmt.Errorf("job %s starts, and then: %w", job, err)
	}
	run := newByHand(before, after)
	switch {
	case c.Bool("wait") && run == "":
		return fmt.Errorf("job %s was started, and nothing tells which run it is: see %s jobs history %s", job, program, job)
	case c.Bool("wait"):
		return c.awaitRun(client, job, run)
	case c.Bool("json"):
		return c.printJSON(jobStarted{Done: true, Run: run})
	}
	return c.print(fmt.Sprintf("job %s starts, run %s; how it ends: %s jobs history %s, or run it with --wait\n", job,
		cmp.Or(run, "unknown"), program, job))
}

// newByHand is the id of the newest run by hand that is in after alone.
func newByHand(before, after []control.JobRun) string {
	for _, r := range slices.Backward(after) {
		isIt := func(old control.JobRun) bool { return old.Run == r.Run }
		if r.Manual && !slices.ContainsFunc(before, isIt) {
			return r.Run
		}
	}
	return ""
}

func (c *call) awaitRun(client *control.Client, job, run string) error {
	progress := c.progress("waiting for run " + run)
	defer progress("")
	for ; ; time.Sleep(runInterval) {
		runs, err := client.JobRuns(c.Context.Context, job)
		if err != nil {
			return fmt.Errorf("run %s goes on, or not: %w", run, err)
		}
		i := slices.IndexFunc(runs, func(r control.JobRun) bool { return r.Run == run })
		if i < 0 {
			return fmt.Errorf("run %s is forgotten: see jobs history", run)
		}
		r := runs[i]
		progress(r.Phase)
		if r.Phase != "ended" && r.Phase != "lost" {
			continue
		}
		progress("")
		return c.tellRun(r)
	}
}

// tellRun says how a run has ended; the exit code is that of its success.
func (c *call) tellRun(r control.JobRun) error {
	var err error
	if c.Bool("json") {
		err = c.printJSON(jobStarted{Done: true, Run: r.Run, Outcome: r.Outcome})
	} else {
		text := fmt.Sprintf("job %s %s, run %s", r.Job, r.Outcome, r.Run)
		if r.Exit != nil {
			text += fmt.Sprintf(", exit %d, in %s", *r.Exit, span(max(r.Ended.Sub(r.Started), 0)))
		}
		err = c.print(text + "\n")
	}
	if err == nil && r.Outcome != "succeeded" {
		return outcome(exitNo)
	}
	return err
}
