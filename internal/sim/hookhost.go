package sim

import (
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// hookHost is what a host has of leaderships' hooks: it outlives agents and keepers.
type hookHost struct {
	seen
	keeper *keeper // that has the lock of the state directory; nil: none
	next   *keeper // that waits for it
	disk   notes
	left   []leftover // that runs on
	holder *holder    // who has borrowed the lease; nil: nobody
	seq    uint64     // BULLY_SEQ of the last run

	obstacle obstacle
}

// seen is what the world saw of leaderships on a host, by processes that began and ended. The
// invariants are judged by that, and never by what lanes think.
type seen struct {
	// acting is the epoch whose become hook has begun and whose lose hook has
	// not ended: what users see of a leadership on this host.
	acting    wire.Epoch
	held      wire.Epoch // acting once, and its lose hook has failed or was cut
	overslept wire.Epoch // acting, and its host was suspended past its lease
	unminded  wire.Epoch // acting when its keeper was killed
	begun     wire.Epoch // the last whose become hook has begun
	lost      wire.Epoch // the last whose lose hook has succeeded
	lostBy    *keeper
	loseBegun wire.Epoch // the last whose lose hook has begun
	ended     uint64     // the last of whose end a keeper has heard, or that is being lost
	isNoted   bool       // and the journal was written by whoever knew that
}

// sawBegin holds the begin of a command against the invariants.
func (w *World) sawBegin(c *group) {
	m := c.keeper.host
	h := &m.hooks
	w.i8NothingIsLeft(m, c)
	if c.kind == hooks.LoseLeadership {
		w.i8LosesWhatHasBegun(m, c)
		h.loseBegun = c.epoch
		c.keeper.heardEnd(c.epoch.Counter)
		return
	}
	w.i8HooksAlternate(m, c)
	w.i8BecomeOnlyWithLease(m, c.epoch)
	w.i9HooksOfHostsAreDisjoint(m, c.epoch)
	w.h4BeganBeforeTheBecomeHook(c)
	h.acting, h.begun, h.held, h.overslept, h.unminded = c.epoch, c.epoch, wire.Epoch{}, wire.Epoch{}, wire.Epoch{}
	w.lendLater(m, c.epoch)
}

// sawEnd: docs/hooks.md: "A lose hook is tried until it succeeds, also after a restart, or until this host leads again:
// the hook may not have released everything yet."
func (w *World) sawEnd(c *group, ok bool) {
	h := &c.keeper.host.hooks
	if c.kind != hooks.LoseLeadership {
		return
	}
	if h.acting == c.epoch {
		h.acting, h.held = wire.Epoch{}, c.epoch
	}
	if !ok && h.lost == c.epoch {
		h.lost = wire.Epoch{} // it was run once more, and may be again
	}
	if ok {
		h.held, h.lost, h.lostBy, h.isNoted = wire.Epoch{}, c.epoch, c.keeper, false
	}
}

// sawNoEnd: a lose hook cannot be started. That is as if it had failed: what it is to release is held on to, and one that was run once
// more may be again.
func (s *seen) sawNoEnd() {
	if !s.acting.IsZero() {
		s.acting, s.held = wire.Epoch{}, s.acting
	}
	s.lost = wire.Epoch{}
}

// losePowerOfHooks: a host that is off holds nothing, and its keeper is gone.
// docs/hooks.md: "both die, or the host loses its power | the next start".
func (w *World) losePowerOfHooks(m *machine) {
	h := &m.hooks
	for _, k := range []*keeper{h.keeper, h.next} {
		if k != nil {
			k.isOver = true
			w.leaveThings(k)
		}
	}
	w.losePowerOfThings(m)
	h.keeper, h.next, h.left = nil, nil, nil
	h.acting, h.held = wire.Epoch{}, wire.Epoch{}
	h.disk.losePower(w)
	h.isNoted = false // what was noted was perhaps not synced
}

// forgetHooks: a state directory is lost, with all that was known of hooks.
func (w *World) forgetHooks(m *machine) {
	for _, k := range []*keeper{m.hooks.keeper, m.hooks.next} {
		if k != nil {
			k.isOver = true
			w.leaveThings(k)
		}
	}
	m.hooks = hookHost{}
}

// orphanHooks: the process has died. Its keeper goes on with what it runs until it
// notices, and sees to the rest (M18), unless the host died, too.
func (w *World) orphanHooks(m *machine) {
	if m.hostDown {
		w.losePowerOfHooks(m)
		return
	}
	if m.suspended { // whoever kills it wakes the host
		w.noteOverslept(m)
	}
	for _, k := range []*keeper{m.hooks.keeper, m.hooks.next} {
		if k != nil && k.life == m.life {
			w.orphan(k)
		}
	}
}

// orphan has a keeper see its agent's death, some time after that.
func (w *World) orphan(k *keeper) {
	w.in(k, 0, func() { w.turn(k) }) // whoever kills a host's process wakes the host, and its keeper looks at the clock
	w.in(k, w.keeperTakes(2*time.Millisecond), func() {
		if k.isAlone = true; !k.isOpen { // it waits for the lock
			w.buryKeeper(k)
			return
		}
		w.turn(k)
	})
}

// wakeKeeper: the host goes on. Keeper and agent both look at the clock first; one is
// quicker.
func (w *World) wakeKeeper(m *machine) {
	w.noteOverslept(m)
	k := m.hooks.keeper
	switch {
	case k == nil:
	case !w.keepers.isPlain && w.keepers.oneIn(2):
		w.turn(k)
	default:
		w.in(k, 0, func() { w.turn(k) })
	}
}

// noteOverslept remembers that a host was suspended past the lease of what acts on it.
func (w *World) noteOverslept(m *machine) {
	if m.clock.at(w.now) > m.leaseEnd() {
		m.hooks.overslept = m.hooks.acting
		for _, x := range m.haves.things {
			x.isOverslept = x.isHere
		}
	}
}

// leaseEnd is the end of the lease of the last leadership here, on the host's clock.
func (m *machine) leaseEnd() int64 {
	end := max(m.lease, m.overLease)
	if m.runs() {
		if until := m.node.Status().Lease; !until.IsZero() {
			end = max(end, int64(until.Sub(epoch)))
		}
	}
	return end
}

// isPastLease: the lease of the last leadership here has ended, and the takeover delay.
func (w *World) isPastLease(m *machine) bool {
	return m.clock.at(w.now) > m.leaseEnd()+int64(w.base.TakeoverDelay)
}
