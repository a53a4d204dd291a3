package hooks

import (
	"reflect"
	"slices"
	"time"
)

// Checks of this host, each in a lane of its own. One runs at once when it is new, and then from interval to interval. Of what
// it says only changes are told, so that a check which hangs, forks, floods or flaps delays nobody.

// checkLane is that of one check.
type checkLane struct {
	Check
	judge
	turn
	why      string    // it did not pass the last time; empty: it did
	isFormer bool      // a reload took it away
	begun    time.Time // of the last run
	due      time.Time // of the next run, which waits for the end of what is there
}

// eager is how long after a run that of a check which is still pending begins: a host that is well is not kept from leading
// by the interval.
const eager = 100 * time.Millisecond

// setChecks makes these the checks from now on. At first they are pending. Later one that was changed keeps its state until
// its runs say otherwise, and one that is new passes until then: this host has led without it.
func (q *questions) setChecks(now time.Time, checks []Check, do func(LaneEffect)) {
	if q.isOver {
		return
	}
	before := q.checks
	q.checks = nil
	state := CheckPasses
	if !q.hasBegun {
		q.hasBegun, state = true, CheckPending
	}
	for _, check := range checks {
		c := &checkLane{turn: turn{lane: Lane("check " + check.Name)}, judge: judge{state: state}, isFormer: true}
		if i := slices.IndexFunc(before, func(c *checkLane) bool { return c.Name == check.Name }); i >= 0 {
			c = before[i]
			before = slices.Delete(before, i, i+1)
		}
		c.set(now, check, state, do)
		q.checks = append(q.checks, c)
	}
	for _, c := range before {
		c.isFormer = true
		c.turn.end(now, do)
	}
	q.checks = append(q.checks, before...)
	q.forget()
}

// set has the lane be of this check. What runs of another one ends first, and does not count.
func (c *checkLane) set(now time.Time, check Check, state CheckState, do func(LaneEffect)) {
	if !c.isFormer {
		state = c.state
		if reflect.DeepEqual(c.Check, check) {
			return
		}
	}
	c.turn.end(now, do)
	c.Check, c.judge = check, judge{rise: check.Rise, fall: check.Fall, state: state}
	c.why, c.isFormer, c.due = "", false, now
}

// isDue reports whether a run is to begin.
func (c *checkLane) isDue(now time.Time) bool {
	return c.seq == 0 && !c.isFormer && !now.Before(c.due)
}

// onReply judges a run. What people are told of a check that does not pass is news as well.
func (c *checkLane) onReply(now time.Time, r Reply, do func(LaneEffect)) {
	changed := c.judge.take(r.Err == nil)
	why := r.Why()
	if changed || c.state != CheckPasses && why != c.why {
		do(TellCheck{CheckReport{Name: c.Name, State: c.state, Why: why}})
	}
	c.why = why
	c.due = c.begun.Add(c.Interval)
	if c.state == CheckPending {
		c.due = earlier(c.due, now.Add(eager))
	}
}
