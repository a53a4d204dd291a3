package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/trust"
)

// What the local API tells and does about hooks.

// kinds are the events in the order in which people are shown them.
var kinds = []hooks.Kind{hooks.BecomeLeader, hooks.LoseLeadership, hooks.LeaderChange, hooks.MemberChange}

// Hooks implements control.HookBackend.
func (a *agent) Hooks() ([]control.HookSetting, error) {
	runs, err := a.runner.Runs(0)
	if err != nil {
		return nil, err
	}
	cfg := a.commands.Load()
	out := make([]control.HookSetting, len(kinds))
	for i, kind := range kinds {
		cmd := cfg.Commands[kind]
		out[i] = control.HookSetting{Event: string(kind), Shell: cmd.Shell, Argv: cmd.Argv, Running: a.runner.IsRunning(kind)}
		if a.cfg.Apart == nil { // else the keeper sees it, with other eyes than this user's
			if err := trust.Check(cmd); err != nil {
				out[i].Problem = err.Error()
			}
		}
		for _, run := range slices.Backward(runs) {
			if run.Hook == kind {
				last := controlRun(run)
				out[i].Last = &last
				break
			}
		}
	}
	return out, nil
}

// HookRuns implements control.HookBackend.
func (a *agent) HookRuns() ([]control.HookRun, error) { return a.RunsAfter(0) }

// RunsAfter implements metrics.Source.
func (a *agent) RunsAfter(seq uint64) ([]control.HookRun, error) {
	runs, err := a.runner.Runs(seq)
	out := make([]control.HookRun, len(runs))
	for i, run := range runs {
		out[i] = controlRun(run)
	}
	return out, err
}

// HookRun implements control.HookBackend.
func (a *agent) HookRun(seq uint64) (control.HookRun, error) {
	run, output, err := a.runner.Output(seq)
	if errors.Is(err, fs.ErrNotExist) {
		return control.HookRun{}, &control.APIError{Status: http.StatusNotFound, Code: "unknown_run",
			Message: fmt.Sprintf("run %d is not in the ledger", seq), Hint: "see hooks log for those that are kept"}
	}
	if err != nil {
		return control.HookRun{}, err
	}
	out := controlRun(run)
	out.Output = string(output)
	return out, nil
}

func controlRun(r hooks.Run) control.HookRun {
	return control.HookRun{Seq: r.Seq, Event: string(r.Hook), Cause: r.Cause, Epoch: r.Epoch, Attempt: r.Attempt, Started: r.Started,
		TookMS: r.TookMS, Exit: r.Exit, OK: r.OK, Error: r.Err, Printed: r.Printed}
}

// RunHook implements control.HookBackend: it runs the hook of the present state once
// more. The hook goes on if the caller goes away.
func (a *agent) RunHook(ctx context.Context, event string) (control.HookRun, error) {
	kind := hooks.Kind(event)
	if !slices.Contains(kinds, kind) {
		return control.HookRun{}, badOrder("there is no event %q: expected become-leader, lose-leadership, leader-change or member-change", event)
	}
	type outcome struct {
		hooks.Result
		refused error
	}
	came := make(chan outcome, 1)
	got, err := await(ctx, a, func() {
		if a.commands.Load().Commands[kind].IsZero() {
			came <- outcome{refused: refusedHook("see hooks list", "no %s hook is configured", kind)}
		} else if err := a.seat.requestHook(kind, func(r hooks.Result) { came <- outcome{Result: r} }); err != nil {
			came <- outcome{refused: err}
		}
	}, came)
	if err = cmp.Or(err, got.refused); err != nil {
		return control.HookRun{}, err
	}
	return a.ranHook(ctx, got.Result), nil
}

func refusedHook(hint, format string, args ...any) error {
	return &control.APIError{Status: http.StatusConflict, Code: "refused", Message: fmt.Sprintf(format, args...), Hint: hint}
}

// A run that was requested comes to the ledger within outputPatience, unless its disk hangs; that is looked at every outputPause. Both
// arbitrary: a child that has escaped keeps the output open for a fifth of a second.
const (
	outputPatience = 2 * time.Second
	outputPause    = 5 * time.Millisecond
)

// ranHook tells of a run that was requested, with its output once that is in the ledger.
func (a *agent) ranHook(ctx context.Context, r hooks.Result) control.HookRun {
	ctx, cancel := context.WithTimeout(ctx, outputPatience)
	defer cancel()
	for ; r.Seq > 0 && ctx.Err() == nil; time.Sleep(outputPause) {
		if run, err := a.HookRun(r.Seq); err == nil {
			return run
		}
	}
	run := control.HookRun{Seq: r.Seq, Event: string(r.Kind), Cause: r.Cause, Epoch: r.Epoch, Attempt: r.Attempts,
		Started: r.Started, TookMS: float64(r.Took.Microseconds()) / 1000, Exit: r.Exit, OK: r.OK}
	if r.Err != nil {
		run.Error = r.Err.Error()
	}
	return run
}
