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
)

// Try runs the hook of ev once, outside of any leadership and without an agent: with
// the bounds, the environment and the input that it would have, its output going to
// stdout and stderr as it comes. Nothing is kept. ctx ends it early.
func Try(ctx context.Context, cfg Config, ev hooks.Event, stdout, stderr io.Writer) (hooks.Result, error) {
	if err := hooks.CheckSocket(cfg.Socket); err != nil {
		return hooks.Result{}, err
	}
	cfg = cfg.withDefaults()
	ev.Cause = hooks.CauseTest
	runtime.LockOSThread() // see run.Start
	defer runtime.UnlockOSThread()
	out := run.Silent()
	var mu sync.Mutex // both may be one
	out.Copy = map[string]io.Writer{"stdout": inTurn(&mu, stdout), "stderr": inTurn(&mu, stderr)}
	about := hooks.Circumstances{Attempt: 1, Timeout: cfg.Timeout, Socket: cfg.Socket}
	leash := run.NewLeash(ending.Limit{Timeout: cfg.Timeout, Grace: cfg.Grace}, time.Now)
	defer context.AfterFunc(ctx, func() { leash.Pull(hooks.ErrStopping) })()
	p, end := run.Once(leash, cfg.Commands[ev.Kind], hooks.Environ(ev, about, os.Getenv), hooks.Payload(ev, about), out)
	res := hooks.Result{Kind: ev.Kind, Cause: ev.Cause, Exit: end.Exit, Err: end.Err, OK: end.Err == nil, Took: end.Took}
	if p != nil {
		res.Ran, res.Started = true, p.Begun
	}
	return res, nil
}

// inTurn lets one writer write at a time.
func inTurn(mu *sync.Mutex, w io.Writer) io.Writer {
	return run.WriterFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return w.Write(p)
	})
}
