package hookrun

import (
	"context"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/trust"
)

// Try runs the hook of ev once, outside of any leadership and without an agent: with
// the bounds, the environment and the input that it would have, its output going to
// stdout and stderr as it comes. Nothing is kept. ctx ends it early.
func Try(ctx context.Context, cfg Config, ev hooks.Event, stdout, stderr io.Writer) (hooks.Result, error) {
	if err := cfg.validate(); err != nil {
		return hooks.Result{}, err
	}
	cfg = cfg.withDefaults()
	ev.Cause = hooks.CauseTest
	res := hooks.Result{Kind: ev.Kind, Cause: ev.Cause, Exit: -1}
	runtime.LockOSThread() // see run.Start
	defer runtime.UnlockOSThread()
	l := run.NewLeash(ending.Limit{Timeout: cfg.Timeout, Grace: cfg.Grace}, time.Now)
	stop := context.AfterFunc(ctx, func() { l.Pull(hooks.ErrStopping) })
	defer stop()
	if res.Err = trust.Check(cfg.Commands[ev.Kind]); res.Err == nil {
		try(&res, cfg, ev, l, stdout, stderr)
	}
	res.OK = res.Err == nil
	return res, nil
}

// try does Try's work once the command is known to be fit to run.
func try(res *hooks.Result, cfg Config, ev hooks.Event, l *run.Leash, stdout, stderr io.Writer) {
	out := run.Silent()
	var mu sync.Mutex // both may be one
	out.Copy = map[string]io.Writer{"stdout": inTurn(&mu, stdout), "stderr": inTurn(&mu, stderr)}
	about := hooks.Circumstances{Attempt: 1, Timeout: cfg.Timeout, Socket: cfg.Socket}
	p, err := run.Start(cfg.Commands[ev.Kind].Words(), hooks.Environ(ev, about, os.Getenv), hooks.Payload(ev, about), out)
	if err != nil {
		res.Err = err
		return
	}
	res.Ran, res.Started = true, p.Begun
	end := p.Conclude(l)
	res.Err, res.Exit, res.Took = end.Err, end.Exit, end.Took
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
