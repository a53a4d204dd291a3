package sim

import (
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// holder acts on the strength of a lease that it has borrowed: until it ends by itself,
// or is ended at the time that it was told last. It has a supervisor of its own, and
// outlives agent and keeper.
type holder struct {
	life   int32
	until  int64 // on the host's clock
	endsAt int64 // true time
}

// lendLater lets somebody borrow the lease of a leader, some time after it began.
func (w *World) lendLater(m *machine, e wire.Epoch) {
	k := &w.keepers
	if k.isPlain || !k.lend || k.oneIn(3) {
		return
	}
	life := m.life
	w.after(k.upTo(4*w.base.Lease), func() {
		if m.life != life || m.hooks.acting != e || m.epoch != e || m.isBlocked() || !w.acts(m) || w.hasHolder(m) {
			return
		}
		w.lendNow(m, e)
	})
}

// lendNow lends the lease once the keeper knows that there is no will meanwhile; one that is being
// started is told that first.
func (w *World) lendNow(m *machine, e wire.Epoch) {
	w.fired(Borrowed)
	if k := m.client.keeper; k != nil {
		k.mail = append(k.mail, order{event: m.lending()})
		w.readMail(k)
		w.turn(k)
	}
	m.client.isLent = true
	if m.hooks.acting != e || !w.acts(m) {
		return
	}
	life := m.life
	t := &holder{life: life, until: m.lease, endsAt: w.now + int64(w.keepers.upTo(3*time.Second))}
	m.hooks.holder = t
	w.say(m, "lends its lease")
	w.step(m, election.HoldersChanged{Some: true})
	w.after(time.Duration(t.endsAt-w.now), func() {
		if m.hooks.holder == t && m.life == life {
			w.endHolder(m)
			w.lendLater(m, e)
		}
	})
}

// lending tells a keeper until when somebody acts on the lease, also on one that does not end by itself.
func (m *machine) lending() hooks.Lent {
	return hooks.Lent{Is: true, Lease: epoch.Add(time.Duration(m.lease))}
}

// endHolder: who had borrowed the lease has ended, and the agent is told.
func (w *World) endHolder(m *machine) {
	if m.hooks.holder == nil {
		return
	}
	m.hooks.holder = nil
	m.client.isLent = false
	w.give(m, order{event: hooks.Lent{}})
	life := m.life
	w.after(0, func() {
		if m.life == life && m.hooks.holder == nil {
			w.step(m, election.HoldersChanged{})
		}
	})
}

// hasHolder: somebody acts who has borrowed the lease.
func (w *World) hasHolder(m *machine) bool {
	t := m.hooks.holder
	return t != nil && w.now < t.endsAt && m.clock.at(w.now) < t.until
}

// renewHolder tells it how long the lease is now.
func (m *machine) renewHolder() {
	if t := m.hooks.holder; t != nil && t.life == m.life {
		t.until = max(t.until, m.lease)
	}
}
