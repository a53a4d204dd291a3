package hooks

import (
	"context"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/internal/run"
)

// CauseTest is the cause of an event that Try has made up.
const CauseTest = "test"

// Try runs the hook of ev once, outside of any leadership and without an agent: with
// the bounds, the environment and the input that it would have, its output going to
// stdout and stderr as it comes. Nothing is kept. ctx ends it early.
func Try(ctx context.Context, cfg Config, ev Event, stdout, stderr io.Writer) (Result, error) {
	if err := cfg.validate(); err != nil {
		return Result{}, err
	}
	cfg = cfg.withDefaults()
	ev.Cause = CauseTest
	res := Result{Kind: ev.Kind, Cause: ev.Cause, Exit: -1}
	runtime.LockOSThread() // see run.Start
	defer runtime.UnlockOSThread()
	l := newLeash(cfg.Timeout, cfg.Grace)
	stop := context.AfterFunc(ctx, func() { l.pull(errStopping, time.Time{}) })
	defer stop()
	if res.Err = Check(cfg.Commands[ev.Kind]); res.Err == nil {
		res.try(cfg, ev, l, stdout, stderr)
	}
	res.OK = res.Err == nil
	return res, nil
}

// try does Try's work once the command is known to be fit to run.
func (res *Result) try(cfg Config, ev Event, l *leash, stdout, stderr io.Writer) {
	out := run.Silent()
	var mu sync.Mutex // both may be one
	out.Copy = map[string]io.Writer{"stdout": inTurn(&mu, stdout), "stderr": inTurn(&mu, stderr)}
	about := circumstances{attempt: 1, timeout: cfg.Timeout, socket: cfg.Socket}
	p, err := run.Start(cfg.Commands[ev.Kind].argv(), environ(ev, about, os.Getenv), payload(ev, about), out)
	if err != nil {
		res.Err = err
		return
	}
	res.Ran, res.Started = true, p.Begun
	res.ended(p.Conclude(l))
	p.Drain()
}

// inTurn lets one writer write at a time.
func inTurn(mu *sync.Mutex, w io.Writer) io.Writer {
	return run.WriterFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return w.Write(p)
	})
}
