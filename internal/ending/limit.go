package ending

import (
	"time"
)

// Limit says until when one command may run. It only ever shrinks: the epoch is lost, the lease
// ends, the agent stops. Its times are on the clock of whoever asks.
type Limit struct {
	Timeout time.Duration // start to TERM
	Grace   time.Duration // TERM to KILL

	Reason error     // why it was cut; nil: it was not
	CutAt  time.Time // Invariant: zero exactly when Reason is nil
	Last   time.Time // KILL is sent by then; zero: no bound but timeout and grace
	Hurry  bool      // Last is not the command's own
}

const (
	// minRun is what even a hook without any time left gets, so that it is at
	// least tried.
	minRun = 5 * time.Millisecond

	// minRoom is how much time must be left for another attempt: a shell and a
	// command or two. Arbitrary.
	minRoom = 10 * time.Millisecond

	// BudgetShare: a budget is shared in quarters: the killing of a running become-leader
	// hook may use one, and of what is left the lose-leadership hook keeps one
	// for its own grace. Arbitrary, but the hook has more than half in any case.
	BudgetShare = 4
)

// Within bounds the command so that its group is dead by due; zero bounds nothing.
func (l *Limit) Within(now, due time.Time) {
	if !due.IsZero() {
		l.Hurry = true
		l.Share(now, due)
	}
}

// Share is Within for what several attempts have together.
func (l *Limit) Share(now, due time.Time) {
	last := due.Add(-Slack(due.Sub(now)))
	if l.Last.IsZero() || last.Before(l.Last) {
		l.Last = last
	}
}

// Cut ends the command now, by TERM, grace and KILL, the grace shortened so that the
// group is dead by due if that is not zero. The first reason stands.
func (l *Limit) Cut(now time.Time, reason error, due time.Time) {
	if l.Reason == nil {
		l.Reason, l.CutAt = reason, now
	}
	l.Within(now, due)
}

// Rest is the end of a pause between two attempts that was to last until then: when time is
// short, a share of what is left. It reports false when there may be no other attempt.
func (l *Limit) Rest(now, then time.Time) (until time.Time, ok bool) {
	switch {
	case l.Reason != nil:
		return then, false
	case l.Last.IsZero():
		return then, true
	}
	room := l.Last.Sub(now)
	if share := now.Add(room / BudgetShare); share.Before(then) {
		then = share
	}
	return then, room > minRoom
}

// Ahead is how long what must be done before the command starts may take: its share of the
// time, most at best.
func (l *Limit) Ahead(now time.Time, most time.Duration) time.Duration {
	if l.Last.IsZero() {
		return most
	}
	return min(most, max(l.Last.Sub(now)/BudgetShare, MinGrace))
}

// TermBy is when a command that started at begun gets TERM.
func (l *Limit) TermBy(begun time.Time) time.Time {
	if l.Reason != nil {
		return l.CutAt
	}
	most := l.Timeout
	if !l.Last.IsZero() {
		room := l.Last.Sub(begun)
		most = min(most, max(room-min(l.Grace, room/BudgetShare), minRun))
	}
	return begun.Add(most)
}

// CutBy is why the command is to end before its own time, if somebody has said so by then; nil:
// nobody has.
func (l *Limit) CutBy(then time.Time) error {
	if l.Reason == nil || l.CutAt.After(then) {
		return nil
	}
	return l.Reason
}

// KillBy is when one that got TERM at asked gets KILL.
func (l *Limit) KillBy(asked time.Time) time.Time {
	grace := l.Grace
	if !l.Last.IsZero() {
		grace = min(grace, max(l.Last.Sub(asked), MinGrace))
	}
	return asked.Add(grace)
}

// Terms say until when a command may run that a process of its own holds.
type Terms struct {
	// Deadline is when the command must be dead; zero: it may run for as long as its starter
	// lives.
	Deadline time.Time `json:",omitzero"`
	// StartBy is when the command must have started: later it is not started at all. Zero: the
	// deadline alone says. It is for a command that may run for longer than the lease on whose
	// strength it starts.
	StartBy time.Time `json:",omitzero"`
}
