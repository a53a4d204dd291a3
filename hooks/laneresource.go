package hooks

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// What a leadership has, besides what its hooks do: resources. They belong to the leadership's lane.
//
// They begin one after another before the become-leader hook, and end in reverse after the
// lose-leadership hook. All that the lose side does together has the time of that hook. What is
// lost in between is put back by whoever carries out effects; what cannot be put back has failed.
// From the moment at which a leadership is to end nothing is put back (Freeze).
//
// That a resource may be there stands in the journal with the epoch that is due (Page.Has), apart from what
// hooks run by: whoever makes up for that leadership ends all of them, and an end finds nothing to do where nothing is.

// have begins what a leadership has, and then its hook. What it has already is begun again, which
// changes nothing.
func (l *Lanes) have(now time.Time, t *task) {
	t.phase, t.step, t.until = having, 0, time.Time{}
	if len(t.plan.Resources) == 0 {
		l.haveNext(now, t)
		return
	}
	why, isWithdrawn := l.mayBegin(now, t)
	if isWithdrawn {
		return
	}
	if why != nil { // what this leadership has already is left as it is
		t.res = Result{Kind: t.Kind, Epoch: t.Epoch.Counter, Cause: t.Cause, Exit: -1, Err: why, IsCut: true}
		l.finish(now, t)
		return
	}
	l.holds.take(t.Event, t.plan.Resources, l.cfg.Pause)
	l.haveNext(now, t)
}

// haveNext begins the next resource, or the hook when all have begun.
func (l *Lanes) haveNext(now time.Time, t *task) {
	if t.step < len(t.plan.Resources) {
		r := t.plan.Resources[t.step]
		l.do(l.holds.begin(r))
		return
	}
	if t.Kind == exchange || t.Cause != CauseRequested && l.ready == t.Epoch.Counter { // only what the leadership has was to be begun again
		t.res = Result{Kind: t.Kind, Epoch: t.Epoch.Counter, Cause: t.Cause, Exit: -1, OK: true}
		l.finish(now, t)
		return
	}
	l.attempt(now, t)
}

// onResourceBegun goes on with the next one. One that has not begun fails the leadership, unless it
// is to go on without it.
func (l *Lanes) onResourceBegun(now time.Time, e ResourceBegun) {
	h := l.holds.find(e.Name)
	if h == nil || l.holds.isFrozen || h.isParting {
		l.giveUp(now, e)
		return
	}
	h.has, h.again = e.Err == nil, time.Time{}
	if e.Err == nil {
		h.rest.Succeeded(now)
	} else if h.Stays {
		l.tryAgain(now, h, e.Err)
	}
	t := l.running(Leadership, having)
	switch {
	case t == nil || t.plan.Resources[t.step].Name != e.Name:
	case e.Err == nil || h.Stays:
		t.step++
		l.haveNext(now, t)
	default:
		l.hasNot(now, t, e)
	}
}

// giveUp ends the beginning of a leadership that is to end.
func (l *Lanes) giveUp(now time.Time, e ResourceBegun) {
	if t := l.running(Leadership, having); t != nil && t.plan.Resources[t.step].Name == e.Name {
		e.Err = cmp.Or(t.limit.Reason, e.Err, errOver)
		l.hasNot(now, t, e)
	}
}

// hasNot ends a become-leader whose resource has not begun.
func (l *Lanes) hasNot(now time.Time, t *task, e ResourceBegun) {
	t.res = Result{Kind: t.Kind, Epoch: t.Epoch.Counter, Cause: t.Cause, Exit: -1, Resource: e.Name,
		Err: fmt.Errorf("%s has not begun: %w", e.Name, e.Err), IsCut: t.limit.Reason != nil || l.holds.isFrozen}
	l.say(Error, "resource not begun", "resource", e.Name, "epoch", t.Epoch.Counter, "err", e.Err)
	l.finish(now, t)
}

// onResourceFailed: what the leadership had is lost for good. The agent hears of it as of a
// become-leader that has failed after all, and hands over.
func (l *Lanes) onResourceFailed(now time.Time, e ResourceFailed) {
	h := l.holds.find(e.Name)
	if h == nil || !h.has || l.holds.isFrozen || h.isParting {
		return
	}
	h.has = false
	l.say(Error, "resource failed", "resource", e.Name, "epoch", l.holds.by.Epoch.Counter, "err", e.Err)
	if h.Stays {
		l.tryAgain(now, h, e.Err)
		return
	}
	by := l.holds.by
	l.do(Tell{0, Result{Kind: BecomeLeader, Epoch: by.Epoch.Counter, Cause: by.Cause, Exit: -1, Resource: e.Name, IsLater: true,
		Err: fmt.Errorf("%s has failed: %w", e.Name, e.Err)}})
}

// tryAgain has a resource begun once more after a pause, which grows.
func (l *Lanes) tryAgain(now time.Time, h *had, why error) {
	pause := h.later(now)
	l.say(Warn, "leading without a resource, which is begun again", "resource", h.Name, "in", pause, "err", why)
}

// retry begins again what it is time for.
func (l *Lanes) retry(now time.Time) {
	for _, r := range l.holds.due(now) {
		l.do(l.holds.begin(r))
	}
}

// announce has neighbours told once more, unless all of it is to end: then they are to learn another host.
func (l *Lanes) announce() {
	if l.holds.isKept() {
		l.do(Announce{})
	}
}

// freeze has nothing put back of what a leadership has that is to end.
func (l *Lanes) freeze(epoch uint64) {
	if l.holds.freeze(epoch) {
		l.do(Freeze{})
	}
}

// yield ends what a leadership has, after its lose-leadership hook. After any other hook there is
// nothing to yield.
func (l *Lanes) yield(now time.Time, t *task) {
	if !t.yields() {
		l.finish(now, t)
		return
	}
	l.freeze(t.Epoch.Counter)
	t.phase, t.step, t.until = yielding, len(t.plan.Resources), time.Time{}
	l.yieldNext(now, t)
}

// yields: its resources end after its hook.
func (t *task) yields() bool {
	return (t.Kind == LoseLeadership || t.Kind == sweep) && len(t.plan.Resources) > 0
}

// yieldNext asks the next resource to end, the one that has begun last first. Where all of it is bound to be over, the
// next is asked when this one has used up its share, and they end beside each other: what sticks keeps nothing else here.
func (l *Lanes) yieldNext(now time.Time, t *task) {
	switch {
	case t.step > 0:
		t.step--
		t.ending = append(t.ending, t.plan.Resources[t.step])
		l.do(l.endNow(now, t, t.plan.Resources[t.step]))
		t.until = t.overtakeAt(now)
	case len(t.ending) > 0: // each has a bound of its own
	case t.Kind == exchange:
		l.exchanged(now, t)
	default:
		l.holds.all = nil
		l.finish(now, t)
	}
}

// overtakeAt is when the resource that was asked last to end has used up its share of what is left for all; the zero time: it has
// no share, since nothing is bound or nothing waits.
func (t *task) overtakeAt(now time.Time) time.Time {
	if t.due.IsZero() || t.step == 0 {
		return time.Time{}
	}
	return now.Add(max(t.due.Sub(now), 0) / time.Duration(t.step+1))
}

// leastYield is what an end has at least, also when its time has passed: it is as late as it is, and giving it up sooner would
// leave what it ends. Arbitrary: hundreds of addresses take a tenth of a second.
const leastYield = 100 * time.Millisecond

// endNow asks for the end of a resource.
func (l *Lanes) endNow(now time.Time, t *task, r Resource) EndResource {
	within := r.Grace
	if !t.yieldBy.IsZero() {
		within = min(within, max(t.yieldBy.Sub(now), leastYield))
	}
	return EndResource{Resource: r, Within: within}
}

// onResourceEnded goes on with the one before. One that has not ended may still be here while
// others lead: the lose side has failed, whatever its hook has done.
func (l *Lanes) onResourceEnded(now time.Time, e ResourceEnded) {
	t := l.running(Leadership, yielding)
	if t == nil {
		return
	}
	i := slices.IndexFunc(t.ending, func(r Resource) bool { return r.Name == e.Name })
	if i < 0 {
		return
	}
	ended, isLast := t.ending[i], i == len(t.ending)-1
	t.ending = slices.Delete(t.ending, i, i+1)
	if e.Err != nil {
		l.say(Error, "resource not ended", "resource", e.Name, "epoch", t.Epoch.Counter, "err", e.Err)
		t.left = append(t.left, ended)
		if t.res.OK {
			t.res.OK, t.res.Resource, t.res.Err = false, e.Name, fmt.Errorf("%s has not ended: %w", e.Name, e.Err)
			t.res.IsCut = !t.yieldBy.IsZero()
		}
	}
	if isLast || t.step == 0 {
		l.yieldNext(now, t)
	}
}

// sweep is the kind of a request that only ends resources.
const sweep Kind = "sweep"

// sweepFirst ends what is there of resources though this host does not lead, and nothing says that it
// did: after a crash without a journal, a snapshot that was restored, or a unit that started with the host.
func (l *Lanes) sweepFirst() {
	if len(l.hooks.Resources) > 0 && l.book.page.Owed == nil {
		l.queue = slices.Insert(l.queue, 0, request{Event: Event{Kind: sweep}})
	}
}

// sweepNew does so when a reload has configured more, and nothing is done or due for a leadership: what was put here by hand is to be
// this host's from now on. A leadership that goes on begins all of it, and ends it.
func (l *Lanes) sweepNew(now time.Time) {
	if l.book.page.Owed != nil && l.reign == nil {
		return // that end is tried again
	}
	l.isUnswept = false
	if l.reign == nil && !l.isClosed && !l.agent.isGone {
		l.sweepAt, l.sweepRest = time.Time{}, 0
		if l.sweepFirst(); len(l.queue) > 0 {
			l.leadNext(now)
		}
	}
}

// sweepLater has what a sweep could not end swept once more, after a pause, which grows.
func (l *Lanes) sweepLater(now time.Time, t *task) {
	if len(t.left) == 0 {
		return
	}
	l.sweepRest = min(max(2*l.sweepRest, l.cfg.Pause), longestPause)
	l.sweepAt = now.Add(l.sweepRest)
}

// sweepAgain does so when it is time, unless a leadership has begun or is being ended: that ends all by itself.
func (l *Lanes) sweepAgain(now time.Time) {
	if l.sweepAt.IsZero() || now.Before(l.sweepAt) {
		return
	}
	l.sweepAt = time.Time{}
	if l.AtRest() && !l.isClosed && !l.agent.isGone {
		l.sweepFirst()
	}
}

// yieldShare is what a bounded lose side keeps for resources, after its hook: the hook is dead by what this gives.
func yieldShare(now, due time.Time, cfg Config) time.Time {
	if due.IsZero() || len(cfg.Resources) == 0 {
		return due
	}
	return due.Add(-max(due.Sub(now), 0) / ending.BudgetShare)
}
