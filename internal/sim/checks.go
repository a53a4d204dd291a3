package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
)

// In a third of the schedules with bars the checks of hosts are those that ship: a keeper's Lanes run commands, count what they
// answer and say so, and the agent makes a bar of it, as package agent does. In the others a bar comes and goes by itself.
// They have a stream of chance of their own.
type checks struct {
	rng *rand.Rand
	all []hooks.Check // of each host; none: bars come by themselves
}

func (w *World) drawChecks(o *Options) {
	c := &w.checks
	c.rng = rand.New(rand.NewPCG(o.Seed, 0xc4ec5))
	if isDrawn := c.oneIn(3) && !o.noChecks || o.checks; !isDrawn || !w.bars.some || w.keepers.isPlain {
		return
	}
	for _, name := range []string{"web", "disk"}[:1+c.rng.IntN(2)] {
		interval := pick(c.rng, 200*time.Millisecond, 500*time.Millisecond, time.Second)
		c.all = append(c.all, hooks.Check{Name: name, Command: hooks.Command{Shell: "look"}, Interval: interval,
			Timeout: interval / pick[time.Duration](c.rng, 1, 2), Rise: 1 + c.rng.IntN(3), Fall: 1 + c.rng.IntN(3)})
	}
}

// isChecked: the checks of hosts are those that ship.
func (w *World) isChecked() bool { return len(w.checks.all) > 0 }

// isCheck: the lane is a check's.
func isCheck(l hooks.Lane) bool { return strings.HasPrefix(string(l), "check ") }

func (c *checks) oneIn(n int) bool { return c.rng.IntN(n) == 0 }

func (c *checks) upTo(d time.Duration) time.Duration {
	return time.Duration(c.rng.Float64() * float64(d))
}

// noticedWithin bounds how long it takes in calm weather until a host that is well, or ill, has the node know it.
func (c *checks) noticedWithin() (longest time.Duration) {
	for _, check := range c.all {
		longest = max(longest, time.Duration(1+max(check.Rise, check.Fall))*check.Interval+check.Timeout+c.longestRun(check)+checkHeard)
	}
	return longest
}

// longestRun is how long a run may be there that KILL ends.
func (c *checks) longestRun(check hooks.Check) time.Duration { return check.Timeout + questionGrace }

// checkHeard bounds how long a keeper and its agent take, both awake, from the answer of a run to the node.
const checkHeard = hooks.RecordPatience/4 + 100*time.Millisecond

// questionGrace is that of Lanes, between TERM and KILL.
const questionGrace = 500 * time.Millisecond

// inquiry is one run of a check, and its processes.
type inquiry struct {
	keeper    *keeper
	check     int
	lane      hooks.Lane
	seq       uint64
	limit     ending.Limit
	asked     time.Time // on its host's clock, as begun
	begun     time.Time
	takes     time.Duration
	err       error
	heedsTerm bool
	survives  bool // KILL, for a while
	isBegun   bool
	isKilled  bool // in vain
	isOver    bool
	isHeard   bool // by its keeper, or for too long not
	plan      int  // what was planned before is void
}

// startInquiry: the process is there a moment later, or much later.
func (w *World) startInquiry(k *keeper, e hooks.Consult) {
	c := &w.checks
	m := k.host
	i := slices.IndexFunc(c.all, func(check hooks.Check) bool { return e.Lane == hooks.Lane("check "+check.Name) })
	q := &inquiry{keeper: k, check: i, lane: e.Lane, seq: e.Seq, limit: e.Limit, asked: m.clock.time(w.now)}
	w.c1OneRunAtATime(k, q)
	w.c3NoneForTheDead(k)
	k.inquiries[i] = q
	w.giveUpLate(q)
	takes := c.upTo(5 * time.Millisecond)
	if w.raging && c.oneIn(60) {
		w.fired(CheckStartHangs)
		takes = c.upTo(5 * time.Second)
	}
	w.in(k, takes, func() { w.beginInquiry(q) })
}

func (w *World) beginInquiry(q *inquiry) {
	c := &w.checks
	m := q.keeper.host
	why := q.limit.Reason // it was ended before its worker came to it
	if why == nil && w.raging && c.oneIn(40) {
		w.fired(CheckUnstarted)
		why = errUnstarted
	}
	if why != nil {
		q.isOver = true
		w.answer(q, why, false)
		return
	}
	q.isBegun, q.begun = true, m.clock.time(w.now)
	w.c2EndsInItsTime(q)
	w.drawInquiry(q)
	w.planAnswer(q)
}

// drawInquiry draws what a run does. A host that is ill has one check that says so, or hangs. In the storm a run may say what is
// not so, or take long.
func (w *World) drawInquiry(q *inquiry) {
	c := &w.checks
	m := q.keeper.host
	isIll := m.checkFails && m.illOf%len(c.all) == q.check
	isMistaken := w.raging && c.oneIn(12)
	q.takes = c.upTo(min(20*time.Millisecond, c.all[q.check].Timeout/2))
	if isIll != isMistaken {
		q.err = errFailed
	}
	q.heedsTerm, q.survives = !c.oneIn(3), w.raging && c.oneIn(4)
	switch {
	case isMistaken:
		w.fired(CheckFlaps)
	case isIll && c.oneIn(3), w.raging && c.oneIn(20):
		w.fired(CheckHangs)
		q.takes = time.Hour
	case w.raging && c.oneIn(10):
		q.takes = c.upTo(c.all[q.check].Timeout)
	}
}

// planAnswer plans the end of a run by what it does and by its limit.
func (w *World) planAnswer(q *inquiry) {
	m := q.keeper.host
	q.plan++
	plan := q.plan
	now := m.clock.time(w.now)
	end, err, lives := q.begun.Add(q.takes), q.err, false
	if term := later(q.limit.TermBy(q.begun), now); term.Before(end) {
		kill := q.limit.KillBy(term)
		switch {
		case q.heedsTerm:
			end, err = term, ending.ErrTimedOut
		case kill.Before(end):
			end, err, lives = kill, ending.ErrTimedOut, q.survives
		}
	}
	w.in(q.keeper, time.Duration(m.clock.when(end, w.now)-w.now), func() {
		if q.plan == plan && !q.isOver {
			w.endInquiry(q, err, lives)
		}
	})
}

// endInquiry: what lives on after KILL is said to hang, and ends some time after.
func (w *World) endInquiry(q *inquiry, err error, lives bool) {
	if !lives {
		q.isOver = true
		w.answer(q, err, false)
		return
	}
	w.fired(CheckSticks)
	q.isKilled = true
	w.in(q.keeper, ending.Unkillable, func() {
		w.answer(q, err, true)
		w.in(q.keeper, 50*time.Millisecond+w.checks.upTo(4*time.Second), func() {
			q.isOver = true
			w.answer(q, nil, false)
		})
	})
}

// answer has the keeper know how a run has ended.
func (w *World) answer(q *inquiry, err error, hangs bool) {
	w.tellKeeper(q.keeper, w.checks.upTo(time.Millisecond), hooks.Consulted{Lane: q.lane, Seq: q.seq, Reply: hooks.Reply{Err: err}, Hangs: hangs})
}

// boundInquiry shortens the time of a run, or of one that is being started.
func (w *World) boundInquiry(k *keeper, e hooks.Bound) {
	for _, q := range k.inquiries {
		if q != nil && q.lane == e.Lane && !q.isOver {
			q.limit = e.Limit
			if q.isBegun && !q.isKilled {
				w.planAnswer(q)
			}
		}
	}
}

// finding is what a keeper has said of a check at a true time to the agent of a life.
type finding struct {
	life int32
	at   int64
	hooks.CheckReport
}

// tellCheck passes on what has changed about a check.
func (w *World) tellCheck(k *keeper, r hooks.CheckReport) {
	k.saysAt = max(k.saysAt, w.now+int64(50*time.Microsecond+w.keeperTakes(time.Millisecond)))
	k.findings = append(k.findings, finding{k.life, w.now, r})
	w.after(time.Duration(k.saysAt-w.now), func() {
		if len(k.findings) > 0 { // else the keeper is gone, and this was among its last words
			w.passFinding(k)
		}
	})
}

// passFinding has the agent read the oldest of what a keeper has said of checks.
func (w *World) passFinding(k *keeper) {
	m := k.host
	if m.life <= k.life {
		m.findings = append(m.findings, k.findings[0])
	}
	k.findings = k.findings[1:]
	w.hearChecks(m)
}

// passLastFindings: an agent reads what is in the pipe of a keeper that is gone, and only then starts another. A keeper that was
// killed may not have written what it said last.
func (w *World) passLastFindings(k *keeper) {
	if n := len(k.findings); n > 0 && k.findings[n-1].at == w.now && w.checks.oneIn(2) {
		k.findings = k.findings[:n-1]
	}
	if len(k.findings) == 0 {
		return
	}
	m := k.host
	if m.life <= k.life {
		m.findings = append(m.findings, k.findings...)
	}
	k.findings = nil
	w.after(0, func() { w.hearChecks(m) })
}

// hearChecks is agent's onChecked and weighChecks. What was known another keeper, which knows nothing yet, does not make unknown.
func (w *World) hearChecks(m *machine) {
	if !m.isUp() || !w.isChecked() {
		return
	}
	for _, f := range m.findings {
		i := slices.IndexFunc(w.checks.all, func(c hooks.Check) bool { return c.Name == f.Name })
		if f.life == m.life && (f.State != hooks.CheckPending || m.checked[i] == hooks.CheckPending) {
			m.checked[i] = f.State
		}
	}
	m.findings = slices.DeleteFunc(m.findings, func(f finding) bool { return f.life <= m.life })
	if isBarred := m.isUnwell(w); isBarred != m.isBarred {
		m.isBarred = isBarred
		w.bar(m, election.BarCheck, isBarred)
	}
}

// isUnwell: a check has not passed, as far as the agent knows.
func (m *machine) isUnwell(w *World) bool {
	return slices.ContainsFunc(m.checked[:len(w.checks.all)], func(s hooks.CheckState) bool { return s != hooks.CheckPasses })
}

// beginChecks: an agent begins with checks of which none has passed yet, and hears what its keeper has said before.
func (w *World) beginChecks(m *machine) {
	m.isBarred = true
	w.bar(m, election.BarCheck, true)
	w.hearChecks(m)
	if k := m.hooks.keeper; k != nil && k.life == m.life {
		for i := range k.counts { // none, if it was not told of checks yet
			w.lookAtCheck(k, i)
		}
	}
}
