package hooks

import "time"

// When a leadership is over that its agent does not mind any more, and whether others may be told
// so, by the will that the agent has left (M24).

// settlePatience is how long the disk has for the page that says so. Arbitrary: others wait for the
// lease, too.
const settlePatience = time.Second

// sayOver says once that all is over. A will speaks for an agent that is dead: a deaf one could wake. Nobody acts on
// its lease any more. Nothing of its leadership is left, by the disk as well, or hangs. Nothing is left that jobs have run.
func (l *Lanes) sayOver(now time.Time) {
	if l.agent.isDead && !l.attempts.areOver() {
		return
	}
	if l.isOver || !l.agent.isGone || !l.AtRest() || l.isClosed || !l.isOpen || !l.orphans {
		return
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
	l.do(Over{IsClear: l.agent.isDead && !l.agent.isLent && l.IsSettled() && len(l.stuck) == 0})
}
