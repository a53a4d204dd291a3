package hooks

import (
	"reflect"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// A reload while this host leads: what of its resources has changed is ended, in reverse, and then begun as it is
// configured now; the rest is left alone. All of both may be there meanwhile, so the journal has all of both first.

// exchange is the kind of a request for that.
const exchange Kind = "exchange"

// exchangeLater asks for an exchange if the leadership that goes on may not have what is configured.
func (l *Lanes) exchangeLater() {
	if l.reign == nil || l.begun != l.reign.Epoch.Counter || l.waits(exchange, 0) || !l.isExchanging() && slices.EqualFunc(l.book.page.Has, l.hooks.Resources, isSame) {
		return
	}
	l.queue = append(l.queue, request{Event: Event{Kind: exchange, Cause: l.reign.Cause, Epoch: l.reign.Epoch}})
}

// isExchanging reports whether an exchange goes on, for what was configured when it began.
func (l *Lanes) isExchanging() bool { return l.lead != nil && l.lead.Kind == exchange }

// exchange begins with a note of all that may be there from now on.
func (l *Lanes) exchange(now time.Time, req request) {
	if l.reign == nil || l.reign.Epoch != req.Epoch || l.isClosed {
		return // the end of the leadership has come first
	}
	req.Event = *l.reign
	req.Kind = exchange
	t := l.carryOut(now, req, Leadership, l.hooks)
	all := l.book.mayHave(t.Epoch.Counter, t.plan.Resources)
	t.wanted = l.hooks.Resources
	t.plan.Resources = filter(all, func(r Resource) bool { return !isIn(l.hooks.Resources, r) })
	l.holds.take(t.Event, all, l.cfg.Pause)
	l.holds.part(t.wanted)
	t.phase, t.until = noting, now.Add(l.cfg.RecordWithin)
	t.note = l.book.begin(t.Epoch, l.kept, all)
}

// exchangeNoted goes on with what is configured no more.
func (l *Lanes) exchangeNoted(now time.Time, t *task) {
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
		l.do(Tell{res})
	}
}

func filter(all []Resource, isWanted func(Resource) bool) (some []Resource) {
	for _, r := range all {
		if isWanted(r) {
			some = append(some, r)
		}
	}
	return some
}

func isIn(all []Resource, r Resource) bool {
	return slices.ContainsFunc(all, func(other Resource) bool { return isSame(other, r) })
}

func isSame(a, b Resource) bool { return reflect.DeepEqual(a, b) }

// hurryExchange bounds an exchange that goes on when its leadership ends.
func (l *Lanes) hurryExchange(now time.Time, budget time.Duration) {
	if t := l.lead; t != nil && t.Kind == exchange && budget > 0 {
		l.bound(now, t, now.Add(budget/ending.BudgetShare))
	}
}
