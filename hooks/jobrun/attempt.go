package jobrun

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/guard"
)

const (
	exitNotRun   = 126 // a shell's code for what was found and could not be executed
	exitNotFound = 127
	exitSignal   = 128 // and the signal's number

	// drainGrace is how long output is awaited when the command is gone. Only a
	// process that escaped its guard can hold the pipe by then. Arbitrary.
	drainGrace = 100 * time.Millisecond
)

// errNothing keeps a guard from being started that would watch over nothing.
var errNothing = errors.New("the job has no command")

// errOver is the end of an attempt that was told to end before it had begun.
var errOver = errors.New("told to end before it was started")

// attempt runs the command, and returns when nothing of it is left. The error
// says why it did not start.
func (r *Runner) attempt(run *run, seq uint64, out *hooks.Output, log hclog.Logger) (guard.Report, error) {
	if run.Command.IsZero() {
		return guard.Report{}, errNothing
	}
	if err := hooks.Check(run.Command); err != nil {
		return guard.Report{}, err
	}
	pipes, err := openPipes()
	if err != nil {
		return guard.Report{}, err
	}
	g, err := r.start(run, seq, pipes)
	pipes.closeTheirs()
	if err != nil {
		pipes.closeOurs()
		return guard.Report{}, err
	}
	log.Debug("job's guard started", "attempt", run.Attempt, "epoch", run.Event.Epoch.Counter)
	var streams sync.WaitGroup
	streams.Go(func() { out.Read(pipes.ours[0], "stdout") })
	streams.Go(func() { out.Read(pipes.ours[1], "stderr") })
	<-g.Done()
	deadline := time.Now().Add(drainGrace)
	for _, f := range pipes.ours {
		_ = f.SetReadDeadline(deadline) // fails if it was read to its end
	}
	streams.Wait()
	report := g.Report()
	if err := g.Forget(); err != nil {
		log.Warn("job's record not removed", "err", err)
	}
	return report, nil
}

// start starts the guard and tells it what was said meanwhile.
func (r *Runner) start(run *run, seq uint64, p *pipes) (*guard.Guard, error) {
	r.mu.Lock()
	deadline, grace, over := r.lease, r.grace, run.stop != nil
	r.mu.Unlock()
	switch {
	case over:
		return nil, errOver
	case !run.Tied:
		deadline = time.Time{}
	}
	env := hooks.Environ(run.Event, seq, run.Attempt, run.Timeout, r.cfg.Socket)
	slot := run.Slot.UTC().Format(time.RFC3339)
	env = append(env, "BULLY_JOB="+run.Job, "BULLY_JOB_SLOT="+slot, "BULLY_JOB_RUN_ID="+run.ID)
	g, err := guard.Start(guard.Config{Name: run.Job, Epoch: run.Event.Epoch, Argv: run.Command.Words(), Env: env,
		Stdout: p.theirs[0], Stderr: p.theirs[1], Deadline: deadline, Clock: r.cfg.Clock, Budget: r.cfg.Budget, Grace: grace,
		Records: r.records(), Program: r.cfg.Program})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	run.guard = g
	if run.Tied && !run.lost && r.lease != deadline {
		g.Renew(r.lease)
	}
	if s := run.stop; s != nil {
		g.Stop(s.cause, r.within(*s))
	}
	return g, nil
}

// bySilence is what went wrong with a command that nobody here has ended, nor its
// own doing.
const bySilence = "ended by its guard: this agent was silent until its lease was nearly over"

// outcome is what a shell would make of the end, and what went wrong besides.
func outcome(report guard.Report, err error) (exit uint8, why string) {
	if report.Cause == guard.AgentDied && report.Err == "" {
		report.Err = bySilence
	}
	switch {
	case err != nil:
		return exitNotRun, strings.ReplaceAll(err.Error(), "\n", "; ")
	case report.Errno == int(syscall.ENOENT):
		return exitNotFound, report.Err
	case report.Group == 0:
		return exitNotRun, report.Err
	case report.Signal != 0:
		return uint8(exitSignal + report.Signal), report.Err
	case report.Exit < 0: // its guard was killed and could not tell
		return exitSignal + uint8(syscall.SIGKILL), report.Err
	}
	return uint8(report.Exit), report.Err
}

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
