package sim

import (
	"slices"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// What must hold of resources, by what the world has seen: what was said to keepers, what their journals held, and what
// was where. Each function is one invariant, or a part of it.
//
//   - H1, a resource begins, or is put back, only within its leadership.
//   - H2, when the lose side has succeeded nothing is left.
//   - H3, in quorum mode an address is on one host at a time.
//   - H4, resources begin before the become-leader hook and end after the lose-leadership hook.
//   - H5, a host that is up and does not lead has nothing, some time after the last fault.

// hadAt is where the numbers of the invariants of resources begin.
const hadAt = 110

// heardEnd notes what a keeper has heard of the end of a leadership. One that is killed when it was about to end one by itself has
// done nothing: the next may go on with that leadership, until a lose-leadership hook of it has begun.
func (k *keeper) heardEnd(epoch uint64) {
	h := &k.host.hooks
	h.ended = max(h.ended, epoch)
}

// noteOrder notes what an order says of leaderships.
func (k *keeper) noteOrder(ev hooks.LaneEvent) {
	switch e := ev.(type) {
	case hooks.Asked:
		if e.Event.Kind == hooks.BecomeLeader {
			if e.Event.Epoch.Counter > k.ordered { // else it is tried again, and may have what was configured before
				k.configuredFor = e.Event.Epoch.Counter
			}
			k.ordered = max(k.ordered, e.Event.Epoch.Counter)
		} else {
			k.heardEnd(e.Event.Epoch.Counter)
		}
	case hooks.Stopped:
		k.heardEnd(e.Epoch)
	case hooks.Reloaded:
		k.configured, k.configuredFor = e.Config.Resources, 0
	case hooks.Adopted:
		k.ordered = max(k.ordered, e.Event.Epoch.Counter)
	}
}

// H1: a resource begins, or is put back, for a leadership that its keeper was told of, of whose end it has not heard, and of
// which the journal has it.
func (w *World) h1BeginsInItsLeadership(k *keeper, x *thing, epoch wire.Epoch, how string) {
	m := k.host
	page := m.hooks.disk.page
	switch {
	case epoch.Counter <= max(m.hooks.ended, k.ended):
		w.fail(hadAt+1, "n%d: %s %s in %v after the keeper has heard of its end", m.number, x.Name, how, epoch)
	case epoch.Counter != k.ordered:
		w.fail(hadAt+1, "n%d: %s %s in %v, of which its keeper has not heard", m.number, x.Name, how, epoch)
	case page.Owed == nil || page.Owed.Counter != epoch.Counter || !isAmong(page.Has, x.Name):
		w.fail(hadAt+1, "n%d: %s %s in %v, and the journal does not have it", m.number, x.Name, how, epoch)
	}
}

// H2: when the lose side of a leadership has succeeded, or a clean-up of it, nothing of it is here.
func (w *World) h2NothingIsLeft(k *keeper, r hooks.Result) {
	m := k.host
	if r.Kind != hooks.LoseLeadership || !r.OK {
		return
	}
	if m.hooks.lostBy == k {
		k.knowsLost = m.hooks.lost
	}
	for _, x := range m.haves.things {
		if x.isHere && x.epoch.Counter == r.Epoch && x.epoch.Owner == m.id {
			w.fail(hadAt+2, "n%d has lost %v, and %s is still here", m.number, x.epoch, x.Name)
		}
	}
}

// H3 (quorum): an address is on one host at a time.
func (w *World) h3OneHostHasAnAddress(m *machine, x *thing) {
	if w.mode != Quorum || !x.isAddress() {
		return
	}
	for _, other := range w.machines {
		if other == m {
			continue
		}
		for _, its := range other.haves.things {
			if its.Name == x.Name && its.isHere && !w.mayStay(other, its) {
				w.fail(hadAt+3, "n%d has %s by %v while n%d has it by %v (%v)", m.number, x.Name, x.epoch, other.number, its.epoch, other.state)
			}
		}
	}
}

// mayStay: what is promised of addresses does not hold for this one.
func (w *World) mayStay(m *machine, x *thing) bool {
	switch {
	case x.epoch.IsZero(): // it was put here by hand
	case x.isOverdue, m.sticks(x): // what cannot be ended is named, and others lead all the same
		w.fired(ResourceHeldOn)
	case m.suspended || x.isOverslept: // as I9
	case x.isOrphan && w.isPastLease(m):
		// Agent and keeper were killed together: the kernel takes the address off.
		w.fired(ResourceByKernel)
	default:
		return false
	}
	return true
}

// sticks: the end of it goes on for longer than it may.
func (m *machine) sticks(x *thing) bool {
	k := m.hooks.keeper
	return k != nil && slices.ContainsFunc(k.tenants, func(t *tenant) bool { return t.thing == x && t.ending != nil && t.ending.sticks })
}

// H4: what a leadership has ends after its lose-leadership hook, except where it was configured anew meanwhile.
func (w *World) h4EndsAfterTheLoseHook(k *keeper, x *thing) {
	h := &k.host.hooks
	if x.isHere && !x.epoch.IsZero() && h.acting == x.epoch && h.loseBegun != x.epoch && k.configuredFor == x.epoch.Counter {
		w.fail(hadAt+4, "n%d: %s is to end in %v before the lose hook", k.host.number, x.Name, x.epoch)
	}
}

// H4: and has begun before its become-leader hook, unless it stays away or was lost since.
func (w *World) h4BeganBeforeTheBecomeHook(c *group) {
	k := c.keeper
	for _, x := range k.host.haves.things {
		if isAmong(k.configured, x.Name) && !x.Stays && x.begun != c.epoch && k.configuredFor == c.epoch.Counter {
			w.fail(hadAt+4, "n%d runs the become hook of %v before %s has begun", k.host.number, c.epoch, x.Name)
		}
	}
}

// shouldNotHave: it is here, and no address that somebody has put here by hand and that its keeper was not told of.
func (m *machine) shouldNotHave(x *thing) bool {
	k := m.hooks.keeper
	return x.isHere && (!x.epoch.IsZero() || k != nil && isAmong(k.configured, x.Name))
}

// H5: some time after the last fault a host that is up and does not lead has nothing.
func (w *World) h5NothingIsLeftForEver() {
	if w.failure != nil || !w.resources.some {
		return
	}
	has := func(m *machine) bool {
		return m.runs() && !w.acts(m) && slices.ContainsFunc(m.haves.things, m.shouldNotHave)
	}
	limit := w.now + int64(2*redoMost)
	if w.runUntil(w.now, nil); !slices.ContainsFunc(w.machines, has) || w.failure != nil {
		return
	}
	if w.runUntil(limit, func() bool { return !slices.ContainsFunc(w.machines, has) }) || w.failure != nil {
		return
	}
	for _, m := range w.machines {
		if has(m) {
			w.fail(hadAt+5, "n%d does not lead and has something in %v", m.number, m.state)
		}
	}
}
