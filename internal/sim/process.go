package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// cluster is what wire.ClusterHash makes of the simulated cluster's name.
const cluster = 0xb0111

// leaveToken marks the Command that a process ends after.
const leaveToken = 1 << 32

// forgetToken is that of the first Command in a life that takes a voter out of
// the roster.
const forgetToken = 1 << 33

// handOverToken is that of a Command to hand over, when all is well.
const handOverToken = 5

// noFault ends a process without counting anything.
const noFault = faultKinds

// boot starts the agent on a machine, as agent.open does: it cleans up after the
// last life, writes the new incarnation, and only then takes part.
func (w *World) boot(m *machine) {
	if m.runs() || m.starting || m.suspended {
		return
	}
	m.hostDown = false
	if m.disk.full || m.disk.errors {
		w.after(time.Second, func() { w.boot(m) }) // it exits, and its supervisor starts it again
		return
	}
	m.starting = true
	m.boots++
	w.recover(m)
}

func (w *World) start(m *machine) { w.startBeside(m, false) }

// startBeside starts the agent, with the keeper of the last life still busy or not. If
// it is, the agent votes, and stands only when that is done.
func (w *World) startBeside(m *machine, isBusy bool) {
	m.starting = false
	if w.endsAtStart(m) {
		w.giveUpStart(m)
		return
	}
	saved := m.disk.state
	saved.Incarnation++
	debt := saved.Promoted
	if !isBusy {
		w.i8DebtIsForgottenLast(m, debt)
		saved.Promoted, debt = wire.Epoch{}, wire.Epoch{}
	}
	w.i1DiskNeverGoesBack(m, &m.disk.state, &saved)
	m.disk.write(saved)
	m.process = process{life: m.life + 1, nonce: w.rng.Uint32(), bornAt: m.clock.at(w.now), inherited: saved.LongestPromise, debt: debt}
	m.client.beside = isBusy
	m.witness = witness{ackAt: m.ackAt}
	clear(m.ackAt)
	cfg := m.cfg
	cfg.ID, cfg.Nonce, cfg.Cluster, cfg.KnowsOthers = m.id, m.nonce, cluster, m.disk.receipts.areOfOthers(m.id)
	if isBusy {
		w.fired(StartsBeside)
		cfg.HoldDown = 24 * time.Hour
	}
	m.chance = rand.NewPCG(w.rng.Uint64(), w.rng.Uint64())
	cfg.Rand = rand.New(m.chance)
	m.lan = w.newPort(m)
	node, err := election.New(cfg, saved, m.clock.time(w.now))
	if err != nil {
		panic("BUG: a scenario has settings that no agent starts with: " + err.Error())
	}
	m.node = node
	m.state = node.Status().State
	if !w.raging {
		w.record.returned = append(w.record.returned, w.now)
	}
	w.say(m, "starts life=%d nonce=%08x port=%d priority=%d", saved.Incarnation, m.nonce, m.port, cfg.Priority)
	w.detector.forget(w, m)
	w.arm(m)
	w.startJobs(m)
	if !m.linkUp {
		w.step(m, election.LinkChanged{})
	}
	if in := w.attack.insider; in != nil {
		in.introduce(m)
	}
	w.beginBarred(m)
	w.beginListed(m)
}

// endsAtStart: an agent ends at once, and its supervisor may start it again.
func (w *World) endsAtStart(m *machine) bool {
	switch {
	case m.copyOf != nil && !w.raging:
		return true
	case m.suspended || m.disk.full || m.disk.errors:
		w.after(time.Second, func() { w.boot(m) })
		return true
	}
	return w.refusesExpect(m) || w.refusesOlderCopy(m)
}

// kill ends a process. What it had not synced is lost or not; its host tells
// those that hold a stream to it, unless it goes down too.
func (w *World) kill(m *machine, why Fault) {
	if !m.runs() {
		return
	}
	if why != noFault {
		w.fired(why)
		w.say(m, "killed: %v", why)
	}
	if m.clock.stopped {
		m.clock.start(w.now)
	}
	m.disk.settle(w)
	m.hostDown = why == PowerLoss
	if m.hostDown {
		m.disk.losePower(w)
	}
	w.endTethers(m)
	w.orphanHooks(m)
	w.endJobs(m)
	m.process = process{life: m.life + 1}
	m.wake()
	w.hash.mix(uint64(w.now)<<8 | uint64(why))
	w.detector.dirty = true
}

// diesAt lets the process die before an effect that it waits for.
func (w *World) diesAt(m *machine, effect election.Effect) bool {
	switch effect.(type) {
	case election.Save:
		if m.crashAt != CrashBeforeSave {
			return false
		}
	case election.Send:
		if m.crashAt != CrashBetweenSends || m.next == 0 || !isSend(m.effects[m.next-1]) {
			return false
		}
	default:
		return false
	}
	return w.countDown(m)
}

// diesAfter is diesAt for the boundary behind a Save.
func (w *World) diesAfter(m *machine, _ election.Save) bool {
	return m.crashAt == CrashAfterSave && w.countDown(m)
}

func (w *World) countDown(m *machine) bool {
	m.crashIn--
	if m.crashIn > 0 {
		return false
	}
	w.kill(m, m.crashAt)
	w.restartLater(m)
	return true
}

// freeze stops a process (SIGSTOP) or its host for a while.
func (w *World) freeze(m *machine, why Fault, d time.Duration) {
	if !m.isUp() {
		return
	}
	w.fired(why)
	w.say(m, "%v for %v", why, d.Round(time.Millisecond))
	m.frozen = why == Freeze
	m.suspended = why != Freeze
	if why == VMPause {
		m.clock.stop(w.now)
	}
	w.detector.dirty = true
	life := m.life
	w.after(d, func() {
		if m.life == life {
			w.thaw(m)
		}
	})
}

// thaw lets it go on. What waited comes in no particular order: the agent's loop
// takes whichever of its sources it likes.
func (w *World) thaw(m *machine) {
	if !m.frozen && !m.suspended {
		return
	}
	wasHost := m.suspended
	m.frozen, m.suspended = false, false
	if m.clock.stopped {
		m.clock.start(w.now)
	}
	if wasHost {
		m.wake()
		w.wakeKeeper(m)
	}
	w.detector.dirty = true
	m.awakeSince = w.now
	w.say(m, "goes on")
	if m.runs() {
		m.lan.resume()
	}
	if m.isBlocked() || !m.runs() { // what the port had held may stall it once more
		return
	}
	w.finishStep(m)
	if w.rng.IntN(2) == 0 {
		slices.SortStableFunc(m.backlog, func(a, b election.Event) int { return classOf(a) - classOf(b) })
	}
	life := m.life
	if w.rng.IntN(2) == 0 {
		w.drain(m)
	}
	if m.life == life {
		w.step(m, election.Tick{})
	}
	w.drain(m)
	w.hear(m)
	w.hearChecks(m)
}

// goOn lets a process that waited for its disk take what has come since.
func (w *World) goOn(m *machine) {
	if m.isBlocked() {
		return
	}
	m.awakeSince = w.now
	w.finishStep(m)
	w.drain(m)
	w.hear(m)
	w.hearChecks(m)
	if m.runs() && !m.isBlocked() {
		w.arm(m)
	}
}

// finishStep carries out what a blocked step has left.
func (w *World) finishStep(m *machine) {
	if m.next < len(m.effects) {
		w.carryOn(m)
	}
}

// classOf tells the sources of the agent's loop apart.
func classOf(e election.Event) int {
	switch e.(type) {
	case election.Received:
		return 2
	case election.MemberChanged, election.LeaderReported:
		return 1
	}
	return 0
}

// onReply ends a process that has left.
func (w *World) onReply(m *machine, e election.Reply) verdict {
	w.say(m, "%v", e)
	w.onStepDownRefused(m, e)
	if e.Token == maintainToken && e.Err != nil {
		m.maintained = false
	}
	if e.Token == handOverToken && errors.Is(e.Err, election.ErrBusy) {
		m.isChanging = true
	}
	if e.Token >= forgetToken && e.Err == nil {
		w.i23ForgottenOnDisks(m, m.forgets[e.Token-forgetToken])
	}
	if e.Token != leaveToken || !m.leaving || m.gone {
		return done
	}
	m.gone = true
	life := m.life
	w.after(time.Millisecond+w.upTo(50*time.Millisecond), func() {
		if m.life != life {
			return
		}
		w.say(m, "has left")
		w.detector.sayLeft(w, m)
		w.kill(m, noFault)
	})
	return done
}
