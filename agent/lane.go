package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/wire"
)

// The hook lane: what a leadership has run, and hears of that.

func (s *seat) startHook(e election.StartHook) {
	kind := hooks.BecomeLeader
	if e.Hook == election.Lose {
		kind = hooks.LoseLeadership
	} else {
		s.passClients()
	}
	ev := s.hookEvent(kind, string(e.Cause))
	ev.Epoch = hookEpoch(e.Epoch)
	ev.IsPlanned = e.Hook == election.Lose && s.endsInOrder()
	s.runner.Start(ev, e.By)
}

// hurryHook bounds the lose hook of the epoch, which runs or is run now.
func (s *seat) hurryHook(epoch wire.Epoch, cause election.Cause, by time.Time) {
	s.heldUp = nil // it waits for nobody now
	s.holders.dismiss(false)
	ev := s.hookEvent(hooks.LoseLeadership, string(cause))
	ev.Epoch = hookEpoch(epoch)
	s.runner.Start(ev, by)
}

// notify queues a notification hook.
func (s *seat) notify(kind hooks.Kind, cause string) {
	s.runner.Start(s.hookEvent(kind, cause), time.Time{})
}

func (s *seat) hookEvent(kind hooks.Kind, cause string) hooks.Event {
	status, seen := s.shown.status, s.around.seen()
	return hooks.Event{Kind: kind, Cause: cause, Time: wallClock(), Cluster: s.cluster, Mode: s.tally.mode(),
		Quorum: s.tally.votersNeeded(status), Role: s.shown.role, Epoch: hooks.Epoch{Counter: status.Epoch.Counter, Owner: ownerText(status.Epoch)},
		Self: seen.hookNode(s.state.ID), Leader: seen.hookNode(status.Leader), PrevLeader: seen.hookNode(s.previous),
		Members: seen.hookMembers()}
}

func hookEpoch(e wire.Epoch) hooks.Epoch {
	return hooks.Epoch{Counter: e.Counter, Owner: e.Owner.String()}
}

func ownerText(e wire.Epoch) string {
	if e.IsZero() {
		return ""
	}
	return e.Owner.String()
}

// onHookResult passes the end of a leadership hook on. A leadership has ended once its lose hook has, and what borrowed
// the lease.
func (s *seat) onHookResult(r hooks.Result) {
	if r.Unasked {
		s.judgeHook(r)
		return
	}
	if r.IsLater {
		s.onFailedSince(r)
		return
	}
	hook := election.Become
	if r.Kind == hooks.LoseLeadership {
		hook = election.Lose
	}
	epoch := election.HookEnded{Hook: hook, OK: r.OK}
	epoch.Epoch.Counter, epoch.Epoch.Owner = r.Epoch, s.state.ID
	s.noteHook(r, epoch.Epoch)
	if hook == election.Become && r.Epoch == s.node.Status().Epoch.Counter {
		s.hookReady = r.OK
	}
	ended := func() {
		s.step(epoch)
		s.judgeHook(r)
		s.publish()
	}
	if hook == election.Lose && s.holders.areDismissed() {
		s.heldUp = append(s.heldUp, ended)
		return
	}
	ended()
}

// onFailedSince: what the become side of this leadership has begun is lost.
func (s *seat) onFailedSince(r hooks.Result) {
	if status := s.node.Status(); status.State == election.Lead && status.Epoch.Counter == r.Epoch {
		s.hookReady = false
		s.judgeHook(r)
		s.publish()
	}
}

// noteHook shows how a leadership hook ended. Of a resource that failed on the become side it says nothing: that hook has not begun, or
// has succeeded before, and the host tells of resources.
func (s *seat) noteHook(r hooks.Result, epoch wire.Epoch) {
	if !r.Ran && r.OK || r.Kind == hooks.BecomeLeader && r.Resource != "" {
		return // nothing was configured, or the pair was overtaken
	}
	owner := ownerText(epoch)
	s.lastHook = controlHook(r, owner)
	text := fmt.Sprintf("%s hook succeeded in %v", r.Kind, r.Took.Round(time.Millisecond))
	if r.TakenOver {
		text += ", while this agent was dead or silent"
	}
	switch {
	case !r.OK && r.Resource != "":
		text = fmt.Sprintf("%s failed, as resource %v", r.Kind, r.Err)
	case !r.OK:
		text = fmt.Sprintf("%s hook failed: %v", r.Kind, r.Err)
		s.log.Error("hook failed", "hook", r.Kind, "epoch", r.Epoch, "err", r.Err)
	}
	s.around.event(control.Event{Type: "hook", Cause: string(r.Kind), Text: text, DurationMS: s.lastHook.TookMS,
		Epoch: &control.Epoch{Counter: r.Epoch, Owner: owner}})
}

func controlHook(r hooks.Result, owner string) *control.Hook {
	h := &control.Hook{Event: string(r.Kind), Epoch: control.Epoch{Counter: r.Epoch, Owner: owner}, OK: r.OK, Exit: r.Exit,
		Attempts: r.Attempts, TakenOver: r.TakenOver, TookMS: float64(r.Took.Microseconds()) / 1000, Time: wallClock()}
	if r.Err != nil {
		h.Error = r.Err.Error()
	}
	return h
}

// holdsUp reports whether a lose hook waits for holders, which it dismisses. Only that of a planned
// end does, which goes on renewing the lease: in the little that is left of a lost
// one, the hook and the end of what the holders run go side by side.
func (s *seat) holdsUp(e election.StartHook) bool {
	if e.Hook != election.Lose {
		return false
	}
	isPlanned := s.endsInOrder()
	if isLent := s.holders.dismiss(isPlanned); !isLent || !isPlanned {
		return false
	}
	s.log.Info("lose-leadership hook waits for what exec, hold and jobs run, and for what was told of the lease", "epoch", e.Epoch.Counter)
	s.heldUp = []func(){func() { s.startHook(e) }}
	return true
}

// endsInOrder: the leadership that ends goes on renewing its lease until its lose hook has
// ended.
func (s *seat) endsInOrder() bool { return !s.node.Status().Lease.IsZero() }

// onDismissed goes on with what waited for the holders.
func (s *seat) onDismissed() {
	next := s.heldUp
	s.heldUp = nil
	for _, goOn := range next {
		goOn()
	}
}

// requestHook queues the hook, unless that would break (become lose)*.
func (s *seat) requestHook(kind hooks.Kind, ended func(hooks.Result)) error {
	status := s.node.Status()
	ev := s.hookEvent(kind, hooks.CauseRequested)
	switch {
	case s.beside:
		return refusedHook("see status", "a hook, job or command of this agent's last run has not ended")
	case s.runner.IsRunning(kind):
		return refusedHook("wait for its end; see hooks list", "the %s hook runs already", kind)
	case kind == hooks.BecomeLeader && status.State != election.Lead:
		return refusedHook(s.whereToAsk(), "this host does not lead: no lose hook would follow a become-leader hook here")
	case kind == hooks.BecomeLeader:
		ev = s.again(kind, hooks.CauseRequested, ev.Epoch, 0)
	case kind == hooks.LoseLeadership && (status.State == election.Lead || status.State == election.Stopping || status.State == election.Claiming):
		return refusedHook("step-down runs it cleanly", "this host leads, or is about to: the lose-leadership hook would run under a leadership that goes on")
	case kind == hooks.LoseLeadership:
		epoch, ok := s.lastReign()
		if !ok {
			return refusedHook("hooks test runs it with a made-up event", "this host has not led yet, so that there is nothing to lose")
		}
		ev = s.again(kind, hooks.CauseRequested, epoch, 0)
	}
	ev.Ended = ended
	s.runner.Start(ev, time.Time{})
	return nil
}

// lastReign is the epoch of this host's last leadership.
func (s *seat) lastReign() (hooks.Epoch, bool) {
	for _, past := range slices.Backward(s.history.all()) {
		if past.Self {
			return hooks.Epoch(past.Epoch), true
		}
	}
	return hooks.Epoch{}, false
}
