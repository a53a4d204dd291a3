package sim

import (
	"time"
)

func (w *World) planBeyond() {
	if w.beyond == noFault {
		return
	}
	m := pick(w.rng, w.machines...)
	w.after(w.lasts/8, func() { m.disk.backup, m.disk.saved = m.disk.state, m.disk.receipts.copied() })
	w.after(w.lasts/4+w.upTo(w.lasts/2), func() { w.goBeyond(m) })
}

func (w *World) goBeyond(m *machine) {
	switch w.beyond {
	case ClockBeyond:
		w.fired(ClockBeyond)
		w.say(m, "its clock runs away")
		w.setRates(m, pick[int64](w.rng, -1, 1)*(100_000+w.rng.Int64N(200_000)), 0)
	case SlewBeyond:
		w.slewBeyond(m)
	case VMPause:
		w.freeze(m, VMPause, w.base.Lease+w.upTo(5*time.Second))
	case LyingSync:
		w.say(m, "its disk lies from now on")
		m.restored = true // it may lose its very life number
		m.disk.synced, m.disk.lies = m.disk.state, true
		for range 3 {
			w.after(w.upTo(w.lasts/3), func() {
				if w.raging {
					w.kill(m, PowerLoss)
					w.restartLater(m)
				}
			})
		}
	case Restored:
		w.kill(m, Crash)
		w.fired(Restored)
		w.say(m, "its state directory is restored from a backup")
		m.disk.state, m.disk.older, m.disk.receipts, m.restored = m.disk.backup, m.disk.backup, m.disk.saved.copied(), true
		w.restartLater(m)
	case Clone:
		w.clone(m)
	}
}

func (w *World) clone(m *machine) {
	w.fired(Clone)
	c := w.addMachine()
	c.id, c.key, c.cfg, c.copyOf = m.id, m.key, m.cfg, m
	m.restored = true // others may have taken the copy for its next life
	c.disk = disk{state: m.disk.state, older: m.disk.state, synced: m.disk.state}
	w.say(c, "is a copy of n%d", m.number)
	w.boot(c)
}
