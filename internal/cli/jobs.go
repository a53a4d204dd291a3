package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

var jobsCommand = command{
	name: "jobs", usage: "see and order the singleton jobs",
	subcommands: []command{
		{
			name: "list", usage: "list the jobs, and why none runs now",
			examples: []string{program + " jobs list", program + " jobs list --json"},
			options:  []option{jsonOption, socketOption},
			action:   listJobs,
		},
		{
			name: "next", usage: "list the coming slots, in the job's time zone and in UTC",
			args: "[NAME]", maxArgs: 1, offer: jobNames,
			examples: []string{program + " jobs next", program + " jobs next --count 5 backup"},
			options:  []option{countOption, jsonOption, socketOption},
			action:   nextSlots,
		},
		{
			name: "history", usage: "list the runs that this host's agent knows of",
			args: "[NAME]", maxArgs: 1, offer: jobNames,
			about: `Of its own runs the agent keeps the last 50 of each job, with the last 64 KiB that each printed. Of other
				hosts' runs it knows the last 16 of each job.`,
			examples: []string{program + " jobs history", program + " jobs history backup",
				program + " jobs history --output backup"},
			options: []option{outputOption, jsonOption, socketOption},
			action:  jobHistory,
		},
		runJobCommand,
		{
			name: "pause", usage: "keep a job's slots from starting, on all hosts",
			args: "NAME", maxArgs: 1, offer: jobNames,
			about: `On whatever host; the others hear of it within a second, those that cannot be reached when they can. A run that has begun
				goes on. It lasts until jobs resume, over restarts.`,
			examples: []string{program + " jobs pause backup"},
			options:  []option{jsonOption, socketOption},
			action:   pauseJob,
		},
		{
			name: "resume", usage: "let a paused job's slots start again",
			args: "NAME", maxArgs: 1, offer: jobNames,
			about: `On whatever host. Slots that passed during the pause are not made up for. Of a job that is not paused it says so. With --from-now each host forgets the
				runs of the job that are ahead of its own clock. First set the clocks right: a slot that ran ahead runs again at its time.`,
			examples: []string{program + " jobs resume backup", program + " jobs resume --from-now backup"},
			options:  []option{fromNowOption, jsonOption, socketOption},
			action:   resumeJob,
		},
	},
}

var (
	countOption = option{name: "count", value: "N", fallback: "1",
		usage: "so many slots of each job, 1 to " + strconv.Itoa(control.MaxNextSlots)}
	fromNowOption = option{name: "from-now",
		usage: "also a job that ran while clocks were ahead, and that status calls settled until then"}
	outputOption = option{name: "output",
		usage: "print the output of the last of these runs on this host, and nothing else"}
)

func pauseJob(c *call) error {
	done := "paused"
	if isPaused, err := c.isPaused(); err != nil {
		return err
	} else if isPaused {
		done = "was paused already"
	}
	return orderJob(c, done, (*control.Client).PauseJob)
}

func resumeJob(c *call) error {
	if c.Bool("from-now") {
		return orderJob(c, "resumed from now", (*control.Client).ResumeJobFromNow)
	}
	done := "was not paused"
	if isPaused, err := c.isPaused(); err != nil {
		return err
	} else if isPaused {
		done = "resumed"
	}
	return orderJob(c, done, (*control.Client).ResumeJob)
}

// isPaused reports whether the job that was named is paused. Of one that is not there the order says so.
func (c *call) isPaused() (bool, error) {
	if c.NArg() == 0 {
		return false, nil
	}
	jobs, err := c.client().Jobs(c.Context.Context, 1)
	return slices.ContainsFunc(jobs, func(j control.Job) bool { return j.Name == c.Args().First() && j.Paused }), err
}

// orderJob gives an order about one job. done is what has become of it.
func orderJob(c *call, done string, give func(*control.Client, context.Context, string) error) error {
	job := c.Args().First()
	if job == "" {
		return noJobName()
	}
	if err := give(c.client(), c.Context.Context, job); err != nil {
		return err
	}
	if c.Bool("json") {
		return c.printJSON(map[string]bool{"done": true})
	}
	return c.print("job " + job + " " + done + "\n")
}

func noJobName() error {
	return usage("see "+program+" jobs list", "the job is missing: expected its name")
}

func listJobs(c *call) error {
	jobs, err := c.client().Jobs(c.Context.Context, 1)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return c.printJSON(jobs)
	}
	if len(jobs) == 0 {
		return c.print(noJobs)
	}
	_, err = c.client().Leader(c.Context.Context)
	return c.print(c.jobsText(jobs, err == nil, time.Now()))
}

// jobsText has a line for each job. isLed: a leader is known.
func (c *console) jobsText(jobs []control.Job, isLed bool, now time.Time) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tSCHEDULE\tZONE\tSTATE\tNEXT\tLAST RUN")
	for _, j := range jobs {
		next := "never"
		if len(j.Next) > 0 {
			next = zoned(j.Next[0])
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", j.Name, j.Schedule, j.Timezone, jobState(j, isLed, now), next, lastRun(j.Last, now))
	}
	_ = table.Flush() // a Builder takes everything
	return b.String()
}

// notLeading is why a follower starts nothing, in the words of internal/jobs.
const notLeading = "not-leading"

// jobState says what the job does, and why nothing starts now. A run elsewhere needs no such reason.
func jobState(j control.Job, isLed bool, now time.Time) string {
	state := j.State
	if len(j.Open) > 0 {
		first := j.Open[0]
		state = fmt.Sprintf("%s on %s", first.Phase, first.Host)
		if n := len(j.Open); n > 1 {
			state += fmt.Sprintf(" and %d more", n-1)
		}
	}
	switch {
	case j.Why == notLeading && len(j.Open) == 0 && !isLed:
		state += " for a leader"
	case j.Why == notLeading && len(j.Open) == 0:
		state += " for the leader to start it"
	case j.Why == "" || j.Why == state || j.Why == notLeading:
	case !j.Until.IsZero():
		state += fmt.Sprintf(": %s until %s", j.Why, untilText(j.Until, now))
	default:
		state += ": " + j.Why
	}
	return state
}

// untilText has the date of a time that is not soon.
func untilText(t, now time.Time) string {
	if t.Sub(now) < 12*time.Hour {
		return t.Local().Format(clockLayout)
	}
	return t.Local().Format(dayLayout + " " + clockLayout)
}

func lastRun(r *control.JobRun, now time.Time) string {
	if r == nil {
		return "none known"
	}
	text := r.Outcome
	if r.Outcome == "failed" && r.Exit != nil {
		text += ", exit " + strconv.Itoa(*r.Exit)
	}
	ago := now.Sub(r.Ended)
	if ago < -time.Minute { // no host takes a claim from further in the future: its clock has been set right since
		return fmt.Sprintf("%s on %s, at %s by its clock", text, r.Host, clock(r.Ended))
	}
	return fmt.Sprintf("%s on %s %s ago", text, r.Host, span(max(ago, 0)))
}

// zoned is a slot as its zone's clocks show it.
func zoned(t time.Time) string { return t.Format("Mon " + dayLayout + " " + clockLayout) }

// noJobs is said where there is nothing to list.
const noJobs = "no jobs are configured: a [[job]] in agent.toml is one\n"

func nextSlots(c *call) error {
	count := 1
	if c.IsSet("count") {
		n, err := strconv.Atoi(c.String("count"))
		if err != nil || n < 1 || n > control.MaxNextSlots {
			return usage("", "--count is %s: expected 1 to %d", strconv.Quote(c.String("count")), control.MaxNextSlots)
		}
		count = n
	}
	jobs, err := c.client().Jobs(c.Context.Context, count)
	if err != nil {
		return err
	}
	if jobs, err = onlyJob(jobs, c.Args().First()); err != nil {
		return err
	}
	if c.Bool("json") {
		return c.printJSON(slotsOf(jobs))
	}
	if len(jobs) == 0 {
		return c.print(noJobs)
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tZONE\tSLOT\tUTC")
	for _, s := range slotsOf(jobs) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", s.Job, s.Timezone, zoned(s.Slot), s.UTC.Format(time.RFC3339))
	}
	_ = table.Flush()
	return c.print(b.String())
}

// coming is one coming slot.
type coming struct {
	Job      string    `json:"job"`
	Timezone string    `json:"timezone"`
	Slot     time.Time `json:"slot"`
	UTC      time.Time `json:"utc"`
}

func slotsOf(jobs []control.Job) []coming {
	all := []coming{}
	for _, j := range jobs {
		for _, at := range j.Next {
			all = append(all, coming{Job: j.Name, Timezone: j.Timezone, Slot: at, UTC: at.UTC()})
		}
	}
	return all
}

// onlyJob keeps the job with the name; all, if it is empty.
func onlyJob(jobs []control.Job, name string) ([]control.Job, error) {
	if name == "" {
		return jobs, nil
	}
	for _, j := range jobs {
		if j.Name == name {
			return []control.Job{j}, nil
		}
	}
	return nil, &failure{code: exitRefused, err: fmt.Errorf("no job is called %s", strconv.Quote(name)),
		hint: "see " + program + " jobs list"}
}

func jobHistory(c *call) error {
	client, name := c.client(), c.Args().First()
	runs, err := client.JobRuns(c.Context.Context, name)
	if err != nil {
		return err
	}
	if name != "" && len(runs) == 0 {
		jobs, err := client.Jobs(c.Context.Context, 0)
		if err != nil {
			return err
		}
		if _, err := onlyJob(jobs, name); err != nil {
			return err
		}
	}
	switch {
	case c.Bool("output"):
		return printOutput(c, client, runs)
	case c.Bool("json"):
		return c.printJSON(runs)
	}
	return c.print(runsText(runs))
}

// printOutput prints what the newest run printed of which something is kept
// here.
func printOutput(c *call, client *control.Client, runs []control.JobRun) error {
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].Printed == 0 {
			continue
		}
		text, err := client.JobOutput(c.Context.Context, runs[i].Run)
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return c.printJSON(map[string]string{"run": runs[i].Run, "output": text})
		}
		if isTerminal(c.out) {
			return c.print(text)
		}
		return c.printRaw(text)
	}
	return &failure{code: exitNo, err: errors.New("none of these runs has printed anything on this host"),
		hint: "output stays on the host that ran it"}
}

// runsText has the newest last, next to the prompt.
func runsText(runs []control.JobRun) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tSLOT\tHOST\tOUTCOME\tEXIT\tATTEMPT\tSTARTED\tTOOK")
	for _, r := range runs {
		started, took, outcome, exit := "-", "-", r.Outcome, "-"
		if !r.Started.IsZero() {
			started = clock(r.Started)
			if r.Exit != nil && !r.Ended.Before(r.Started) {
				took, exit = span(r.Ended.Sub(r.Started)), strconv.Itoa(*r.Exit)
			}
		}
		if r.Phase != "ended" && r.Phase != "lost" {
			outcome = r.Phase
		}
		if r.Err != "" {
			took += "  " + r.Err
		}
		slot := r.Slot.Local().Format(dayLayout + " " + clockLayout)
		if r.Manual {
			slot += " by hand"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.Job, slot, r.Host, outcome, exit, r.Attempt, started, took)
	}
	_ = table.Flush()
	return b.String()
}
