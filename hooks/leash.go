package hooks

import (
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/internal/run"
)

// leash says until when one hook may run. Its own goroutine asks; any other may
// shorten it meanwhile (the epoch is lost, the lease ends, the agent stops), and
// nobody can lengthen it. It implements run.Bounds. Safe for concurrent use.
type leash struct {
	timeout time.Duration // start to TERM
	grace   time.Duration // TERM to KILL

	tugged chan struct{} // holds a token after each shortening

	mu       sync.Mutex
	reason   error     // why it was pulled; nil: it was not
	pulledAt time.Time // Invariant: zero exactly when reason is nil
	last     time.Time // KILL is sent by then; zero: no bound but timeout and grace
	isShort  bool      // last is not the hook's own: somebody is in a hurry
}

const (
	// minRun is what even a hook without any time left gets, so that it is at
	// least tried.
	minRun = 5 * time.Millisecond

	// minRoom is how much time must be left for another attempt: a shell and a
	// command or two. Arbitrary.
	minRoom = 10 * time.Millisecond

	// A budget is shared in quarters: the killing of a running become-leader
	// hook may use one, and of what is left the lose-leadership hook keeps one
	// for its own grace. Arbitrary, but the hook has more than half in any case.
	budgetShare = 4
)

func newLeash(timeout, grace time.Duration) *leash {
	return &leash{timeout: timeout, grace: grace, tugged: make(chan struct{}, 1)}
}

// limit bounds the hook so that its group is dead by due; zero bounds nothing.
func (l *leash) limit(due time.Time) {
	if due.IsZero() {
		return
	}
	l.mu.Lock()
	l.isShort = true
	l.mu.Unlock()
	l.share(due)
}

// share is limit for what several attempts have together.
func (l *leash) share(due time.Time) {
	l.mu.Lock()
	last := due.Add(-run.Slack(time.Until(due)))
	if l.last.IsZero() || last.Before(l.last) {
		l.last = last
	}
	l.mu.Unlock()
	l.tug()
}

// pull ends the hook now, by TERM, grace and KILL, the grace cut so that the
// group is dead by due if that is not zero. The first reason stands.
func (l *leash) pull(reason error, due time.Time) {
	l.mu.Lock()
	if l.reason == nil {
		l.reason, l.pulledAt = reason, time.Now()
	}
	l.mu.Unlock()
	l.limit(due)
	l.tug()
}

func (l *leash) tug() {
	select {
	case l.tugged <- struct{}{}:
	default:
	}
}

// rest waits between two attempts, for d or, when time is short, for a share of
// what is left. It reports false when there may be no other.
func (l *leash) rest(d time.Duration) bool {
	until := time.Now().Add(d)
	for {
		var ok bool
		if until, ok = l.restUntil(until); !ok {
			return false
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-timer.C:
			return l.pulled() == nil
		case <-l.tugged:
			timer.Stop()
		}
	}
}

// restUntil is the end of a rest that was to last until then.
func (l *leash) restUntil(then time.Time) (until time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch now := time.Now(); {
	case l.reason != nil:
		return then, false
	case l.last.IsZero():
		return then, true
	default:
		room := l.last.Sub(now)
		if share := now.Add(room / budgetShare); share.Before(then) {
			then = share
		}
		return then, room > minRoom
	}
}

// pulled gives the reason of the first pull, or nil.
func (l *leash) pulled() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// CutBy is pulled, of a pull that came by then.
func (l *leash) CutBy(then time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason == nil || l.pulledAt.After(then) {
		return nil
	}
	return l.reason
}

// Changed holds a token after each shortening.
func (l *leash) Changed() <-chan struct{} { return l.tugged }

// hurries reports whether the hook has less than its own time.
func (l *leash) hurries() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isShort
}

// ahead is how long what must be done before the hook starts may take: its share of the time, most at best.
func (l *leash) ahead(most time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.IsZero() {
		return most
	}
	return min(most, max(time.Until(l.last)/budgetShare, run.MinGrace))
}

// TermBy is when a hook that started at begun gets TERM.
func (l *leash) TermBy(begun time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason != nil {
		return l.pulledAt
	}
	most := l.timeout
	if !l.last.IsZero() {
		room := l.last.Sub(begun)
		most = min(most, max(room-min(l.grace, room/budgetShare), minRun))
	}
	return begun.Add(most)
}

// KillBy is when a hook that got TERM at asked gets KILL.
func (l *leash) KillBy(asked time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	grace := l.grace
	if !l.last.IsZero() {
		grace = min(grace, max(l.last.Sub(asked), run.MinGrace))
	}
	return asked.Add(grace)
}
