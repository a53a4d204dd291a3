package sim

import (
	"math/rand/v2"
	"time"
)

// slews are what time services do to clocks: each host's slews it now and then, within the promise together with what
// the hardware is off. They have a stream of chance of their own, as what is unusual has.
type slews struct {
	rng  *rand.Rand
	some bool
}

// mostSlew is near what chrony does by default (8.33 %) and the kernel's bound, in millionths.
const mostSlew = 100_000

func (w *World) drawSlews(o *Options) {
	s := &w.slews
	s.rng = rand.New(rand.NewPCG(o.Seed, 0x51e3))
	s.some = w.drift && !o.Usual && w.size <= 9 && s.rng.IntN(2) == 0
	if w.beyond == ClockBeyond && o.beyond == 0 && !o.Usual && s.rng.IntN(2) == 0 {
		w.beyond, w.waived = SlewBeyond, [invariants]bool{}
		w.waive(SlewBeyond)
	}
}

// slewAgain has a time service correct a clock, for some time, and comes back.
func (w *World) slewAgain() {
	s := &w.slews
	if !s.some {
		return
	}
	w.after(time.Duration((100+s.rng.Int64N(2000))*int64(time.Millisecond)), func() {
		if !w.raging {
			return
		}
		if m := pick(s.rng, w.machines...); m.clock.isPromised() && !m.clock.stopped {
			w.fired(ClockSlewed)
			w.setRates(m, m.clock.raw, s.rng.Int64N(2*maxDrift+1)-maxDrift-m.clock.raw)
		}
		w.slewAgain()
	})
}

// slewBeyond has a time service slew a clock faster than is promised, for up to a minute.
func (w *World) slewBeyond(m *machine) {
	s := &w.slews
	w.fired(SlewBeyond)
	slew := pick[int64](s.rng, -1, 1) * (2*maxDrift + s.rng.Int64N(mostSlew-2*maxDrift))
	w.say(m, "its clock is slewed by %d ppm", slew)
	w.setRates(m, m.clock.raw, slew)
	w.after(time.Duration(s.rng.Int64N(int64(time.Minute))), func() { w.calmClock(m) })
}

// setRates changes the rates of a machine's clock, and so when what it waits for comes.
func (w *World) setRates(m *machine, raw, slew int64) {
	m.clock.setRates(w.now, raw, slew)
	if m.runs() {
		w.arm(m)
	}
}

// isPromised: its rate is off by no more than ρ.
func (c *clock) isPromised() bool { return c.ppm() >= -maxDrift && c.ppm() <= maxDrift }

// calmClock ends what is beyond the promise: what the time service does first, then the hardware's.
func (w *World) calmClock(m *machine) {
	if m.clock.isPromised() {
		return
	}
	raw := m.clock.raw
	if raw < -maxDrift || raw > maxDrift {
		raw = 0
	}
	w.setRates(m, raw, 0)
}
