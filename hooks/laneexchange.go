package hooks

import (
	"reflect"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// A reload while this host leads: what of its resources has changed is ended, in reverse, and then begun as it is
// configured now; the rest is left alone. All of both may be there meanwhile, so the journal has all of both first.

// exchange is the kind of a task for that.
const exchange Kind = "exchange"

// needsExchange reports whether a leadership goes on that may have something else than is configured.
func (l *Lanes) needsExchange() bool {
	isOn := l.reign != nil && l.begun == l.reign.Epoch.Counter && l.begun > l.over && !l.isClosed
	return isOn && !slices.EqualFunc(l.book.page.Has, l.hooks.Resources, isSame)
}

// exchangeNext holds what a leadership may have against what is configured, once after each reload, when nothing else is to be
// done: the leadership may have been about to begin, to end, or to be exchanged.
func (l *Lanes) exchangeNext(now time.Time) {
	if l.isReloaded = false; l.needsExchange() {
		l.exchange(now)
	}
}

// exchange begins with a note of all that may be there from now on.
func (l *Lanes) exchange(now time.Time) {
	req := request{Event: *l.reign}
	req.Kind = exchange
	t := l.carryOut(now, req, Leadership, l.hooks)
	all := l.book.mayHave(t.plan.Resources)
	t.wanted = l.hooks.Resources
	t.plan.Resources = without(all, l.hooks.Resources)
	t.note = l.book.begin(t.Epoch, l.kept, all)
	t.phase, t.until = noting, now.Add(l.cfg.RecordWithin)
}

// exchangeNoted goes on with what is configured no more.
func (l *Lanes) exchangeNoted(now time.Time, t *task) {
	l.holds.take(t.Event, l.book.page.Has, l.cfg.Pause)
	l.holds.part(t.wanted)
	t.phase, t.step, t.until = yielding, len(t.plan.Resources), time.Time{}
	l.yieldNext(now, t)
}

// exchanged goes on with what is configured now, once the rest has ended. What has not ended is ended with the leadership.
func (l *Lanes) exchanged(now time.Time, t *task) {
	t.plan.Resources = t.wanted // what was configured meanwhile is in no journal yet, and comes with the next exchange
	all := slices.Concat(t.plan.Resources, t.left)
	l.book.has(all)
	if l.holds.isFrozen {
		l.lead = nil
		return
	}
	l.holds.take(t.Event, all, l.cfg.Pause)
	l.holds.part(t.wanted)
	t.phase, t.step = having, 0
	l.haveNext(now, t)
}

// exchangeEnded ends the task; what could not be begun is told as what has failed since.
func (l *Lanes) exchangeEnded(res Result) {
	l.lead = nil
	if res.Err != nil && !res.IsCut {
		res.Kind, res.IsLater = BecomeLeader, true
		l.do(Tell{0, res})
	}
}

// without gives those of all that are not among others.
func without(all, others []Resource) []Resource {
	return slices.DeleteFunc(slices.Clone(all), func(r Resource) bool { return isIn(others, r) })
}

func isIn(all []Resource, r Resource) bool {
	return slices.ContainsFunc(all, func(other Resource) bool { return isSame(other, r) })
}

func isSame(a, b Resource) bool { return reflect.DeepEqual(a, b) }

// hurryExchange bounds an exchange that goes on when its leadership ends. One that waits for its note has done nothing yet, and
// does nothing any more: the end of a leadership waits for no disk.
func (l *Lanes) hurryExchange(now time.Time, budget time.Duration) {
	t := l.lead
	switch {
	case t == nil || t.Kind != exchange || t.Epoch.Counter > l.over:
	case t.phase == noting:
		l.book.withdraw()
		l.lead = nil
	case budget > 0:
		l.bound(now, t, now.Add(budget/ending.BudgetShare))
	}
}
