package hooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/run"
)

// One run of one hook: check, start, supervise, collect. It is the same for both
// queues and for CleanUp; lane says which of them it belongs to, since each has at
// most one process group at a time.

type lane string

const (
	leadership   lane = "leadership"
	notification lane = "notification"
)

// stuckLane is where the journal has a hook of the leadership that KILL has not ended.
func stuckLane(kind Kind) lane { return lane("stuck-" + string(kind)) }

// execute runs the hook of ev once and returns when nothing of its group is left.
// It blocks its caller for as long as the leash allows.
func (r *Runner) execute(cfg Config, ln lane, ev Event, l *leash) Result {
	res := Result{Kind: ev.Kind, Epoch: ev.Epoch.Counter, Cause: ev.Cause, Exit: -1}
	if ln == leadership {
		r.endLeft(l.ahead(cfg.Grace))
	}
	cmd := cfg.Commands[ev.Kind]
	if cmd.IsZero() {
		res.OK = true
		return res
	}
	log := cfg.Logger.With("hook", string(ev.Kind), "epoch", ev.Epoch.Counter)
	if res.Err = l.pulled(); res.Err == nil {
		res.Err = Check(cmd)
	}
	if res.Err == nil && ln == leadership {
		res.Err = r.hangs(ev.Kind)
	}
	if res.Err == nil {
		res.Err = ev.barred() // last: the disk, a pause or a stopped process may have taken long
	}
	if res.Err == nil {
		r.begin(cfg, ln, ev, l, log, &res)
	}
	res.OK = res.Err == nil
	res.IsCut = !res.OK && (l.pulled() != nil || errors.Is(res.Err, errHangs) || errors.Is(res.Err, run.ErrTimedOut) && l.hurries())
	logEnd(log, cmd, res)
	return res
}

// begin does execute's work once the command is known to be fit to run.
func (r *Runner) begin(cfg Config, ln lane, ev Event, l *leash, log hclog.Logger, res *Result) {
	about := circumstances{seq: r.seq.Add(1), attempt: ev.Attempt + 1, socket: cfg.Socket}
	now := time.Now()
	about.timeout = l.TermBy(now).Sub(now)
	log.Info("hook started", "cause", ev.Cause, "seq", about.seq, "attempt", about.attempt, "timeout", about.timeout.Round(time.Millisecond))
	out := run.NewOutput(log, "hook printed")
	p, err := run.Start(cfg.Commands[ev.Kind].argv(), environ(ev, about, os.Getenv), payload(ev, about), out)
	if err != nil {
		res.Err = err
		return
	}
	e := newEntry(p.Group, about.seq, ev)
	r.journal.record(ln, e)
	if ev.Kind == BecomeLeader {
		r.leaves = e
	}
	res.Ran, res.Started, res.Seq = true, p.Begun, about.seq
	end := p.Conclude(l)
	res.ended(end)
	r.journal.clear(ln)
	if end.IsStuck && ln == leadership {
		r.noteStuck(e)
	}
	if len(p.Ended) > 0 {
		log.Warn("what the hook left in the background was ended with it", "processes", strings.Join(p.Ended, ", "))
	}
	ended := *res
	res.filed = r.collect(p, func() {
		r.ledger.keep(about.seq, ev, ended, out)
		if n := out.Dropped(); n > 0 {
			log.Warn("hook output dropped from the log", "lines", n)
		}
	})
}

// endLeft ends what the last become-leader hook has left running in groups of its own, by
// TERM, grace and KILL, before another hook of the leadership starts: what announces an
// address must not do so once that is being released. The hook's own group is gone already.
func (r *Runner) endLeft(grace time.Duration) {
	if r.leaves.Hook == "" {
		return
	}
	left := groupsOf(r.leaves)
	for _, e := range left {
		r.logger().Debug("what the hook has left is ended", "hook", string(e.Hook), "epoch", e.Epoch, "group", e.Group)
	}
	endAll(context.Background(), grace, left)
	r.leaves = entry{}
}

// errHangs is wrapped by the end of a hook that was not started beside another.
var errHangs = errors.New("nothing is started beside it")

// noteStuck remembers a hook of the leadership that has had KILL and lives on.
func (r *Runner) noteStuck(e entry) {
	r.stuck[e.Hook] = e
	r.journal.record(stuckLane(e.Hook), e)
}

// hangs says that a hook of the leadership has had KILL and lives on. When its disk answers
// it may do or undo what is done beside it now. So neither the next leadership begins, nor
// the same hook once more; the lose-leadership hook after a become-leader hook that hangs
// is run, since others lead by then.
func (r *Runner) hangs(next Kind) error {
	for kind, e := range r.stuck {
		switch {
		case !e.alive():
			delete(r.stuck, kind)
			r.journal.clear(stuckLane(kind))
		case next == BecomeLeader || next == kind:
			return fmt.Errorf("of the %s hook of epoch %d %s: %w", kind, e.Epoch, run.Stuck(run.Living(e.Group)), errHangs)
		}
	}
	return nil
}

// ended takes over how the command ended.
func (res *Result) ended(end run.End) { res.Err, res.Exit, res.Took = end.Err, end.Exit, end.Took }

// drainFirst is how long the next hook waits for the end of the output. Arbitrary.
const drainFirst = 10 * time.Millisecond

// collect waits for the end of the output, which follows the end of the group at
// once unless an escaped child holds a pipe: that is waited for in the background,
// since the next hook may be in a hurry. What it gives is closed after then.
func (r *Runner) collect(p *run.Process, then func()) <-chan struct{} {
	done := make(chan struct{})
	r.aftermath.Go(func() {
		defer close(done)
		p.Drain()
		then()
	})
	run.Within(done, drainFirst)
	return done
}

func logEnd(log hclog.Logger, cmd Command, res Result) {
	if res.Err != nil {
		log.Error("hook failed", "err", res.Err, "took", res.Took.Round(time.Millisecond), "command", oneLine(cmd.String()))
		return
	}
	log.Info("hook ended", "took", res.Took.Round(time.Millisecond))
}
