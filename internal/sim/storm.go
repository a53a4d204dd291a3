package sim

import (
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// begin starts the machines, all at once or within some time, and the faults.
func (w *World) begin() {
	w.raging = true
	within := pick(w.rng, 0, 500*time.Millisecond, 3*time.Second)
	for _, m := range w.machines {
		wait := w.upTo(within)
		if late, ok := w.comesLate(); ok {
			wait = late
		}
		if m != w.unusual.newcomer {
			w.after(wait, func() { w.boot(m) })
		}
	}
	if w.drift {
		w.fired(ClockDrift)
	}
	if w.nearEnd {
		w.fired(NearCounterLimit)
	}
	if w.net.weather.bursts {
		w.burst()
	}
	for _, f := range w.unusual.has {
		w.fired(f)
	}
	w.planBeyond()
	w.hurtAgain()
	w.hurtOddlyAgain()
	w.hurtKeepersAgain()
	w.stallAgain()
	w.slewAgain()
	w.hurtByBarsAgain()
	w.unlistLater()
	w.planChangeOfExpect()
	if in := w.attack.insider; in != nil {
		in.begin()
	}
	w.attackAgain()
	w.hurtSessionsAgain()
	w.hurtResourcesAgain()
}

// hurtAgain inflicts one fault after a while, and comes back.
func (w *World) hurtAgain() {
	w.after(50*time.Millisecond+w.upTo(w.pace), func() {
		if w.raging {
			w.hurt()
			w.hurtAgain()
		}
	})
}

// hurt picks a machine and something that happens to it. A quarter of the time
// it is the leader: most of the protocol is about its end.
func (w *World) hurt() {
	m := pick(w.rng, w.machines...)
	if w.rng.IntN(4) == 0 {
		for _, other := range w.machines {
			if other.runs() && other.state == election.Lead {
				m = other
			}
		}
	}
	switch w.rng.IntN(14) {
	case 0, 1:
		w.crash(m)
	case 2:
		w.crashSoon(m)
	case 3:
		w.freeze(m, pick(w.rng, Freeze, Freeze, Suspend), w.upTo(pick(w.rng, w.base.Lease, 4*w.base.Lease, 12*time.Second)))
	case 4, 5, 6:
		w.cutSome(m)
	case 7:
		w.heal()
	case 8:
		w.spoilDisk(m)
	case 9:
		w.pullLink(m)
	case 10:
		w.lie(m)
	case 11, 12:
		w.operate(m)
	case 13:
		w.rareFault(m)
	}
}

// crash ends a process or its host; the next one begins at once or later. One
// that was planned in the storm for after it does not come.
func (w *World) crash(m *machine) {
	if !w.raging || !m.runs() {
		return
	}
	w.kill(m, pick(w.rng, Crash, Crash, PowerLoss))
	w.restartLater(m)
}

// crashSoon lets a process die at one of its next steps' boundaries.
func (w *World) crashSoon(m *machine) {
	if m.runs() && m.crashIn == 0 {
		m.crashAt = pick(w.rng, CrashBeforeSave, CrashAfterSave, CrashBetweenSends)
		m.crashIn = 1 + w.rng.IntN(4)
	}
}

func (w *World) restartLater(m *machine) {
	wait, why := w.upTo(10*time.Second), Restart
	if w.rng.IntN(3) == 0 {
		wait, why = w.upTo(200*time.Millisecond), QuickRestart
	}
	w.after(wait, func() {
		if m.runs() || m.starting || !w.raging || m.copyOf != nil {
			return
		}
		w.fired(why)
		if w.rng.IntN(6) == 0 {
			w.fired(RestartElsewhere)
			m.port = 7950 + uint16(w.rng.IntN(40))
		}
		w.boot(m)
	})
}

// cutSome pulls cables: a machine's from another or from all, in one direction
// or both, a division in two parts, or a chain.
// cutDirection cuts what a machine sends, or what it should receive: from one or
// from all.
// spoilDisk fills a disk, breaks it or slows it down for a while.
func (w *World) spoilDisk(m *machine) {
	d := &m.disk
	switch w.rng.IntN(3) {
	case 0:
		d.full = true
	case 1:
		d.errors = true
	default:
		d.slow = pick(w.rng, 20*time.Millisecond, 200*time.Millisecond, 1500*time.Millisecond)
	}
	w.say(m, "disk full=%t errors=%t slow=%v", d.full, d.errors, d.slow)
	w.after(w.upTo(w.stretch(6*time.Second)), func() { w.mendDisk(m) })
}

func (w *World) mendDisk(m *machine) {
	m.disk.full, m.disk.errors, m.disk.slow = false, false, 0
}

func (w *World) pullLink(m *machine) {
	w.setLink(m, false)
	w.after(w.upTo(w.stretch(pick(w.rng, 200*time.Millisecond, 6*time.Second))), func() { w.plugIn(m) })
}

// plugIn ends what the storm did to a link; after it all are up anyway.
func (w *World) plugIn(m *machine) {
	if w.raging {
		w.setLink(m, true)
	}
}

// lie lets the failure detectors be wrong about m.
func (w *World) lie(m *machine) {
	all := w.rng.IntN(2) == 0
	switch w.rng.IntN(7) {
	case 0, 1:
		w.slanderAt(m, all, FalseDead)
	case 2:
		for i := range 3 + w.rng.IntN(4) {
			w.after(time.Duration(i)*400*time.Millisecond+w.upTo(300*time.Millisecond), func() { w.slanderAt(m, all, Flapping) })
		}
	case 3:
		if m.runs() {
			w.fired(NeverDead)
			m.immortal = true
			w.after(w.upTo(15*time.Second), func() { m.immortal, w.detector.dirty = false, true })
			w.crash(m)
		}
	case 4:
		w.missRestart(m)
	case 5:
		w.reportStale(m)
	case 6:
		w.fired(PoorHealth)
		w.step(m, election.HealthChanged{Score: w.rng.IntN(8)})
	}
	if w.detector.dead > 10*time.Second {
		w.fired(LateDetector)
	}
}

func (w *World) slanderAt(m *machine, all bool, why Fault) {
	if !w.raging {
		return
	}
	only := pick(w.rng, w.machines...)
	for _, a := range w.machines {
		if a != m && (all || a == only) {
			w.slander(a, m, why)
		}
	}
}

// missRestart restarts a process so fast that no detector sees a new life: only
// its frames tell.
func (w *World) missRestart(m *machine) {
	if !m.runs() {
		return
	}
	w.fired(MissedRestart)
	w.kill(m, Crash)
	for _, a := range w.machines {
		if a != m {
			v := w.detector.of(a, m)
			v.missed, v.at = true, 0
		}
	}
	w.after(w.upTo(100*time.Millisecond), func() { w.boot(m) })
	w.after(2*time.Second+w.upTo(10*time.Second), func() { w.noticeRestart(m) })
}

func (w *World) noticeRestart(m *machine) {
	for _, a := range w.machines {
		w.detector.of(a, m).missed = false
	}
	w.detector.dirty = true
}

// operate gives an operator's command.
// leave asks a process to leave cleanly; it ends a little after its answer, and
// its host may start another.
// forgetSomebody lets the leader take a voter out of the roster that has lost
// its disk, or, while a majority is left without it, any.
// rareFault does what few schedules need.
func (w *World) rareFault(m *machine) {
	switch w.rng.IntN(3) {
	case 0:
		if w.rng.IntN(3) == 0 {
			w.restartAll()
		}
	case 1:
		w.wipe(m)
	case 2:
		w.crash(m)
	}
}

// restartAll is a power cut of the whole site. One host may come back long after
// the others: perhaps it alone knows the last epoch.
func (w *World) restartAll() {
	w.fired(TotalRestart)
	last := pick(w.rng, w.machines...)
	for _, m := range w.machines {
		w.kill(m, PowerLoss)
	}
	for _, m := range w.machines {
		if m.copyOf == nil {
			took := time.Second + w.upTo(time.Second)
			if m == last {
				took += w.upTo(10 * time.Second)
			}
			w.after(took, func() { w.boot(m) })
		}
	}
}

// wipe loses a state directory: its host comes back as somebody else. In quorum
// mode this takes a voter away for good, so a majority must be left.
func (w *World) wipe(m *machine) {
	if !m.runs() || m.copyOf != nil || w.nearEnd { // a new node refuses a jump of its cluster's counters (R3)
		return
	}
	if w.mode == Quorum && (m.cfg.Part == election.Observer || w.wipes+w.forgotten >= (m.cfg.Expect-1)/2 || !w.isRosterFormed()) {
		return
	}
	w.kill(m, Crash)
	w.loseDisk(m)
	w.restartLater(m)
}

// isRosterFormed: every voter knows that the roster holds. Before that, the loss
// of one would leave a group that waits for it for ever, as it should.
func (w *World) isRosterFormed() bool {
	for _, m := range w.machines {
		if m.cfg.Part != election.Observer && !m.disk.state.Roster.Formed {
			return false
		}
	}
	return true
}

// burst lets one machine's sending fail for a while, and comes back.
func (w *World) burst() {
	w.after(w.upTo(3*time.Second), func() {
		if !w.raging {
			return
		}
		m := pick(w.rng, w.machines...)
		m.burst = true
		w.after(w.upTo(time.Second), func() { m.burst = false })
		w.burst()
	})
}

// planBeyond brings the fault beyond the promise, some time into the storm.
// clone starts a second machine from a copy of a state directory.
// calm takes all faults away.
