package lab

import (
	"fmt"
	"time"
)

// Promise 1 of judge: each node's hooks form (become lose)*, over all lives of its agent.

// What a lose hook is told that makes up for an agent which could not run it (README, Hooks).
const (
	causeAgentDied      = "agent-died"      // its guard runs it, once the agent is dead or frozen
	causeUncleanRestart = "unclean-restart" // the next life runs it, where the guard could not
)

// ledger is what one node owes.
type ledger struct {
	lease time.Duration

	alive     bool
	violent   bool  // the life that ended last, or the present one's predecessor, was killed
	owes      bool  // a become without its lose
	inherited bool  // the debt is of an earlier life
	fresh     bool  // no hook has run in this life
	epoch     epoch // of the last become, or of a higher lose

	becameAt time.Duration // when the last become hook printed
	losingAt time.Duration // when the last lose hook printed that it begins

	// Of the last lose hook.
	cause   string
	byGuard bool // its guard's
	isEarly bool // the first one of an epoch, by its guard, began when its become hook just had, or had printed nothing
}

// checkHooks is promise 1.
func checkHooks(c *course) (breaches []breach) {
	nodes := map[string]*ledger{}
	for _, r := range c.records {
		l := nodes[r.node]
		if l == nil {
			l = &ledger{lease: c.lease}
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
	case losing:
		l.losingAt = r.at
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
	l.owes, l.inherited, l.fresh, l.epoch, l.becameAt = true, false, false, r.epoch, r.at
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
	l.cause = r.cause
	l.byGuard, l.isEarly = r.cause == causeAgentDied, l.wasEarly(r, was)
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
	case !was.owes && r.epoch == was.epoch && was.repeats(r):
		return ""
	case !was.owes:
		return fmt.Sprintf("ran the lose hook of epoch %d without having become leader: cause %q after %q, attempt %d, become hook %s before",
			r.epoch.counter, r.cause, was.cause, max(r.attempt, 1), span(r.at-was.becameAt))
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

// repeats reports whether r is a lose hook that runs once more for its epoch, as it may on a host that is too slow for
// its lease: after an attempt that failed, for one because it had to end with the lease; by the guard of an agent that
// froze in its own or right after it (protocol M7); by the agent after its guard, if it cannot know whether the
// become hook began before the guard's lose hook. Whether a hook failed its line does not tell: one that was ended in its
// last instant has printed all the same.
func (l *ledger) repeats(r record) bool {
	switch {
	case r.attempt > 1:
		return true
	case r.cause == causeAgentDied:
		return !l.byGuard
	}
	return l.byGuard && l.isEarly
}

// wasEarly reports whether the guard's lose hook r, or one of the same epoch before it, may have come before the become
// hook. A guard that finds its agent silent acts a lease later at most.
func (l *ledger) wasEarly(r record, was ledger) bool {
	if !was.owes {
		return was.isEarly || r.epoch.compare(was.epoch) > 0
	}
	began := r.at
	if l.losingAt > l.becameAt {
		began = l.losingAt
	}
	return began-l.becameAt <= l.lease
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
