package jobs

import (
	"slices"
	"time"
)

// Bounds of what one job may have going.
const (
	MaxPending = 10  // open slots that may still run
	MaxActive  = 16  // runs at once, with overlap = allow
	MaxCount   = 100 // slots that a Skip counts
)

// FailoverGrace is how long before a leadership began a slot may have passed and is
// late, not missed: it fell into the change of leaders, with its become-leader hook.
// Arbitrary: longer than most changes take, and late by less than people mind who write
// a minute into a crontab. Higher runs more slots late.
const FailoverGrace = 30 * time.Second

// Due says what is to be done now about each job of the table, and why nothing
// is, in the table's order. Once its decisions are applied, the same call gives
// only Waits, until Next.
func Due(now time.Time, table []Job, l *Ledger, lead Leadership) []Decision {
	o := outlook{now: now, ledger: l, lead: lead}
	return o.due(table)
}

// Next is when Due will have something to do, if nothing else changes: not after
// now if it has already, zero if never.
func Next(now time.Time, table []Job, l *Ledger, lead Leadership) time.Time {
	o := outlook{now: now, ledger: l, lead: lead}
	return o.next(table)
}

// Manual says what is to be done when a person asks for a run now: a Start, a
// Wait, or Stops and a Wait. Whoever wants to wait asks again. It runs in spite
// of a pause; overlap counts as for slots.
func Manual(now time.Time, job *Job, l *Ledger, lead Leadership) []Decision {
	o := outlook{now: now, ledger: l, lead: lead}
	return o.manual(job)
}

// outlook is what all decisions of one time are made from.
type outlook struct {
	now    time.Time
	ledger *Ledger
	lead   Leadership
	mine   []mine // what is known of the own runs that are open; none is needed
}

func (o *outlook) due(table []Job) []Decision {
	var all []Decision
	for i := range table {
		v := o.look(&table[i])
		all = append(all, v.decisions...)
	}
	return all
}

func (o *outlook) next(table []Job) time.Time {
	var next time.Time
	for i := range table {
		v := o.look(&table[i])
		if !v.isIdle() {
			return o.now
		}
		next = earlier(next, v.wake)
	}
	return next
}

func (o *outlook) manual(job *Job) []Decision {
	v := o.lookAfter(job)
	v.decisions = nil // Due's own business
	slot := SlotOf(o.now)
	switch {
	case !v.mayDecide():
	case len(v.entry.claims(slot, true)) > 0:
		v.wait(ReasonTaken, slot, (slot + 1).Time())
	default:
		v.place(slot, ReasonManual)
	}
	return v.decisions
}

// view is one job at one time.
type view struct {
	now   time.Time
	job   *Job
	entry *Entry
	lead  Leadership
	mine  []mine

	active    []Run // the open runs, and those that this pass starts
	decisions []Decision
	wake      time.Time // when to look again; zero for never
}

func (o *outlook) look(job *Job) view {
	v := o.lookAfter(job)
	e := v.entry
	switch {
	case !v.mayDecide():
	case e.floor() > SlotOf(o.now):
		v.wait(ReasonAhead, 0, e.floor().Time())
	case e.Schedule != job.Schedule.Hash():
		v.adopt()
	case e.Switch.Paused:
		v.wait(ReasonPaused, 0, time.Time{}) // resuming raises the floor
	default:
		v.slots()
	}
	return v
}

// lookAfter is look for a job whose slots do not start any more.
func (o *outlook) lookAfter(job *Job) view {
	e, _ := o.ledger.Entry(job.Name)
	v := view{now: o.now, job: job, entry: &e, lead: o.lead, mine: o.mine}
	v.tend()
	return v
}

// isIdle reports whether there is nothing but waiting.
func (v *view) isIdle() bool {
	return !slices.ContainsFunc(v.decisions, func(d Decision) bool { return d.Do != Wait })
}

// definition is the job as its run was claimed, and when its attempt's time is up,
// or that of the next one has come.
func (v *view) definition(r Run) (job *Job, at time.Time) {
	m := findMine(v.mine, v.job.Name, r.Key)
	switch {
	case m != nil && !m.dueAt.IsZero():
		return &m.job, m.dueAt
	case r.Phase == Waiting:
		return v.job, r.again(v.job)
	}
	return v.job, r.end()
}

// wakeAt asks for another look.
func (v *view) wakeAt(t time.Time) {
	if v.wake.IsZero() || t.Before(v.wake) {
		v.wake = t
	}
}

func (v *view) decide(d Decision) {
	d.Job, d.schedule = v.job.Name, v.job.Schedule.Hash()
	v.decisions = append(v.decisions, d)
}

// wait is one Wait about a slot, or about none.
func (v *view) wait(why Reason, slot Slot, until time.Time) {
	v.decide(Decision{Do: Wait, Why: why, Slot: slot, Until: until})
	if !until.IsZero() {
		v.wakeAt(until)
	}
}

// mayDecide reports whether this host leads, and knows what ran.
func (v *view) mayDecide() bool {
	switch ready := v.lead.ready(); {
	case v.lead.DiskFailed:
		v.wait(ReasonDisk, 0, time.Time{})
		return false
	case !v.lead.Leading:
		v.wait(ReasonNotLeading, 0, time.Time{})
		return false
	case v.now.Before(ready):
		v.wait(ReasonSettling, 0, ready)
		return false
	case v.lead.Learning:
		v.wait(ReasonLearning, 0, time.Time{})
		return false
	}
	return true
}

// adopt makes the job's slots count from now on. What passed while nobody knew
// the job, or under another schedule, was not missed. A floor above the old one
// wins over it in every ledger.
func (v *view) adopt() {
	why := ReasonChanged
	if v.entry.Schedule == 0 {
		why = ReasonNew
	}
	v.decide(Decision{Do: Adopt, Why: why, Slot: max(SlotOf(v.now), v.entry.Floor+1), Settles: true})
}

// tend looks after the runs that are open: our own, leading or not, and those
// of others when we lead and have heard of all.
func (v *view) tend() {
	knows := v.lead.knows(v.now)
	for _, r := range v.entry.Runs {
		switch {
		case !r.Open():
		case r.Owner == v.lead.Self:
			v.tendOwn(r)
		case knows && !v.now.Before(v.over(r)):
			v.decide(Decision{Do: Lose, Why: ReasonVanished, Slot: r.Slot, Run: r.closed(v.now, Lost, Vanished)})
		default:
			v.active = append(v.active, r)
			if knows {
				v.wakeAt(v.over(r))
			}
		}
	}
}

// over is when a run of another host must be over, by that host's own timeout,
// if nothing is heard of it any more. It may have begun an attempt that we have
// not heard of as late as this leadership began: how many it has is that host's
// own to know. A tenth is added for the message and clocks that differ: at least
// a second, at most Tolerance, which is arbitrary.
func (v *view) over(r Run) time.Time {
	began := max(r.Claimed, r.Started, r.Ended).Time()
	if v.lead.Since.After(began) {
		began = v.lead.Since
	}
	timeout := time.Duration(r.Timeout) * time.Second
	slack := min(max(timeout/10, time.Second), Tolerance)
	return began.Add(timeout + v.lead.Grace + slack)
}

func (v *view) tendOwn(r Run) {
	switch r.Phase {
	case Claimed, Waiting:
		if !v.lead.owns(r) || v.lead.DiskFailed {
			v.decide(Decision{Do: GiveUp, Why: v.lead.loss(), Slot: r.Slot, Run: v.givenUp(r)})
			return
		}
		if r.Phase == Waiting {
			r = v.tendWaiting(r)
		}
	case Running:
		r = v.tendRunning(r)
	}
	v.active = append(v.active, r)
}

// givenUp is a run that lost its leadership between attempts, or before one.
func (v *view) givenUp(r Run) Run {
	if r.Phase == Claimed {
		return r.Refused(v.now)
	}
	r.Phase = Ended // as its last attempt
	return r
}

func (v *view) tendWaiting(r Run) Run {
	_, at := v.definition(r)
	switch {
	case v.entry.Switch.Paused:
		v.decide(Decision{Do: Wait, Why: ReasonPaused, Slot: r.Slot, Run: r})
	case v.now.Before(at):
		v.decide(Decision{Do: Wait, Why: ReasonRetrying, Slot: r.Slot, Until: at, Run: r})
		v.wakeAt(at)
	default:
		r = r.Began(v.now)
		v.decide(Decision{Do: Retry, Why: ReasonRetrying, Slot: r.Slot, Run: r})
	}
	return r
}

func (v *view) tendRunning(r Run) Run {
	job, end := v.definition(r)
	switch {
	case !v.now.Before(end):
		r = v.stop(r, TimedOut, ReasonTimeout)
	case job.OnLoss == OnLossKill && !v.lead.owns(r):
		r = v.stop(r, Killed, ReasonLoss)
	default:
		v.wakeAt(end)
	}
	return r
}

func (v *view) stop(r Run, outcome Outcome, why Reason) Run {
	r = r.stopping(outcome)
	v.decide(Decision{Do: Stop, Why: why, Slot: r.Slot, Run: r})
	return r
}

// slots decides about the open slots: which of them may run, the others are
// skipped, and for each that may, whether now.
func (v *view) slots() {
	if next := v.job.Schedule.Next(v.now); !next.IsZero() {
		v.wakeAt(next)
	}
	pending, dropped, why := v.pending()
	floor := v.entry.floor()
	if dropped != 0 {
		v.skip(floor, dropped, why)
		floor = dropped
	}
	if len(pending) == 1 && v.isForbidden(pending[0]) {
		v.skip(floor, pending[0], v.overlap())
		return
	}
	for _, slot := range pending {
		why := ReasonMissed
		if v.isCurrent(slot) {
			why = ReasonOnTime
		}
		v.expire(slot)
		v.place(slot, why)
	}
}

// isForbidden reports whether the slot came during a run. A run that was claimed
// later only made up for a missed slot: this one waits behind it.
func (v *view) isForbidden(slot Slot) bool {
	during := func(r Run) bool { return !r.Claimed.Time().After(slot.Time()) }
	return v.job.Overlap == OverlapForbid && v.isCurrent(slot) && slices.ContainsFunc(v.active, during)
}

// expire asks for a look when the slot's starting deadline has passed.
func (v *view) expire(slot Slot) {
	if v.job.StartingDeadline > 0 {
		v.wakeAt(slot.Time().Add(v.job.StartingDeadline + time.Millisecond))
	}
}

// isCurrent reports whether the slot passed while this host led, or so shortly before
// that it fell into the failover. Those that passed while a new leader settled did:
// they are late, not missed.
func (v *view) isCurrent(slot Slot) bool {
	return !slot.Time().Before(v.lead.Since.Add(-FailoverGrace))
}

// pending is which open slots may run, the oldest first. They are the newest
// ones; dropped is the newest that may not, zero if there is none.
func (v *view) pending() (pending []Slot, dropped Slot, why Reason) {
	floor := v.entry.floor().Time()
	for until := v.now; ; {
		at, ok := v.job.Schedule.Last(floor, until)
		if !ok {
			break
		}
		until = at.Add(-time.Nanosecond)
		slot := SlotOf(at)
		if v.entry.settled(slot) {
			continue
		}
		if why = v.refuse(slot, pending); why != ReasonNone {
			dropped = slot
			break
		}
		pending = append(pending, slot)
	}
	slices.Reverse(pending)
	return pending, dropped, why
}

// refuse says why a slot may not run any more, given the newer ones that may;
// then no older one may either.
func (v *view) refuse(slot Slot, newer []Slot) Reason {
	deadline := v.job.StartingDeadline
	switch {
	case deadline > 0 && v.now.Sub(slot.Time()) > deadline:
		return ReasonTooLate
	case len(newer) == MaxPending:
		return ReasonTooMany
	case !v.isCurrent(slot) && v.job.Missed == MissedSkip:
		return ReasonMissed
	case len(newer) == 0:
		return ReasonNone
	case v.isCurrent(slot) && v.job.Overlap == OverlapQueue:
		return ReasonNone
	case v.job.Overlap == OverlapReplace && v.isCurrent(newer[0]): // it would be replaced at once
		return ReasonSuperseded
	case v.job.Missed == MissedAll:
		return ReasonNone
	}
	return ReasonSuperseded
}

// skip settles the open slots above floor up to slot.
func (v *view) skip(floor, slot Slot, why Reason) {
	count := 0
	for at := v.job.Schedule.Next(floor.Time()); !at.IsZero() && !at.After(slot.Time()) && count < MaxCount; at = v.job.Schedule.Next(at) {
		if !v.entry.settled(SlotOf(at)) {
			count++
		}
	}
	v.decide(Decision{Do: Skip, Why: why, Slot: slot, Count: count, Settles: true})
}

// place starts a slot, or says why it has to wait. Of several that may run the
// oldest goes first, so a start settles all that are older.
func (v *view) place(slot Slot, why Reason) {
	switch {
	case len(v.active) < v.job.AtOnce():
		v.start(slot, why)
	case v.job.Overlap == OverlapAllow:
		v.wait(ReasonCrowded, slot, time.Time{})
	case v.job.Overlap == OverlapReplace && why != ReasonMissed:
		v.replace(slot, why)
	default:
		v.waitFor(slot, v.overlap())
	}
}

func (v *view) start(slot Slot, why Reason) {
	r := Run{
		Key:   Key{Slot: slot, Manual: why == ReasonManual, Epoch: v.lead.Epoch, Owner: v.lead.Self},
		Phase: Claimed, Claimed: MillisOf(v.now), Timeout: uint32(v.job.timeout() / time.Second),
	}
	v.decide(Decision{Do: Start, Why: why, Slot: slot, Settles: !r.Manual, Run: r})
	v.active = append(v.active, r)
}

// overlap is whose run is in the way.
func (v *view) overlap() Reason {
	for _, r := range v.active {
		if r.Owner == v.lead.Self {
			return ReasonOverlap
		}
	}
	return ReasonBlocked
}

func (v *view) waitFor(slot Slot, why Reason) {
	v.decide(Decision{Do: Wait, Why: why, Slot: slot, Run: v.active[0]})
}

// replace ends the runs of this host; those of others cannot be ended from here.
func (v *view) replace(slot Slot, why Reason) {
	if i := slices.IndexFunc(v.active, func(r Run) bool { return r.Owner != v.lead.Self }); i >= 0 {
		v.decide(Decision{Do: Wait, Why: ReasonBlocked, Slot: slot, Run: v.active[i]})
		return
	}
	var ending []Run
	for _, r := range v.active {
		switch r.Phase {
		case Running:
			r = v.stop(r, Replaced, ReasonReplaced)
		case Waiting:
			r.Phase = Ended // as its last attempt
			v.decide(Decision{Do: GiveUp, Why: ReasonReplaced, Slot: r.Slot, Run: r})
			continue
		}
		ending = append(ending, r)
	}
	if v.active = ending; len(ending) > 0 {
		v.waitFor(slot, ReasonReplacing)
		return
	}
	v.start(slot, why)
}
