package sim

import (
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
)

// What must hold of checks, by what the world has seen: what ran, what it answered, and what the node knew of it.
//
//   - C1, a check runs once at a time, and no sooner than its interval after the run before, once it has a verdict.
//   - C2, a run has its timeout and the grace of a question, and then KILL.
//   - C3, no run begins, or goes on without an end, once its keeper knows that the agent is dead.
//   - C4, the node has a bar exactly when a check has not passed, by its last runs.
//   - C5, a check is run again and again.

// checkedAt is where the numbers of the invariants of checks begin.
const checkedAt = 120

// counted is what the runs of a check come to, as the world counts what its keeper hears.
type counted struct {
	state   hooks.CheckState
	isKnown bool // false: a run was late, and which came first the world does not say
	row     int
	passed  bool
	change  int // number of the last one
}

// take counts an answer, and reports whether the state is another now.
func (v *counted) take(check hooks.Check, passed bool) (isNews bool) {
	if v.row++; passed != v.passed {
		v.row, v.passed = 1, passed
	}
	was := *v
	switch {
	case passed && v.row >= check.Rise:
		v.state, v.isKnown = hooks.CheckPasses, true
	case !passed && v.row >= check.Fall:
		v.state, v.isKnown = hooks.CheckFails, true
	}
	if isNews = v.state != was.state || !was.isKnown && v.isKnown; isNews {
		v.change++
	}
	return isNews
}

// C1: two runs of a check are never there at a time, and one begins in its time.
func (w *World) c1OneRunAtATime(k *keeper, q *inquiry) {
	check := w.checks.all[q.check]
	before := k.inquiries[q.check]
	if before == nil {
		return
	}
	v := k.counts[q.check]
	switch since := q.asked.Sub(before.asked); {
	case !before.isOver:
		w.fail(checkedAt+1, "n%d runs check %s while it runs", k.host.number, check.Name)
	case since < check.Interval && v.isKnown && v.state != hooks.CheckPending:
		w.fail(checkedAt+1, "n%d runs check %s %v after the run before", k.host.number, check.Name, since)
	}
}

// C2: a run is killed in its time.
func (w *World) c2EndsInItsTime(q *inquiry) {
	check := w.checks.all[q.check]
	if last := q.limit.KillBy(q.limit.TermBy(q.begun)).Sub(q.begun); last > w.checks.longestRun(check) {
		w.fail(checkedAt+2, "n%d runs check %s for up to %v", q.keeper.host.number, check.Name, last)
	}
}

// C3: nothing is asked for an agent that is dead,
func (w *World) c3NoneForTheDead(k *keeper) {
	if k.sawDeath && k.isRun {
		w.fail(checkedAt+3, "n%d runs a check though its keeper knows that the agent is dead", k.host.number)
	}
}

// C3: and what runs is told to end.
func (w *World) c3EndsWithTheAgent(k *keeper) {
	for _, q := range k.inquiries {
		if q != nil && !q.isOver && q.limit.Reason == nil {
			w.fail(checkedAt+3, "n%d's check %s runs on though its keeper knows that the agent is dead", k.host.number, w.checks.all[q.check].Name)
		}
	}
}

// giveUpLate has the world not know what a run comes to that has no answer when Lanes wait no longer for one, or soon will not: the
// host's clock may be slewed meanwhile.
func (w *World) giveUpLate(q *inquiry) {
	m := q.keeper.host
	late := w.checks.all[q.check].Timeout + questionGrace + ending.Unkillable + time.Second
	at := m.clock.when(q.asked.Add(late-late/20), w.now)
	w.in(q.keeper, time.Duration(at-w.now), func() {
		if !q.isHeard {
			q.isHeard = true
			q.keeper.counts[q.check].isKnown, q.keeper.counts[q.check].row = false, 0
		}
	})
}

// judgeAnswer counts what a keeper hears of a run, once.
func (w *World) judgeAnswer(k *keeper, e hooks.Consulted) {
	for i, q := range k.inquiries {
		if q == nil || q.lane != e.Lane || q.seq != e.Seq || q.isHeard {
			continue
		}
		q.isHeard = true
		if q.limit.Reason == nil && k.counts[i].take(w.checks.all[i], e.Reply.Err == nil) {
			w.lookAtCheck(k, i)
		}
	}
}

// lookAtCheck holds the agent to a verdict, when it has had the time to hear of it.
func (w *World) lookAtCheck(k *keeper, i int) {
	change := k.counts[i].change
	w.after(checkHeard, func() {
		m, v := k.host, k.counts[i]
		switch {
		case k.isOver || k.isAlone || m.life != k.life || !m.runs() || v.change != change || !v.isKnown || v.state == hooks.CheckPending:
		case m.isBlocked() || w.now < m.awakeSince+int64(checkHeard):
			w.lookAtCheck(k, i)
		default:
			w.c4NodeKnows(m, i, v.state)
		}
	})
}

// C4: the node knows what the last runs of a check have come to.
func (w *World) c4NodeKnows(m *machine, i int, state hooks.CheckState) {
	isBarred := m.node.Status().Bars.Has(election.BarCheck)
	switch name := w.checks.all[i].Name; {
	case state == hooks.CheckFails && !isBarred:
		w.fail(checkedAt+4, "n%d may lead though its check %s fails", m.number, name)
	case m.checked[i] != state:
		w.fail(checkedAt+4, "n%d has check %s as one that %v, and it %v", m.number, name, m.checked[i], state)
	case isBarred && !m.isUnwell(w):
		w.fail(checkedAt+4, "n%d may not lead though its checks pass", m.number)
	}
}

// C5: a check whose runs end is run again.
func (w *World) c5ChecksGoOn() {
	for _, m := range w.machines {
		k := m.hooks.keeper
		if w.failure != nil || !m.isUp() || k == nil || !k.isOpen || k.life != m.life || k.isAlone {
			continue
		}
		for i, check := range w.checks.all {
			longest := check.Interval + w.checks.longestRun(check) + ending.Unkillable + time.Second
			if q := k.inquiries[i]; q == nil || m.clock.time(w.now).Sub(q.asked) > longest {
				w.fail(checkedAt+5, "n%d does not run check %s any more", m.number, check.Name)
			}
		}
	}
}
