package sim

import (
	"time"

	"github.com/bully-agent/bully-agent/election"
)

func (w *World) calm() {
	w.raging = false
	w.say(nil, "calm")
	w.heal()
	w.net.weather = weather{delay: w.weather.delay, jitter: w.weather.delay / 2}
	w.hookTimes.slow, w.hookTimes.stuck = 0, 0
	w.detector.dead = 6 * time.Second
	if in := w.attack.insider; in != nil {
		in.leave()
	}
	if !w.unusual.slowRejoin {
		w.detector.alive = min(w.detector.alive, 2*time.Second)
	}
	for _, m := range w.machines {
		w.calmMachine(m)
	}
	w.calmBars()
	w.calmLists()
	for i := range w.detector.beliefs { // what was to be noticed late is noticed now
		b := &w.detector.beliefs[i]
		b.at, b.missed = 0, false
	}
	for _, notice := range w.detector.overdue {
		w.after(w.unusual.upTo(w.detector.dead), notice)
	}
	w.detector.overdue = nil
	w.detector.dirty = true
	w.lookAround()
}

func (w *World) calmMachine(m *machine) {
	m.burst, m.immortal, m.crashIn, m.stall = false, false, 0, stall{}
	w.setLink(m, true)
	w.mendDisk(m)
	m.disk.lies = false
	w.calmClock(m)
	w.thaw(m)
	w.step(m, election.HealthChanged{})
	if m.leaving {
		w.kill(m, noFault)
	}
	if m.copyOf != nil {
		w.kill(m, noFault)
		return
	}
	isWaitedFor := w.mode == Quorum && !w.isRosterFormed() // nobody leads without it, as it should be
	if !m.runs() && (w.restore || m.number <= 3 || isWaitedFor) {
		w.boot(m)
	}
}
