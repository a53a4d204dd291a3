package hooks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// Attempts of singleton jobs, each in a lane of its own: Hold ──▶ JobEnded ──▶ FileRun ──▶ RunFiled, and it is told.
//
// A holder, a process of its own, has the command, and knows until when it may run (ending.Terms): so all of it is dead in
// time, whatever keeps this process from ending it. What is tied to the leadership is dead when the lease has ended, and
// Renewed moves that. What is not tied has only to start within the lease; its holder ends it at its timeout, should nobody
// have done so. Neither outlives the agent, nor the keeper: nobody would know how it ended.

// attempts is the part of Lanes that runs jobs. It knows nothing of the others.
type attempts struct {
	all    map[string]*attempt      // by run
	rates  map[string]*rate.Limiter // by job
	seq    uint64                   // of the last Hold
	lease  time.Time                // end of the right to act
	isOver bool                     // nothing begins any more
}

// attempt is one that goes on.
type attempt struct {
	JobAttempt
	seq    uint64
	over   time.Time // what is not tied is dead then; zero: it has no timeout
	isLost bool      // its leadership has ended: the next lease is not for it
	isHeld bool      // its command may run; else its run is being filed
	result JobResult
}

const (
	// holdSlack is how much later than its timeout and grace a holder ends a command by itself: JobStopped comes first from an
	// agent that is well. Others count the run as lost a second after the grace at the earliest (internal/jobs/doc.go, J3).
	holdSlack = 500 * time.Millisecond

	// abortBudget is what a command has that is still there at Closed: the agent is in a hurry, or has ended all of them before.
	abortBudget = 500 * time.Millisecond

	// maxOverlapping is how many attempts may go on besides one of each job. Arbitrary: one job that may
	// overlap runs as many.
	maxOverlapping = 16

	// jobBurst attempts of one job begin at once, and jobRefill of more each second. Arbitrary: as many as may wait for an agent
	// that was down, and one a second.
	jobBurst  = 10
	jobRefill = 2

	// agentStopping is the cause of an end at Closed.
	agentStopping = "agent-stopping"
)

// onAsked begins an attempt, or refuses it. Grace is between its TERM and KILL.
func (a *attempts) onAsked(now time.Time, e JobAsked, budget, grace time.Duration, do func(LaneEffect)) {
	if !e.Lease.IsZero() {
		a.renew(e.Lease, false, do)
	}
	if a.isOver {
		do(TellJob{Result: JobResult{ID: e.Attempt.ID, Job: e.Attempt.Job, Exit: ExitNotRun, Err: ErrStopping.Error(), TooLate: true}})
		return
	}
	if why := a.unfit(now, e); why != "" {
		do(TellJob{IsRefused: true, Result: JobResult{ID: e.Attempt.ID, Job: e.Attempt.Job, Exit: ExitNotRun, Err: "not started: " + why}})
		return
	}
	a.seq++
	one := &attempt{JobAttempt: e.Attempt, seq: a.seq, isHeld: true}
	if !one.Tied {
		budget = grace
		if one.Timeout > 0 {
			one.over = now.Add(one.Timeout + grace + holdSlack)
		}
	}
	if a.all == nil {
		a.all = map[string]*attempt{}
	}
	a.all[one.ID] = one
	do(Hold{Attempt: one.JobAttempt, Seq: one.seq, Budget: budget, Grace: grace, Terms: one.terms(a.lease)})
}

// unfit says why an attempt may not begin: "" if it may. Of a job as many go on as may overlap, and of all jobs one each and
// some more; and of one that ends at once so many begin.
func (a *attempts) unfit(now time.Time, e JobAsked) string {
	ofJob, jobs := 0, map[string]bool{}
	for _, other := range a.all {
		jobs[other.Job] = true
		if other.Job == e.Attempt.Job {
			ofJob++
		}
	}
	switch {
	case a.all[e.Attempt.ID] != nil:
		return "the run goes on"
	case ofJob >= max(e.AtOnce, 1):
		return fmt.Sprintf("%d of the job's attempts go on", ofJob)
	case ofJob > 0 && len(a.all)-len(jobs) >= maxOverlapping:
		return fmt.Sprintf("%d attempts go on beside others of their jobs", maxOverlapping)
	case !a.rate(now, e.Attempt.Job).AllowN(now, 1):
		return "too many runs of the job in a short time"
	}
	return ""
}

// rate is that of a job, of which attempts that begin take. Of a job that has its whole burst again nothing is kept.
func (a *attempts) rate(now time.Time, job string) *rate.Limiter {
	maps.DeleteFunc(a.rates, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= jobBurst })
	if a.rates == nil {
		a.rates = map[string]*rate.Limiter{}
	}
	if a.rates[job] == nil {
		a.rates[job] = rate.NewLimiter(jobRefill, jobBurst)
	}
	return a.rates[job]
}

// terms are its holder's. What is not tied to the leadership has only to start within the
// lease, and is dead soon after its timeout, whatever keeps this process from ending it.
func (one *attempt) terms(lease time.Time) ending.Terms {
	if one.Tied {
		return ending.Terms{Deadline: lease}
	}
	return ending.Terms{StartBy: lease, Deadline: one.over}
}

// renew moves the time at which what is tied to the leadership must be dead, and by which the rest must have started; zero: no
// bound. While a planned end of the leadership waits for what was told to end, the lease is that of this alone, and else of
// all other.
func (a *attempts) renew(lease time.Time, isEnding bool, do func(LaneEffect)) {
	a.lease = lease
	for one := range a.held {
		if one.isLost == isEnding && (one.Tied || !isEnding) {
			do(Allow{ID: one.ID, Terms: one.terms(lease)})
		}
	}
}

// held gives those whose command may run, in a fixed order.
func (a *attempts) held(yield func(*attempt) bool) {
	for _, id := range slices.Sorted(maps.Keys(a.all)) {
		if one := a.all[id]; one.isHeld && !yield(one) {
			return
		}
	}
}

// release has a command end: within that time, 0: with its grace.
func (a *attempts) release(one *attempt, cause string, within time.Duration, do func(LaneEffect)) {
	if one != nil && one.isHeld {
		do(Release{ID: one.ID, Cause: cause, Within: within})
	}
}

// onLost has what is tied to the leadership end, with its grace, but not longer than the lease; of the rest nothing starts
// any more.
func (a *attempts) onLost(now time.Time, cause string, do func(LaneEffect)) {
	for one := range a.held {
		switch {
		case one.isLost:
		case one.Tied:
			a.release(one, cause, 0, do)
		default:
			do(Allow{ID: one.ID, Terms: one.terms(now)})
		}
		one.isLost = true
	}
}

// end has all end, and begins nothing any more.
func (a *attempts) end(cause string, within time.Duration, do func(LaneEffect)) {
	a.isOver = true
	for one := range a.held {
		a.release(one, cause, within, do)
	}
}

// onEnded has the run be filed of a command that has ended.
func (a *attempts) onEnded(e JobEnded, do func(LaneEffect)) {
	one := a.all[e.ID]
	if one == nil || !one.isHeld {
		return
	}
	one.isHeld, one.result = false, one.conclude(e.Held)
	do(FileRun{ID: one.ID, Run: JobRun{Job: one.Job, Run: one.ID, Slot: one.Slot.UTC(), Epoch: one.Event.Epoch.Counter, Attempt: one.Attempt,
		Started: e.Held.Started.UTC(), Took: e.Held.Took.Round(time.Millisecond), Exit: int(one.result.Exit), Cause: one.result.Cause, Err: one.result.Err, Seq: one.seq}})
}

// What went wrong with a command that nobody here has ended, nor its own doing.
const (
	bySilence = "ended by its holder: this agent was silent until its lease was nearly over"
	byTimeout = "ended by its holder: this agent did not end it at its timeout"
)

// conclude judges how it ended.
func (one *attempt) conclude(h Held) JobResult {
	res := JobResult{ID: one.ID, Job: one.Job, Cause: h.Cause, Err: h.Err, TooLate: !h.HasBegun && h.Cause == CauseAgentDied}
	switch {
	case h.Code >= 0:
		res.Exit = uint8(h.Code)
	case h.HasBegun: // its holder was killed and could not tell
		res.Exit = ExitKilled
	default:
		res.Exit = ExitNotRun
	}
	switch {
	case !h.IsSilent || !h.HasBegun:
	case one.Tied:
		res.Err = cmp.Or(res.Err, bySilence)
	default:
		res.Cause, res.Err = JobTimedOut, cmp.Or(res.Err, byTimeout)
	}
	return res
}

// onFiled tells the result: what the run has printed can be read now.
func (a *attempts) onFiled(id string, do func(LaneEffect)) {
	if one := a.all[id]; one != nil && !one.isHeld {
		delete(a.all, id)
		do(TellJob{Result: one.result})
	}
}

// areOver reports whether no attempt goes on, and all results were told.
func (a *attempts) areOver() bool { return len(a.all) == 0 }
