package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/keeper"
	"github.com/bully-agent/bully-agent/wire"
)

const (
	// hookHold keeps a host whose become-leader hook failed from standing again
	// (docs/hooks.md).
	hookHold = 60 * time.Second

	// A leadership hook that failed for good is tried again after redoFirst, then
	// after twice as long each time, at most redoMost. Arbitrary: soon enough for
	// a service that comes up late, seldom enough for a log. A lose hook that was
	// only cut is tried once more before that, see redoLose.
	redoFirst = 5 * time.Second
	redoMost  = time.Minute
)

// redo is the leadership hook that failed and must not be left at that: the
// become-leader of a leader that nobody can follow, or the lose-leadership of a
// leadership that has ended.
type redo struct {
	kind  hooks.Kind // "": there is none
	epoch hooks.Epoch
	cause string // of the event
	tries int    // attempts so far
	rest  hooks.Patience
	pause time.Duration // before the next attempt
	at    time.Time     // of the next attempt; zero: one is under way
	last  hooks.Result  // of the last one that failed
}

// judgeHook draws the conclusions from the end of a leadership hook, once the node
// knows of it.
func (s *seat) judgeHook(r hooks.Result) {
	status := s.node.Status()
	leads := status.State == election.Lead && status.Epoch.Counter == r.Epoch
	switch {
	case r.Unasked && errors.Is(r.Err, keeper.ErrDied):
		s.onKeeperDied(r)
	case r.Kind == hooks.BecomeLeader && leads && !r.OK:
		s.onBecomeFailed(r)
	case r.Kind == hooks.LoseLeadership && leads && r.TakenOver:
		s.log.Error("this agent was frozen past its lease, and its keeper has run the lose-leadership hook", "epoch", r.Epoch)
		s.command(election.Command{Verb: election.Abdicate, Cause: election.AgentFrozen}, func(error) {})
	case r.Kind == hooks.LoseLeadership && !r.OK && !leads:
		s.onLoseFailed(r)
	case s.redo.isOf(r):
		s.redo.succeeded(s.around.now())
	}
}

// onBecomeFailed gives the leadership to somebody who may do better.
func (s *seat) onBecomeFailed(r hooks.Result) {
	if errors.Is(r.Err, hooks.ErrNotRecorded) {
		s.onSaveFailed(election.SaveFailed{State: s.state.saved}, r.Err)
		return
	}
	s.redo.failed(r, s.state.ID)
	s.heldFor = r // before it is: others are told of the hold-down before the reply comes
	s.command(election.Command{Verb: election.StepDown, For: hookHold, Cause: failureOf(r)}, func(refused error) {
		if refused != nil && !errors.Is(refused, election.ErrLostMeanwhile) {
			s.heldFor = hooks.Result{}
		}
		if status := s.node.Status(); refused != nil && status.State == election.Lead && status.Epoch.Counter == r.Epoch {
			s.onNobodyElse(r, refused)
		} else if s.redo.kind == hooks.BecomeLeader {
			s.redo = redo{} // others lead
		}
	})
}

// whyHeld names the failure that this host has held itself down for, and says whether there is one: for an operator's hold-down there
// is none.
func (s *seat) whyHeld(status election.Status) (text string, ok bool) {
	if status.Held.IsZero() || s.heldFor.Err == nil {
		return "", false
	}
	return "this host stepped down since " + failed(s.heldFor), true
}

// failed says what of the become side failed: something that the leader is to have, or its hook.
func failed(r hooks.Result) string {
	if r.Resource != "" {
		return fmt.Sprintf("resource %v", r.Err)
	}
	return fmt.Sprintf("the become-leader hook failed (%v)", r.Err)
}

// failedOf is the word for that, of a Reason.
func failedOf(r hooks.Result) string {
	if r.Resource != "" {
		return "resource"
	}
	return "hook"
}

// failureOf is the cause of a step-down after the become side has failed.
func failureOf(r hooks.Result) election.Cause {
	if r.Resource != "" {
		return election.ResourceFailed
	}
	return election.HookFailed
}

// onNobodyElse: this host goes on leading, degraded, until its hook succeeds or
// somebody else can lead.
func (s *seat) onNobodyElse(r hooks.Result, why error) {
	isFirst := s.redo.pause == 0
	s.redo.later(s.around.now())
	s.warnFirst(isFirst, string(failureOf(r)), fmt.Sprintf("degraded: %s, and %v; it is tried again in %v", failed(r), why, s.redo.pause))
	s.publish()
}

// onLoseFailed: what the hook should have released may still be taken here, while
// others lead.
func (s *seat) onLoseFailed(r hooks.Result) {
	if status := s.node.Status(); status.State == election.Lead || status.State == election.Stopping {
		return // another leadership has begun, whose lose hook comes again
	}
	s.redoLose(r, s.state.ID)
}

// redoLose has the lose hook tried again, and says so: the first time at once if the end of
// the lease has cut it. It may be well, nothing cuts it any more, and others lead already
// while this host holds what it should have released; so does the keeper of a dead agent
// (M7).
func (s *seat) redoLose(r hooks.Result, owner wire.ID) {
	isFirst := !s.redo.isOf(r)
	if !isFirst && (r.IsRepeat || !s.redo.at.IsZero()) {
		return // of a run that counts already: one that was hurried has two results
	}
	s.redo.failed(r, owner)
	when := "at once"
	if r.IsCut && isFirst {
		s.redo.at = s.around.now()
	} else {
		s.redo.later(s.around.now())
		when = fmt.Sprintf("in %v", s.redo.pause)
	}
	text := fmt.Sprintf("the lose-leadership hook of epoch %d failed (%v): what it should release may still be held here", r.Epoch, r.Err)
	if r.Resource != "" {
		text = fmt.Sprintf("resource %v: it may still be here after the end of epoch %d", r.Err, r.Epoch)
	}
	s.warnFirst(isFirst, "lose-failed", fmt.Sprintf("%s; it is tried again %s", text, when))
}

// isOf reports whether the hook is the one that failed before.
func (d *redo) isOf(r hooks.Result) bool {
	return d.kind == r.Kind && d.epoch.Counter == r.Epoch
}

// failed keeps what is known of the hook that failed, over several results. The first says whose epoch it was.
func (d *redo) failed(r hooks.Result, owner wire.ID) {
	if !d.isOf(r) {
		rest := hooks.Patience{First: redoFirst, Most: redoMost}
		if r.IsLater && d.epoch.Counter == r.Epoch {
			rest = d.rest // of what was well for a while
		}
		*d = redo{kind: r.Kind, epoch: hooks.Epoch{Counter: r.Epoch, Owner: owner.String()}, rest: rest, cause: r.Cause}
	}
	d.tries += max(r.Attempts, 1)
	d.last, d.at = r, time.Time{}
}

// later sets the time of the next attempt.
func (d *redo) later(now time.Time) {
	d.pause = d.rest.Failed(now)
	d.at = now.Add(d.pause)
}

// succeeded: nothing is to be tried again. How patient this was counts again if what the leader has fails after all, which a
// hook that has succeeded does not.
func (d *redo) succeeded(now time.Time) {
	rest := d.rest
	rest.Succeeded(now)
	*d = redo{epoch: d.epoch, rest: rest}
}

// tryAgain runs the hook that failed, when its time has come and its reason still
// holds.
func (s *seat) tryAgain() {
	d := s.redo
	if d.at.IsZero() || s.around.now().Before(d.at) {
		return
	}
	status := s.node.Status()
	leads := status.State == election.Lead && status.Epoch.Counter == d.epoch.Counter
	if leads != (d.kind == hooks.BecomeLeader) || status.State == election.Stopping {
		s.redo = redo{}
		return
	}
	s.redo.at = time.Time{}
	s.runner.Start(s.again(d.kind, d.cause, d.epoch, d.tries), time.Time{})
}

// again is the event of a hook that is run once more.
func (s *seat) again(kind hooks.Kind, cause string, epoch hooks.Epoch, tries int) hooks.Event {
	ev := s.hookEvent(kind, cause)
	ev.Epoch, ev.Attempt, ev.IsRedo = epoch, tries, kind == hooks.LoseLeadership
	return ev
}

// keeperDied is the cause of a step-down after the death of the keeper, and with it of
// what it ran for the leadership.
const keeperDied election.Cause = "keeper-died"

// onKeeperDied gives the leadership up cleanly: the next keeper undoes what the hooks
// have done, whether or not something of it has died with the last one. Where nobody else
// can lead this host goes on, since most of what hooks do needs no process.
func (s *seat) onKeeperDied(r hooks.Result) {
	if status := s.node.Status(); status.State != election.Lead || status.Epoch.Counter != r.Epoch {
		return
	}
	s.warn(string(keeperDied), "the keeper died, and with it what it ran for this leadership")
	s.command(election.Command{Verb: election.StepDown, Cause: keeperDied}, func(refused error) {
		if refused != nil {
			s.log.Warn("leads on after its keeper died, since nobody else can", "err", refused)
			s.haveAgain(r.Epoch)
		}
	})
}

// haveAgain has the next keeper keep what this host has, which stays where it is meanwhile, except for commands. Its hook
// does not run again.
func (s *seat) haveAgain(epoch uint64) {
	s.runner.Start(s.again(hooks.BecomeLeader, string(keeperDied), hooks.Epoch{Counter: epoch, Owner: s.state.ID.String()}, 0), time.Time{})
}

// degraded: this host leads though its become hook failed, since nobody else can.
func (s *seat) degraded(status election.Status) bool {
	return status.State == election.Lead && s.redo.kind == hooks.BecomeLeader && s.redo.epoch.Counter == status.Epoch.Counter
}

// hookNotes says what a person should know of hooks that failed, and of what the leader is to have.
func (s *seat) hookNotes(status election.Status) []string {
	var notes []string
	switch r := s.redo.last; {
	case s.degraded(status):
		notes = append(notes, s.degradedNote())
	case s.redo.kind == hooks.LoseLeadership && r.Resource != "":
		notes = append(notes, fmt.Sprintf("resource %v: it may still be here after the end of epoch %d; that was tried %s",
			r.Err, s.redo.epoch.Counter, times(s.redo.tries)))
	case s.redo.kind == hooks.LoseLeadership:
		notes = append(notes, fmt.Sprintf("the lose-leadership hook of epoch %d failed %s (%v): what it should release may still be held here",
			s.redo.epoch.Counter, times(s.redo.tries), r.Err))
	}
	if epoch, ok := s.runner.Keeps(); ok {
		notes = append(notes, keepsNote(epoch))
	}
	return append(notes, s.keeperNotes()...)
}

// degradedNote says why a leader is degraded whose become side failed.
func (s *seat) degradedNote() string {
	r := s.redo.last
	if r.Resource != "" {
		return fmt.Sprintf("degraded: resource %v; nobody else can lead: this host leads without it, and is not ready", r.Err)
	}
	return fmt.Sprintf("degraded: the become-leader hook failed %s (%v), and nobody else can lead: this host leads, but is not ready",
		times(s.redo.tries), r.Err)
}

func (s *seat) keeperNotes() []string {
	status := s.runner.Status()
	if status.Err == "" {
		return nil
	}
	return []string{fmt.Sprintf("no command can be run here: %s", status.Err)}
}

// keepsNote says why a reload has not changed the hooks of leadership.
func keepsNote(epoch uint64) string {
	return fmt.Sprintf("the hooks or their times were changed while this host led: epoch %d keeps those that it began with until its lose-leadership hook has succeeded", epoch)
}

// warnKept says so after a reload.
func (s *seat) warnKept() {
	if epoch, ok := s.runner.Keeps(); ok {
		s.log.Warn(keepsNote(epoch))
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
