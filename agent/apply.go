package agent

import (
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// apply carries out one effect. Only a Save can fail.
func (a *agent) apply(effect election.Effect) error {
	switch e := effect.(type) {
	case election.Save:
		return a.save(e.State)
	case election.Send:
		a.send(e)
	case election.Transition:
		a.onTransition(e)
	case election.LeaseUntil:
		a.onLease(e.Deadline)
	case election.StartHook:
		if !a.holdsUp(e) {
			a.startHook(e)
		}
	case election.HurryHook:
		a.hurryHook(e.Epoch, string(election.LeaseExpired), e.Within)
	case election.StopHook:
		a.runner.Stop(e.Epoch.Counter)
	case election.Reply:
		done := a.replies[e.Token]
		delete(a.replies, e.Token)
		done(e.Err)
	case election.Conflict:
		a.onConflict(e)
	case election.Departed:
		a.members.MarkLeft(e.ID, e.Incarnation)
	case election.Tether:
		a.onTether(e)
	case election.Counted:
		a.onCounted(e.What)
	default:
		panic("BUG: unknown effect " + effect.String())
	}
	return nil
}

func (a *agent) send(e election.Send) {
	a.out = wire.Append(a.out[:0], &e.Frame)
	if err := a.lan.SendFrame(e.To, a.out); err != nil {
		a.counters.add("send_error") // like a lost datagram
	}
}

// onTransition makes a change of state known: to people only when they would
// call it one.
func (a *agent) onTransition(e election.Transition) {
	if e.To == election.Lead {
		a.hookReady = false
		a.forgetRedo()
	}
	a.members.SetLeader(recordOf(e))
	a.publish()
	said := a.said
	if said.Role == e.Role && said.Leader == e.Leader && said.Epoch == e.Epoch && e.To != election.Stopping {
		a.log.Debug("state changed", "from", e.From, "to", e.To, "epoch", e.Epoch.Counter, "cause", e.Cause)
		return
	}
	a.said = e
	a.logTransition(e)
	if said.Leader != e.Leader || (!e.Leader.IsZero() && said.Epoch != e.Epoch) {
		a.view.previous = said.Leader
		a.history.record(a.leadership(e), string(e.Cause), a.endOfLast(said))
		a.notify(hooks.LeaderChange, string(e.Cause))
	}
}

// endOfLast is when the leadership that was told last was over. A leader that
// wakes after its lease was none while it slept.
func (a *agent) endOfLast(said election.Transition) time.Time {
	over := time.Duration(0)
	if said.Leader == a.state.ID && !a.leasedTo.IsZero() {
		over = max(a.cfg.Now().Sub(a.leasedTo), 0)
	}
	return wallClock().Add(-over)
}

// recordOf is the leader record that gossip carries: only an epoch whose leader
// is known.
func recordOf(e election.Transition) wire.Epoch {
	if e.Leader.IsZero() {
		return wire.Epoch{}
	}
	return e.Epoch
}

func (a *agent) logTransition(e election.Transition) {
	leader, text := a.view.name(e.Leader), describe(e)
	a.log.Info(text, "role", a.roleWord(e.Role), "leader", leader, "epoch", e.Epoch.Counter, "cause", e.Cause)
	a.event(control.Event{Type: "transition", Role: a.roleWord(e.Role), Cause: string(e.Cause), Leader: leader,
		Epoch: &control.Epoch{Counter: e.Epoch.Counter, Owner: ownerText(e.Epoch)}, Text: text})
}

// describe says a transition as a fact in the past.
func describe(e election.Transition) string {
	switch {
	case e.To == election.Lead:
		return "became leader"
	case e.To == election.Stopping:
		return "began to step down"
	case e.From == election.Stopping:
		return "stepped down"
	case e.To == election.Claiming:
		return "claimed an epoch"
	case !e.Leader.IsZero():
		return "followed a leader"
	case e.To == election.Observe:
		return "stood aside"
	case e.From == election.Start:
		return "found no leader"
	}
	return "lost the leader"
}

// onLease publishes until when this agent may act.
func (a *agent) onLease(until time.Time) {
	a.leaseJobs(until)
	if until.IsZero() {
		a.lease.Store(0)
		return
	}
	a.leasedTo = until
	a.lease.Store(until.UnixNano())
	a.tenancy.renew(until, a.cfg.Now())
	a.renewGuard(until)
}

func (a *agent) startHook(e election.StartHook) {
	kind := hooks.BecomeLeader
	if e.Hook == election.Lose {
		kind = hooks.LoseLeadership
	}
	ev := a.hookEvent(kind, string(e.Cause))
	ev.Epoch = hooks.Epoch{Counter: e.Epoch.Counter, Owner: e.Epoch.Owner.String()}
	ev.Within = e.Within
	a.runner.Start(ev)
}

// hurryHook bounds the lose hook of the epoch, which runs or is run now.
func (a *agent) hurryHook(epoch wire.Epoch, cause string, within time.Duration) {
	a.heldUp = nil // it waits for nobody now
	ev := a.hookEvent(hooks.LoseLeadership, cause)
	ev.Epoch = hooks.Epoch{Counter: epoch.Counter, Owner: epoch.Owner.String()}
	ev.Within = within
	a.runner.Start(ev)
}

// notify queues a notification hook.
func (a *agent) notify(kind hooks.Kind, cause string) { a.runner.Start(a.hookEvent(kind, cause)) }

func (a *agent) hookEvent(kind hooks.Kind, cause string) hooks.Event {
	s := a.shown.Load()
	return hooks.Event{Kind: kind, Cause: cause, Time: wallClock(), Cluster: a.cfg.Cluster, Mode: a.mode(), Quorum: a.votersNeeded(s.status), Role: s.role,
		Epoch: hooks.Epoch{Counter: s.status.Epoch.Counter, Owner: ownerText(s.status.Epoch)},
		Self:  a.view.hookNode(a.state.ID), Leader: a.view.hookNode(s.leader), PrevLeader: a.view.hookNode(a.view.previous),
		Members: a.view.hookMembers()}
}

func ownerText(e wire.Epoch) string {
	if e.IsZero() {
		return ""
	}
	return e.Owner.String()
}

// noteHook shows how a leadership hook ended.
func (a *agent) noteHook(r hooks.Result, epoch wire.Epoch) {
	if !r.Ran && r.OK {
		return // nothing was configured, or the pair was overtaken
	}
	owner := ownerText(epoch)
	a.lastHook = controlHook(r, owner)
	text := fmt.Sprintf("%s hook succeeded in %v", r.Kind, r.Took.Round(time.Millisecond))
	if r.ByGuard {
		text += ", run by the guard"
	}
	if !r.OK {
		text = fmt.Sprintf("%s hook failed: %v", r.Kind, r.Err)
		a.log.Error("hook failed", "hook", r.Kind, "epoch", r.Epoch, "err", r.Err)
	}
	a.event(control.Event{Type: "hook", Cause: string(r.Kind), Text: text, DurationMS: a.lastHook.TookMS,
		Epoch: &control.Epoch{Counter: r.Epoch, Owner: owner}})
}

// onConflict names the other agent with our id. Refused, this one stops once
// its lose hook has run.
func (a *agent) onConflict(e election.Conflict) {
	const message = "another agent has the same id: one state directory was copied from the other"
	a.event(control.Event{Type: "warning", Cause: string(election.SameID), Text: e.String()})
	if !e.Refuse {
		a.members.SetIncarnation(a.node.Incarnation())
		a.log.Error(message+"; this one goes on, the other must not", "addr", e.Other)
		return
	}
	a.log.Error(message+"; this one takes no part", "addr", e.Other)
	a.fatal = &Refusal{Err: fmt.Errorf("%w: %v", ErrSameID, e.Other),
		Hint: "remove the state directory of the copy; it then starts as a new node"}
}

// onCounted counts what was ignored. What a person can mend is also said, once
// a minute at most, and never as an error: it came from the network.
func (a *agent) onCounted(what string) {
	a.counters.add("election_" + what)
	switch what {
	case "other-mode", "config-mismatch", "id-conflict", "counter-jump", "address-mismatch":
		a.warnRarely("frame ignored or doubtful", "cause", what)
	}
}

// warnRarely logs a warning at most once a minute for each set of arguments.
func (a *agent) warnRarely(message string, args ...any) {
	key := fmt.Sprint(message, args)
	now := a.cfg.Now()
	if now.Before(a.quietAt[key]) {
		return
	}
	if len(a.quietAt) > 256 {
		clear(a.quietAt) // bounded whatever others send
	}
	a.quietAt[key] = now.Add(time.Minute)
	a.log.Warn(message, args...)
}

func (a *agent) event(e control.Event) {
	e.Time = wallClock()
	a.ring.Append(e)
}
