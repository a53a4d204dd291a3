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
type holders struct {
	// dismissed tells the loop that a dismissal is over. Capacity 1.
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

	isLent   bool      // the keeper knows that somebody is told of the lease
	lentTill time.Time // the latest end that anybody was told
}

// term is one leadership as holders see it.
type term struct {
	leads, ready bool
	epoch        wire.Epoch
	cause        election.Cause
	until        time.Time // end of the lease on the agent's clock, also while the term ends; zero: none
}

// holder is somebody who runs something on the strength of the lease.
type holder struct{ grace time.Duration }

// dismissal waits for the holders of a term that ends.
type dismissal struct {
	left map[*holder]struct{} // who has not left yet
	late *time.Timer          // ends the wait
}

const (
	// renewals is how many renewals holders hear of in the time of one lease, at
	// most: as many as there are heartbeats in it by default.
	renewals = 8

	// dismissSlack is what holders have beyond their grace, to hear of the end, to
	// give up a command that does not die, and to hang up. Arbitrary.
	dismissSlack = 3 * time.Second
)

func newHolders() *holders {
	return &holders{dismissed: make(chan struct{}, 1), moved: make(chan struct{}, 1), all: map[*holder]struct{}{}}
}

// show is called by the loop with each change of role or readiness. What is left
// of a lease stays shown while its leadership ends.
func (h *holders) show(s election.Status, ready bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := term{leads: s.State == election.Lead, epoch: s.Epoch, cause: s.Cause, until: h.now.until}
	next.ready = next.leads && ready
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

func (h *holders) read() (term, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.newer == nil {
		h.newer = make(chan struct{})
	}
	return h.now, h.newer
}

func (h *holders) enter(grace time.Duration) *holder {
	h.mu.Lock()
	defer h.mu.Unlock()
	who := &holder{grace: grace}
	h.all[who] = struct{}{}
	h.move()
	return who
}

// borrow notes that somebody is to be told of that end; it reports whether the keeper knows
// already that somebody is.
func (h *holders) borrow(until time.Time) (isLent bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.After(h.lentTill) {
		h.lentTill = until
	}
	return h.isLent
}

// lent is called when the keeper knows.
func (h *holders) lent() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isLent = true
}

// giveBack calls back, once, when what was lent is over; nobody borrows in the middle of it.
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

// move wakes the loop; the caller holds mu.
func (h *holders) move() {
	select {
	case h.moved <- struct{}{}:
	default:
	}
}

// leave is for a holder whose command has ended, or that is gone.
func (h *holders) leave(who *holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, who)
	h.move()
	if e := h.dismissal; e != nil {
		delete(e.left, who)
		if len(e.left) == 0 {
			h.finish(e)
		}
	}
}

// dismiss reports whether there are holders, who know of the end since the show
// before it; dismissed then tells when they have left, or when the longest grace
// among them is over. What still runs then is ended by its guard, when the lease
// is over. The loop calls it.
func (h *holders) dismiss() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dismissal != nil {
		h.finish(h.dismissal) // nobody waits for that one any more
	}
	select {
	case <-h.dismissed:
	default:
	}
	if len(h.all) == 0 {
		return false
	}
	e := &dismissal{left: maps.Clone(h.all)}
	longest := time.Duration(0)
	for who := range e.left {
		longest = max(longest, who.grace)
	}
	e.late = time.AfterFunc(longest+dismissSlack, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.finish(e)
	})
	h.dismissal = e
	return true
}

// finish ends the dismissal unless that has been done; the caller holds mu.
func (h *holders) finish(e *dismissal) {
	if h.dismissal != e {
		return
	}
	h.dismissal = nil
	e.late.Stop()
	select {
	case h.dismissed <- struct{}{}:
	default:
	}
}
