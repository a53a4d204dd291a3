package hooks

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// One run of a hook after another, until it has succeeded, has failed for good, or may not go on.

// attempt runs the hook of a task once.
func (l *Lanes) attempt(now time.Time, t *task) {
	t.res = Result{Kind: t.Kind, Epoch: t.Epoch.Counter, Cause: t.Cause, Exit: -1}
	t.until = time.Time{}
	if t.begun.IsZero() {
		t.begun = now
	}
	var leaves Entry
	if t.lane == Leadership {
		leaves, l.leaves = l.leaves, Entry{}
	}
	t.phase = preparing
	command := t.plan.Commands[t.Kind]
	if leaves.Hook == "" && (command.IsZero() || t.limit.Reason != nil) {
		l.startNext(now, t, nil)
		return
	}
	l.prepares++
	t.preparing, t.leaves, t.wait = l.prepares, leaves, await(now)
	t.hurryWorker(now, t.prepareBy(now))
	l.do(Prepare{Lane: t.lane, Number: t.preparing, Kind: t.Kind, Command: command, Leaves: leaves, Within: t.limit.Ahead(now, t.plan.Grace)})
}

// onPrepared goes on with what was prepared, unless that was given up.
func (l *Lanes) onPrepared(now time.Time, e Prepared) {
	if t := l.running(e.Lane, preparing); t != nil && t.preparing == e.Number {
		t.leaves, t.until = Entry{}, time.Time{}
		l.startNext(now, t, e.Err)
	}
}

// prepareBy is when a preparation is given up, as a start is. What was cut is not started, and waits for nothing but the end of
// what an earlier run has left.
func (t *task) prepareBy(now time.Time) time.Time {
	if t.limit.Reason != nil && t.leaves.Hook == "" {
		return now
	}
	return t.startBy(now)
}

// leaveUnprepared gives up a preparation that hangs, as the file system of the command may. What it was to end the next one is to end.
func (l *Lanes) leaveUnprepared(now time.Time, t *task) {
	if t.leaves.Hook != "" {
		l.leaves, t.leaves = t.leaves, Entry{}
	}
	t.preparing, t.until = 0, time.Time{}
	l.startNext(now, t, errUnprepared)
}

// errUnprepared is the end of a preparation that hangs.
var errUnprepared = fmt.Errorf("not started: %w while its program was looked at, perhaps since its file system does not answer", ending.ErrTimedOut)

// startNext looks once more at what could have happened meanwhile, since the disk, a pause or
// a stopped process may have taken long, and starts the hook; err is why that cannot be.
func (l *Lanes) startNext(now time.Time, t *task, err error) {
	why, isWithdrawn := l.mayBegin(now, t)
	if isWithdrawn {
		return
	}
	command := t.plan.Commands[t.Kind]
	if command.IsZero() {
		l.attempted(now, t)
		return
	}
	if t.res.Err = cmp.Or(why, err, l.hangsFor(t)); t.res.Err != nil {
		l.attempted(now, t)
		return
	}
	l.seq++
	t.phase, t.seq, t.wait = starting, l.seq, await(now)
	t.hurryWorker(now, t.startBy(now))
	l.do(Start{Lane: t.lane, Seq: l.seq, Event: t.Event, Command: command, Timeout: t.limit.TermBy(now).Sub(now), Limit: t.limit})
}

// mayBegin says why a task must not go on. A become-leader of whose leadership nothing was tried is
// withdrawn then; from here on something is.
func (l *Lanes) mayBegin(now time.Time, t *task) (why error, isWithdrawn bool) {
	why = cmp.Or(t.limit.Reason, l.barred(now, t))
	if t.Kind == BecomeLeader && l.begun < t.Epoch.Counter {
		if why != nil {
			l.withdraw(now, t, why)
			return why, true
		}
		l.begun = t.Epoch.Counter
	}
	return why, false
}

func (l *Lanes) onStarted(e Started) {
	t := l.running(e.Lane, starting)
	if t == nil || t.seq != e.Entry.Seq {
		return
	}
	t.phase, t.started, t.entry, t.until = underway, e.At, e.Entry, time.Time{}
	t.res.Ran, t.res.Started, t.res.Seq = true, e.Wall, e.Entry.Seq
	l.book.run(t.lane, e.Entry)
	if t.Kind == BecomeLeader {
		l.leaves = e.Entry
	}
}

func (l *Lanes) onStartFailed(now time.Time, e StartFailed) {
	t := l.running(e.Lane, starting)
	if t == nil || t.seq != e.Seq {
		l.endedLate(e.Seq)
		return
	}
	t.res.Err, t.until = e.Err, time.Time{}
	l.attempted(now, t)
}

func (l *Lanes) onExited(now time.Time, e Exited) {
	t := l.running(e.Lane, underway)
	if t == nil || t.seq != e.Seq {
		l.endedLate(e.Seq)
		return
	}
	t.res.Err, t.res.Exit, t.res.Took = e.End.Err, e.End.Exit, e.End.Took
	l.book.run(t.lane, Entry{})
	if e.End.IsStuck && t.lane == Leadership {
		l.noteStuck(t.entry, e.Hangs)
	}
	l.attempted(now, t)
}

// startBy is when a start that hangs, or the look before it, is given up: what it starts would have had KILL by then. What was cut has no
// patience: the lose side waits for it, and others may lead soon.
func (t *task) startBy(now time.Time) time.Time {
	by := t.limit.KillBy(later(t.limit.TermBy(now), now))
	if t.limit.Reason != nil {
		return by
	}
	return later(by, t.wait.asked.Add(startPatience))
}

const (
	// startPatience is what a start has in any case: it takes a millisecond, and on a busy host some hundred. Arbitrary above that.
	startPatience = time.Second

	// lastLook is how long a worker has to answer before it is given up, while its host runs: the host may have been suspended until a
	// moment ago, and the worker with it. A host that is late for the end of that as well has mostLooks in all. Arbitrary, as above.
	lastLook  = startPatience / 4
	mostLooks = 5
)

// wait is that for a worker: for the look before a start, or for the start.
type wait struct {
	asked time.Time
	by    time.Time // the worker is given up then
	looks int
}

func await(now time.Time) wait { return wait{asked: now} }

// hurryWorker has a worker be given up by then, if not before. Its last look begins sooner, unless it is too late for that.
func (t *task) hurryWorker(now, by time.Time) {
	t.wait.by = earlier(t.wait.by, by)
	t.until = t.wait.by
	if look := t.wait.by.Add(-lastLook); t.wait.looks == 0 && now.Before(look) {
		t.until = look
	}
}

// looksAgain reports whether a worker has its last look still before it, or once more: one does not count whose end comes late, since this
// host was suspended in it.
func (t *task) looksAgain(now time.Time) bool {
	w := &t.wait
	isFirst, isLate := t.until.Before(w.by), now.Sub(t.until) > lastLook
	if !isFirst && !isLate || w.looks == mostLooks {
		return false
	}
	w.looks++
	w.by = now.Add(lastLook)
	t.until = w.by
	return true
}

// abandon gives up a start that hangs: neither the end of a leadership nor a notification waits for a file system that does
// not answer. It counts as what hangs does until it is known to be gone.
func (l *Lanes) abandon(now time.Time, t *task) {
	t.limit.Cut(now, errNotStarted, time.Time{})
	l.do(Bound{Lane: t.lane, Limit: t.limit})
	t.until, t.res.Err = time.Time{}, errNotStarted
	if t.lane == Leadership {
		l.noteStuck(Entry{Hook: t.Kind, Epoch: t.Epoch.Counter, Seq: t.seq}, "is still being started")
	}
	if t.Kind == BecomeLeader { // it runs, perhaps, and nobody has heard of that yet
		l.leaves = Entry{Hook: t.Kind, Epoch: t.Epoch.Counter, Seq: t.seq, Owner: t.Epoch.Owner}
	}
	l.attempted(now, t)
}

// errNotStarted is the end of a start that hangs.
var errNotStarted = errors.New("not started: the system has not begun it, perhaps since the file system of its program does not answer")

// noteStuck remembers a hook of the leadership that has had KILL and lives on.
func (l *Lanes) noteStuck(e Entry, how string) {
	l.stuck[e.Hook] = Hanging{e, fmt.Sprintf("of the %s hook of epoch %d %s", e.Hook, e.Epoch, how)}
	l.book.run(stuckLane(e.Hook), e)
}

// endedLate: nothing is left of a start that was given up.
func (l *Lanes) endedLate(seq uint64) {
	for _, h := range l.stuck {
		if h.Entry.Seq == seq {
			l.onGone(h.Entry)
		}
	}
}

// onGone: what has hung has ended, unless it is another that hangs by now. Once all is over nobody is to know.
func (l *Lanes) onGone(e Entry) {
	if l.stuck[e.Hook].Entry == e && !l.isOver {
		delete(l.stuck, e.Hook)
		l.book.run(stuckLane(e.Hook), Entry{})
	}
}

// hangs says that a hook of the leadership has had KILL and lives on. When its disk answers
// it may do or undo what is done beside it now. So neither the next leadership begins, nor
// the same hook once more; the lose-leadership hook after a become-leader hook that hangs
// is run, since others lead by then.
func (l *Lanes) hangs(next Kind) error {
	for _, kind := range []Kind{BecomeLeader, LoseLeadership} {
		if h, isStuck := l.stuck[kind]; isStuck && (next == BecomeLeader || next == kind) {
			return fmt.Errorf("%s: %w", h.How, errHangs)
		}
	}
	return nil
}

// hangsFor is hangs for a task of any lane: a notification takes nothing that could be undone.
func (l *Lanes) hangsFor(t *task) error {
	if t.lane != Leadership {
		return nil
	}
	return l.hangs(t.Kind)
}

// attempted ends one run of a hook: it is tried again, or that was all.
//
// All attempts of a lose-leadership hook together have no more than its timeout: a planned
// change waits for them, and so does whoever stops the agent. One that was ended since its
// time had ended is not begun again in what is left: it would be cut the earlier, and in its
// middle once more.
func (l *Lanes) attempted(now time.Time, t *task) {
	res := &t.res
	res.OK = res.Err == nil
	res.IsCut = !res.OK && (t.limit.Reason != nil || errors.Is(res.Err, errHangs) || errors.Is(res.Err, ending.ErrTimedOut) && t.limit.Hurry)
	l.sayEnd(t)
	t.attempts++
	res.Attempts = t.attempts
	isUsedUp := res.Ran && (errors.Is(res.Err, ending.ErrTimedOut) || !now.Before(t.limit.TermBy(t.started)))
	if t.attempts == maxAttempts || !res.isWorthAnother() || t.limit.Reason != nil || isUsedUp {
		l.yield(now, t)
		return
	}
	if t.Kind == LoseLeadership {
		t.limit.Share(now, t.begun.Add(t.plan.Timeout+t.plan.Grace))
	}
	t.phase = pausing
	l.rest(now, t, now.Add(t.pause))
}

// rest waits between two attempts, until then or for less.
func (l *Lanes) rest(now time.Time, t *task, then time.Time) {
	until, ok := t.limit.Rest(now, then)
	if t.until = until; !ok {
		l.yield(now, t)
	}
}

// onTime: what a task has waited for has not come, or its pause has ended.
func (l *Lanes) onTime(now time.Time, t *task) {
	if isAwaited := t.phase == preparing || t.phase == starting; isAwaited && t.looksAgain(now) {
		return
	}
	switch t.phase {
	case noting:
		l.withdraw(now, t, notRecorded(errDiskHangs))
	case preparing:
		l.leaveUnprepared(now, t)
	case starting:
		l.abandon(now, t)
	case pausing:
		if _, ok := t.limit.Rest(now, now); !ok { // the pause was longer than that
			l.yield(now, t)
			return
		}
		t.Attempt++
		t.pause *= 2
		l.say(Warn, "hook tried again", "hook", string(t.Kind), "epoch", t.Epoch.Counter, "attempt", t.attempts+1, "err", t.res.Err)
		l.attempt(now, t)
	case yielding:
		l.yieldNext(now, t)
	case waiting:
		t.Cause, t.Attempt = CauseAgentDied, t.Attempt+t.attempts
		t.attempts, t.pause, t.begun = 0, l.cfg.Pause, time.Time{}
		l.attempt(now, t)
	}
}

// finish ends a task after its last attempt; or has it wait to be run once more, if it was
// taken over and the bound of that was too short.
func (l *Lanes) finish(now time.Time, t *task) {
	res := t.res.afterAttempts()
	if !res.OK && !t.again.IsZero() && !t.isRerun && !l.isClosed {
		t.isRerun, t.phase, t.until = true, waiting, later(t.again, now)
		t.limit, t.due, t.yieldBy = ending.Limit{Timeout: t.plan.Timeout, Grace: t.plan.Grace}, time.Time{}, time.Time{}
		return
	}
	res.TakenOver = t.taken
	switch t.Kind {
	case LoseLeadership:
		l.lostTries = t.Attempt + 1
	case sweep:
		l.lead = nil
		l.sweepLater(now, t)
		return
	case exchange:
		l.exchangeEnded(res)
		return
	}
	if t.cleanUp {
		l.lead = nil
		if res.OK {
			l.book.settle(t.Epoch.Counter)
		}
		l.cleanedUp(now, res)
		return
	}
	l.conclude(now, t, res)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// errHangs is wrapped by the end of a hook that was not started beside another.
var errHangs = errors.New("nothing is started beside it")
