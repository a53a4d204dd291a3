package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
)

// What the local API tells and does about hooks.

func controlHook(r hooks.Result, owner string) *control.Hook {
	h := &control.Hook{Event: string(r.Kind), Epoch: control.Epoch{Counter: r.Epoch, Owner: owner}, OK: r.OK, Exit: r.Exit,
		Attempts: r.Attempts, ByGuard: r.ByGuard, TookMS: float64(r.Took.Microseconds()) / 1000, Time: wallClock()}
	if r.Err != nil {
		h.Error = r.Err.Error()
	}
	return h
}

// kinds are the events in the order in which people are shown them.
var kinds = []hooks.Kind{hooks.BecomeLeader, hooks.LoseLeadership, hooks.LeaderChange, hooks.MemberChange}

// Hooks implements control.HookBackend.
func (a *agent) Hooks() ([]control.HookSetting, error) {
	runs, err := a.runner.Runs()
	if err != nil {
		return nil, err
	}
	cfg := a.commands.Load()
	out := make([]control.HookSetting, len(kinds))
	for i, kind := range kinds {
		cmd := cfg.Commands[kind]
		out[i] = control.HookSetting{Event: string(kind), Shell: cmd.Shell, Argv: cmd.Argv, Running: a.runner.IsRunning(kind)}
		if err := hooks.Check(cmd); err != nil {
			out[i].Problem = err.Error()
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
func (a *agent) HookRuns() ([]control.HookRun, error) {
	runs, err := a.runner.Runs()
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

// causeRequested is the cause of a hook that the operator has run again.
const causeRequested = "requested"

// RunHook implements control.HookBackend: it runs the hook of the present state once
// more. The hook goes on if the caller goes away.
func (a *agent) RunHook(ctx context.Context, event string) (control.HookRun, error) {
	kind := hooks.Kind(event)
	if !slices.Contains(kinds, kind) {
		return control.HookRun{}, badOrder("there is no event %q: expected become-leader, lose-leadership, leader-change or member-change", event)
	}
	ended := make(chan hooks.Result, 1)
	var refused error
	if !a.call(ctx.Done(), func() { refused = a.requestHook(kind, func(r hooks.Result) { ended <- r }) }) {
		return control.HookRun{}, errGone
	}
	if refused != nil {
		return control.HookRun{}, refused
	}
	select {
	case r := <-ended:
		return a.ranHook(r)
	case <-ctx.Done():
		return control.HookRun{}, errGone
	}
}

// requestHook queues the hook, unless that would break (become lose)*.
func (a *agent) requestHook(kind hooks.Kind, ended func(hooks.Result)) error {
	s := a.node.Status()
	refused := func(hint, format string, args ...any) error {
		return &control.APIError{Status: http.StatusConflict, Code: "refused", Message: fmt.Sprintf(format, args...), Hint: hint}
	}
	ev := a.hookEvent(kind, causeRequested)
	switch {
	case a.commands.Load().Commands[kind].IsZero():
		return refused("see hooks list", "no %s hook is configured", kind)
	case a.runner.IsRunning(kind):
		return refused("wait for its end; see hooks list", "the %s hook runs already", kind)
	case kind == hooks.BecomeLeader && s.State != election.Lead:
		return refused(a.whereToAsk(), "this host does not lead: a become-leader hook without leadership would never be undone")
	case kind == hooks.BecomeLeader:
		ev = a.again(kind, causeRequested, ev.Epoch, 0)
	case kind == hooks.LoseLeadership && (s.State == election.Lead || s.State == election.Stopping || s.State == election.Claiming):
		return refused("step-down runs it in order", "this host leads, or is about to: the lose-leadership hook would run under a leadership that goes on")
	case kind == hooks.LoseLeadership:
		epoch, ok := a.lastReign()
		if !ok {
			return refused("hooks test runs it with a made-up event", "this host has not led yet, so that there is nothing to lose")
		}
		ev = a.again(kind, causeRequested, epoch, 0)
	}
	ev.Ended = ended
	a.runner.Start(ev)
	return nil
}

// lastReign is the epoch of this host's last leadership.
func (a *agent) lastReign() (hooks.Epoch, bool) {
	for _, past := range slices.Backward(a.history.all()) {
		if past.Self {
			return hooks.Epoch(past.Epoch), true
		}
	}
	return hooks.Epoch{}, false
}

// ranHook tells of a run that was requested.
func (a *agent) ranHook(r hooks.Result) (control.HookRun, error) {
	if r.Seq > 0 {
		if run, err := a.HookRun(r.Seq); err == nil {
			return run, nil
		}
	}
	run := control.HookRun{Seq: r.Seq, Event: string(r.Kind), Cause: r.Cause, Epoch: r.Epoch, Attempt: r.Attempts,
		Started: r.Started, TookMS: float64(r.Took.Microseconds()) / 1000, Exit: r.Exit, OK: r.OK}
	if r.Err != nil {
		run.Error = r.Err.Error()
	}
	return run, nil
}
