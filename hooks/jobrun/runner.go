package jobrun

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/holder"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// Config says where a Runner works, and within which bounds.
type Config struct {
	Dir    string // the state directory
	Socket string // the agent's, for BULLY_SOCKET

	// Budget is how long before the lease's end a silent agent is taken for dead;
	// see holder.Config.
	Budget time.Duration
	// Grace is the time between TERM and KILL, likewise.
	Grace time.Duration

	Logger hclog.Logger // nil discards
	// Post is given one Result for each Begin. Any goroutine calls it; it must not wait.
	Post func(Result)
}

// Order is one attempt of a run.
type Order struct {
	ID      string // of the run, BULLY_JOB_RUN_ID; no two with one ID at a time
	Job     string // its name, which is a file's name too
	Slot    time.Time
	Attempt int           // from 1
	Timeout time.Duration // of the attempt, zero: none; End is the caller's matter
	Command hooks.Command `json:"-"` // which an order to the keeper does not have: it knows the job's
	Event   hooks.Event   // what happened, as for a hook
	// Tied to the leadership: dead when the lease has ended. What is not tied has only
	// to start within the lease, and is ended soon after its timeout and the grace
	// if nobody has done so.
	Tied bool
}

// Result is how an attempt ended. Nothing of the command is left.
type Result struct {
	ID   string
	Job  string
	Exit uint8  // as a shell tells it: 128 + n for signal n, 126 and 127 for what did not start
	Err  string // why it did not start, was not all ended, or its holder has ended it; empty otherwise

	// Cause is why it was ended: what End or Lost said, AgentDied, or TimedOut;
	// empty if it ended by itself.
	Cause string
	// TooLate says that nothing was started, since the lease had ended by then.
	TooLate bool
}

// Runner runs commands, in the keeper. No method but Recover and Rest blocks; all may be called by
// any goroutine.
type Runner struct {
	cfg     Config
	history *History
	ended   chan struct{} // closed by Close
	work    sync.WaitGroup

	mu    sync.Mutex
	grace time.Duration
	lease time.Time // end of the right to act, on CLOCK_BOOTTIME
	runs  map[string]*attempt
}

const (
	recordsName = "job-holders"
	outputName  = "job-output"

	// abortBudget is what a command has that is still there at Close: its
	// caller is in a hurry, or has ended all of them before.
	abortBudget = 500 * time.Millisecond
)

// New makes a Runner and the directories that it writes to.
func New(cfg Config) (*Runner, error) {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	r := &Runner{cfg: cfg, history: HistoryIn(cfg.Dir), grace: cfg.Grace, ended: make(chan struct{}), runs: make(map[string]*attempt)}
	if err := errors.Join(makeDir(r.records()), r.history.open()); err != nil {
		return nil, fmt.Errorf("prepare jobs: %w", err)
	}
	return r, nil
}

func (r *Runner) records() string { return filepath.Join(r.cfg.Dir, recordsName) }

// SetGrace replaces the grace of attempts that begin from now on.
func (r *Runner) SetGrace(grace time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grace = grace
}

// Recover sees to it that nothing runs any more that a former life of this agent
// began; it waits for the holders that are still at it, until ctx ends. What
// cannot be read is left, and said in the error.
func (r *Runner) Recover(ctx context.Context) error {
	records, err := holder.Recover(ctx, r.records())
	for _, rec := range records {
		r.cfg.Logger.Warn("job ended with the agent that ran it", "job", rec.Name, "epoch", rec.Epoch.Counter,
			"report", rec.Report)
		err = errors.Join(err, rec.Remove())
	}
	if err != nil {
		return fmt.Errorf("recover jobs: %w", err)
	}
	return nil
}

// Close ends what runs, once and for all. What hangs in the kernel is not waited for any more.
func (r *Runner) Close() {
	close(r.ended)
	r.each(func(a *attempt) { a.holder.Stop("agent-stopping", abortBudget) })
}

// Begin starts an attempt; its Result tells its end, also if it could not start.
func (r *Runner) Begin(o Order) {
	a := r.add(o)
	r.work.Go(func() { r.serve(a) })
}

// add makes an attempt of which all others hear from now on.
func (r *Runner) add(o Order) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.newAttempt(o)
	r.runs[o.ID] = a
	return a
}

// End ends the attempt with this ID, if it goes on: TERM, grace, KILL.
func (r *Runner) End(id, cause string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.runs[id]; a != nil {
		a.holder.Stop(cause, 0)
	}
}

// each is for all that go on.
func (r *Runner) each(do func(*attempt)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.runs {
		do(a)
	}
}

// Lease moves the time at which what is tied to the leadership must be dead, and
// by which the rest must have started; zero: no bound.
func (r *Runner) Lease(until time.Time) {
	r.renew(until, func(a *attempt) bool { return !a.lost })
}

// Ending is Lease for what is told to end already, while a planned end of the
// leadership waits for it.
func (r *Runner) Ending(until time.Time) {
	r.renew(until, func(a *attempt) bool { return a.lost && a.Tied })
}

func (r *Runner) renew(until time.Time, isMeant func(*attempt) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lease = until
	for _, a := range r.runs {
		if isMeant(a) {
			a.renew(until)
		}
	}
}

// EndAll ends all attempts that go on.
func (r *Runner) EndAll(cause string) { r.each(func(a *attempt) { a.holder.Stop(cause, 0) }) }

// Rest waits until no attempt goes on, and all results are posted. It is for the time after the last Begin.
func (r *Runner) Rest() { r.work.Wait() }

// Lost says that the leadership has ended: what is tied to it is told to end, and
// has its grace for that, but not longer than the lease; of the rest nothing starts any more.
func (r *Runner) Lost(cause string) {
	r.each(func(a *attempt) {
		switch {
		case a.lost:
		case a.Tied:
			a.holder.Stop(cause, 0)
		default:
			a.renew(sidecar.Now())
		}
		a.lost = true
	})
}

// serve is the life of one attempt, in a goroutine of its own.
func (r *Runner) serve(a *attempt) {
	begun := time.Now()
	log := r.cfg.Logger.With("job", a.Job, "run", a.ID)
	row := Row{Job: a.Job, Run: a.ID, Slot: a.Slot.UTC(), Epoch: a.Event.Epoch.Counter, Attempt: a.Attempt,
		Started: begun.UTC()}
	out := run.NewOutput(log, "job printed")
	report, err := r.attempt(a, out, log)
	a.explain(&report)
	res := Result{ID: a.ID, Job: a.Job, Cause: report.Cause, TooLate: isLate(report, err)}
	res.Exit, res.Err = outcome(report, err)
	row.Exit, row.Err, row.Cause, row.Took = int(res.Exit), res.Err, report.Cause, time.Since(begun).Round(time.Millisecond)
	if n := out.Dropped(); n > 0 {
		log.Warn("job output dropped from the log", "lines", n)
	}
	if err := r.history.keep(a.seq, row, out); err != nil {
		log.Warn("job output not kept", "err", err)
	}
	r.mu.Lock()
	delete(r.runs, a.ID)
	r.mu.Unlock()
	r.cfg.Post(res)
}
