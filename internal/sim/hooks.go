package sim

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// hooks is what a machine's keeper runs for its agent: one queue, one hook at a time; the end of an epoch kills its become hook, or drops the pair if
// that never started.
type hooks struct {
	queue   []hookRun
	current hookRun    // Hook is 0: none
	run     int        // number of the current one: a planned end of another is void
	last    wire.Epoch // whose pair was dropped
	became  wire.Epoch // of the last become hook asked for
	endsAt  int64      // true time at which it will end, unless something ends it
	owed    int        // ends that the process has not been told of

	// acting is the epoch whose become hook has started and whose lose hook has
	// not ended: what users see of a leadership on this host.
	acting    wire.Epoch
	held      wire.Epoch // acting once, and its lose hook has failed or was cut
	overslept wire.Epoch // acting, and its host was suspended past its lease
	settled   wire.Epoch // the last whose lose hook has succeeded
	holder    *holder    // who has borrowed the lease; nil: nobody
	keeper    keeper
}

type hookRun struct {
	election.StartHook
	life   int32 // of the agent that asked for it, the only one that hears of its end
	due    int64 // true time by which it is dead; 0: no bound
	killed bool
}

// hookTimes is how long hooks take in a scenario.
type hookTimes struct {
	become, lose time.Duration // usually, at most
	least        time.Duration // of lose, usually
	timeout      time.Duration // their own bound
	slow, stuck  odds
	fails        odds
}

func (w *World) startHook(m *machine, e election.StartHook) {
	w.say(m, "%v", e)
	m.hooks.owed++
	run := hookRun{StartHook: e, life: m.life}
	if e.Within > 0 {
		run.due = m.clock.when(m.clock.time(w.now).Add(e.Within), w.now)
	}
	if e.Hook == election.Lose {
		w.endHolder(m) // the agent ends it, or has waited for its end
		if m.hooks.keeper.hasTaken(e.Epoch) {
			w.leaveToKeeper(m, run)
			return
		}
		if w.endEpoch(m, e.Epoch) {
			w.hookEnded(m, run, true) // its become hook never ran
			return
		}
	}
	w.i8HooksAlternate(m, &e)
	m.hooks.queue = append(m.hooks.queue, run)
	w.nextHook(m)
}

// leaveToKeeper: it had taken over for the agent's silence, and its result counts.
func (w *World) leaveToKeeper(m *machine, run hookRun) {
	if m.hooks.keeper.over {
		w.hookEnded(m, run, true)
		return
	}
	m.hooks.keeper.owes = run
}

func (w *World) stopHook(m *machine, e wire.Epoch) { w.endEpoch(m, e) }

// endEpoch kills the epoch's become hook if it runs, and drops it if it waits;
// true: it was dropped, or already is.
func (w *World) endEpoch(m *machine, e wire.Epoch) bool {
	h := &m.hooks
	if h.current.Hook == election.Become && h.current.Epoch == e && !h.current.killed {
		w.fired(HookKilled)
		h.current.killed = true
		w.planHookEnd(m, w.upTo(2*time.Millisecond))
	}
	for i, run := range h.queue {
		if run.Hook == election.Become && run.Epoch == e {
			h.queue = slices.Delete(h.queue, i, i+1)
			w.hookEnded(m, run, true)
			h.last = e
			return true
		}
	}
	return h.last == e && h.acting != e && h.current.Epoch != e
}

func (w *World) hurryHook(m *machine, e election.HurryHook) {
	w.say(m, "%v", e)
	if e.Within <= 0 {
		return
	}
	due := m.clock.when(m.clock.time(w.now).Add(e.Within), w.now)
	m.overLease = m.clock.at(w.now) + int64(e.Within) - int64(w.base.TakeoverDelay) // a planned end had renewed it
	h := &m.hooks
	if h.current.Hook == election.Lose && h.current.Epoch == e.Epoch {
		if h.current.due == 0 || due < h.current.due {
			h.current.due = due
			w.boundHook(m, due)
		}
		return
	}
	for i := range h.queue {
		if run := &h.queue[i]; run.Hook == election.Lose && run.Epoch == e.Epoch && (run.due == 0 || due < run.due) {
			run.due = due
		}
	}
}

// nextHook starts what waits, if nothing runs.
func (w *World) nextHook(m *machine) {
	h := &m.hooks
	if h.current.Hook != 0 || len(h.queue) == 0 || h.keeper.dead {
		return
	}
	h.current = h.queue[0]
	h.queue = slices.Delete(h.queue, 0, 1)
	if h.current.Hook == election.Become && w.isLate(m, h.current.Epoch) {
		w.refuseLate(m)
		return
	}
	if h.current.Hook == election.Become {
		w.i8BecomeOnlyWithLease(m, &h.current.StartHook)
		w.i9HooksOfHostsAreDisjoint(m, &h.current.StartHook)
		h.acting, h.held, h.overslept = h.current.Epoch, wire.Epoch{}, wire.Epoch{}
		w.watchOver(m, h.current.Epoch)
		w.lendLater(m, h.current.Epoch)
	}
	w.planHookEnd(m, w.hookTakes(h.current.Hook))
	if h.current.due > 0 {
		w.boundHook(m, h.current.due)
	}
}

// isLate: the keeper would end this leadership by now, by what it has been told of the lease.
// Whoever asks for the become hook has told it before.
func (w *World) isLate(m *machine, e wire.Epoch) bool {
	return m.runs() && m.state == election.Lead && m.epoch == e && m.leaseSeen &&
		m.clock.at(w.now) >= m.lease-int64(w.base.StopBudget/2)
}

// refuseLate drops the current become hook, which was asked for too late; its lose hook is
// dropped with it.
func (w *World) refuseLate(m *machine) {
	h := &m.hooks
	run := h.current
	w.fired(LateOrder)
	w.say(m, "keeper: become hook refused epoch=%v", run.Epoch)
	h.current, h.last = hookRun{}, run.Epoch
	w.hookEnded(m, run, false)
	w.nextHook(m)
}

// hookTakes draws how long a hook takes.
func (w *World) hookTakes(hook election.Hook) time.Duration {
	t := &w.hookTimes
	switch {
	case w.happens(t.stuck):
		w.fired(HookStuck)
		return t.timeout
	case w.happens(t.slow):
		w.fired(HookSlow)
		return min(w.upTo(t.timeout), 10*max(t.lose, t.become))
	case hook == election.Become:
		return w.upTo(t.become)
	}
	return t.least + w.upTo(t.lose-t.least)
}

// planHookEnd ends the current hook in a while, unless it is planned anew.
func (w *World) planHookEnd(m *machine, in time.Duration) {
	h := &m.hooks
	h.run++
	h.endsAt = w.now + int64(in)
	run := h.run
	w.after(in, func() {
		switch {
		case h.run != run || h.current.Hook == 0:
		case m.suspended: // the host runs nothing
			w.planHookEnd(m, 10*time.Millisecond)
		default:
			w.endHook(m, !h.current.killed && !w.happens(w.hookTimes.fails))
		}
	})
}

// boundHook kills the current hook when its time is up.
func (w *World) boundHook(m *machine, due int64) {
	h := &m.hooks
	epoch, hook := h.current.Epoch, h.current.Hook
	w.after(time.Duration(due-w.now), func() {
		if h.current.Hook == hook && h.current.Epoch == epoch && h.current.due == due && !h.current.killed && !m.suspended {
			w.fired(HookKilled)
			h.current.killed = true
			w.endHook(m, false)
		}
	})
}

// endHook ends the current hook and starts the next.
func (w *World) endHook(m *machine, ok bool) {
	h := &m.hooks
	run := h.current
	h.current = hookRun{}
	h.run++
	if !ok && !run.killed {
		w.fired(HookFails)
	}
	if run.Hook == election.Lose {
		w.release(m, run.Epoch, ok)
	}
	if w.trace != nil {
		w.say(m, "%s hook ended epoch=%v ok=%t", run.Hook, run.Epoch, ok)
	}
	w.hookEnded(m, run, ok)
	w.nextHook(m)
}

// hookEnded tells the process, a moment later: results come through its loop.
func (w *World) hookEnded(m *machine, run hookRun, ok bool) {
	if !m.runs() {
		return
	}
	w.after(50*time.Microsecond, func() {
		if m.life == run.life {
			w.step(m, election.HookEnded{Hook: run.Hook, Epoch: run.Epoch, OK: ok})
		}
	})
}

// orphanHooks: the process has died. Its keeper goes on with what it runs until it
// notices, and sees to the rest (M18), unless the host died, too.
func (w *World) orphanHooks(m *machine) {
	h := &m.hooks
	k := &h.keeper
	if m.hostDown {
		m.losePowerOfHooks()
		return
	}
	if m.suspended { // whoever kills it wakes the host
		w.wakeKeeper(m)
	}
	h.queue = slices.DeleteFunc(h.queue, func(r hookRun) bool { return r.Hook == election.Become })
	k.owes, k.then, k.planned = hookRun{}, nil, m.plannedEnd()
	k.busy = !k.dead && (!h.acting.IsZero() || len(k.will.Letters) > 0 || k.took && !k.over)
	switch {
	case !k.busy:
		h.queue = nil
	case w.keepers.isPlain:
		w.noticeDeath(m)
	default:
		w.keeperAfter(m, w.keeperTakes(2*time.Millisecond), func() { w.noticeDeath(m) })
	}
}
