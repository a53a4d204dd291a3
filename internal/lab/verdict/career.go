package verdict

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Promise 1: each node's hooks form (become lose)*, over all lives of its agent.

// What a lose hook is told that makes up for an agent which could not ask for it (docs/hooks.md).
const (
	CauseAgentDied      = "agent-died"      // its keeper runs it, once the agent is dead or silent
	CauseUncleanRestart = "unclean-restart" // the next life's keeper runs it, where both were killed
)

// career is where one node is in (become lose)*.
type career struct {
	*Rules

	at      What   // its last hook line; 0 before the first
	epoch   Epoch  // of that line
	highest uint64 // counter of its last leadership, also of one whose become hook wrote nothing

	dead    bool // killed, or ended while it owed a lose hook, and not started since
	violent bool // it was so in the end of its last life but none has begun to lead since
	fresh   bool // started after such an end, and no hook has begun since
	gone    bool // ended cleanly, and not started since

	becameAt time.Duration // when the last become hook began
	cause    string        // of the last lose hook
}

// checkHooks is promise 1.
func checkHooks(c *course) (breaches []Breach) {
	nodes := map[string]*career{}
	for _, r := range c.records {
		n := nodes[r.Node]
		if n == nil {
			n = &career{Rules: &c.Rules}
			nodes[r.Node] = n
		}
		if text := n.enter(r); text != "" {
			breaches = append(breaches, breachf(r.At, "%s %s", r.Node, text))
		}
	}
	if !c.Guarded {
		return breaches
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n := nodes[name]
		l := Leadership{name, n.epoch.Counter}
		if isRedone := n.Cut[l] || n.Ended[l]; n.isOpen() && !isRedone {
			breaches = append(breaches, breachf(c.End, "on %s the lose hook of epoch %d is due in the end", name, n.epoch.Counter))
		}
	}
	return breaches
}

// enter takes one record of the node and says what is wrong with it; "" if nothing.
func (n *career) enter(r Record) string {
	switch r.What {
	case Started:
		n.fresh, n.dead, n.gone = n.violent, false, false
	case Killed:
		n.dead, n.violent, n.fresh = true, true, false
	case Exited:
		return n.exit(r)
	}
	if !r.What.IsHook() {
		return ""
	}
	was := *n
	n.at, n.epoch, n.highest = r.What, r.Epoch, max(n.highest, r.Epoch.Counter)
	n.fresh = n.fresh && (r.What == Succeeded || r.What == Lost)
	switch r.What {
	case Became:
		n.becameAt, n.violent = r.At, n.violent && n.dead
		return was.checkBecome(r)
	case Losing:
		n.cause = r.Cause
		return was.checkLose(r)
	case Succeeded:
		return was.checkEnd(r, Became, "become")
	}
	return was.checkEnd(r, Losing, "lose")
}

// isOpen reports whether the last leadership has a become without its lose, as far as the lines say.
func (n *career) isOpen() bool { return n.at == Became || n.at == Succeeded || n.at == Losing }

// owes: the lose hook of the last leadership is to come, or to end. One that was ended cannot say so.
func (n *career) owes(name string) bool {
	return n.isOpen() && !n.hasEnded(Leadership{name, n.epoch.Counter})
}

func (n *career) checkBecome(r Record) string {
	switch {
	case n.owes(r.Node):
		return fmt.Sprintf("became leader of epoch %d while the lose hook of epoch %d is due", r.Epoch.Counter, n.epoch.Counter)
	case n.gone: // a hook outlives a killed agent by a moment, and no other
		return "ran a become hook without a running agent"
	}
	return ""
}

func (n *career) checkEnd(r Record, begin What, hook string) string {
	if n.at == begin && n.epoch == r.Epoch {
		return ""
	}
	return fmt.Sprintf("ended a %s hook of epoch %d, but its begin is not the line before", hook, r.Epoch.Counter)
}

func (n *career) checkLose(r Record) string {
	isSame := n.epoch == r.Epoch
	// It was killed after its last line, or failed, and the keeper says so.
	l := Leadership{r.Node, r.Epoch.Counter}
	isAgain := n.at == Lost && isSame && (r.Attempt > 1 || n.isCut(l) || n.Failed[l])
	isMakeUp := r.Cause == CauseAgentDied || r.Cause == CauseUncleanRestart
	// Its become hook, which was killed at once; strictly, by an agent that lived to ask for it.
	wroteNothing := r.Epoch.Counter > n.highest && !(n.Strict && (n.fresh || n.dead && isMakeUp))
	switch {
	case n.isOpen() && !isSame:
		return fmt.Sprintf("ran the lose hook of epoch %d for its epoch %d", r.Epoch.Counter, n.epoch.Counter)
	case !n.isOpen() && !isAgain && !wroteNothing:
		return fmt.Sprintf("ran the lose hook of epoch %d without having become leader: cause %q after %q, attempt %d, become hook %s before",
			r.Epoch.Counter, r.Cause, n.cause, max(r.Attempt, 1), Span(r.At-n.becameAt))
	case n.fresh && !wroteNothing && !isMakeUp && !n.Asked[l]:
		return fmt.Sprintf("ran the lose hook of an earlier life with cause %q instead of %q or %q", r.Cause, CauseAgentDied, CauseUncleanRestart)
	case r.Cause == CauseUncleanRestart && (n.dead || !n.violent):
		return "ran a lose hook as if its agent had restarted uncleanly"
	}
	return ""
}

// exit ends a life; one that was not killed leaves no debt.
func (n *career) exit(r Record) string {
	if n.dead {
		return ""
	}
	owes := n.owes(r.Node)
	n.gone, n.dead, n.violent = !owes, owes, owes // what a crash leaves behind is cleaned up like what a kill does
	if owes {
		return fmt.Sprintf("exited without the lose hook of epoch %d", n.epoch.Counter)
	}
	return ""
}
