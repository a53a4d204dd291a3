package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// keepers is what happens to keepers and to what they send, and who borrows a lease.
// It has a stream of chance of its own, as what is unusual has.
type keepers struct {
	rng     *rand.Rand
	isPlain bool // as the guards were: at once, never killed, and without a will
	areSlow bool
	die     bool
	lend    bool // leaders lend their lease
}

func (w *World) drawKeepers(o *Options) {
	k := &w.keepers
	k.rng = rand.New(rand.NewPCG(o.Seed, 0x57111))
	k.isPlain = o.Usual || w.size > 9
	k.areSlow, k.die, k.lend = k.oneIn(4), k.oneIn(3), k.oneIn(2)
}

func (k *keepers) upTo(d time.Duration) time.Duration {
	return time.Duration(k.rng.Float64() * float64(d))
}

func (k *keepers) oneIn(n int) bool { return k.rng.IntN(n) == 0 }

// takes is what a keeper takes for something that is a millisecond or two, unless it
// is slow.
func (w *World) keeperTakes(usually time.Duration) time.Duration {
	k := &w.keepers
	if k.areSlow && k.oneIn(4) {
		w.fired(KeeperSlow)
		return k.upTo(w.base.Lease)
	}
	return k.upTo(usually)
}

// hurtKeepersAgain kills leaders and keepers, and silences leaders, beside the storm, and
// comes back.
func (w *World) hurtKeepersAgain() {
	k := &w.keepers
	if k.isPlain {
		return
	}
	w.after(200*time.Millisecond+k.upTo(2*w.pace), func() {
		if !w.raging {
			return
		}
		m := pick(k.rng, w.machines...)
		if i := slices.IndexFunc(w.machines, w.acts); i >= 0 && !k.oneIn(4) {
			m = w.machines[i]
		}
		switch {
		case k.oneIn(4): // until the keeper takes over, and mostly beyond
			w.freeze(m, Freeze, w.base.Lease+k.upTo(w.base.Lease))
		case !k.die || k.oneIn(3):
			w.killAgent(m)
		case k.oneIn(3): // both, one a moment after the other
			w.killAgent(m)
			w.after(k.upTo(30*time.Millisecond), func() { w.killKeeper(m, KeeperDies) })
		case k.oneIn(3):
			w.killKeeper(m, KeeperDies)
			w.after(k.upTo(30*time.Millisecond), func() { w.killAgent(m) })
		default:
			w.killKeeper(m, KeeperDies)
		}
		w.hurtKeepersAgain()
	})
}

func (w *World) killAgent(m *machine) {
	if w.raging && m.runs() {
		w.kill(m, Crash)
		w.restartLater(m)
	}
}

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
		w.fired(Borrowed)
		t := &holder{life: life, until: m.lease, endsAt: w.now + int64(k.upTo(3*time.Second))}
		m.hooks.holder = t
		w.say(m, "lends its lease")
		w.step(m, election.HoldersChanged{Some: true})
		w.after(time.Duration(t.endsAt-w.now), func() {
			if m.hooks.holder == t && m.life == life {
				w.endHolder(m)
				w.lendLater(m, e)
			}
		})
	})
}

// endHolder: who had borrowed the lease has ended, and the agent is told.
func (w *World) endHolder(m *machine) {
	if m.hooks.holder == nil {
		return
	}
	m.hooks.holder = nil
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

// bequeath sends a dead agent's will, when nothing is left of its leadership; if
// somebody has borrowed the lease, when that has ended (M24).
func (w *World) bequeath(m *machine) {
	h := &m.hooks
	k := &h.keeper
	if w.keepers.isPlain || len(k.will.Letters) == 0 {
		w.keeperQuits(m)
		return
	}
	if !k.sawDeath || !h.acting.IsZero() || !h.held.IsZero() {
		w.fired(WillVoid)
		w.keeperQuits(m)
		return
	}
	if w.hasHolder(m) {
		w.fired(WillWaits)
		end := min(h.holder.endsAt, m.clock.when(epoch.Add(time.Duration(h.holder.until)), w.now))
		w.keeperAfter(m, time.Duration(end-w.now), func() { w.bequeath(m) })
		return
	}
	w.keeperAfter(m, w.keeperTakes(2*time.Millisecond), func() { // its journal is synced first
		w.fired(WillSent)
		w.sendWill(m, 3)
	})
}

// sendWill sends the letters, and some times more.
func (w *World) sendWill(m *machine, times int) {
	k := &m.hooks.keeper
	for i := range k.will.Letters {
		letter := &k.will.Letters[i]
		to := w.machineAt(letter.To)
		w.watchWill(m, &letter.Frame)
		w.sayFrame(m, "→", to, &letter.Frame)
		w.frames++
		w.net.sent[letter.Frame.Kind]++
		p := w.newPacket()
		p.bytes = wire.Append(p.bytes[:0], &letter.Frame)
		p.from, p.to, p.source, p.port = m, to, m.addr(), letter.To.Port()
		w.hash.mix(uint64(w.now))
		w.hash.bytes(p.bytes)
		w.carry(p)
	}
	switch {
	case times == 1:
		w.keeperQuits(m)
	case w.keepers.die && w.keepers.oneIn(4):
		w.killKeeper(m, KeeperDiesSending)
	default:
		w.keeperAfter(m, 20*time.Millisecond+w.keeperTakes(time.Millisecond), func() { w.sendWill(m, times-1) })
	}
}

// watchWill holds a letter against the invariants.
func (w *World) watchWill(m *machine, f *wire.Frame) {
	w.i2WillIsOfItsLeadership(m, f)
	w.i18WillAfterItsLoseHook(m, f)
}
