package hooks

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// What an earlier life, or an earlier keeper of this one, has left.

// onCleanUp makes up for a leadership that an earlier life of this agent did not end, once
// nothing of that life runs any more.
func (l *Lanes) onCleanUp(ev Event) {
	ev.Kind, ev.Cause = LoseLeadership, causeUncleanRestart
	if ev.Epoch == (Epoch{}) {
		ev.Cause = CauseStarted
	}
	if l.kept = l.book.page.keptFor(ev.Epoch); l.kept != nil {
		l.say(Info, "lose-leadership hook is the one that the last run had begun with", "epoch", ev.Epoch.Counter)
	}
	owed := l.book.page.Owed // what runs may be of an earlier leadership: nothing has begun of one that is not noted
	if ev.Cause == causeUncleanRestart {
		l.book.owe(ev.Epoch) // whoever else had noted that forgets it after this
	}
	l.cleaning = &request{Event: ev, cleanUp: true}
	l.endOrphans(l.planFor(ev.Epoch.Counter).Grace, cmp.Or(owed, l.book.page.Owed))
}

func (l *Lanes) endOrphans(grace time.Duration, owed *Epoch) {
	l.orphans = false
	l.do(EndOrphans{Grace: grace, Owed: owed, Runs: slices.Collect(maps.Values(l.book.page.Runs))})
}

// onOrphansEnded: what hangs is minded, and the rest is gone.
func (l *Lanes) onOrphansEnded(now time.Time, e OrphansEnded) {
	l.orphans = true
	clear(l.book.page.Runs)
	clear(l.stuck)
	l.book.change()
	for _, h := range e.Hang {
		l.noteStuck(h.Entry, h.How)
	}
	if d := l.book.page.Done; l.isOpen && d != nil && d.Epoch.Counter != l.takenOver { // else its agent has not heard of it
		l.book.forgetDone()
	}
	if req := l.cleaning; req != nil {
		l.cleaning = nil
		l.makeUp(now, *req)
	}
}

// makeUp runs the hook of a clean-up, or gives the result that the last life's keeper had.
func (l *Lanes) makeUp(now time.Time, req request) {
	plan := l.planFor(req.Epoch.Counter)
	l.over = max(l.over, req.Epoch.Counter)
	if res, isDone := l.book.page.doneFor(req.Epoch); isDone {
		l.book.settle(req.Epoch.Counter)
		if !req.AtStart {
			l.cleanedUp(now, res)
			return
		}
		req.Cause, req.Epoch, req.Leader, req.PrevLeader = CauseStarted, Epoch{}, Node{}, Node{} // as that of any start
	}
	l.attempt(now, l.carryOut(now, req, Leadership, plan))
}

// failedCleanUp is the end of a clean-up that waits for the disk. The zero value is none.
type failedCleanUp struct {
	res Result
	by  time.Time // it waits no longer than that
}

// cleanedUp ends a clean-up. Who hears that it has failed has its state file forget the leadership. From then on the journal
// alone says that the hook is due, so that is on the disk first.
func (l *Lanes) cleanedUp(now time.Time, res Result) {
	l.remember(res)
	l.learn(res)
	if res.OK || l.book.page.Owed == nil {
		l.do(Cleaned{res})
		return
	}
	l.book.persist()
	l.uncleaned = failedCleanUp{res, now.Add(l.cfg.RecordWithin)}
}

// sayUncleaned says that a clean-up has failed, once the disk has that its hook is due, or does not take it.
func (l *Lanes) sayUncleaned(now time.Time) {
	u := l.uncleaned
	if u.by.IsZero() || l.book.awaitsDisk() && now.Before(u.by) {
		return
	}
	l.uncleaned = failedCleanUp{}
	l.do(Cleaned{u.res})
}

// onAdopted takes on a leadership that Lanes before these had begun in the same life of the
// agent. One that is not on disk as begun was not, unless the disk does not say: then it may have.
// One that they have ended in the agent's stead has ended: the agent may not have heard of it.
func (l *Lanes) onAdopted(e Adopted) {
	epoch := e.Event.Epoch.Counter
	if res, isDone := l.book.page.doneFor(e.Event.Epoch); isDone {
		l.begun, l.over, l.takenOver = epoch, epoch, epoch
		l.remember(res)
		l.sayTaken(epoch)
		return
	}
	l.agent.adopt(epoch, e.Lease)
	if l.cfg.Unread {
		l.book.owe(e.Event.Epoch)
	}
	if owed := l.book.page.Owed; owed == nil || *owed != e.Event.Epoch {
		return
	}
	l.reign, l.begun, l.ready = &e.Event, epoch, epoch
	l.kept = l.book.page.keptFor(e.Event.Epoch)
}

// loseOn ends a leadership that was adopted though a keeper before these Lanes has begun to lose it. Its agent has not asked
// for that, or it would be asked for again by now. So the keeper did it in the agent's stead, and may not have been heard.
func (l *Lanes) loseOn(now time.Time) {
	left := l.book.page.Runs[Leadership]
	if l.reign != nil && left.Hook == LoseLeadership && left.Epoch == l.reign.Epoch.Counter {
		l.takeOver(now)
	}
}
