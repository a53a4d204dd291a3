package hooks

import (
	"errors"
	"time"
)

// How nothing goes on without the agent (M7): what happens to a leadership whose agent is dead,
// or silent past its lease. Nothing is handed over: the lane that has run the become-leader
// hook runs the lose-leadership hook as well.

// agentWatch is what Lanes know of the agent.
type agentWatch struct {
	lease  time.Time // its end, as renewed last; zero: it does not end by itself
	lentTo time.Time // the same for those to whom it is lent
	isOn   bool      // the agent is silent if that nears
	minded uint64    // epoch of the event that has set isOn last
	isDead bool
	isDeaf bool // it has closed its pipe
	isLent bool // somebody acts on its lease

	isGone bool // nothing more is to come from it: it is dead, or deaf, and its leadership was ended
}

// mind takes the lease that comes with an event of the leadership.
func (a *agentWatch) mind(e Asked) {
	switch {
	case e.Bar != nil: // it is not watched over, since it does not begin
	case e.Event.Kind == BecomeLeader:
		a.renew(e.Lease, true)
		a.minded = e.Event.Epoch.Counter
	case e.Event.Kind == LoseLeadership && !e.Event.IsRedo: // it has its bound, or none, unless it is planned
		a.renew(e.Lease, e.Event.IsPlanned)
		a.minded = e.Event.Epoch.Counter
	}
}

// settle: a leadership has ended. One that is tried once more leaves the next one's lease alone.
func (a *agentWatch) settle(epoch uint64) {
	if epoch >= a.minded {
		a.isOn = false // until the next leadership renews
	}
}

func (a *agentWatch) adopt(epoch uint64, lease time.Time) {
	a.renew(lease, true)
	a.minded = epoch
}

// renew takes the lease that comes with an event. A lease without an end leaves lentTo alone: Renewed or Lent has said when those end to
// whom it is lent, or says so next.
func (a *agentWatch) renew(lease time.Time, isOn bool) {
	if a.lease, a.isOn = lease, isOn; !lease.IsZero() {
		a.lentTo = lease
	}
}

func (l *Lanes) onAgentEvent(now time.Time, event LaneEvent) {
	a := &l.agent
	switch e := event.(type) {
	case Renewed:
		a.lentTo = e.Lease
		if e.IsAlone {
			e.Lease = time.Time{}
		}
		a.lease, a.isOn = e.Lease, true
		l.attempts.renew(e.Lease, e.IsEnding, l.do)
	case Lent:
		if a.isLent = e.Is; !e.Lease.IsZero() {
			a.lentTo = e.Lease
		}
	case AgentDeaf:
		a.isDeaf = true
	case AgentDied:
		a.isDead, a.isGone, a.isOn = true, true, false
		l.questions.end(now, l.do)
		l.attempts.end(CauseAgentDied, 0, l.do)
		if !l.isClosed { // it may have died before hooks run: what waits is not begun
			l.hush(now)
			l.takeOver(now)
		}
	}
}

// SilentAt is when an agent that has not renewed its lease is silent; the zero time: never. Deadline is no later.
func (l *Lanes) SilentAt() time.Time {
	if !l.isOpen || l.isClosed || !l.agent.isOn || l.agent.lease.IsZero() {
		return time.Time{}
	}
	return l.agent.lease.Add(-l.cfg.Budget)
}

// judge ends the leadership of an agent that is silent, at a Tick.
func (l *Lanes) judge(now time.Time) {
	at := l.SilentAt()
	if at.IsZero() || now.Before(at) {
		return
	}
	l.agent.isOn = false
	if l.takeOver(now) && l.agent.isDeaf {
		l.agent.isGone = true
	}
}

var errLate = errors.New("not started: the lease of its leadership has ended")

// barred says why a become-leader hook may not start now: an order that was late, or waited for
// a stopped process, starts nothing.
func (l *Lanes) barred(now time.Time, t *task) error {
	a := l.agent
	isLate := a.minded == t.Epoch.Counter && !a.lease.IsZero() && !now.Before(a.lease.Add(-l.cfg.Budget))
	switch {
	case t.Kind != BecomeLeader:
	case t.bar != nil:
		return t.bar
	case isLate:
		return errLate
	}
	return nil
}

// takeOver ends the leadership that goes on, in the agent's stead: its lose-leadership hook runs,
// with the cause agent-died, and all of it is dead when the lease and the takeover delay have
// ended; if that has passed, or there is no lease, it has no bound: to kill a half-done release then would protect nothing.
// One whose end the agent has asked for already is bounded so, too. It reports false if there is no such leadership.
//
// A hook that has failed within the bound is run once more after it, without one: another leader
// is there then, and nobody else releases what this host holds.
//
// If the agent goes on after all, it has heard of it (Unasked), and the hook that it asks for is
// not run again: its Result is that of this one, good or bad.
func (l *Lanes) takeOver(now time.Time) bool {
	var due time.Time
	if end := l.agent.lease.Add(l.cfg.Takeover); !l.agent.lease.IsZero() && now.Before(end) {
		due = end
	}
	if l.reign == nil {
		return l.takeEnding(now, due)
	}
	ev := *l.reign
	ev.Kind, ev.Cause, ev.Time = LoseLeadership, CauseAgentDied, time.Time{}
	ev.Attempt, ev.IsRedo, ev.Ended = 0, false, nil
	epoch := ev.Epoch.Counter
	l.reign, l.takenOver = nil, epoch
	l.sayTaken(epoch)
	l.queue = append(l.queue, request{Event: ev, due: due, unasked: true, taken: true, again: due})
	l.end(now, epoch, left(now, due))
	return true
}

// sayTaken tells the agent that its leadership was ended in its stead.
func (l *Lanes) sayTaken(epoch uint64) {
	l.tell(0, Result{Kind: LoseLeadership, Epoch: epoch, Cause: CauseAgentDied, Exit: -1, Err: errTakenOver, TakenOver: true, Unasked: true})
}

// takeEnding takes over a leadership whose end the agent has asked for. One that is ended once
// more has no bound, and gets none. A become-leader hook that is still being ended has its share
// of the bound.
func (l *Lanes) takeEnding(now, due time.Time) bool {
	if t := l.lead; t != nil && t.Kind == LoseLeadership && !t.IsRedo && !t.taken && !t.cleanUp {
		l.takenOver, t.taken, t.again = t.Epoch.Counter, true, due
		l.bound(now, t, due)
		return true
	}
	for i := range l.queue {
		q := &l.queue[i]
		if q.Kind != LoseLeadership || q.IsRedo || q.taken {
			continue
		}
		l.takenOver, q.taken, q.again = q.Epoch.Counter, true, due
		q.due = earlier(q.due, due)
		l.end(now, q.Epoch.Counter, left(now, due))
		return true
	}
	return false
}

// isTaken reports whether the hook that is asked for was run in the agent's stead.
func (l *Lanes) isTaken(req request) bool {
	epoch := req.Epoch.Counter
	return req.Kind == LoseLeadership && !req.taken && !req.IsRedo && epoch == l.takenOver && l.lost.Epoch == epoch && l.lost.TakenOver
}
