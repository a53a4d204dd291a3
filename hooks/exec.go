package hooks

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
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
	if res.Err == nil {
		res.Err = ev.barred() // last: the disk, a pause or a stopped process may have taken long
	}
	if res.Err == nil {
		r.run(cfg, ln, ev, l, log, &res)
	}
	res.OK = res.Err == nil
	res.IsCut = !res.OK && (l.pulled() != nil || errors.Is(res.Err, errTimedOut) && l.hurries())
	logEnd(log, cmd, res)
	return res
}

// run does execute's work once the command is known to be fit to run.
func (r *Runner) run(cfg Config, ln lane, ev Event, l *leash, log hclog.Logger, res *Result) {
	about := circumstances{seq: r.seq.Add(1), attempt: ev.Attempt + 1, socket: cfg.Socket}
	now := time.Now()
	about.timeout = l.termBy(now).Sub(now)
	log.Info("hook started", "cause", ev.Cause, "seq", about.seq, "attempt", about.attempt, "timeout", about.timeout.Round(time.Millisecond))
	out := newOutput(log)
	p, err := start(cfg.Commands[ev.Kind].argv(), environ(ev, about, os.Getenv), payload(ev, about), out)
	if err != nil {
		res.Err = err
		return
	}
	e := newEntry(p.group, about.seq, ev)
	r.journal.record(ln, e)
	if ev.Kind == BecomeLeader {
		r.leaves = e
	}
	res.Ran, res.Started, res.Seq = true, p.begun, about.seq
	p.conclude(l, res)
	r.journal.clear(ln)
	if len(p.ended) > 0 {
		log.Warn("what the hook left in the background was ended with it", "processes", strings.Join(p.ended, ", "))
	}
	ended := *res
	res.filed = r.collect(p, func() {
		r.ledger.keep(about.seq, ev, ended, out)
		if n := out.allowed.dropped(); n > 0 {
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

// conclude waits for the hook's end and says how it was.
func (p *process) conclude(l *leash, res *Result) {
	res.Err = p.supervise(l)
	var failure error
	if res.Exit, failure = p.reap(); failure == nil && res.Exit > 0 {
		failure = exitError(res.Exit)
	}
	if res.Err == nil {
		res.Err = failure
	}
	res.Took = time.Since(p.begun)
}

// collect waits for the end of the output, which follows the end of the group at
// once unless an escaped child holds a pipe: that is waited for in the background,
// since the next hook may be in a hurry. What it gives is closed after then.
func (r *Runner) collect(p *process, then func()) <-chan struct{} {
	done := make(chan struct{})
	r.aftermath.Go(func() {
		defer close(done)
		p.drain()
		then()
	})
	within(done, drainFirst)
	return done
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
	said    string               // the message of its lines in the log
	also    map[string]io.Writer // by stream: who gets what is printed as it is; nil: nobody
}

func newOutput(log hclog.Logger) *output {
	return &output{allowed: newAllowance(time.Now()), log: log, said: "hook printed"}
}

// read takes one stream to its end, or until its deadline is set.
func (o *output) read(f *os.File, stream string) {
	defer f.Close()
	now := time.Now() // asked once a read: a flood is of many short lines
	split := lines{
		admit:  func() bool { return o.allowed.take(now) },
		refuse: o.allowed.refuse,
		emit:   func(line string) { o.log.Info(o.said, "stream", stream, "line", line) },
	}
	var pace pace
	read := struct{ io.Reader }{f} // with this buffer, and not as the file likes
	_, _ = io.CopyBuffer(writerFunc(func(p []byte) (int, error) {
		now = time.Now()
		if also := o.also[stream]; also != nil {
			_, _ = also.Write(p) // a reader that went away does not concern the hook
		}
		o.tail.write(p)
		split.write(p)
		time.Sleep(pace.after(len(p), time.Now()))
		return len(p), nil
	}), read, make([]byte, pipeSize))
	split.flush()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
