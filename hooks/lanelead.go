package hooks

import (
	"cmp"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// The leadership's lane: what is asked for, in order, and which of it is run.

// onAsked queues the hook of an event. An event of a kind without a hook is queued too, so
// that its Result comes in its turn.
//
// A lose-leadership event ends its epoch as Stopped does. One more for an epoch whose
// lose-leadership is queued or running does not run it again; it passes on a shorter bound
// (the lease was lost in the middle of a planned change, M7), and its Result repeats the first
// one's outcome.
func (l *Lanes) onAsked(now time.Time, e Asked) {
	req := request{Event: e.Event, id: e.ID, due: e.Due, bar: e.Bar}
	epoch := req.Epoch.Counter
	switch {
	case l.agent.isDead: // after its death no order begins anything, and nobody hears of that
		return
	case !req.Kind.OfLeadership():
		l.announce() // members came or went, or another leader was heard of
		l.onNotice(req)
		return
	case req.Kind == BecomeLeader:
		l.overtake(now, &req)
		if epoch > l.over {
			l.reign = &req.Event
		}
	default:
		req.repeat = l.hasten(now, epoch, req.due)
		l.end(now, epoch, left(now, req.due))
		if l.reign != nil && l.reign.Epoch.Counter <= epoch {
			l.reign = nil
		}
	}
	l.agent.mind(e)
	l.queue = append(l.queue, req)
}

// left is what remains until then; 0, which is no bound, if there is none.
func left(now, then time.Time) time.Duration {
	if then.IsZero() {
		return 0
	}
	return max(then.Sub(now), time.Nanosecond)
}

// end says that an epoch, and with it each below, has ended: its become-leader hook is ended if
// it runs, and never started if it does not, in which case its lose-leadership is dropped, too.
// Of the budget the killing may use its share; 0 is none. A lose-leadership hook that runs once more, ahead of the begin, may use all.
func (l *Lanes) end(now time.Time, epoch uint64, budget time.Duration) {
	l.over = max(l.over, epoch)
	l.freeze(epoch)
	l.hurryExchange(now, budget)
	within := func(d time.Duration) (due time.Time) {
		if budget > 0 {
			due = now.Add(d)
		}
		return due
	}
	switch t := l.lead; {
	case t == nil:
	case t.Kind == BecomeLeader && t.Epoch.Counter <= l.over:
		l.cut(now, t, errOver, within(budget/ending.BudgetShare))
	case t.IsRedo && t.Epoch.Counter < epoch:
		l.bound(now, t, within(budget))
	}
}

// hasten reports whether the epoch's lose-leadership is queued or running, and bounds that by
// due, also one that was taken over: the agent knows the end of its lease better.
func (l *Lanes) hasten(now time.Time, epoch uint64, due time.Time) bool {
	if t := l.lead; t != nil && t.Kind == LoseLeadership && t.Epoch.Counter == epoch {
		l.bound(now, t, due)
		return true
	}
	i := slices.IndexFunc(l.queue, func(q request) bool { // a repeat may be of a run that has ended
		return q.Kind == LoseLeadership && q.Epoch.Counter == epoch && !q.repeat
	})
	if i >= 0 {
		l.queue[i].due = earlier(l.queue[i].due, due)
	}
	return i >= 0
}

// cut ends what a task runs or waits for.
func (l *Lanes) cut(now time.Time, t *task, reason error, due time.Time) {
	t.limit.Cut(now, reason, due)
	l.shortened(now, t)
}

// bound has all of a task be dead by due; zero bounds nothing.
func (l *Lanes) bound(now time.Time, t *task, due time.Time) {
	if !due.IsZero() {
		t.due, t.yieldBy = earlier(t.due, due), earlier(t.yieldBy, due)
		t.limit.Within(now, yieldShare(now, due, t.plan))
		l.shortened(now, t)
	}
}

// shortened draws the conclusions from a limit that has shrunk.
func (l *Lanes) shortened(now time.Time, t *task) {
	switch t.phase {
	case preparing:
		t.hurryWorker(now, t.prepareBy(now))
	case starting:
		t.hurryWorker(now, t.startBy(now))
		l.do(Bound{Lane: t.lane, Limit: t.limit})
	case underway:
		l.do(Bound{Lane: t.lane, Limit: t.limit})
	case noting:
		if t.limit.Reason != nil {
			l.withdraw(now, t, t.limit.Reason)
		}
	case pausing:
		l.rest(now, t, t.until)
	case yielding:
		for _, r := range t.ending {
			l.do(l.endNow(now, t, r))
		}
		t.until = t.overtakeAt(now)
	}
}

// leadNext does the first request of the leadership's queue.
func (l *Lanes) leadNext(now time.Time) {
	req := l.queue[0]
	l.queue = l.queue[1:]
	if req.Kind == sweep {
		l.yield(now, l.carryOut(now, req, Leadership, l.hooks))
		return
	}
	if res, settled := l.settle(req); settled {
		if !req.unasked {
			l.tell(req.id, res)
		}
		l.say(Info, "hook dropped", "hook", string(req.Kind), "epoch", req.Epoch.Counter, "cause", req.Cause)
		return
	}
	if req.Kind == BecomeLeader {
		if l.loseFirst(req) {
			return
		}
		l.keepFrom(req.Epoch)
	}
	t := l.carryOut(now, req, Leadership, l.planFor(req.Epoch.Counter))
	if req.Kind == BecomeLeader {
		t.plan.Resources = l.hooks.Resources
		l.become(now, t)
	} else {
		l.attempt(now, t)
	}
}

// settle answers a request for which nothing is to be run.
func (l *Lanes) settle(req request) (res Result, settled bool) {
	epoch := req.Epoch.Counter
	res = Result{Kind: req.Kind, Epoch: epoch, Cause: req.Cause, OK: true, Exit: -1}
	switch {
	case req.Kind == BecomeLeader && epoch <= l.over && epoch <= l.begun: // one more attempt, too late
		res.OK, res.Err = false, errOver
	case req.Kind == BecomeLeader && epoch <= l.over:
	case req.Kind == LoseLeadership && req.Cause != CauseRequested && !l.hasBegun(epoch):
	case req.IsRedo && !req.unasked && l.waits(BecomeLeader):
		res.OK, res.Err = false, errOvertaken
	case l.isTaken(req):
		l.book.forgetDone() // the agent lives, and hears of it
		res = l.lost
	case req.repeat && l.lost.Epoch == epoch, l.isLost(req):
		res.OK, res.Err, res.IsCut, res.IsRepeat = l.lost.OK, l.lost.Err, l.lost.IsCut, l.lost.IsRepeat
	default:
		return Result{}, false
	}
	return res, true
}

// hasBegun reports whether something was tried of a leadership, and may have to be undone: by these
// Lanes, or by the disk. If not, there is nothing to lose: its become-leader was dropped, or it was
// lost by Lanes before these, and whoever asks has not heard of that. Only an operator has it lost all the same.
func (l *Lanes) hasBegun(epoch uint64) bool {
	owed := l.book.page.Owed
	return epoch <= l.begun || owed != nil && owed.Counter == epoch
}

// isLost reports whether the hook has succeeded for this epoch: who asks once more, or has it tried once
// more, has not heard of that yet. Only an operator has it run all the same.
func (l *Lanes) isLost(req request) bool {
	return req.Kind == LoseLeadership && req.Cause != CauseRequested && l.lost.Epoch == req.Epoch.Counter && l.lost.OK
}

// waits reports whether an event of the kind is queued.
func (l *Lanes) waits(kind Kind) bool {
	return slices.ContainsFunc(l.queue, func(q request) bool { return q.Kind == kind })
}

// become begins the leadership of a task once it is on disk that it does. That its order is late
// is seen before the hook starts, or at a Tick: what the agent has renewed stands behind the order.
func (l *Lanes) become(now time.Time, t *task) {
	if err := cmp.Or(t.bar, l.hangs(t.Kind)); err != nil {
		l.skip(now, t, err)
		return
	}
	if hasHooks(t.plan) && !l.isClosed {
		t.phase, t.until = noting, now.Add(l.cfg.RecordWithin)
		t.note = l.book.begin(t.Epoch, l.kept, l.book.mayHave(t.plan.Resources))
		return
	}
	l.have(now, t)
}

func hasHooks(cfg Config) bool {
	return len(cfg.Resources) > 0 || !cfg.Commands[BecomeLeader].IsZero() || !cfg.Commands[LoseLeadership].IsZero()
}

// withdraw ends a become-leader that may have been noted, and was not started.
func (l *Lanes) withdraw(now time.Time, t *task, why error) {
	if t.note > 0 {
		l.book.withdraw()
	}
	if t.Kind == exchange {
		l.say(Error, "resources not changed", "epoch", t.Epoch.Counter, "err", why)
		l.lead = nil
		return
	}
	l.skip(now, t, why)
}

// skip ends a become-leader that was not started.
func (l *Lanes) skip(now time.Time, t *task, why error) {
	epoch := t.Epoch.Counter
	if l.begun < epoch {
		l.kept = l.book.kept()
	}
	l.say(Error, "hook not started", "hook", string(BecomeLeader), "epoch", epoch, "err", why)
	l.conclude(now, t, Result{Kind: BecomeLeader, Epoch: epoch, Cause: t.Cause, Exit: -1, Err: why, IsCut: true})
}

// conclude ends a task with its result.
func (l *Lanes) conclude(now time.Time, t *task, res Result) {
	if t.lane == Notification {
		l.notice = nil
		l.do(Tell{t.id, res})
		return
	}
	l.lead = nil
	if res.Kind == BecomeLeader && res.OK {
		l.ready = t.Epoch.Counter
	}
	if res.Kind == LoseLeadership && res.OK {
		l.book.lost(t.Epoch, res)
	}
	l.remember(res)
	l.learn(res)
	if res.Kind == LoseLeadership && !res.OK {
		l.book.persist() // after what was learnt
		l.loseLast(t, res)
	}
	if !t.unasked {
		l.tell(t.id, res)
	}
}

func (l *Lanes) remember(res Result) {
	if res.Kind == LoseLeadership {
		l.lost = res
	}
}

func (l *Lanes) tell(id uint64, res Result) {
	if res.Kind == LoseLeadership && res.Epoch == l.lost.Epoch && !res.Unasked {
		l.lost.IsRepeat = true // when it is told again
	}
	if res.Kind == LoseLeadership && !res.Unasked {
		l.agent.settle(res.Epoch)
	}
	l.do(Tell{id, res})
}

// refuse ends a notification that will never be carried out.
func (l *Lanes) refuse(req request, why error) {
	l.do(Tell{req.id, Result{Kind: req.Kind, Epoch: req.Epoch.Counter, Cause: req.Cause, Exit: -1, Err: why}})
}

// overtakeGrace is what a lose-leadership hook that was tried once more has
// for its end when this node leads again, killing included. Arbitrary.
const overtakeGrace = 200 * time.Millisecond
