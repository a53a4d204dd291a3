package hooks

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
)

// One run of one hook: check, start, supervise, collect. It is the same for both
// queues and for CleanUp; lane says which of them it belongs to, since each has at
// most one process group at a time.

type lane string

const (
	leadership   lane = "leadership"
	notification lane = "notification"
)

// execute runs the hook of ev and returns when nothing of its group is left. It
// blocks its caller for as long as the leash allows; ctx ends it early.
func (r *Runner) execute(ctx context.Context, cfg Config, ln lane, ev Event, l *leash) Result {
	res := Result{Kind: ev.Kind, Epoch: ev.Epoch.Counter, Exit: -1}
	cmd := cfg.Commands[ev.Kind]
	if cmd.IsZero() {
		res.OK = true
		return res
	}
	log := cfg.Logger.With("hook", string(ev.Kind), "epoch", ev.Epoch.Counter)
	stop := context.AfterFunc(ctx, func() { l.pull(errStopping, time.Time{}) })
	defer stop()
	if ctx.Err() != nil {
		res.Err = errStopping
	} else {
		res.Err = Check(cmd)
	}
	if res.Err == nil {
		r.run(cfg, ln, ev, l, log, &res)
	}
	res.OK = res.Err == nil
	logEnd(log, cmd, res)
	return res
}

// run does execute's work once the command is known to be fit to run.
func (r *Runner) run(cfg Config, ln lane, ev Event, l *leash, log hclog.Logger, res *Result) {
	about := circumstances{seq: r.seq.Add(1), attempt: 1, socket: cfg.Socket}
	now := time.Now()
	about.timeout = l.termBy(now).Sub(now)
	log.Info("hook started", "cause", ev.Cause, "seq", about.seq, "timeout", about.timeout.Round(time.Millisecond))
	out := newOutput(log)
	p, err := start(cfg.Commands[ev.Kind].argv(), environ(ev, about, os.Getenv), payload(ev, about), out)
	if err != nil {
		res.Err = err
		return
	}
	r.journal.record(ln, newEntry(p.group, about.seq, ev))
	res.Ran, res.Started = true, p.begun
	res.Err = p.supervise(l)
	var failure error
	if res.Exit, failure = p.reap(); failure == nil && res.Exit > 0 {
		failure = exitError(res.Exit)
	}
	if res.Err == nil {
		res.Err = failure
	}
	res.Took = time.Since(p.begun)
	r.journal.clear(ln)
	ended := *res
	r.collect(p, func() {
		r.ledger.keep(about.seq, ev, ended, out)
		if n := out.allowed.dropped(); n > 0 {
			log.Warn("hook output dropped from the log", "lines", n)
		}
	})
}

// collect waits for the end of the output, which follows the end of the group at
// once unless an escaped child holds a pipe: that is waited for in the background,
// since the next hook may be in a hurry.
func (r *Runner) collect(p *process, then func()) {
	done := make(chan struct{})
	r.aftermath.Go(func() {
		defer close(done)
		p.drain()
		then()
	})
	within(done, drainFirst)
}

func logEnd(log hclog.Logger, cmd Command, res Result) {
	if res.Err != nil {
		log.Error("hook failed", "err", res.Err, "took", res.Took.Round(time.Millisecond), "command", oneLine(cmd.String()))
		return
	}
	log.Info("hook ended", "took", res.Took.Round(time.Millisecond))
}

// output takes what one run prints: the tail is kept, the lines are logged as
// far as the allowance goes.
type output struct {
	tail    tail
	allowed *allowance
	log     hclog.Logger
}

func newOutput(log hclog.Logger) *output {
	return &output{allowed: newAllowance(time.Now()), log: log}
}

// read takes one stream to its end, or until its deadline is set.
func (o *output) read(f *os.File, stream string) {
	defer f.Close()
	now := time.Now() // asked once a read: a flood is of many short lines
	split := lines{
		admit: func() bool { return o.allowed.take(now) },
		emit:  func(line string) { o.log.Info("hook printed", "stream", stream, "line", line) },
	}
	_, _ = io.Copy(writerFunc(func(p []byte) (int, error) {
		now = time.Now()
		o.tail.write(p)
		split.write(p)
		return len(p), nil
	}), f)
	split.flush()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
