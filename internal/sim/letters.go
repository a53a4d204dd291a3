package sim

import (
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// onOver: the keeper of a dead agent sends its will, if others may be told, and ends (M24).
func (w *World) onOver(k *keeper, e hooks.Over) {
	switch {
	case w.keepers.isPlain || len(k.will.Letters) == 0 || !k.sawDeath:
		w.in(k, 0, func() { w.endKeeper(k) })
	case !e.IsClear:
		w.fired(WillVoid)
		w.in(k, 0, func() { w.endKeeper(k) })
	default:
		w.fired(WillSent)
		w.in(k, w.keeperTakes(2*time.Millisecond), func() { w.sendWill(k, 3) })
	}
}

// sendWill sends the letters, and some times more.
func (w *World) sendWill(k *keeper, times int) {
	m := k.host
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
		w.endKeeper(k)
	case w.keepers.die && w.keepers.oneIn(4):
		w.killOne(k, KeeperDiesSending)
	default:
		w.in(k, 20*time.Millisecond+w.keeperTakes(time.Millisecond), func() { w.sendWill(k, times-1) })
	}
}

// watchWill holds a letter against the invariants.
func (w *World) watchWill(m *machine, f *wire.Frame) {
	w.i2WillIsOfItsLeadership(m, f)
	w.i18WillAfterItsLoseHook(m, f)
}
