package hooks

import (
	"maps"
	"slices"
	"time"
)

// What Lanes note in the journal: which process groups run now, and which leadership has had
// its become-leader and not yet its lose-leadership hook. The next life of the agent, with a
// keeper of its own, ends by it what this one left behind by crashing (M18).
//
// That a leadership begins is noted before its become-leader is started; everything else after
// it happened and in its own time. A hook of that leadership is found even if the agent died
// before its group was noted, and an entry that outlives its group matches no process any more.
//
// All of this outlives the agent without being synced. A loss of power ends the hooks with the
// agent, and that a lose-leadership hook is due then stands in the election's state file, which
// is synced before; what is due is synced here too, a moment after it begins and when the hook
// has failed, from when on it stands nowhere else, and at each change while it is due, but
// nobody waits for that.

// persistDelay is how long the disk is left to the start of a become-leader hook, and to
// all others that move at a failover, before it is to sync what is due. Arbitrary.
const persistDelay = 100 * time.Millisecond

// Page is what the journal holds.
type Page struct {
	Runs map[Lane]Entry `json:"runs,omitempty"`
	// Owed is the epoch whose become-leader was started and whose lose-leadership
	// hook has not succeeded yet.
	Owed *Epoch `json:"owed,omitempty"`
	// Kept is what the hooks of that epoch run by; nil: by the configuration.
	Kept *Kept `json:"kept,omitempty"`
	// Has is what of resources may be here by that leadership, and what one before it could not end.
	Has []Resource `json:"has,omitempty"`
	// Done is how a lose-leadership hook succeeded of which nobody has been told: the
	// agent was dead or silent.
	Done *Done `json:"done,omitempty"`
}

// IsBlank reports whether there is nothing to hold.
func (p Page) IsBlank() bool { return len(p.Runs) == 0 && p.Owed == nil && p.Done == nil }

// Done is what the next life of the agent has to know of a hook's end.
type Done struct {
	Epoch Epoch         `json:"epoch"`
	Ran   bool          `json:"ran"`
	Took  time.Duration `json:"took"`
}

// keptFor is what the hooks of an earlier life's leadership run by; nil: by the
// configuration.
func (p Page) keptFor(epoch Epoch) *Kept {
	if p.Kept == nil || p.Kept.Epoch != epoch {
		return nil
	}
	return p.Kept
}

// doneFor is the result of a lose-leadership hook that the last life's keeper has run;
// false if it has not, or in vain.
func (p Page) doneFor(epoch Epoch) (Result, bool) {
	d := p.Done
	if d == nil || d.Epoch != epoch {
		return Result{}, false
	}
	return Result{Kind: LoseLeadership, Epoch: epoch.Counter, Cause: CauseAgentDied, OK: true, Ran: d.Ran, Took: d.Took, TakenOver: true}, true
}

// Entry identifies a group beyond the reuse of its number: by its first process's
// start time, and by variables in its members' environment for when the first
// process has ended before the others.
type Entry struct {
	Hook  Kind   `json:"hook"`
	Epoch uint64 `json:"epoch"`
	Seq   uint64 `json:"seq"`
	Time  string `json:"time"` // BULLY_TIME
	Group int    `json:"group"`
	Start uint64 `json:"start"` // clock ticks since boot; 0: unknown
	Boot  string `json:"boot"`

	Owner string `json:"-"` // of the epoch, in place of Time where that is not known
}

// Lane is one of what Lanes run at most one process group in at a time.
type Lane string

const (
	Leadership   Lane = "leadership"
	Notification Lane = "notification"
)

// stuckLane is where the journal has a hook of the leadership that KILL has not ended.
func stuckLane(kind Kind) Lane { return Lane("stuck-" + string(kind)) }

// InPlaceOf is a note that is written in the place of the one before, which was not written yet: it
// says what that one says. A begin waits for no sync that the one before asked for, since it
// replaces all that was due.
func (n Note) InPlaceOf(before Note) Note {
	if !n.IsBegin {
		n.IsSync, n.IsLast, n.IsBegin = n.IsSync || before.IsSync, n.IsLast || before.IsLast, before.IsBegin
	}
	return n
}

// book is what Lanes note: the page as it is now, and what of it the journal has. Its zero value
// holds nothing.
type book struct {
	page   Page
	before Page // what was due before the last begin

	// isFresh: what is due has begun just now, and stands in the state file; nobody is to wait
	// for a sync. From syncAt on a page with what is due is on the disk before it takes the
	// place of the one there.
	isFresh bool
	syncAt  time.Time
	began   uint64 // number of the last Note with IsBegin

	isLoose bool // that something was lost is not on its way to last
	next    Note // what has changed since the last Note; its number is that of the last one
	isDirty bool
	lasting uint64 // number of the last with IsLast
	noted   uint64 // number of the last that the journal has
	tried   uint64 // number of the last that the journal has, or that the disk did not take
}

// change has the page be given to the journal.
func (b *book) change() { b.isDirty = true }

// flush gives the page, if it has changed.
func (b *book) flush() (n Note, ok bool) {
	if !b.isDirty {
		return Note{}, false
	}
	n = b.next
	n.Number++
	b.isDirty, b.next = false, Note{Number: n.Number}
	n.Page = b.page
	n.Page.Runs = maps.Clone(b.page.Runs)
	n.IsSync = n.IsLast || b.page.Owed != nil && !b.isFresh
	if n.IsLast {
		b.lasting = n.Number
	}
	return n, true
}

// persist has what is due survive a loss of power from now on: what was written since the begin
// was not synced. Nobody waits for it.
func (b *book) persist() {
	b.isFresh, b.syncAt, b.isLoose = false, time.Time{}, false
	b.next.IsLast = true
	b.change()
}

// begin notes that a become-leader hook is about to start, which must not before the Note of
// that number is written.
func (b *book) begin(epoch Epoch, k *Kept, has []Resource) (number uint64) {
	b.before = Page{Owed: b.page.Owed, Kept: b.page.Kept, Has: b.page.Has}
	b.page.Owed, b.page.Kept, b.page.Has, b.page.Done = &epoch, k, has, nil
	b.isFresh, b.isLoose, b.next.IsBegin = true, false, true
	b.change()
	b.began = b.next.Number + 1
	return b.began
}

// withdraw takes back a begin after which nothing was started. What was due before may stand
// nowhere else, and the begin has taken its place.
func (b *book) withdraw() {
	b.page.Owed, b.page.Kept, b.page.Has = b.before.Owed, b.before.Kept, b.before.Has
	b.persist()
}

// wrote learns what the journal has.
func (b *book) wrote(now time.Time, e Noted) {
	if b.isFresh && b.syncAt.IsZero() && e.Number >= b.began {
		b.syncAt = now.Add(persistDelay)
	}
	b.tried = max(b.tried, e.Number)
	if e.Err == nil {
		b.noted = max(b.noted, e.Number)
	}
}

// lost notes that the lose-leadership hook of an epoch has succeeded; with the way it ended, to
// last, where nobody is told: the state file says still that it is due.
func (b *book) lost(epoch Epoch, res Result) {
	if !res.TakenOver {
		b.settle(epoch.Counter)
		return
	}
	b.page.Owed, b.page.Kept, b.page.Has, b.page.Done = nil, nil, nil, &Done{Epoch: epoch, Ran: res.Ran, Took: res.Took}
	b.persist()
}

func (b *book) settle(epoch uint64) {
	if owed := b.page.Owed; owed != nil && owed.Counter <= epoch {
		b.page.Owed, b.page.Kept, b.page.Has, b.isLoose = nil, nil, nil, true
		b.change()
	}
}

// tighten puts on the disk, to last, that a lose-leadership hook has succeeded. It is called at each step once the agent is dead: the agent
// was told, and may have died before its own disk had that. Only a will waits for it.
func (b *book) tighten() {
	if b.isLoose {
		b.persist()
	}
}

// isSettled reports whether no lose-leadership hook is due, and a loss of power would not forget
// that one has succeeded of which nobody has been told.
func (b *book) isSettled() bool { return b.page.Owed == nil && b.lasting <= b.noted }

// awaitsDisk reports whether the disk has yet to say that it has what is to last, or does not take it.
func (b *book) awaitsDisk() bool { return b.tried < b.lasting }

// forgetDone is called when somebody has been told.
func (b *book) forgetDone() {
	if b.page.Done != nil {
		b.page.Done = nil
		b.change()
	}
}

// owe notes what an earlier life owes by another record than the journal, unless that says that it was
// done: a keeper that was killed before it had taken this back would leave it due for ever.
func (b *book) owe(epoch Epoch) {
	isDone := b.page.Done != nil && b.page.Done.Epoch == epoch
	if owed := b.page.Owed; !isDone && (owed == nil || *owed != epoch) {
		b.page.Owed, b.page.Kept = &epoch, nil
		b.change()
	}
}

// mayHave is what a leadership may have of resources: what was noted for it, or for one before that could not be ended, and what is
// configured.
func (b *book) mayHave(configured []Resource) []Resource {
	if b.page.Owed == nil || len(b.page.Has) == 0 {
		return configured
	}
	return slices.Concat(b.page.Has, without(configured, b.page.Has))
}

// has notes what is here of resources from now on.
func (b *book) has(all []Resource) {
	b.page.Has = all
	b.change()
}

// kept is what the hooks of the leadership that is due run by; nil: by the configuration.
func (b *book) kept() *Kept {
	if b.page.Owed == nil {
		return nil
	}
	return b.page.keptFor(*b.page.Owed)
}

// keep notes what the hooks of the leadership that is due run by from now on.
func (b *book) keep(k *Kept) {
	b.page.Kept = k
	b.change()
}

// run notes that a group runs in a lane, or with a zero entry that none does any more.
func (b *book) run(ln Lane, e Entry) {
	if b.page.Runs[ln] = e; e == (Entry{}) {
		delete(b.page.Runs, ln)
	}
	b.change()
}

// onNoted goes on with a become-leader that waits for it.
func (l *Lanes) onNoted(now time.Time, e Noted) {
	l.book.wrote(now, e)
	t := l.running(Leadership, noting)
	switch {
	case t == nil || e.Number < t.note:
	case e.Err != nil:
		l.withdraw(now, t, notRecorded(e.Err))
	case t.Kind == exchange:
		l.exchangeNoted(now, t)
	default:
		l.have(now, t)
	}
}

// persist has what is due survive a loss of power when the disk has had its rest, or at the end.
func (l *Lanes) persist(now time.Time) {
	if at := l.book.syncAt; !at.IsZero() && (l.isClosed || !now.Before(at)) {
		l.book.persist()
	}
}
