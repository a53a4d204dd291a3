package agent

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/jobs"
)

// How the loop drives the scheduler: one event after the other, its effects in
// order, and none while the ledger is on its way to the disk.

// note keeps an event for the end of the turn.
func (j *jobDesk) note(ev jobs.Event) {
	if j.isFullFor(ev) {
		j.around.count("job_event_overflow", 1)
		return
	}
	j.queue, j.isStirred = append(j.queue, ev), true
}

// isFullFor reports whether an event may be dropped, since others say it again,
// and has to be.
func (j *jobDesk) isFullFor(ev jobs.Event) bool {
	switch ev.(type) {
	case jobs.Heard:
		return len(j.queue) >= maxJobEvents
	case jobs.Merged:
		merged := 0
		for _, waiting := range j.queue {
			if _, isMerged := waiting.(jobs.Merged); isMerged {
				merged++
			}
		}
		return merged >= maxMerged
	}
	return false
}

// turn is called at the end of each turn of the loop: it steps until nothing is left,
// or the disk is waited for. Events that come of effects have their turn as well. It
// reports whether the ledger could not be saved in this turn, and jobs are due: they do
// not start.
func (j *jobDesk) turn() (isStalled bool) {
	switch {
	case !j.isStirred:
		return false // most frames change nothing here
	case !j.isRecovered:
		j.before = len(j.queue)
		return false
	}
	j.isStirred = false
	hasFailed := j.saving.isToTell
	for !j.saving.isOn && (len(j.rest) > 0 || j.step()) {
		if len(j.rest) > 0 {
			effect := j.rest[0]
			j.rest = j.rest[1:]
			j.apply(effect)
		}
	}
	j.before = len(j.queue)
	j.endRest()
	j.plan()
	return hasFailed && j.scheduler.Stalled()
}

// endRest ends, for an agent that goes, what the scheduler's own reasons have not ended,
// whether or not the disk is waited for.
func (j *jobDesk) endRest() {
	if !j.isToEnd {
		return
	}
	j.isToEnd = false
	for id := range j.running {
		j.runner.End(id, "agent-stopping")
	}
}

// step steps the next event, if there is one.
func (j *jobDesk) step() bool {
	wall := j.wall()
	ev, ok := j.next(wall, j.around.now())
	if !ok {
		return false
	}
	if j.log.IsTrace() {
		j.log.Trace("jobs stepped", "event", ev)
	}
	j.rest = slices.Clone(j.scheduler.Step(wall, ev))
	return true
}

// next takes the next event: first a failed save; then that the clock was set, as
// of which all others are; then that a person waits no more, so that nothing
// starts for that one.
func (j *jobDesk) next(wall, now time.Time) (ev jobs.Event, ok bool) {
	if j.saving.isToTell {
		j.saving.isToTell = false
		return jobs.SaveFailed{}, true
	}
	if by := j.clocks.set(wall, now); by != 0 {
		return jobs.ClockSet{By: by}, true
	}
	if token, isGone := j.withdrawn(); isGone {
		return jobs.Unask{Token: token}, true
	}
	if len(j.queue) == 0 {
		return nil, false
	}
	ev, j.queue = j.queue[0], j.queue[1:]
	if e, isAsk := ev.(jobs.Ask); isAsk && !j.isStillWished(e.Token) {
		return jobs.Tick{}, true // in its place
	}
	return ev, true
}

// clockPair is a reading of both clocks at one time: the first, or the last at which
// one was found set.
type clockPair struct{ wall, boot time.Time }

// clockSlack is how far the wall clock may have come from the agent's before the
// jobs are told. Arbitrary: what is timed for them may be off by as much.
const clockSlack = 500 * time.Millisecond

// set says by how much the wall clock was set since it was last said, back if below
// zero; 0 if it was not.
func (c *clockPair) set(wall, now time.Time) time.Duration {
	by := wall.Round(0).Sub(c.wall) - now.Sub(c.boot)
	if !c.boot.IsZero() && by.Abs() <= clockSlack {
		return 0
	}
	if c.boot.IsZero() {
		by = 0
	}
	*c = clockPair{wall.Round(0), now}
	return by
}

// apply carries out one effect.
func (j *jobDesk) apply(effect jobs.Effect) {
	switch e := effect.(type) {
	case jobs.Save:
		j.saving.isOn, j.saving.began = true, j.around.now()
		j.file.write(e.Bytes)
	case jobs.Send:
		j.around.sendJob(e)
	case jobs.Begin:
		j.begin(e)
	case jobs.End:
		j.runner.End(runID(e.Job, e.Key), e.Outcome.String())
	case jobs.Reply:
		j.wishes[e.Token].done(e.Err)
		delete(j.wishes, e.Token)
	case jobs.Noted:
		j.noteDecision(e.Decision)
	case jobs.Refused:
		j.around.count("job_refused_"+e.Why, 1)
		j.apart.learn(e, j.around.now())
	default:
		panic("BUG: unknown effect " + effect.String())
	}
}

// plan puts the scheduler's deadline, which is on the wall clock, onto the
// agent's. A millisecond at least lies between two looks.
func (j *jobDesk) plan() {
	at := j.scheduler.Deadline()
	if at.IsZero() || j.saving.isOn {
		j.due = time.Time{}
		return
	}
	j.due = j.around.now().Add(max(at.Sub(j.wall()), time.Millisecond))
}

// tick lets the scheduler do what is due.
func (j *jobDesk) tick() {
	if due := j.due; !due.IsZero() && !j.around.now().Before(due) {
		j.note(jobs.Tick{})
	}
}
