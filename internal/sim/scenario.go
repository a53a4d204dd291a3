package sim

import (
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// Mode says who may lead.
type Mode uint8

// The modes. Zero draws one.
const (
	AnyMode Mode = iota
	Available
	Quorum
)

// scenario is what a seed draws before anything happens: the group, its
// settings, its weather, and the pace of its faults.
type scenario struct {
	seed    uint64
	size    int // machines at the start
	mode    Mode
	base    election.Config // of every machine, before its own settings
	beyond  Fault           // the fault beyond the promise in this one; noFault: none
	waived  [invariants]bool
	mixed   Fault // MixedSettings or MixedMode; noFault: all agree
	drift   bool
	nearEnd bool // counters near the limit
	restore bool // hosts that are down at the end come back
	lasts   time.Duration
	pace    time.Duration // between faults, at most
	weather weather
	hookTimes
	deadAfter  time.Duration
	aliveAfter time.Duration
	traceBeats bool
}

// profiles are package config's presets of heartbeat and lease.
var profiles = [...]struct{ heartbeat, lease, stop time.Duration }{
	{50 * time.Millisecond, 400 * time.Millisecond, 100 * time.Millisecond},
	{20 * time.Millisecond, 160 * time.Millisecond, 40 * time.Millisecond},
	{time.Second, 8 * time.Second, 2 * time.Second},
	{50 * time.Millisecond, 200 * time.Millisecond, 50 * time.Millisecond}, // the shortest lease that is taken
}

func (w *World) drawScenario(o *Options) {
	s := &w.scenario
	s.seed, s.beyond, s.mixed = o.Seed, noFault, noFault
	s.mode = w.drawMode(o)
	s.size = w.drawSize(o)
	if s.mode == AnyMode {
		s.mode = Available
		if s.size >= 3 && s.size <= wire.MaxVoters && w.rng.IntN(2) == 0 {
			s.mode = Quorum
		}
	}
	s.base = w.drawSettings(o)
	s.weather = w.drawWeather()
	s.hookTimes = w.drawHookTimes()
	s.drift, s.nearEnd = w.rng.IntN(2) == 0, w.rng.IntN(50) == 0
	s.restore = s.mode == Quorum || w.rng.IntN(2) == 0
	s.lasts = pick(w.rng, 8*time.Second, 15*time.Second, 25*time.Second) + 20*s.base.Lease
	if s.size > 9 {
		s.lasts = 8 * time.Second
	}
	s.pace = pick(w.rng, 300*time.Millisecond, time.Second, 4*time.Second)
	s.deadAfter, s.aliveAfter = 6*time.Second, pick(w.rng, 300*time.Millisecond, 5*time.Second)
	if w.rng.IntN(6) == 0 {
		s.deadAfter = time.Minute
	}
	w.drawOddities()
	if o.beyond != 0 {
		s.beyond, s.mixed, w.waived = o.beyond, noFault, [invariants]bool{}
		w.waive(o.beyond)
	}
}

func (w *World) drawMode(o *Options) Mode {
	if o.Mode == Quorum && o.Nodes > 0 && (o.Nodes < 3 || o.Nodes > wire.MaxVoters) {
		return Available
	}
	return o.Mode
}

// drawSize: three, five or seven machines in four schedules of five.
func (w *World) drawSize(o *Options) int {
	switch {
	case o.Nodes > 0:
		return o.Nodes
	case w.rng.IntN(5) > 0:
		return pick(w.rng, 3, 5, 7)
	case o.Mode == Quorum:
		return pick(w.rng, 3, 4, 4, 9)
	case w.rng.IntN(24) == 0:
		return 50
	}
	return pick(w.rng, 1, 2, 2, 4, 4, 9)
}

func (w *World) drawSettings(o *Options) election.Config {
	p := profiles[pick(w.rng, 0, 0, 0, 1, 2, 3)]
	if w.size > 9 {
		p = profiles[0]
	}
	c := election.Config{MinAcks: election.AutoMinAcks, Heartbeat: p.heartbeat, Lease: p.lease, StopBudget: p.stop,
		Preempt: election.Policy(w.rng.IntN(3)), Algorithm: w.drawAlgorithm(o)}
	if w.rng.IntN(4) == 0 {
		c.TakeoverDelay = 200 * time.Millisecond
	}
	if w.mode == Available && w.size > 2 && w.rng.IntN(6) == 0 {
		c.MinMembers = 2
	}
	if w.mode == Available && w.size > 3 && w.rng.IntN(6) == 0 {
		c.MinAcks = pick(w.rng, 0, 1, 2)
	}
	return c
}

func (w *World) drawAlgorithm(o *Options) election.Algorithm {
	if o.Algorithm != 0 {
		return o.Algorithm
	}
	return pick(w.rng, algorithms...)
}

func (w *World) drawWeather() weather {
	c := weather{delay: pick(w.rng, 100*time.Microsecond, 300*time.Microsecond, time.Millisecond), spikeUpTo: pick(w.rng, 600*time.Millisecond, 10*time.Second)}
	c.jitter = pick(w.rng, c.delay/2, 2*time.Millisecond)
	if w.size > 50 || w.rng.IntN(5) == 0 {
		return c
	}
	c.loss = percent(pick(w.rng, 0, 0.1, 1, 5, 20, 50))
	c.duplicate = percent(pick(w.rng, 0, 1.0, 10))
	c.spike = percent(pick(w.rng, 0, 0.2, 1, 5))
	c.truncate, c.flip = percent(pick(w.rng, 0, 0.3)), percent(pick(w.rng, 0, 0.3))
	c.foreign, c.replay = percent(pick(w.rng, 0, 0.3)), percent(pick(w.rng, 0, 0.3, 2))
	c.bursts = w.rng.IntN(4) == 0
	return c
}

func (w *World) drawHookTimes() hookTimes {
	t := hookTimes{become: pick(w.rng, 2*time.Millisecond, 50*time.Millisecond, time.Second),
		lose: pick(w.rng, 5*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond), timeout: 3 * time.Second}
	if w.rng.IntN(3) == 0 {
		t.slow, t.stuck, t.fails, t.hangs = percent(10), percent(3), percent(5), percent(4)
	}
	return t
}

// drawOddities draws what few schedules have.
func (w *World) drawOddities() {
	s := &w.scenario
	switch {
	case s.size > 9:
	case w.rng.IntN(12) == 0:
		s.beyond = pick(w.rng, ClockBeyond, VMPause, LyingSync, Restored, Clone)
		w.waive(s.beyond)
	case s.mode == Available && s.size > 2 && w.rng.IntN(20) == 0:
		s.mixed = pick(w.rng, MixedSettings, MixedMode)
	}
}

// populate makes the machines.
func (w *World) populate() {
	room := w.size + 1 // for a clone
	w.net.size, w.net.cut = room, make([]bool, room*room)
	if room <= 64 {
		w.net.arrived = make([]uint64, room*room)
	}
	d := &w.detector
	d.size, d.beliefs, d.part = room, make([]belief, room*room), make([]int, room+1)
	d.dead, d.alive = w.deadAfter, w.aliveAfter
	w.net.weather = w.weather
	for range w.size {
		w.addMachine()
	}
	w.admitInsider()
	w.castParts()
	w.castUnusual()
	w.boundMinMembers()
	w.mixSettings()
}

func (w *World) addMachine() *machine {
	m := &machine{number: len(w.machines) + 1, cfg: w.base, linkUp: true, port: 7950}
	m.id = w.newID(m)
	m.ackAt = make([]int64, w.size+1)
	m.cfg.Priority = uint16(m.number)
	m.clock.shown = int64(w.upTo(time.Hour)) // booted at different times
	if w.drift {
		m.clock.raw = w.rng.Int64N(2*maxDrift+1) - maxDrift
	}
	if w.nearEnd {
		m.disk.state.MaxCounter = wire.MaxCounter - 20_000 - w.rng.Uint64N(1000)
	}
	m.disk.synced, m.disk.older, m.disk.backup = m.disk.state, m.disk.state, m.disk.state
	w.furnish(m)
	w.machines = append(w.machines, m)
	return m
}

// maxDrift is the promised bound on a clock's rate error, in millionths.
const maxDrift = 10_000

// newID makes an id whose first bytes are the machine's alone, in an order that
// has nothing to do with its number.
func (w *World) newID(m *machine) wire.ID {
	if w.ports.isSealed {
		var id wire.ID
		m.key, id = w.ports.newKey()
		return id
	}
	return wire.ID{byte(w.rng.Uint32()), byte(m.number >> 8), byte(m.number), m.wiped, 6: 0x40, 8: 0x80}
}

// castParts gives out parts and priorities: equal ones in one schedule of three,
// and now and then an observer or a witness.
func (w *World) castParts() {
	areEqual := w.rng.IntN(3) == 0
	for _, m := range w.machines {
		if areEqual {
			m.cfg.Priority = 5
		}
	}
	if w.size > 3 && w.rng.IntN(4) == 0 {
		pick(w.rng, w.machines...).cfg.Part = election.Observer
	}
	if w.mode != Quorum {
		return
	}
	voters := 0
	for _, m := range w.machines {
		if m.cfg.Part != election.Observer {
			voters++
		}
	}
	for _, m := range w.machines {
		m.cfg.Expect = voters
	}
	if w.rng.IntN(4) == 0 {
		if m := pick(w.rng, w.machines...); m.cfg.Part == election.Voter {
			m.cfg.Part = election.Witness
		}
	}
}

// mixSettings gives one machine settings that the others do not have.
func (w *World) mixSettings() {
	m := pick(w.rng, w.machines...)
	switch w.mixed {
	case MixedSettings:
		w.fired(MixedSettings)
		m.cfg.TakeoverDelay += 300 * time.Millisecond
	case MixedMode:
		w.fired(MixedMode)
		m.cfg.Preempt = election.PreemptNever
		if w.base.Preempt == election.PreemptNever {
			m.cfg.Preempt = election.PreemptAlways
		}
	}
}

// isOdd: the machine has settings that the rest has not; each drops the other's
// frames.
func (w *World) isOdd(m *machine) bool {
	return m.cfg.Preempt != w.base.Preempt || m.cfg.TakeoverDelay != w.base.TakeoverDelay
}

// String gives the scenario on one line.
func (s *scenario) String() string {
	mode := "available"
	if s.mode == Quorum {
		mode = "quorum"
	}
	text := fmt.Sprintf("%d nodes, %s mode, %v, preempt %v, H %v, L %v", s.size, mode, s.base.Algorithm, s.base.Preempt, s.base.Heartbeat, s.base.Lease)
	if s.base.TakeoverDelay > 0 {
		text += fmt.Sprintf(", takeover delay %v", s.base.TakeoverDelay)
	}
	if s.base.MinMembers > 0 {
		text += fmt.Sprintf(", min members %d", s.base.MinMembers)
	}
	if s.base.MinAcks >= 0 {
		text += fmt.Sprintf(", min acks %d", s.base.MinAcks)
	}
	for _, odd := range []Fault{s.mixed, s.beyond} {
		if odd != noFault {
			text += ", " + odd.String()
		}
	}
	return text
}

// algorithms are those that a seed may draw, the default twice as often.
var algorithms = []election.Algorithm{election.Classic, election.Classic, election.Enhanced, election.Smallest}

// MaxNodes bounds Options.Nodes: everybody's belief of everybody is kept.
const MaxNodes = 2000
