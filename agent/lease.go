package agent

import (
	"maps"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// tenancy shows the lease to those who run something on the strength of it, the
// tenants, and knows who they are. The loop writes it and anybody may read it;
// neither ever waits for the other for longer than it takes to copy a struct.
type tenancy struct {
	// vacant tells the loop that an eviction is over. Capacity 1.
	vacant chan struct{}

	mu       sync.Mutex
	now      term
	told     time.Time     // now.until, when readers were last woken
	step     time.Duration // of a renewal that readers are woken for
	newer    chan struct{} // closed when there is something else to say; nil while nobody waits
	tenants  map[*tenant]struct{}
	eviction *eviction // nil: none is under way
}

// term is one leadership as tenants see it.
type term struct {
	leads, ready bool
	epoch        wire.Epoch
	cause        election.Cause
	until        time.Time // end of the lease on the agent's clock, also while the term ends; zero: none
}

// tenant is somebody who runs something on the strength of the lease.
type tenant struct{ grace time.Duration }

// eviction waits for the tenants of a term that ends.
type eviction struct {
	left map[*tenant]struct{} // who has not left yet
	late *time.Timer          // ends the wait
}

const (
	// renewals is how many renewals tenants hear of in the time of one lease, at
	// most: as many as there are heartbeats in it by default.
	renewals = 8

	// evictSlack is what tenants have beyond their grace, to hear of the end, to
	// give up a command that does not die, and to hang up. Arbitrary.
	evictSlack = 3 * time.Second
)

func newTenancy() *tenancy {
	return &tenancy{vacant: make(chan struct{}, 1), tenants: map[*tenant]struct{}{}}
}

// show is called by the loop with each change of role or readiness. What is left
// of a lease stays shown while its leadership ends.
func (t *tenancy) show(s election.Status, ready bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := term{leads: s.State == election.Lead, epoch: s.Epoch, cause: s.Cause, until: t.now.until}
	next.ready = next.leads && ready
	switch {
	case s.State == election.Stopping:
		next.epoch = s.Reign // another's may be known already
	case !next.leads:
		next.until = time.Time{}
	}
	if next != t.now {
		t.now = next
		t.wake()
	}
}

// renew is called by the loop when the lease ends at another time than before.
func (t *tenancy) renew(until, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.until = until
	if t.told.IsZero() || until.Before(t.told) || until.Sub(t.told) >= t.step {
		t.step = until.Sub(now) / (renewals + 1) // a little less than a heartbeat
		t.wake()
	}
}

// wake tells all readers; the caller holds mu.
func (t *tenancy) wake() {
	t.told = t.now.until
	if t.newer != nil {
		close(t.newer)
		t.newer = nil
	}
}

func (t *tenancy) read() (term, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.newer == nil {
		t.newer = make(chan struct{})
	}
	return t.now, t.newer
}

func (t *tenancy) enter(grace time.Duration) *tenant {
	t.mu.Lock()
	defer t.mu.Unlock()
	who := &tenant{grace: grace}
	t.tenants[who] = struct{}{}
	return who
}

// leave is for a tenant whose command has ended, or that is gone.
func (t *tenancy) leave(who *tenant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.tenants, who)
	if e := t.eviction; e != nil {
		delete(e.left, who)
		if len(e.left) == 0 {
			t.finish(e)
		}
	}
}

// evict reports whether there are tenants, who know of the end since the show
// before it; vacant then tells when they have left, or when the longest grace
// among them is over. What still runs then is ended by its guard, when the lease
// is over. The loop calls it.
func (t *tenancy) evict() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.eviction != nil {
		t.finish(t.eviction) // nobody waits for that one any more
	}
	select {
	case <-t.vacant:
	default:
	}
	if len(t.tenants) == 0 {
		return false
	}
	e := &eviction{left: maps.Clone(t.tenants)}
	longest := time.Duration(0)
	for who := range e.left {
		longest = max(longest, who.grace)
	}
	e.late = time.AfterFunc(longest+evictSlack, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.finish(e)
	})
	t.eviction = e
	return true
}

// finish ends the eviction unless that has been done; the caller holds mu.
func (t *tenancy) finish(e *eviction) {
	if t.eviction != e {
		return
	}
	t.eviction = nil
	e.late.Stop()
	select {
	case t.vacant <- struct{}{}:
	default:
	}
}

// holdsUp reports whether a lose hook waits for tenants. Only that of a planned
// end does, which goes on renewing the lease: in the little that is left of a lost
// one, the hook and the end of what the tenants run go side by side.
func (a *agent) holdsUp(e election.StartHook) bool {
	if e.Hook != election.Lose || a.node.Status().Lease.IsZero() || !a.tenancy.evict() {
		return false
	}
	a.log.Info("lose-leadership hook waits for what exec, hold and jobs run", "epoch", e.Epoch.Counter)
	a.heldUp = &e
	return true
}

// onVacant starts the lose hook that waited for the tenants.
func (a *agent) onVacant() {
	if e := a.heldUp; e != nil {
		a.heldUp = nil
		a.startHook(*e)
	}
}

// renewEnding shows tenants and the guard how long a planned end may take: the node
// goes on renewing the lease, though it does not lead on it any more.
func (a *agent) renewEnding() {
	if a.shown.Load().status.State != election.Stopping {
		return
	}
	if until := a.node.Status().Lease; !until.IsZero() {
		a.tenancy.renew(until, a.cfg.Now())
		a.renewGuard(until)
		a.jobs.runner.Ending(until)
	}
}

// Lease implements control.Backend. Like Status it looks at the clock first.
func (a *agent) Lease() (control.Lease, <-chan struct{}) {
	now, newer := a.tenancy.read()
	boot := BootTime() // before the other clock: whoever is stopped in between says too little
	left := now.until.Sub(a.cfg.Now())
	epoch := control.Epoch{Counter: now.epoch.Counter, Owner: ownerText(now.epoch)}
	out := control.Lease{Epoch: epoch, Cause: string(now.cause)}
	if now.until.IsZero() || left <= 0 {
		return out, newer
	}
	out.Leader, out.Ready = now.leads, now.ready
	out.Until, out.RemainMS = int64(boot+left), left.Milliseconds()
	return out, newer
}

// Occupy implements control.Backend.
func (a *agent) Occupy(grace time.Duration) (leave func()) {
	who := a.tenancy.enter(grace)
	return func() { a.tenancy.leave(who) }
}
