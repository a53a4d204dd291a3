package sim

import (
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// letter is one of a will, finished by the agent (M24).
type letter struct {
	election.Send
	datagram []byte
}

// leaveWill gives the keeper the datagrams by which this leadership is resigned if the agent dies, as agent/will.go does.
func (w *World) leaveWill(m *machine, will election.Will) {
	m.fading = will.Letters
	letters := make([]letter, 0, len(will.Letters))
	for _, l := range will.Letters {
		if b := m.lan.finish(l.To, wire.Append(nil, &l.Frame)); b != nil {
			letters = append(letters, letter{l, b})
		}
	}
	w.give(m, order{will: &letters})
}

// renewWillAgain finishes the same letters once a second: what is sealed in advance opens for a while only.
func (w *World) renewWillAgain(m *machine) {
	life := m.life
	w.after(time.Second, func() {
		if m.life != life {
			return
		}
		if len(m.fading) > 0 && !m.isBlocked() {
			w.leaveWill(m, election.Will{Letters: m.fading})
		}
		w.renewWillAgain(m)
	})
}

// onOver: the keeper of a dead agent sends its will, if others may be told, and ends (M24).
func (w *World) onOver(k *keeper, e hooks.Over) {
	switch {
	case w.keepers.isPlain || len(k.will) == 0 || !k.sawDeath:
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
	for i := range k.will {
		letter := &k.will[i]
		to := w.machineAt(letter.To)
		w.watchWill(m, &letter.Frame)
		w.sayFrame(m, "→", to, &letter.Frame)
		w.frames++
		w.net.sent[letter.Frame.Kind]++
		w.carryDatagram(m, letter.To, letter.datagram)
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
