package guard

import "github.com/bully-agent/bully-agent/internal/run"

// How a guard decides: step looks at everything at each waking, and the ending
// goes from TERM over KILL to waiting as time goes on: KILL sent is not yet dead.

// step does what is due now, and reports whether nothing is left to watch.
func (g *guardian) step() (over bool) {
	g.receive()
	g.follow()
	gone := g.look()
	at := now()
	if g.asked == 0 {
		switch {
		case g.isAlone():
			g.ask(AgentDied)
		case g.deadline != 0 && at >= g.askBy():
			g.report.Silent = true
			g.ask(AgentDied)
		case g.child != nil && g.child.ended:
			g.ask("") // stragglers
		}
	}
	if g.asked == 0 {
		return false
	}
	if gone && (g.child == nil || g.child.bury()) {
		return true
	}
	g.press(now())
	return false
}

// look reports whether nothing of the command lives. While it runs that is worth
// asking only when somebody has died: renewals come many times a second.
func (g *guardian) look() (gone bool) {
	if g.child == nil {
		return true
	}
	if g.asked == 0 && !g.died {
		return false
	}
	g.died = false
	return g.child.look()
}

// press drives the ending on. What KILL does not end is said, and waited for: it may
// still write when its disk answers again, and nothing is to start beside it.
func (g *guardian) press(at instant) {
	switch {
	case g.killed == 0 && at < g.killBy():
		g.child.askAdopted()
		return
	case g.killed == 0:
		g.killed = at
	case at.Sub(g.killed) > run.Unkillable && g.report.Stuck == "":
		g.report.Stuck = run.Stuck(g.child.members())
		g.tell(Ending)
	}
	g.child.kill()
}

// ask begins the ending.
func (g *guardian) ask(cause string) {
	g.asked = now()
	g.report.Cause = cause
	if g.child != nil {
		g.child.ask()
	}
	g.tell(Ending)
}

// askBy is when a silent agent is taken for dead.
func (g *guardian) askBy() instant {
	return g.deadline.Add(-min(g.order.Budget, g.order.Grace+run.KillSlack))
}

// killBy is when KILL follows TERM.
func (g *guardian) killBy() instant {
	grace := g.order.Grace
	if due := earlier(g.due, g.deadline); due != 0 {
		grace = run.Grace(grace, due.Sub(g.asked))
	}
	return g.asked.Add(grace)
}
