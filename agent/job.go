package agent

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/jobrun"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/membership"
)

// Job is one singleton job: its definition, and what this host runs for it.
type Job struct {
	jobs.Job
	Command hooks.Command
}

// JobRunner runs the commands of jobs: jobrun.Runner, or a fake in tests.
type JobRunner interface {
	Recover(ctx context.Context) error
	Run(ctx context.Context) error
	Begin(o jobrun.Order)
	End(id, cause string)
	Lease(until time.Time)
	Ending(until time.Time)
	Lost(cause string)
	SetGrace(grace time.Duration)
	Results() <-chan jobrun.Result
	Sweep(isKnown func(job string) bool) error
	Rows(job string) ([]jobrun.Row, error)
	Output(row jobrun.Row) ([]byte, error)
}

// jobDesk is the loop's part in singleton jobs. Package jobs decides; this tells
// it what happened, and does what it says:
//
//	leadership, members, frames, exits, commands → jobs.Scheduler.Step
//	  → ledger file → frames, commands under guards, replies
//
// Jobs run only while this host leads and is ready: its become-leader hook has
// succeeded. Slots that passed long before count as missed. What a job runs is ended
// when the leadership is, or goes on, as the job says; none outlives this agent.
//
// All of it belongs to the loop. Only the file is written elsewhere: the loop
// goes on meanwhile, and what happens to jobs waits.
type jobDesk struct {
	scheduler *jobs.Scheduler
	runner    JobRunner
	file      *ledgerFile
	commands  map[string]hooks.Command // by job; of former tables too, as long as a run is open
	digest    uint64                   // of the table, for the others
	grace     time.Duration            // of hooks, also that of jobs
	seq       uint32                   // of the last frame

	queue    []jobs.Event  // what the scheduler is still to hear
	rest     []jobs.Effect // of its last step, still to be done
	stepping bool
	writing  bool      // rest waits for the file
	wroteAt  time.Time // since when, on the agent's clock
	failed   bool      // the last write did
	passOn   passOn    // what a leader does about that
	clocks   clockPair
	wall     func() time.Time // wallClock; tests set it

	leading jobs.Leading // as last told; Epoch 0: not leading
	peers   []jobs.ID    // as last told
	due     time.Time    // of the scheduler's deadline, on the agent's clock; zero: none

	running map[string]*jobRun // by run id
	wishes  map[uint64]*wish   // by token
	aside   string             // where a ledger was put that could not be read
	over    time.Time          // end of the patience with jobs at the agent's end; zero: it goes on
}

// jobRun is an attempt that was begun and has not ended.
type jobRun struct {
	job    string
	key    jobs.Key
	begun  time.Time // wall clock
	tenant *tenant   // nil: not tied to the leadership
}

const (
	// maxJobEvents bounds what waits for a slow disk. What others say beyond it is
	// dropped: they say it again.
	maxJobEvents = 256

	// maxMerged is how many of these may be whole ledgers, which are large.
	maxMerged = 8

	// slowDisk is how long a write may take before people are told. Arbitrary.
	slowDisk = 5 * time.Second
)

// prepareJobs reads the ledger and ends what a former life has left running.
func (a *agent) prepareJobs(ctx context.Context) (err error) {
	j := &a.jobs
	j.grace = cmp.Or(a.cfg.Hooks.Grace, jobs.DefaultGrace)
	j.running, j.wishes, j.wall = map[string]*jobRun{}, map[uint64]*wish{}, wallClock
	if j.runner = a.cfg.JobRunner; j.runner == nil {
		j.runner, err = jobrun.New(jobrun.Config{Dir: a.cfg.StateDir, Socket: a.cfg.Socket, Clock: a.cfg.Now,
			Budget: a.cfg.Election.StopBudget, Grace: j.grace, Logger: a.log.Named("jobs")})
		if err != nil {
			return refusal("the state directory must be writable", "%w", err)
		}
	}
	if err := j.runner.Recover(ctx); err != nil {
		a.log.Error("former runs of jobs not all ended", "err", err)
	}
	j.file = newLedgerFile(a.cfg.StateDir)
	ledger, lost, err := a.openLedger()
	if err != nil {
		return refusal("the state directory must be writable", "job ledger: %w", err)
	}
	a.sweepJobs(ledger)
	j.commands = make(map[string]hooks.Command, len(a.cfg.Jobs))
	j.scheduler = jobs.NewScheduler(jobs.SchedulerConfig{Self: jobs.ID(a.state.ID), Table: a.setJobs(a.cfg.Jobs),
		Grace: j.grace, LedgerLost: lost, NewestKnown: newestIn(a.cfg.StateDir)}, ledger)
	return nil
}

// sweepJobs removes what is kept of jobs that nobody knows any more.
func (a *agent) sweepJobs(ledger *jobs.Ledger) {
	known := map[string]bool{}
	for _, job := range a.cfg.Jobs {
		known[job.Name] = true
	}
	if ledger != nil {
		for _, name := range ledger.Jobs() {
			known[name] = true
		}
	}
	if err := a.jobs.runner.Sweep(func(job string) bool { return known[job] }); err != nil {
		a.log.Warn("output of former jobs not all removed", "err", err)
	}
}

// setJobs takes a table, and gives it as the scheduler takes it.
func (a *agent) setJobs(table []Job) []jobs.Job {
	j := &a.jobs
	definitions := make([]jobs.Job, len(table))
	for i, job := range table {
		definitions[i] = job.Job
		j.commands[job.Name] = job.Command
	}
	j.digest = digestOf(table, j.grace)
	return definitions
}

// digestOf tells tables apart whose jobs differ, in whatever order they are, the rules
// of their time zones included, or whose grace does: it is part of when a vanished host's run counts as lost. It is
// 0 for none and never 0 for some.
func digestOf(table []Job, grace time.Duration) uint64 {
	if len(table) == 0 {
		return 0
	}
	lines := make([]string, len(table))
	for i, j := range table {
		lines[i] = fmt.Sprintf("%s %x %x %v %v %v %v %d %v %v %q %q", j.Name, j.Schedule.Hash(), j.Schedule.Rules(), j.Timeout,
			j.Overlap, j.Missed, j.StartingDeadline, j.Retries, j.RetryDelay, j.OnLoss, j.Command.Shell, j.Command.Argv)
	}
	slices.Sort(lines)
	lines = append(lines, grace.String())
	h := fnv.New64a()
	_, _ = h.Write([]byte(strings.Join(lines, "\n"))) // cannot fail
	return cmp.Or(h.Sum64(), 1)
}

// reloadJobs takes a new table. A job that is not in it any more starts nothing.
func (a *agent) reloadJobs(table []Job, grace time.Duration) {
	a.jobs.grace = cmp.Or(grace, jobs.DefaultGrace)
	a.jobs.runner.SetGrace(a.jobs.grace)
	a.stepJobs(jobs.TableChanged{Jobs: a.setJobs(table), Grace: a.jobs.grace})
	a.dropCommands(table)
	a.view.self.Jobs = a.jobs.digest
	a.members.SetJobs(a.jobs.digest)
}

// dropCommands forgets those of jobs that are in no table any more and have no run
// that could be tried again.
func (a *agent) dropCommands(table []Job) {
	for name := range a.jobs.commands {
		entry, _ := a.jobs.scheduler.Entry(name)
		isNamed := slices.ContainsFunc(table, func(j Job) bool { return j.Name == name })
		if !isNamed && !slices.ContainsFunc(entry.Runs, jobs.Run.Open) {
			delete(a.jobs.commands, name)
		}
	}
}

// tellJobs passes on what the scheduler is to know of leadership and members. It
// is called with each look at the state, at least once a second, and so also
// notices that the wall clock was set, or that a person waits no more.
func (a *agent) tellJobs(s election.Status) {
	a.tellPeers()
	a.tellLeading(s)
	if a.jobs.failed && !a.jobs.writing {
		a.stepJobs(jobs.SaveRecovered{})
	}
	a.pumpJobs()
}

func (a *agent) tellPeers() {
	var peers []jobs.ID
	for _, m := range a.view.others {
		if m.Status == membership.Alive && m.ConfigHash == a.view.self.ConfigHash {
			peers = append(peers, jobs.ID(m.ID))
		}
	}
	if !slices.Equal(peers, a.jobs.peers) {
		a.jobs.peers = peers
		a.stepJobs(jobs.Peers{Hosts: peers})
	}
}

// tellLeading: a leader whose become-leader hook has not succeeded runs no jobs,
// since they rely on what it does.
func (a *agent) tellLeading(s election.Status) {
	j := &a.jobs
	if s.State != election.Lead || !a.hookReady {
		if j.leading.Epoch != 0 {
			j.leading = jobs.Leading{}
			a.stepJobs(jobs.NotLeading{})
		}
		return
	}
	now := jobs.Leading{Epoch: s.Epoch.Counter, Since: j.leading.Since, Need: a.votersNeeded(s)}
	if now.Need > 0 {
		for _, id := range s.Roster.IDs {
			now.Voters = append(now.Voters, jobs.ID(id))
		}
	}
	if now.Epoch != j.leading.Epoch {
		now.Since = j.wall()
	}
	if now.Epoch != j.leading.Epoch || now.Need != j.leading.Need || !slices.Equal(now.Voters, j.leading.Voters) {
		j.leading = now
		a.stepJobs(now)
	}
}

// leaseJobs passes the end of the right to act on to what runs on the strength of
// it; zero is the end of the leadership itself. Where nobody could take over there
// is no such end, as for renewGuard.
func (a *agent) leaseJobs(until time.Time) {
	switch {
	case until.IsZero():
		a.jobs.runner.Lost("leadership-lost")
	case a.isUnrivalled():
		a.jobs.runner.Lease(time.Time{})
	default:
		a.jobs.runner.Lease(until)
	}
}

// endJobs is for an agent that has handed over and goes: what a lost leadership
// has left running is ended too, since nobody would look after it.
func (a *agent) endJobs() {
	j := &a.jobs
	j.over = a.cfg.Now().Add(j.grace + evictSlack)
	a.stepJobs(jobs.Closing{})
	for id := range j.running { // also while the disk is waited for
		j.runner.End(id, "agent-stopping")
	}
}

// jobsOver reports whether endJobs was called, and nothing runs any more or has
// had its time.
func (a *agent) jobsOver() bool {
	j := &a.jobs
	if j.over.IsZero() {
		return false
	}
	idle := len(j.running) == 0 && !j.writing && len(j.queue) == 0 && len(j.rest) == 0
	return idle || !a.cfg.Now().Before(j.over)
}
