package lab

import "fmt"

// Promise 1 of judge: each node's hooks form (become lose)*, over all lives of its agent.

// What a lose hook is told that makes up for an agent which could not run it (README, Hooks).
const (
	causeAgentDied      = "agent-died"      // its guard runs it, once the agent is dead or frozen
	causeUncleanRestart = "unclean-restart" // the next life runs it, where the guard could not
)

// ledger is what one node owes.
type ledger struct {
	alive     bool
	violent   bool  // the life that ended last, or the present one's predecessor, was killed
	owes      bool  // a become without its lose
	inherited bool  // the debt is of an earlier life
	fresh     bool  // no hook has run in this life
	epoch     epoch // of the last become, or of a higher lose
}

// checkHooks is promise 1.
func checkHooks(records []record) (breaches []breach) {
	nodes := map[string]*ledger{}
	for _, r := range records {
		l := nodes[r.node]
		if l == nil {
			l = &ledger{}
			nodes[r.node] = l
		}
		if text := l.enter(r); text != "" {
			breaches = append(breaches, breachf(r.at, "%s %s", r.node, text))
		}
	}
	return breaches
}

// enter takes one record of the node and says what is wrong with it; "" if nothing.
func (l *ledger) enter(r record) string {
	switch r.what {
	case started:
		l.alive, l.fresh, l.inherited = true, true, l.owes
	case became:
		return l.become(r)
	case lost:
		return l.lose(r)
	case killed:
		l.alive, l.violent = false, true
	case exited:
		return l.exit()
	}
	return ""
}

func (l *ledger) become(r record) string {
	owed, before := l.owes, l.epoch
	l.owes, l.inherited, l.fresh, l.epoch = true, false, false, r.epoch
	switch {
	case owed:
		return fmt.Sprintf("became leader of epoch %d, but owes the lose hook of epoch %d", r.epoch.counter, before.counter)
	case !l.alive && !l.violent: // a hook outlives a killed agent by a moment
		return "ran a become hook without a running agent"
	}
	return ""
}

func (l *ledger) lose(r record) string {
	was := *l
	l.owes, l.inherited, l.fresh = false, false, false
	if r.epoch.compare(l.epoch) > 0 {
		l.epoch = r.epoch
	}
	cleanUp := was.alive && was.violent && was.fresh && r.cause == causeUncleanRestart || was.violent && r.cause == causeAgentDied
	switch {
	case cleanUp && (!was.owes || r.epoch == was.epoch):
		// Not owing is fine: killed between the hook and its note of it, an agent runs the hook again.
		return ""
	case !was.owes && r.epoch.compare(was.epoch) > 0:
		// Its become hook was killed before it had printed a word.
		return ""
	case !was.owes:
		return fmt.Sprintf("ran the lose hook of epoch %d without having become leader", r.epoch.counter)
	case r.epoch != was.epoch:
		return fmt.Sprintf("ran the lose hook of epoch %d for its epoch %d", r.epoch.counter, was.epoch.counter)
	case r.cause == causeAgentDied: // the guard's, at any time
		return ""
	case was.inherited:
		return fmt.Sprintf("ran the lose hook of an earlier life with cause %q instead of %q or %q", r.cause, causeAgentDied, causeUncleanRestart)
	case r.cause == causeUncleanRestart:
		return "ran a lose hook as if its agent had restarted uncleanly"
	}
	return ""
}

// exit ends a life; one that was not killed leaves no debt.
func (l *ledger) exit() string {
	byForce := !l.alive && l.violent
	l.alive = false
	if byForce {
		return ""
	}
	l.violent = l.owes // what a crash leaves behind is cleaned up like what a kill does
	if l.owes {
		return fmt.Sprintf("exited without the lose hook of epoch %d", l.epoch.counter)
	}
	return ""
}
