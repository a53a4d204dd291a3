package jobrun

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/holder"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/sidecar"
	"github.com/bully-agent/bully-agent/internal/trust"
)

const (
	// ExitNotRun is a shell's code for what was found and could not be executed.
	ExitNotRun = holder.CodeNotExecutable

	// ExitKilled is Result.Exit of what was killed together with whoever ran it.
	ExitKilled = holder.CodeSignal + uint8(syscall.SIGKILL)

	// endSlack is how much later than its timeout and grace a holder ends a command
	// by itself: End comes first from an agent that is well. Others count the run
	// as lost a second after the grace at the earliest (internal/jobs/doc.go, J3).
	endSlack = 500 * time.Millisecond
)

// errNothing keeps a holder from being started that would hold nothing.
var errNothing = errors.New("the job has no command")

// attempt is one that goes on.
type attempt struct {
	Order
	seq    uint64
	holder *holder.Holder
	over   time.Time // what is not tied is dead then, on CLOCK_BOOTTIME; zero: it has no timeout
	lost   bool      // its leadership has ended: the next lease is not for it. The Runner's mu guards it
}

// newAttempt makes one by what holds now; the caller holds mu.
func (r *Runner) newAttempt(o Order) *attempt {
	a := &attempt{Order: o, seq: r.history.next()}
	env := hooks.Environ(o.Event, hooks.Circumstances{Seq: a.seq, Attempt: o.Attempt, Timeout: o.Timeout, Socket: r.cfg.Socket}, os.Getenv)
	slot := o.Slot.UTC().Format(time.RFC3339)
	env = append(env, "BULLY_JOB="+o.Job, "BULLY_JOB_SLOT="+slot, "BULLY_JOB_RUN_ID="+o.ID)
	cfg := holder.Config{Name: o.Job, Epoch: o.Event.Epoch, Argv: o.Command.Words(), Env: env, Budget: r.cfg.Budget, Grace: r.grace, Records: r.records()}
	if !o.Tied {
		cfg.Budget = r.grace
		if o.Timeout > 0 {
			a.over = sidecar.Now().Add(o.Timeout + r.grace + endSlack)
		}
	}
	cfg.Terms = a.terms(r.lease)
	a.holder = holder.New(cfg)
	return a
}

// terms are its holder's. What is not tied to the leadership has only to start within the
// lease, and is dead soon after its timeout, whatever keeps this process from ending it.
func (a *attempt) terms(lease time.Time) holder.Terms {
	if a.Tied {
		return holder.Terms{Deadline: lease}
	}
	return holder.Terms{StartBy: lease, Deadline: a.over}
}

func (a *attempt) renew(lease time.Time) { a.holder.Renew(a.terms(lease)) }

// attempt runs the command, and returns when nothing of it is left. The error
// says why it did not start.
func (r *Runner) attempt(a *attempt, out *run.Output, log hclog.Logger) (holder.Report, error) {
	if a.Command.IsZero() {
		return holder.Report{Exit: -1}, errNothing
	}
	if err := trust.Check(a.Command); err != nil {
		return holder.Report{Exit: -1, Errno: whyUnfit(a.Command)}, err
	}
	if err := a.holder.StartRead(out); err != nil {
		return holder.Report{Exit: -1}, err
	}
	log.Debug("job's holder started", "attempt", a.Attempt, "epoch", a.Event.Epoch.Counter)
	r.outlast(a.holder, log)
	if err := a.holder.Clear(); err != nil {
		log.Warn("job's record not removed", "err", err)
	}
	return a.holder.Report(), nil
}

// outlast waits until nothing of the command is left, also what KILL has not ended: the
// job's next run is not to start beside it. Only Close has nobody wait for that.
func (r *Runner) outlast(h *holder.Holder, log hclog.Logger) {
	select {
	case <-h.Done():
		return
	case <-h.Stuck():
		log.Error("job not ended: "+h.Report().Stuck, "group", h.Report().Group)
	}
	select {
	case <-h.Done():
	case <-r.ended:
	}
}

// What went wrong with a command that nobody here has ended, nor its own doing.
const (
	bySilence = "ended by its holder: this agent was silent until its lease was nearly over"
	byTimeout = "ended by its holder: this agent did not end it at its timeout"
)

// TimedOut is Result.Cause of a command that its holder has ended at its timeout.
// End may be given the same word.
const TimedOut = "timed-out"

// AgentDied is Result.Cause of a command that was ended since the agent was dead, or
// silent until its lease was nearly over. KeeperDied is that of one which died with the
// keeper.
const (
	AgentDied  = holder.AgentDied
	KeeperDied = "keeper-died"
)

// explain says why the holder has ended a command by itself.
func (a *attempt) explain(report *holder.Report) {
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
func isLate(report holder.Report, err error) bool {
	return err == nil && report.Group == 0 && report.Cause == holder.AgentDied
}

// outcome is what a shell would make of the end, and what went wrong besides.
func outcome(report holder.Report, err error) (exit uint8, why string) {
	if err != nil {
		report.Err = oneLine(err)
	}
	switch code := report.Code(); {
	case code >= 0:
		return uint8(code), report.Err
	case report.Group == 0:
		return ExitNotRun, report.Err
	}
	return ExitKilled, report.Err // its holder was killed and could not tell
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
