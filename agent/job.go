package agent

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/wire"
)

// Job is one singleton job: its definition, and what this host runs for it.
type Job struct {
	jobs.Job
	Command hooks.Command
}

// JobRunner runs the commands of jobs: the keeper, or a fake in tests.
type JobRunner interface {
	Recover(ctx context.Context) error
	Run(ctx context.Context) error
	Begin(o hooks.JobAttempt)
	End(id, cause string)
	Lost(cause string)
	Results() <-chan hooks.JobResult
	Sweep(known []string)
	Rows(job string) ([]hooks.JobRun, error)
	Output(row hooks.JobRun) ([]byte, error)
}

// jobDesk is the driver of singleton jobs. Package jobs decides; this tells
// it what happened, and does what it says:
//
//	leadership, members, frames, exits, commands → jobs.Scheduler.Step
//	  → ledger file → frames, commands by holders, replies
//
// Jobs run only while this host leads and is ready: its become-leader hook has
// succeeded. Slots that passed long before count as missed. What a job runs is ended
// when the leadership is, or goes on, as the job says; none outlives this agent.
//
// All of it belongs to the loop. During a turn of that, what happens is only noted;
// turn is called at the end of each, and steps. Only the file is written elsewhere:
// the loop goes on meanwhile, and what happens to jobs waits.
type jobDesk struct {
	jobConfig
	around    jobSurroundings
	scheduler *jobs.Scheduler
	file      *ledgerFile
	digest    uint64 // of the table, for the others
	clocks    clockPair
	wall      func() time.Time // wallClock; tests set it

	isRecovered bool          // else events only wait
	queue       []jobs.Event  // what the scheduler is still to hear
	before      int           // how many of them are from before this turn
	isStirred   bool          // something is to be done at the end of this turn
	isToEnd     bool          // and what runs is ended then
	rest        []jobs.Effect // of the scheduler's last step, still to be done
	saving      saving
	leading     jobs.Leading // as last told; Epoch 0: not leading
	peers       []wire.ID    // as last told
	due         time.Time    // of the scheduler's deadline, on the agent's clock; zero: none

	running map[string]*jobRun // by run id
	wishes  map[uint64]*wish   // by token
	tokens  uint64
	aside   string    // where a ledger was put that could not be read
	mended  []string  // what the ledger held that no host can have written
	apart   apart     // whose clock is not like this one
	over    time.Time // end of the patience with jobs at the agent's end; zero: it goes on
}

// jobConfig is what a desk is opened with.
type jobConfig struct {
	self  wire.ID
	name  string // of this host
	dir   string
	isNew bool   // the state directory
	epoch uint64 // the highest counter of the state file
	// newest is a time that this host has passed, if its clock was right: newestIn, before this life has written anything.
	newest time.Time
	table  []Job
	grace  time.Duration // of hooks, also that of jobs
	runner JobRunner
	// holders are told of what must not outlive the leadership.
	holders *holders
	log     hclog.Logger
}

// jobSurroundings is all that jobs know of what is around them.
type jobSurroundings interface {
	now() time.Time
	event(e control.Event)
	count(name string, n uint64)
	nameOf(id wire.ID) string
	// leads reports whether this host leads, and is ready.
	leads() (leads, ready bool)
	// mayAct looks at the clock: this host leads in that epoch, at this moment.
	mayAct(epoch uint64) bool
	// hookEvent is what a command is told of the cluster.
	hookEvent(kind hooks.Kind, cause string) hooks.Event
	sendJob(e jobs.Send)
	// tellLedger has gossip carry it; b is not changed any more.
	tellLedger(b []byte)
	// whereToAsk is the hint for whoever should have asked another host.
	whereToAsk() string
}

// jobRun is an attempt that was begun and has not ended.
type jobRun struct {
	job    string
	key    jobs.Key
	begun  time.Time // wall clock
	holder *holder   // nil: not tied to the leadership
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

// openJobDesk reads the ledger. Nothing happens to jobs before recovered is called.
func openJobDesk(cfg jobConfig, around jobSurroundings) (*jobDesk, error) {
	cfg.grace = cmp.Or(cfg.grace, jobs.DefaultGrace)
	j := &jobDesk{jobConfig: cfg, around: around, wall: wallClock, file: newLedgerFile(cfg.dir),
		running: map[string]*jobRun{}, wishes: map[uint64]*wish{}}
	ledger, lost, err := j.openLedger()
	if err != nil {
		return nil, refusal("the state directory must be writable", "job ledger: %w", err)
	}
	j.sweep(ledger)
	j.scheduler = jobs.NewScheduler(jobs.SchedulerConfig{Self: j.self, Table: j.setTable(cfg.table),
		Grace: j.grace, LedgerLost: lost, NewestKnown: j.newest}, ledger)
	return j, nil
}

// recovered is called when nothing runs any more that a former life began: the scheduler's
// first step says so to the others.
func (j *jobDesk) recovered() { j.isRecovered, j.isStirred = true, true }

// sweep removes what is kept of jobs that nobody knows any more.
func (j *jobDesk) sweep(ledger *jobs.Ledger) {
	var known []string
	for _, job := range j.table {
		known = append(known, job.Name)
	}
	if ledger != nil {
		known = append(known, ledger.Jobs()...)
	}
	j.runner.Sweep(known)
}

// setTable takes a table, and gives it as the scheduler takes it.
func (j *jobDesk) setTable(table []Job) []jobs.Job {
	definitions := make([]jobs.Job, len(table))
	for i, job := range table {
		definitions[i] = job.Job
	}
	j.table, j.digest = table, digestOf(table, j.grace)
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

// reload takes a new table. A job that is not in it any more starts nothing.
func (j *jobDesk) reload(table []Job, grace time.Duration) {
	j.grace = cmp.Or(grace, jobs.DefaultGrace)
	j.note(jobs.TableChanged{Jobs: j.setTable(table), Grace: j.grace})
}

// learn tells of leadership and members, in the turn in which the agent has shown what
// it knows of them: at least once a second. The scheduler hears of them before the rest
// of the turn: what ends in the turn that ends a leadership was lost with it. now.Epoch
// is 0 where this host does not lead or is not ready: jobs rely on what the hook does.
func (j *jobDesk) learn(now jobs.Leading, peers []wire.ID) {
	var news []jobs.Event
	if !slices.Equal(peers, j.peers) {
		j.peers = peers
		news = append(news, jobs.Peers{Hosts: peers})
	}
	now.Since = j.leading.Since
	switch last := j.leading; {
	case now.Epoch == 0 && last.Epoch != 0:
		j.leading = jobs.Leading{}
		news = append(news, jobs.NotLeading{})
	case now.Epoch == 0:
	case now.Epoch != last.Epoch:
		now.Since = j.wall()
		fallthrough
	case now.Need != last.Need || !slices.Equal(now.Voters, last.Voters):
		j.leading = now
		news = append(news, now)
	}
	if j.saving.hasFailed && !j.saving.isOn {
		news = append(news, jobs.SaveRecovered{})
	}
	j.queue, j.isStirred = slices.Insert(j.queue, j.before, news...), true
}

// lost: the leadership has ended, and with it the right to act. What is tied to it is told at
// once, before the lose hook begins; the scheduler, which hears of it at the end of the
// turn, ends it by the same word.
func (j *jobDesk) lost() { j.runner.Lost(jobs.Killed.String()) }

// close is for an agent that has handed over and goes: what a lost leadership
// has left running is ended too, since nobody would look after it.
func (j *jobDesk) close() {
	j.over = j.around.now().Add(j.grace + dismissSlack)
	j.note(jobs.Closing{})
	j.isToEnd = true
}

// isOver reports whether close was called, and nothing runs any more or has
// had its time.
func (j *jobDesk) isOver() bool {
	if j.over.IsZero() {
		return false
	}
	idle := !j.isRecovered || len(j.running) == 0 && !j.saving.isOn && len(j.queue) == 0 && len(j.rest) == 0
	return idle || !j.around.now().Before(j.over)
}
