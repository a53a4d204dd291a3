package agent

import (
	"maps"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// holders shows the lease to those who run something on the strength of it, the
// holders, and knows who they are. The loop writes it and anybody may read it;
// neither ever waits for the other for longer than it takes to copy a struct.
//
// A time that is told is a time that is lent: to a holder until it leaves, to anybody else
// until it has passed. The will of this leadership is void before that, and its end waits
// for it.
type holders struct {
	clock func() time.Time

	// dismissed tells the loop that a dismissal has ended. Capacity 1.
	dismissed chan struct{}
	// moved tells it that somebody came or left. Capacity 1.
	moved chan struct{}

	mu        sync.Mutex
	now       term
	told      time.Time     // now.until, when readers were last woken
	step      time.Duration // of a renewal that readers are woken for
	newer     chan struct{} // closed when there is something else to say; nil while nobody waits
	all       map[*holder]struct{}
	dismissal *dismissal // nil: none is under way
	isClosed  bool       // a dismissal has ended: nothing more of this term is lent

	isLent   bool      // the keeper knows that somebody is told of the lease
	lentTill time.Time // the latest end that was told to somebody who is no holder, or does not hear of more
}

// term is one leadership as holders see it.
type term struct {
	leads, ready bool
	epoch        wire.Epoch
	cause        election.Cause
	until        time.Time // end of the lease on the agent's clock, also while the term ends; zero: none
}

// holder is somebody who runs something on the strength of the lease.
type holder struct {
	grace time.Duration
	told  time.Time // the latest end that it was told; zero: none
	runs  bool      // it was told so while it might begin: for all that is known it did
}

// dismissal waits for the holders of a term that ends, and for what is lent besides.
type dismissal struct {
	left map[*holder]struct{} // who has not left yet, and hears of more until late
	late time.Time            // nobody hears of more from then on
	look *time.Timer
}

const (
	// renewals is how many renewals holders hear of in the time of one lease, at
	// most: as many as there are heartbeats in it by default.
	renewals = 8

	// dismissSlack is what holders have beyond their grace, to hear of the end, to
	// give up a command that does not die, and to hang up. Arbitrary.
	dismissSlack = 3 * time.Second
)

func newHolders(clock func() time.Time) *holders {
	return &holders{clock: clock, dismissed: make(chan struct{}, 1), moved: make(chan struct{}, 1), all: map[*holder]struct{}{}}
}

// show is called by the loop with each change of role or readiness. What is left
// of a lease stays shown while its leadership ends.
func (h *holders) show(s election.Status, ready bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := term{leads: s.State == election.Lead, epoch: s.Epoch, cause: s.Cause, until: h.now.until}
	next.ready = next.leads && ready
	h.isClosed = h.isClosed && !next.leads
	switch {
	case s.State == election.Stopping:
		next.epoch = s.Reign // another's may be known already
	case !next.leads:
		next.until = time.Time{}
	}
	if next != h.now {
		h.now = next
		h.wake()
	}
}

// renew is called by the loop when the lease ends at another time than before.
func (h *holders) renew(until, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now.until = until
	if h.told.IsZero() || until.Before(h.told) || until.Sub(h.told) >= h.step {
		h.step = until.Sub(now) / (renewals + 1) // a little less than a heartbeat
		h.wake()
	}
}

// wake tells all readers; the caller holds mu.
func (h *holders) wake() {
	h.told = h.now.until
	if h.newer != nil {
		close(h.newer)
		h.newer = nil
	}
}

// lend gives the term as somebody may be told of it, who of nil being no holder, and notes
// that its end is lent from now on: in one critical section, so that no dismissal falls
// between. isLent says whether the keeper knows already that somebody is told of the lease.
func (h *holders) lend(who *holder) (t term, newer <-chan struct{}, isLent bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.newer == nil {
		h.newer = make(chan struct{})
	}
	t = h.now
	lent := &h.lentTill
	if _, isIn := h.all[who]; isIn {
		lent = &who.told
		who.runs = who.runs || t.ready
	}
	if t.until.After(*lent) {
		if h.hears(who) {
			*lent = t.until
		} else {
			t.until = *lent
		}
	}
	return t, h.newer, h.isLent
}

// hears reports whether somebody is told of an end that is later than what is lent already;
// the caller holds mu.
func (h *holders) hears(who *holder) bool {
	if h.dismissal != nil {
		_, isLeft := h.dismissal.left[who]
		return isLeft
	}
	return !h.isClosed
}

func (h *holders) enter(grace time.Duration) *holder {
	h.mu.Lock()
	defer h.mu.Unlock()
	who := &holder{grace: grace}
	h.all[who] = struct{}{}
	h.move()
	return who
}

// lent is called when the keeper knows.
func (h *holders) lent() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isLent = true
}

// giveBack calls back, once, when what was lent has ended; nobody borrows in the middle of it.
func (h *holders) giveBack(now time.Time, back func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isLent && len(h.all) == 0 && !now.Before(h.lentTill) {
		h.isLent = false
		back()
	}
}

func (h *holders) areThere() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all) > 0
}

// overstay reports whether a holder has not left long after all that it ran had to be dead.
func (h *holders) overstay(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for who := range h.all {
		if who.runs && now.After(who.told.Add(dismissSlack)) {
			return true
		}
	}
	return false
}

// move wakes the loop; the caller holds mu.
func (h *holders) move() {
	select {
	case h.moved <- struct{}{}:
	default:
	}
}

// leave is for a holder that is gone. If what it ran has not ended, for all that is known,
// it has what it was told.
func (h *holders) leave(who *holder, hasEnded bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, isIn := h.all[who]; !isIn {
		return
	}
	delete(h.all, who)
	if !hasEnded && who.told.After(h.lentTill) {
		h.lentTill = who.told
	}
	h.move()
	if e := h.dismissal; e != nil {
		delete(e.left, who)
		h.look(e)
	}
}

// dismiss reports whether anything of the term that ends is lent. Holders know of the end
// since the show before it; dismissed then tells when they have left, and what else was told
// has passed. Who has not left when the longest grace among them has ended is told of no more,
// and its holder ends what it runs when that has passed; so it is at once where the lease is
// not renewed any more. The loop calls it.
func (h *holders) dismiss(isRenewed bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dismissal != nil {
		h.finish(h.dismissal) // nobody waits for that one any more
	}
	e := &dismissal{left: maps.Clone(h.all), late: h.clock()}
	for who := range e.left {
		if late := h.clock().Add(who.grace + dismissSlack); isRenewed && late.After(e.late) {
			e.late = late
		}
	}
	e.look = time.AfterFunc(time.Hour, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.look(e)
	})
	h.dismissal = e
	h.look(e)
	select {
	case <-h.dismissed: // of an earlier one, or of this one at once
	default:
	}
	return h.dismissal != nil
}

// areDismissed: a dismissal is under way.
func (h *holders) areDismissed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dismissal != nil
}

// look ends the dismissal if nothing is lent any more, or sees to it that somebody looks
// again; the caller holds mu.
func (h *holders) look(e *dismissal) {
	if h.dismissal != e {
		return
	}
	now := h.clock()
	if len(e.left) > 0 && now.Before(e.late) {
		e.look.Reset(e.late.Sub(now))
		return
	}
	clear(e.left)
	if free := h.free(); now.Before(free) {
		e.look.Reset(free.Sub(now))
		return
	}
	h.finish(e)
}

// free is when all that is lent has passed; the caller holds mu.
func (h *holders) free() time.Time {
	free := h.lentTill
	for who := range h.all {
		if who.told.After(free) {
			free = who.told
		}
	}
	return free
}

// finish ends the dismissal unless that has been done; the caller holds mu.
func (h *holders) finish(e *dismissal) {
	if h.dismissal != e {
		return
	}
	h.dismissal, h.isClosed = nil, true
	e.look.Stop()
	select {
	case h.dismissed <- struct{}{}:
	default:
	}
}
