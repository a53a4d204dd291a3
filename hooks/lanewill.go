package hooks

import "time"

// When a leadership is over that its agent does not mind any more, and whether others may be told
// so, by the will that the agent has left (M24).

// settlePatience is how long the disk has for the page that says so. Arbitrary: others wait for the
// lease, too.
const settlePatience = time.Second

// sayOver says once that all is over. Nothing is left that jobs have run.
func (l *Lanes) sayOver(now time.Time) {
	l.lentBy = time.Time{}
	if l.agent.isDead && !l.attempts.areOver() {
		return
	}
	if l.isOver || !l.agent.isGone || !l.AtRest() || l.isClosed || !l.isOpen || !l.orphans {
		return
	}
	if l.agent.isLent && now.Before(l.agent.lentTo) {
		l.lentBy = l.agent.lentTo
		return // the next life waits for this keeper, and does not stand while somebody acts on this life's lease
	}
	if isDue := l.book.page.Owed != nil; !isDue && !l.IsSettled() {
		if l.settleBy.IsZero() {
			l.settleBy = now.Add(settlePatience)
		}
		if now.Before(l.settleBy) {
			return
		}
	}
	l.isOver, l.settleBy = true, time.Time{}
	l.do(Over{IsClear: l.isClear()})
}

// isClear reports whether the others may be told that all is over.
func (l *Lanes) isClear() bool {
	switch {
	case !l.agent.isDead: // a will speaks for a dead agent: a deaf one could wake
	case l.agent.isLent: // somebody acts on its lease
	case !l.IsSettled(): // its lose-leadership hook is due, also by the disk alone
	case len(l.stuck) > 0: // a hook of its leadership hangs
	default:
		return true
	}
	return false
}
