package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// keepers is what happens to keepers and to what they send, and who borrows a lease.
// It has a stream of chance of its own, as what is unusual has.
type keepers struct {
	rng     *rand.Rand
	isPlain bool // at once, never killed, and without a will
	areSlow bool
	die     bool
	lend    bool // leaders lend their lease
	cut     cut
}

func (w *World) drawKeepers(o *Options) {
	k := &w.keepers
	k.rng = rand.New(rand.NewPCG(o.Seed, 0x57111))
	k.isPlain = o.Usual || w.size > 9
	k.areSlow, k.die, k.lend = k.oneIn(4), k.oneIn(3), k.oneIn(2)
	switch {
	case k.isPlain:
	case o.cuts:
		k.cut = cut{at: o.cutAt, aim: o.aim, more: true}
	case k.die:
		k.cut.drawPlaces(k)
	}
}

func (k *keepers) upTo(d time.Duration) time.Duration {
	return time.Duration(k.rng.Float64() * float64(d))
}

func (k *keepers) happens(o odds) bool { return o > 0 && k.rng.Uint32() < uint32(o) }

func (k *keepers) oneIn(n int) bool { return k.rng.IntN(n) == 0 }

// keeperTakes is what a keeper takes for something that is a millisecond or two, unless it
// is slow.
func (w *World) keeperTakes(usually time.Duration) time.Duration {
	k := &w.keepers
	switch {
	case k.isPlain:
		return 0
	case k.areSlow && k.oneIn(4):
		w.fired(KeeperSlow)
		return k.upTo(min(w.base.Lease, hooks.RecordPatience/4))
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
