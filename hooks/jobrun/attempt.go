package jobrun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/guard"
	"github.com/bully-agent/bully-agent/internal/run"
)

const (
	// ExitNotRun is a shell's code for what was found and could not be executed.
	ExitNotRun = 126

	exitNotFound = 127
	exitSignal   = 128 // and the signal's number

	// ExitKilled is Result.Exit of what was killed together with whoever ran it.
	ExitKilled = exitSignal + uint8(syscall.SIGKILL)

	// endSlack is how much later than its timeout and grace a guard ends a command
	// by itself: End comes first from an agent that is well. Others count the run
	// as lost a second after the grace at the earliest (internal/jobs/doc.go, J3).
	endSlack = 500 * time.Millisecond
)

// errNothing keeps a guard from being started that would watch over nothing.
var errNothing = errors.New("the job has no command")

// errLate is the end of an attempt whose leadership had ended before it had begun.
var errLate = errors.New("its leadership had ended before it was started")

// errOver is the end of an attempt that was told to end before it had begun.
var errOver = errors.New("told to end before it was started")

// attempt runs the command, and returns when nothing of it is left. The error
// says why it did not start.
func (r *Runner) attempt(a *attempt, seq uint64, out *run.Output, log hclog.Logger) (guard.Report, error) {
	if a.Command.IsZero() {
		return guard.Report{}, errNothing
	}
	if err := hooks.Check(a.Command); err != nil {
		return guard.Report{Errno: whyUnfit(a.Command)}, err
	}
	pipes, err := openPipes()
	if err != nil {
		return guard.Report{}, err
	}
	g, err := r.start(a, seq, pipes)
	pipes.closeTheirs()
	if err != nil {
		pipes.closeOurs()
		return guard.Report{}, err
	}
	log.Debug("job's guard started", "attempt", a.Attempt, "epoch", a.Event.Epoch.Counter)
	var streams sync.WaitGroup
	streams.Go(func() { out.Read(pipes.ours[0], "stdout") })
	streams.Go(func() { out.Read(pipes.ours[1], "stderr") })
	r.outlast(g, log)
	deadline := time.Now().Add(run.DrainGrace)
	for _, f := range pipes.ours {
		_ = f.SetReadDeadline(deadline) // fails if it was read to its end
	}
	streams.Wait()
	report := g.Report()
	if report.Stage != guard.Ended {
		return report, nil // the next life reads the record
	}
	if err := g.Forget(); err != nil {
		log.Warn("job's record not removed", "err", err)
	}
	return report, nil
}

// outlast waits until nothing of the command is left, also what KILL has not ended: the
// job's next run is not to start beside it. Only the end of the Runner does not wait for
// that.
func (r *Runner) outlast(g *guard.Guard, log hclog.Logger) {
	select {
	case <-g.Done():
		return
	case <-g.Stuck():
		log.Error("job not ended: "+g.Report().Stuck, "group", g.Report().Group)
	}
	select {
	case <-g.Done():
	case <-r.ended:
	}
}

// start starts the guard and tells it what was said meanwhile.
func (r *Runner) start(a *attempt, seq uint64, p *pipes) (*guard.Guard, error) {
	r.mu.Lock()
	lease, grace, over, lost := r.lease, r.grace, a.stop != nil, a.lost
	r.mu.Unlock()
	switch {
	case over:
		return nil, errOver
	case lost:
		return nil, errLate
	}
	env := hooks.Environ(a.Event, seq, a.Attempt, a.Timeout, r.cfg.Socket)
	slot := a.Slot.UTC().Format(time.RFC3339)
	env = append(env, "BULLY_JOB="+a.Job, "BULLY_JOB_SLOT="+slot, "BULLY_JOB_RUN_ID="+a.ID)
	cfg := guard.Config{Name: a.Job, Epoch: a.Event.Epoch, Argv: a.Command.Words(), Env: env,
		Stdout: p.theirs[0], Stderr: p.theirs[1], Deadline: lease, Clock: r.cfg.Clock, Budget: r.cfg.Budget, Grace: grace,
		Records: r.records(), Program: r.cfg.Program}
	if !a.Tied {
		cfg.StartBy, cfg.Deadline, cfg.Budget = lease, a.deadline(grace), grace
	}
	g, err := guard.Start(cfg)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a.guard = g
	if !a.lost && r.lease != lease {
		a.renew(r.lease)
	}
	if s := a.stop; s != nil {
		g.Stop(s.cause, r.within(*s))
	}
	return g, nil
}

// deadline is when a command that is not tied to the leadership must be dead,
// whatever keeps this process from ending it; zero if it has no timeout.
func (a *attempt) deadline(grace time.Duration) time.Time {
	if a.Timeout == 0 {
		return time.Time{}
	}
	return a.begun.Add(a.Timeout + grace + endSlack)
}

// renew tells the guard of another lease: what is not tied to it has only to start
// within the one of its own leadership.
func (a *attempt) renew(lease time.Time) {
	switch {
	case a.Tied:
		a.guard.Renew(lease)
	case !a.lost && !a.hasStarted():
		a.guard.RenewStart(lease)
	}
}

func (a *attempt) hasStarted() bool {
	select {
	case <-a.guard.Started():
		return true
	default:
		return false
	}
}

// What went wrong with a command that nobody here has ended, nor its own doing.
const (
	bySilence = "ended by its guard: this agent was silent until its lease was nearly over"
	byTimeout = "ended by its guard: this agent did not end it at its timeout"
)

// TimedOut is Result.Cause of a command that its guard has ended at its timeout.
// End may be given the same word.
const TimedOut = "timed-out"

// AgentDied is Result.Cause of a command that was ended since the agent was dead, or
// silent until its lease was nearly over. KeeperDied is that of one which died with the
// keeper.
const (
	AgentDied  = guard.AgentDied
	KeeperDied = "keeper-died"
)

// explain says why the guard has ended a command by itself.
func (a *attempt) explain(report *guard.Report) {
	if !report.Silent || report.Group == 0 {
		return
	}
	why := bySilence
	if !a.Tied {
		report.Cause, why = TimedOut, byTimeout
	}
	if report.Err == "" {
		report.Err = why
	}
}

// isLate reports whether the lease had ended before the command could be started.
func isLate(report guard.Report, err error) bool {
	return errors.Is(err, errLate) || report.Group == 0 && report.Cause == guard.AgentDied
}

// outcome is what a shell would make of the end, and what went wrong besides.
func outcome(report guard.Report, err error) (exit uint8, why string) {
	if err != nil {
		report.Err = oneLine(err)
	}
	switch {
	case report.Errno == int(syscall.ENOENT):
		return exitNotFound, report.Err
	case report.Group == 0:
		return ExitNotRun, report.Err
	case report.Signal != 0:
		return uint8(exitSignal + report.Signal), report.Err
	case report.Exit < 0: // its guard was killed and could not tell
		return ExitKilled, report.Err
	}
	return uint8(report.Exit), report.Err
}

// whyUnfit is ENOENT for a command whose file is not there, 0 for any other.
func whyUnfit(c hooks.Command) int {
	words := c.Argv
	if c.Shell != "" {
		words = strings.Fields(c.Shell)
	}
	if _, err := os.Stat(words[0]); errors.Is(err, fs.ErrNotExist) {
		return int(syscall.ENOENT)
	}
	return 0
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// pipes are the command's standard output and error, theirs and ours.
type pipes struct{ theirs, ours []*os.File }

func openPipes() (*pipes, error) {
	p := &pipes{}
	for range 2 {
		ours, theirs, err := os.Pipe()
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
			return nil, fmt.Errorf("open pipe: %w", err)
		}
		p.theirs, p.ours = append(p.theirs, theirs), append(p.ours, ours)
	}
	return p, nil
}

func (p *pipes) closeTheirs() { closeAll(p.theirs) }
func (p *pipes) closeOurs()   { closeAll(p.ours) }

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
