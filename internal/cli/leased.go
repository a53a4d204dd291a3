package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/holder"
)

// Exit codes of exec and hold besides the command's own (timeout(1) and env(1)
// have the last three).
const (
	exitLost          = 124 // exec ended the command, because the right to run it had ended
	exitFailure       = 125 // our own
	exitNotExecutable = holder.CodeNotExecutable
	exitNotFound      = holder.CodeNotFound
	exitSignal        = holder.CodeSignal
)

// defaultGrace is between TERM and KILL (docs/hooks.md).
const defaultGrace = 5 * time.Second

// leased runs a command on the strength of the lease, by a holder: whatever
// happens to the agent or to this process, the command is dead when the lease
// has ended.
type leased struct {
	*call
	client  *control.Client
	words   []string // the command
	grace   time.Duration
	signals <-chan os.Signal
	// patience is for the agent's answer.
	patience time.Duration
	// isEndedBy says which signals are for this program: the command is then ended
	// within the grace. All others are the command's affair.
	isEndedBy func(os.Signal) bool
}

// reason is why a command has ended.
type reason string

const (
	ofItself reason = "" // what holders say, too
	lost     reason = "leadership lost"
	silent   reason = "lease not renewed"
	agentOff reason = "agent gone"
	asked    reason = "asked to end"
)

// fate is how a run of the command ended.
type fate struct {
	why    reason
	code   int    // exit code, or exitSignal and the signal
	cause  string // of the loss, in the agent's word
	err    error  // the agent's, if it is gone
	lasted time.Duration

	isAsked bool // a signal told this program to end, whatever had ended the command
}

// newLeased takes the command and the options that exec and hold share.
func newLeased(c *call) (*leased, error) {
	if c.NArg() == 0 {
		return nil, usage("see "+c.path+" --help", "the command is missing: expected %s [flags] -- COMMAND [ARGUMENT...]", c.path)
	}
	t := &leased{call: c, client: c.client(), words: c.Args().Slice(), grace: defaultGrace, patience: control.AnswerPatience}
	if c.IsSet("grace") {
		var err error
		if t.grace, err = c.duration("grace"); err != nil {
			return nil, err
		}
	}
	if t.grace > longestHold {
		return nil, usage("", "--grace is %v: expected at most 24h", t.grace)
	}
	if _, err := t.argv(); err != nil && !mayComeLater(t.words[0]) {
		return nil, err
	}
	return t, nil
}

// mayComeLater reports whether a command that cannot be run now may be there once this
// node leads: its path ends in an empty directory, on which a become-leader hook may
// mount something. Any other one is a slip, which is said at once: a host that never
// leads would else not say it, and one that takes over in an emergency would.
func mayComeLater(command string) bool {
	dir := command
	for strings.Contains(dir, "/") {
		dir = filepath.Dir(dir)
		entries, err := os.ReadDir(dir)
		switch {
		case err == nil:
			return len(entries) == 0
		case errors.Is(err, fs.ErrPermission):
			return true // nobody knows
		case !errors.Is(err, fs.ErrNotExist):
			return false
		}
	}
	return false
}

var graceOption = option{name: "grace", value: "TIME", fallback: span(defaultGrace),
	usage: "between TERM and KILL, less where the lease ends before; a hand-over waits so long"}

// errOver is returned when there was no leadership any more to run the command in.
var errOver = errors.New("the leadership has ended")

// run runs the command until nothing of it is left, and closes the feed.
func (t *leased) run(feed *leaseFeed, lease control.Lease) (fate, error) {
	defer feed.close() // after the holder's end: if that is killed, the rest of the command is still to be ended
	status, err := t.client.Status(t.Context.Context)
	if err != nil {
		return fate{}, err
	}
	tenure, err := feed.handOn()
	if err != nil {
		return fate{}, err
	}
	if lease = feed.newest(lease); whyNotAct(lease) != "" {
		return fate{}, errOver
	}
	begun := time.Now()
	h, err := t.start(tenure, lease, status)
	if err != nil {
		return fate{}, err
	}
	w := leasedRun{leased: t, holder: h}
	watch, end := context.WithCancel(t.Context.Context)
	defer end()
	w.attend(t.watch(watch, lease.Epoch))
	w.fate.lasted = time.Since(begun)
	return w.fate, w.conclude()
}

// start starts a holder with the command, which follows the lease from here on.
func (t *leased) start(tenure *control.Tenure, lease control.Lease, status control.Status) (*holder.Holder, error) {
	argv, err := t.argv()
	if err != nil {
		return nil, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, &failure{code: exitFailure, err: fmt.Errorf("find the working directory: %w", err)}
	}
	cfg := holder.Config{Name: t.words[0], Epoch: hooks.Epoch(lease.Epoch), Lease: tenure, Cwd: cwd, Argv: activated(argv),
		Others: inherited(), Env: leaderEnviron(os.Environ(), lease, status, t.socketPath()),
		Terms: holder.Terms{Deadline: deadline(lease)}, Budget: max(remaining(lease)/4, time.Millisecond),
		Grace: max(t.grace, time.Millisecond), Records: holder.NoRecords}
	in, _ := t.in.(*os.File)
	out, _ := t.out.(*os.File)
	errs, _ := t.err.(*os.File)
	h := holder.New(cfg)
	if err := h.Start(keyboard(in), out, errs); err != nil {
		return nil, &failure{code: exitFailure, err: err}
	}
	return h, nil
}

// argv finds the command as a shell does. That is done again when it is to be started:
// a become-leader hook may have mounted where it lies.
func (t *leased) argv() ([]string, error) {
	path, err := exec.LookPath(t.words[0])
	if err == nil {
		return append([]string{path}, t.words[1:]...), nil
	}
	code := exitNotFound
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, exec.ErrDot) || errors.Is(err, unix.EISDIR) {
		code = exitNotExecutable
	}
	if e := (*exec.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	return nil, &failure{code: code, err: fmt.Errorf("cannot run %s: %w", t.words[0], err)}
}

// leasedRun is one run of the command.
type leasedRun struct {
	*leased
	holder commandHolder
	fate   fate
}

// commandHolder is what the holder of a run does: a *holder.Holder.
type commandHolder interface {
	Signal(sig syscall.Signal)
	Stop(cause string, within time.Duration)
	Kill(cause string)
	Done() <-chan struct{}
	Stuck() <-chan struct{}
	Report() holder.Report
}

// watchInterval is between two questions. Two of them and the time that a holder has beyond
// the grace are within the 3 s that a hand-over waits beyond it.
const watchInterval = 400 * time.Millisecond

// watch asks the agent now and then, and closes the channel when it has said twice that
// this leadership has ended. The holder has heard of it by then, unless it is stopped or hangs.
func (t *leased) watch(ctx context.Context, epoch control.Epoch) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		next := time.NewTicker(watchInterval)
		defer next.Stop()
		for denied := 0; denied < 2; {
			select {
			case <-next.C:
			case <-ctx.Done():
				return
			}
			l, err := t.client.Lease(ctx)
			if isOurs := l.Epoch == epoch && whyNotAct(l) == ""; err == nil && isOurs {
				denied = 0
			} else {
				denied++
			}
		}
		close(over)
	}()
	return over
}

// attend passes on signals until the holder has ended, which follows the lease itself. One
// that lives on when the leadership has ended is told so, and killed if it does not obey.
func (w *leasedRun) attend(over <-chan struct{}) {
	var late <-chan time.Time
	stuck := w.holder.Stuck()
	for {
		select {
		case <-stuck:
			w.note("%s; nothing starts beside it until it has ended", w.holder.Report().Stuck)
			stuck = nil
		case <-over:
			w.holder.Stop(string(holder.LeaseLost), 0)
			over = nil
		case sig := <-w.signals:
			switch {
			case !w.isEndedBy(sig):
			case late != nil: // a second one: now
				w.holder.Kill(string(asked))
			default:
				late = time.After(w.grace)
				w.fate.isAsked = true
				if w.holder.Report().Cause == "" { // else it is being ended already
					w.fate.why = asked
				}
			}
			w.holder.Signal(sig.(unix.Signal))
		case <-late:
			w.holder.Kill(string(asked))
		case <-w.holder.Done():
			return
		}
	}
}

// conclude takes the holder's report.
func (w *leasedRun) conclude() error {
	report := w.holder.Report()
	if report.Group == 0 && report.Cause == "" {
		return notStarted(w.words[0], report)
	}
	switch {
	case w.fate.why == asked:
	case report.Cause == holder.LeaseLost:
		w.fate.why, w.fate.cause = lost, report.Loss
	case report.Cause == holder.AgentDied && report.Silent:
		w.fate.why = silent
	case report.Cause == holder.AgentDied:
		w.fate.why, w.fate.err = agentOff, w.client.Gone()
	}
	w.fate.code = report.Code()
	if w.fate.code >= 0 {
		return nil
	}
	w.fate.code = exitFailure // nobody knows how it ended
	if w.fate.why == ofItself || w.fate.isAsked {
		return &failure{code: exitFailure, err: fmt.Errorf("holder of %s: %s", w.words[0], report.Err)}
	}
	return nil
}

func notStarted(name string, r holder.Report) error {
	code := r.Code()
	if code < 0 {
		code = exitFailure
	}
	why := r.Err
	if _, reason, isSaid := strings.Cut(why, " cannot be started: "); isSaid { // run.CannotStart, by the path that was found
		why = reason
	}
	return &failure{code: code, err: fmt.Errorf("cannot run %s: %s", name, why)}
}

// note tells whoever reads standard error what is done.
func (t *leased) note(format string, args ...any) {
	_, _ = fmt.Fprintf(t.err, "note: "+format+"\n", args...) // there is nobody else to tell
}

// outcome is the exit code of a command that ended of itself.
func (f fate) outcome() error {
	if f.code == 0 {
		return nil
	}
	return outcome(f.code)
}

// story says for people why the command was ended.
func (f fate) story(name string) string {
	switch f.why {
	case agentOff:
		return fmt.Sprintf("%s was ended: %v", name, f.err)
	case silent:
		return fmt.Sprintf("%s was ended: nobody renewed the lease: the agent, or the holder, was stopped or overloaded", name)
	}
	return fmt.Sprintf("%s was ended: this node does not lead any more, cause %s", name, cmp.Or(f.cause, "unknown"))
}
