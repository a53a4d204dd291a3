package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

const (
	// hookHold keeps a host whose become-leader hook failed from standing again
	// (README, Hooks).
	hookHold = 60 * time.Second

	// A leadership hook that failed for good is tried again after redoFirst, then
	// after twice as long each time, at most redoMost. Arbitrary: soon enough for
	// a service that comes up late, seldom enough for a log.
	redoFirst = 5 * time.Second
	redoMost  = time.Minute
)

// redo is the leadership hook that failed and must not be left at that: the
// become-leader of a leader that nobody can follow, or the lose-leadership of a
// leadership that is over.
type redo struct {
	kind  hooks.Kind // "": there is none
	epoch hooks.Epoch
	cause string // of the event
	tries int    // attempts so far
	pause time.Duration
	at    time.Time // of the next attempt; zero: one is under way
	err   error     // why the last one failed
}

// judgeHook draws the conclusions from the end of a leadership hook, once the node
// knows of it.
func (a *agent) judgeHook(r hooks.Result) {
	status := a.node.Status()
	leads := status.State == election.Lead && status.Epoch.Counter == r.Epoch
	switch {
	case r.Kind == hooks.BecomeLeader && leads && !r.OK:
		a.onBecomeFailed(r)
	case r.Kind == hooks.LoseLeadership && leads && r.ByGuard:
		a.log.Error("this agent was frozen past its lease, and its guard has run the lose-leadership hook", "epoch", r.Epoch)
		a.command(election.Command{Verb: election.Abdicate, Cause: election.AgentFrozen}, func(error) {})
	case r.Kind == hooks.LoseLeadership && !r.OK && !leads:
		a.onLoseFailed(r)
	case r.Kind == a.redo.kind && r.Epoch == a.redo.epoch.Counter:
		a.redo = redo{} // it is well, or nobody needs it any more
	}
}

// onBecomeFailed gives the leadership to somebody who may do better.
func (a *agent) onBecomeFailed(r hooks.Result) {
	if errors.Is(r.Err, hooks.ErrNotRecorded) {
		a.onSaveFailed(election.SaveFailed{State: a.state.saved}, r.Err)
		return
	}
	a.count(r)
	a.command(election.Command{Verb: election.StepDown, For: hookHold, Cause: election.HookFailed}, func(refused error) {
		if s := a.node.Status(); refused != nil && s.State == election.Lead && s.Epoch.Counter == r.Epoch {
			a.onNobodyElse(r, refused)
		} else if a.redo.kind == hooks.BecomeLeader {
			a.redo = redo{} // others lead
		}
	})
}

// onNobodyElse: this host goes on leading, degraded, until its hook succeeds or
// somebody else can lead.
func (a *agent) onNobodyElse(r hooks.Result, why error) {
	a.later()
	a.warn(string(election.HookFailed), fmt.Sprintf("degraded: the become-leader hook failed (%v), and %v; it is tried again in %v",
		r.Err, why, a.redo.pause))
	a.publish()
}

// onLoseFailed: what the hook should have released may still be taken here, while
// others lead.
func (a *agent) onLoseFailed(r hooks.Result) {
	if s := a.node.Status(); s.State == election.Lead || s.State == election.Stopping {
		return // another leadership has begun, whose lose hook comes again
	}
	a.redoLose(r)
}

// redoLose has the lose hook tried again, and says so.
func (a *agent) redoLose(r hooks.Result) {
	a.count(r)
	a.later()
	a.warn("lose-failed", fmt.Sprintf("the lose-leadership hook of epoch %d failed (%v): what it should release may still be held here; it is tried again in %v",
		r.Epoch, r.Err, a.redo.pause))
}

// count keeps what is known of the hook that failed, over several results.
func (a *agent) count(r hooks.Result) {
	d := &a.redo
	if d.kind != r.Kind || d.epoch.Counter != r.Epoch {
		*d = redo{kind: r.Kind, epoch: hooks.Epoch{Counter: r.Epoch, Owner: a.state.ID.String()}, pause: redoFirst / 2,
			cause: r.Cause}
	}
	d.tries += max(r.Attempts, 1)
	d.err, d.at = r.Err, time.Time{}
}

// later sets the time of the next attempt.
func (a *agent) later() {
	a.redo.pause = min(2*a.redo.pause, redoMost)
	a.redo.at = a.cfg.Now().Add(a.redo.pause)
}

// tryAgain runs the hook that failed, when its time has come and its reason still
// holds.
func (a *agent) tryAgain() {
	d := a.redo
	if d.at.IsZero() || a.cfg.Now().Before(d.at) {
		return
	}
	s := a.node.Status()
	leads := s.State == election.Lead && s.Epoch.Counter == d.epoch.Counter
	if leads != (d.kind == hooks.BecomeLeader) || s.State == election.Stopping {
		a.redo = redo{}
		return
	}
	a.redo.at = time.Time{}
	a.runner.Start(a.again(d.kind, d.cause, d.epoch, d.tries))
}

// again is the event of a hook that is run once more.
func (a *agent) again(kind hooks.Kind, cause string, epoch hooks.Epoch, tries int) hooks.Event {
	ev := a.hookEvent(kind, cause)
	ev.Epoch, ev.Attempt, ev.IsRedo = epoch, tries, kind == hooks.LoseLeadership
	return ev
}

// owed is the epoch whose lose hook is owed by an earlier life: it had not ended, or
// it had failed.
func (a *agent) owed() wire.Epoch {
	if epoch := a.state.saved.Promoted; !epoch.IsZero() {
		return epoch
	}
	if epoch, ok := a.runner.Owed(); ok {
		return wire.Epoch{Counter: epoch.Counter, Owner: a.state.ID}
	}
	return wire.Epoch{}
}

// forgetRedo: a new leadership has other hooks to run.
func (a *agent) forgetRedo() { a.redo = redo{} }

// due is when the loop has something to do if nothing happens before; zero: never.
func (a *agent) due() time.Time {
	at := a.node.Deadline()
	for _, t := range [...]time.Time{a.diskAt, a.redo.at, a.jobs.due} {
		if at.IsZero() || (!t.IsZero() && t.Before(at)) {
			at = t
		}
	}
	return at
}

// degraded: this host leads though its become hook failed, since nobody else can.
func (a *agent) degraded(s election.Status) bool {
	return s.State == election.Lead && a.redo.kind == hooks.BecomeLeader && a.redo.epoch.Counter == s.Epoch.Counter
}

// hookNotes says what a person should know of hooks that failed.
func (a *agent) hookNotes(s election.Status) []string {
	var notes []string
	switch {
	case a.degraded(s):
		notes = append(notes, fmt.Sprintf("degraded: the become-leader hook failed %s (%v), and nobody else can lead: this host leads, but is not ready",
			times(a.redo.tries), a.redo.err))
	case a.redo.kind == hooks.LoseLeadership:
		notes = append(notes, fmt.Sprintf("the lose-leadership hook of epoch %d failed %s (%v): what it should release may still be held here",
			a.redo.epoch.Counter, times(a.redo.tries), a.redo.err))
	}
	if epoch, ok := a.runner.Keeps(); ok {
		notes = append(notes, keepsNote(epoch))
	}
	return append(notes, a.guardNotes()...)
}

// keepsNote says why a reload has not changed the hooks of leadership.
func keepsNote(epoch uint64) string {
	return fmt.Sprintf("the hooks or their times were changed while this host led: epoch %d keeps those that it began with until its lose-leadership hook has succeeded", epoch)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// warn tells people of something that they should mend.
func (a *agent) warn(cause, text string) {
	a.log.Error(text, "cause", cause)
	a.event(control.Event{Type: "warning", Cause: cause, Text: text})
}
