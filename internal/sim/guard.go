package sim

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// guard is the process that watches over a leadership beside the agent, as
// hooks/guard has it. When the agent is dead, or silent until half a stop budget
// before the lease ends, it ends what is left of the agent's hooks and runs the
// lose hook: until the lease and the takeover delay are over, and then once more
// without a bound, if that run failed or was cut. The next start, and an agent that
// goes on, wait for it and do not run the hook again. It dies with its host.
type guard struct {
	epoch wire.Epoch // whose leadership it watches over
	took  bool       // it has taken over
	over  bool       // and is done
	run   int        // what was planned for another number is void
	owes  hookRun    // the agent's hook whose end it stands for; Hook is 0: none
	then  func()     // the start that waits for it
}

// watchOver begins a guard, before the become hook.
func (w *World) watchOver(m *machine, e wire.Epoch) {
	g := &m.hooks.guard
	*g = guard{epoch: e, run: g.run + 1}
	w.guardLooks(m, g.run, w.base.Lease/2)
}

// guardLooks lets the guard look at its deadline in a while, and again when that
// has moved.
func (w *World) guardLooks(m *machine, run int, in time.Duration) {
	w.after(in, func() {
		g := &m.hooks.guard
		if g.run != run || g.took || m.hooks.acting != g.epoch || m.suspended { // it looks first thing when its host goes on
			return
		}
		deadline, margin := w.guardDeadline(m)
		ask := epoch.Add(time.Duration(deadline + int64(margin)))
		switch {
		case deadline == 0:
			w.guardLooks(m, run, w.base.Lease/2)
		case m.clock.time(w.now).Before(ask):
			w.guardLooks(m, run, time.Duration(m.clock.when(ask, w.now)-w.now))
		default:
			w.say(m, "guard: the agent is silent")
			w.guardTakesOver(m, deadline)
		}
	})
}

// wakeGuard: the host goes on. Guard and agent both look at the clock first; one is
// quicker.
func (w *World) wakeGuard(m *machine) {
	h := &m.hooks
	w.noteOverslept(m)
	if h.acting.IsZero() || h.guard.took {
		return
	}
	h.guard.run++
	deadline, margin := w.guardDeadline(m)
	if deadline != 0 && m.clock.at(w.now) >= deadline+int64(margin) && w.unusual.oneIn(2) {
		w.guardTakesOver(m, deadline)
		return
	}
	w.guardLooks(m, h.guard.run, 0)
}

// noteOverslept remembers that a host was suspended past the lease of what acts on it.
func (w *World) noteOverslept(m *machine) {
	deadline, _ := w.guardDeadline(m)
	if m.clock.at(w.now) > max(deadline, m.overLease) {
		m.hooks.overslept = m.hooks.acting
	}
}

// guardDeadline is the end of the lease as the agent has told it, on the host's
// clock, and how much sooner or later the guard takes over; 0: there is none. An
// agent that runs the lose hook itself has until others take over.
func (w *World) guardDeadline(m *machine) (deadline int64, margin time.Duration) {
	run := m.ownLoseHook()
	switch {
	case m.state == election.Lead && run == nil:
		return m.lease, -w.base.StopBudget / 2
	case m.runs() && m.state == election.Stopping && !m.node.Status().Lease.IsZero(): // a planned end renews it
		deadline = int64(m.node.Status().Lease.Sub(epoch))
	case run == nil || run.due > 0:
		deadline = m.overLease
	}
	return deadline, w.base.TakeoverDelay - 10*time.Millisecond
}

// ownLoseHook is the lose hook that the agent runs itself, or is about to.
func (m *machine) ownLoseHook() *hookRun {
	h := &m.hooks
	if h.current.Hook == election.Lose {
		return &h.current
	}
	if i := slices.IndexFunc(h.queue, func(r hookRun) bool { return r.Hook == election.Lose }); i >= 0 {
		return &h.queue[i]
	}
	return nil
}

// guardTakesOver ends the agent's hooks and runs the lose hook in its stead.
func (w *World) guardTakesOver(m *machine, deadline int64) {
	h := &m.hooks
	g := &h.guard
	w.fired(GuardLose)
	g.took = true
	g.run++
	if own := m.ownLoseHook(); own != nil {
		g.owes = *own
	}
	if h.current.Hook == election.Become {
		w.hookEnded(m, h.current, false)
	}
	h.current, h.queue = hookRun{}, nil
	h.run++
	bound := int64(0)
	if deadline != 0 {
		bound = m.clock.when(epoch.Add(time.Duration(deadline)+w.base.TakeoverDelay), w.now)
	}
	w.guardRuns(m, bound)
}

// guardRuns runs the lose hook up to a true time; one that has passed is no bound.
func (w *World) guardRuns(m *machine, bound int64) {
	takes, ok := w.guardHookTakes()
	isBounded := bound > w.now
	if isBounded && w.now+int64(takes) > bound {
		takes, ok = time.Duration(bound-w.now), false
		w.fired(GuardLoseCut)
	}
	w.guardAfter(m, takes, func() {
		w.say(m, "guard: lose hook ended epoch=%v ok=%t", m.hooks.guard.epoch, ok)
		w.release(m, m.hooks.guard.epoch, ok)
		if ok || !isBounded {
			w.guardOver(m)
			return
		}
		w.fired(GuardLoseAgain)
		w.guardAfter(m, time.Duration(max(0, bound-w.now)), func() { w.guardRuns(m, 0) })
	})
}

// guardAfter lets the guard do something, on a host that runs.
func (w *World) guardAfter(m *machine, d time.Duration, do func()) {
	run := m.hooks.guard.run
	w.after(d, func() {
		switch {
		case m.hooks.guard.run != run:
		case m.suspended:
			w.guardAfter(m, 10*time.Millisecond, do)
		default:
			do()
		}
	})
}

// guardHookTakes is hookTakes from the other stream, and whether it succeeds.
func (w *World) guardHookTakes() (time.Duration, bool) {
	t, u := &w.hookTimes, &w.unusual
	switch {
	case u.happens(t.stuck):
		return t.timeout, false
	case u.happens(t.slow):
		return min(u.upTo(t.timeout), 10*max(t.lose, t.become)), true
	}
	return u.upTo(t.lose), !u.happens(t.fails)
}

// guardOver: who waits for the guard goes on.
func (w *World) guardOver(m *machine) {
	g := &m.hooks.guard
	g.over = true
	if g.owes.Hook != 0 {
		w.hookEnded(m, g.owes, true)
		g.owes = hookRun{}
	}
	if then := g.then; then != nil {
		g.then = nil
		then()
	}
}

// hasTaken: the guard has taken over, or is to do so in the agent's stead.
func (g *guard) hasTaken(e wire.Epoch) bool { return g.took && g.epoch == e }

// awaitGuard does something once the guard that a dead agent left behind is done;
// it reports whether that has run the lose hook of e.
func (w *World) awaitGuard(m *machine, e wire.Epoch, then func(hasRun bool)) {
	g := &m.hooks.guard
	hasRun := g.hasTaken(e)
	if !g.took || g.over {
		then(hasRun)
		return
	}
	g.then = func() { then(hasRun) }
}

// release ends a leadership on its host, if the lose hook succeeded. README, Hooks:
// "A lose hook that fails, whatever its exit status, is tried three times within its
// time, and then again and again in the background until it succeeds, also after a
// restart, or until this host leads again: what it should release may still be held."
func (w *World) release(m *machine, e wire.Epoch, ok bool) {
	h := &m.hooks
	if h.acting == e {
		h.acting = wire.Epoch{}
	}
	if h.held = (wire.Epoch{}); ok {
		return
	}
	h.held = e
	w.tryAgainLater(m, e)
}

// tryAgainLater is the background's next attempt.
func (w *World) tryAgainLater(m *machine, e wire.Epoch) {
	w.after(5*time.Second, func() {
		switch {
		case m.hooks.held != e:
		case !m.runs() || m.isBlocked() || w.unusual.happens(w.hookTimes.fails):
			w.tryAgainLater(m, e)
		default:
			m.hooks.held = wire.Epoch{}
		}
	})
}

// losePowerOfHooks: a host that is off holds nothing, and its guard is gone. README,
// Hooks: "Where the guard was killed too, or the host lost its power, the next start
// runs the hook".
func (m *machine) losePowerOfHooks() {
	h := &m.hooks
	h.acting, h.held, h.overslept = wire.Epoch{}, wire.Epoch{}, wire.Epoch{}
	h.guard = guard{run: h.guard.run + 1}
}
