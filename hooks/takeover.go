package hooks

import (
	"context"
	"time"
)

// What happens to a leadership whose agent is dead, or silent past its lease. Nothing is
// handed over: the queue that has run the become-leader hook runs the lose-leadership
// hook as well.

// TakeOver ends the leadership that goes on, in the agent's stead: its lose-leadership
// hook runs, with the cause agent-died, and all of it is dead when within has passed; 0
// is no bound. One whose end the agent has asked for already is bounded so, too. It
// reports the epoch; false if there is no such leadership.
//
// A hook that has failed within the bound is run once more after it, without one:
// another leader is there then, and nobody else releases what this host holds.
//
// If the agent goes on after all, it has heard of it (Unasked), and the hook that it
// asks for is not run again: its Result is that of this one, good or bad.
func (r *Runner) TakeOver(within time.Duration) (epoch uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var due time.Time
	if within > 0 {
		due = time.Now().Add(within)
	}
	if r.reign == nil {
		return r.takeEnding(due, within)
	}
	ev := *r.reign
	ev.Kind, ev.Cause, ev.Time, ev.Within = LoseLeadership, causeAgentDied, time.Now(), within
	ev.Attempt, ev.IsRedo, ev.Bar, ev.Ended = 0, false, nil, nil
	r.reign, r.takenOver = nil, ev.Epoch.Counter
	r.tell(Result{Kind: LoseLeadership, Epoch: ev.Epoch.Counter, Cause: causeAgentDied, Exit: -1, Err: errTakenOver, TakenOver: true, Unasked: true})
	r.queue = append(r.queue, request{Event: ev, due: due, unasked: true, taken: true, again: due})
	r.end(ev.Epoch.Counter, within)
	wake(r.toLead)
	return ev.Epoch.Counter, true
}

// takeEnding takes over a leadership whose end the agent has asked for; the caller holds
// mu. One that is ended once more has no bound, and gets none. A become-leader hook that is
// still being ended has its share of the bound.
func (r *Runner) takeEnding(due time.Time, within time.Duration) (epoch uint64, ok bool) {
	if c := r.current; c != nil && c.kind == LoseLeadership && !c.isRedo && !c.taken {
		r.takenOver, c.taken, c.again = c.epoch, true, due
		c.leash.limit(due)
		return c.epoch, true
	}
	for i := range r.queue {
		q := &r.queue[i]
		if q.Kind != LoseLeadership || q.IsRedo || q.taken {
			continue
		}
		r.takenOver, q.taken, q.again = q.Epoch.Counter, true, due
		if q.due.IsZero() || !due.IsZero() && due.Before(q.due) {
			q.due = due
		}
		r.end(q.Epoch.Counter, within)
		return q.Epoch.Counter, true
	}
	return 0, false
}

// isTaken reports whether TakeOver has run the hook that is asked for; the caller holds
// mu.
func (r *Runner) isTaken(req request) bool {
	epoch := req.Epoch.Counter
	return req.Kind == LoseLeadership && !req.taken && !req.IsRedo && epoch == r.takenOver && r.lost.Epoch == epoch && r.lost.TakenOver
}

// loseLeadership runs the hook of ev, and once more if it was taken over and the bound of
// that was too short.
func (r *Runner) loseLeadership(ctx context.Context, cfg Config, ev Event, l *leash) Result {
	res := r.attempts(ctx, cfg, leadership, ev, l)
	again, taken, l := r.loseAgain(cfg)
	if !res.OK && !again.IsZero() && rests(ctx, time.Until(again)) {
		ev.Cause, ev.Within, ev.Attempt = causeAgentDied, 0, ev.Attempt+res.Attempts
		res = r.attempts(ctx, cfg, leadership, ev, l)
	}
	res.TakenOver = taken
	return res
}

// loseAgain says whether the hook that has just ended was taken over, and when it may
// run once more; the leash is for that.
func (r *Runner) loseAgain(cfg Config) (again time.Time, taken bool, l *leash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l = newLeash(cfg.Timeout, cfg.Grace)
	r.current.leash = l
	return r.current.again, r.current.taken, l
}

// rests waits; it reports false if ctx ends before.
func rests(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Rest waits until no hook of the leadership queue runs or is queued. The caller sees to
// it that none is added for ever, and calls it during Run.
func (r *Runner) Rest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 || r.current != nil {
		r.rested.Wait()
	}
}

// EndNotices ends the notification that runs and drops those that wait, for good: they
// are about a cluster that nobody looks at any more.
func (r *Runner) EndNotices() { r.hush() }

// Adopt takes on the leadership of ev, a become-leader event, that a Runner before this
// one had begun in the same life of the agent. One that is not on disk as begun was not:
// its lose-leadership hook is dropped with it.
func (r *Runner) Adopt(ev Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	epoch := ev.Epoch.Counter
	if owed, ok := r.journal.owed(); !ok || owed != ev.Epoch {
		hasHooks := !r.cfg.Commands[BecomeLeader].IsZero() || !r.cfg.Commands[LoseLeadership].IsZero()
		r.unstarted[epoch] = hasHooks && r.journal.path != ""
		return
	}
	r.reign, r.begun = &ev, epoch
	r.kept = r.journal.keptFor(ev.Epoch)
}
