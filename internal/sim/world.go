package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// World is one virtual LAN. It belongs to one goroutine.
type World struct {
	scenario
	rng       *rand.Rand
	now       int64 // true time
	timeline  timeline
	machines  []*machine // those that exist now, clones included
	raging    bool       // faults go on
	proofs    int        // that a host's state is an older copy
	wipes     int        // state directories lost
	hadRoster bool       // a disk had one, at least
	forgotten int        // voters taken out of the roster
	lostID    wire.ID    // of a voter that has lost its disk, until it is forgotten
	scratch   []int64

	net       network
	detector  detector
	resource  resource
	unusual   unusual
	bars      bars
	checks    checks
	lists     lists
	links     links
	ports     ports
	trips     trips
	attack    attack
	wills     wills
	keepers   keepers
	stalls    stalls
	slews     slews
	resources resources
	jobs      *jobWorld // nil: this schedule has none
	record    record
	failure   *Violation

	steps      uint64
	frames     uint64
	faults     Faults
	pairs      Pairs              // effects of Lanes that came one after the other
	keeperCuts Pairs              // between which a keeper was killed
	cutAt      []uint64           // at which places: see cut
	waives     [invariants]uint64 // violations that the scenario expects
	hash       digest
	trace      func(string) // nil: nothing is written down
	observer   func(*machine, time.Time, election.Event, func() []election.Effect) []election.Effect
}

// verdict is how an effect went.
type verdict uint8

const (
	done    verdict = iota
	failed          // the rest of the step's effects are dropped
	blocked         // the rest comes later
	died            // the process is gone
)

func (w *World) after(d time.Duration, do func()) {
	w.timeline.add(planned{at: w.now + int64(max(d, 0)), do: do})
}

func (w *World) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rng.Float64() * float64(d))
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// runUntil lets true time pass up to limit, or until something failed or isDone
// says so.
func (w *World) runUntil(limit int64, isDone func() bool) bool {
	for w.failure == nil {
		if w.isDueBy(limit) && w.detector.dirty && w.timeline.heap[0].at > w.now {
			w.lookAround() // once for all that happened at one instant
			continue
		}
		w.runJobs(limit)
		if !w.isDueBy(limit) {
			break
		}
		p := w.timeline.next()
		w.now = p.at
		switch p.kind {
		case tick:
			w.onTick(p)
		case arrival:
			w.onArrival(p)
		default:
			p.do()
		}
		if isDone != nil && isDone() {
			return true
		}
	}
	if w.failure == nil {
		w.now = max(w.now, limit)
	}
	return false
}

// isDueBy reports whether something is planned for a time, or before.
func (w *World) isDueBy(limit int64) bool {
	return !w.timeline.empty() && w.timeline.heap[0].at <= limit
}

// step gives one event to a machine's Node, unless it has to wait.
func (w *World) step(m *machine, ev election.Event) {
	if m.node == nil {
		return
	}
	if m.isBlocked() || m.next < len(m.effects) {
		m.wait(ev)
		return
	}
	if w.steps++; w.steps > (stepsAllowed+stepsPerSecond*uint64(w.now/int64(time.Second)))*uint64(w.size+1) {
		w.i22NobodyIsBusyForEver(m)
	}
	w.noteNeed(m)
	m.effects, m.next, m.waited = w.stepNode(m, ev), 0, false
	w.carryOn(m)
}

func (w *World) stepNode(m *machine, ev election.Event) []election.Effect {
	now := m.clock.time(w.now)
	if w.observer == nil {
		return m.node.Step(now, ev)
	}
	return w.observer(m, now, ev, func() []election.Effect { return m.node.Step(now, ev) })
}

// inboxSize bounds the datagrams that wait for a process that does not read.
const inboxSize = 512

func (m *machine) wait(ev election.Event) {
	if _, isFrame := ev.(election.Received); isFrame {
		if m.frames == inboxSize {
			return
		}
		m.frames++
	}
	m.backlog = append(m.backlog, ev)
}

// drain hands over what waited, in order.
func (w *World) drain(m *machine) {
	for m.node != nil && !m.isBlocked() && len(m.backlog) > 0 {
		ev := m.backlog[0]
		m.backlog[0] = nil
		m.backlog = m.backlog[1:]
		if _, isFrame := ev.(election.Received); isFrame {
			m.frames--
		}
		w.step(m, ev)
	}
	if len(m.backlog) == 0 {
		m.backlog = nil
	}
}

// carryOn carries out what is left of a step's effects.
func (w *World) carryOn(m *machine) {
	for m.next < len(m.effects) {
		effect := m.effects[m.next]
		if m.crashIn > 0 && w.diesAt(m, effect) || m.stall.in > 0 && w.stallsAt(m, effect) {
			return
		}
		m.next++
		switch w.apply(m, effect) {
		case failed:
			m.next = len(m.effects)
			w.onSaveFailed(m, election.SaveFailed(effect.(election.Save)))
			return
		case blocked, died:
			return
		}
		if save, ok := effect.(election.Save); ok && m.crashIn > 0 && w.diesAfter(m, save) {
			return
		}
	}
	w.renewEnding(m)
	w.i22AlwaysAwaitsSomething(m)
	w.arm(m)
	w.tellJobs(m)
}

func (w *World) onSaveFailed(m *machine, e election.SaveFailed) {
	if !m.saveDown {
		m.saveDown = true
		w.retrySave(m)
	}
	w.say(m, "save failed")
	w.step(m, e)
	if m.runs() && !m.isBlocked() { // what the dropped effects would have said
		s := m.node.Status()
		m.state, m.epoch, m.leader = s.State, s.Epoch, s.Leader
	}
}

// apply carries out one effect.
func (w *World) apply(m *machine, effect election.Effect) verdict {
	switch e := effect.(type) {
	case election.Save:
		return w.save(m, e.State)
	case election.Send:
		w.net.out = e
		w.send(m, &w.net.out)
	case election.Transition:
		w.onTransition(m, &e)
	case election.LeaseUntil:
		w.onLease(m, e.Deadline)
	case election.StartHook:
		w.startHook(m, e)
	case election.HurryHook:
		w.hurryHook(m, e)
	case election.StopHook:
		w.stopHook(m, e.Epoch)
	case election.Tether:
		w.onTether(m, e)
	case election.Will:
		w.give(m, order{heirs: &e.To})
	case election.Reply:
		return w.onReply(m, e)
	case election.Departed, election.Reached:
		w.say(m, "%v", effect)
	case election.Counted:
		if w.trace != nil && e.What != "late-reply" {
			w.say(m, "%v", e)
		}
	default:
		panic("BUG: unknown effect " + effect.String())
	}
	return done
}

func (w *World) onTransition(m *machine, e *election.Transition) {
	if w.trace != nil {
		w.say(m, "%v", *e)
	}
	w.hash.transition(w.now, m.number, e)
	w.watchTransition(m, e)
	w.endIfDue(m)
}

// endIfDue ends a process that must not go on, once it owes no lose hook: after
// the present step.
func (w *World) endIfDue(m *machine) {
	if !m.mustEnd || m.state == election.Stopping {
		return
	}
	life := m.life
	w.after(0, func() {
		if m.life == life && m.state != election.Stopping {
			w.say(m, "ends: another agent has its id, or it had a later life")
			w.kill(m, Crash)
		}
	})
}

// arm plans a tick for what the Node wants next. A planned tick that comes too
// early plans the next one, so that most steps plan nothing.
func (w *World) arm(m *machine) {
	deadline := m.node.Deadline()
	if deadline.IsZero() || m.isBlocked() {
		return
	}
	at := m.clock.when(deadline, w.now) + w.lateness(m)
	if m.tickAt != 0 && m.tickAt <= at {
		return
	}
	m.tickAt = at
	w.timeline.add(planned{at: at, kind: tick, who: m, life: m.life})
}

func (w *World) onTick(p planned) {
	m := p.who
	if m.life != p.life || m.tickAt != p.at || m.node == nil {
		return
	}
	m.tickAt = 0
	if m.isBlocked() {
		return // it looks at the time first thing afterwards
	}
	if deadline := m.node.Deadline(); deadline.IsZero() || m.clock.time(w.now).Before(deadline) {
		w.arm(m)
		return
	}
	w.i22TimeGoesOn(m)
	w.step(m, election.Tick{})
}

// say writes a line of the trace.
func (w *World) say(m *machine, format string, args ...any) {
	if w.trace == nil {
		return
	}
	who := "  "
	if m != nil {
		who = fmt.Sprintf("n%d", m.number)
	}
	w.trace(fmt.Sprintf("%9.4f %s %s", time.Duration(w.now).Seconds(), who, w.named(fmt.Sprintf(format, args...))))
}
