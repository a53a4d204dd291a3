package sim

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// keeper is the process beside the agent that runs its hooks. When the agent is dead,
// or silent until half a stop budget before the lease ends, it ends the become hook if
// that runs, and runs the lose hook: until the lease and the takeover delay have ended,
// and then once more without a bound, if that run failed or was cut. Then, for a dead
// agent, it sends the will. It dies with its host, or by itself: what it ran then dies
// with it, and an agent that lives starts another.
type keeper struct {
	epoch    wire.Epoch    // whose leadership it minds
	will     election.Will // what the agent has left
	took     bool          // it acts in the agent's stead
	sawDeath bool          // for the agent is dead
	planned  int64         // end of the lease as the dead agent had last renewed it for a planned end; 0: there was none
	over     bool          // the lose hook has ended, as far as it will
	busy     bool          // the next start has to wait for it
	dead     bool          // and nobody has started another
	run      int           // what was planned for another number is void
	owes     hookRun       // the agent's hook whose end it stands for; Hook is 0: none
	then     func()        // the start that waits for it
}

// watchOver begins a leadership, before the become hook.
func (w *World) watchOver(m *machine, e wire.Epoch) {
	k := &m.hooks.keeper
	*k = keeper{epoch: e, will: k.will, run: k.run + 1}
	w.keeperLooks(m, k.run, w.base.Lease/2)
}

// keeperLooks lets the keeper look at its deadline in a while, and again when that
// has moved.
func (w *World) keeperLooks(m *machine, run int, in time.Duration) {
	w.after(in, func() {
		k := &m.hooks.keeper
		if k.run != run || k.took || m.hooks.acting != k.epoch || m.suspended { // it looks first thing when its host goes on
			return
		}
		deadline, margin := w.keeperDeadline(m)
		ask := epoch.Add(time.Duration(deadline + int64(margin)))
		switch {
		case deadline == 0:
			w.keeperLooks(m, run, w.base.Lease/2)
		case m.clock.time(w.now).Before(ask):
			w.keeperLooks(m, run, time.Duration(m.clock.when(ask, w.now)-w.now))
		default:
			w.say(m, "keeper: the agent is silent")
			w.keeperTakesOver(m, deadline)
		}
	})
}

// wakeKeeper: the host goes on. Keeper and agent both look at the clock first; one is
// quicker.
func (w *World) wakeKeeper(m *machine) {
	h := &m.hooks
	w.noteOverslept(m)
	if h.acting.IsZero() || h.keeper.took || h.keeper.dead {
		return
	}
	h.keeper.run++
	deadline, margin := w.keeperDeadline(m)
	if deadline != 0 && m.clock.at(w.now) >= deadline+int64(margin) && w.unusual.oneIn(2) {
		w.keeperTakesOver(m, deadline)
		return
	}
	w.keeperLooks(m, h.keeper.run, 0)
}

// noteOverslept remembers that a host was suspended past the lease of what acts on it.
func (w *World) noteOverslept(m *machine) {
	deadline, _ := w.keeperDeadline(m)
	if m.clock.at(w.now) > max(deadline, m.overLease) {
		m.hooks.overslept = m.hooks.acting
	}
}

// keeperDeadline is the end of the lease as the agent has told it, on the host's
// clock, and how much sooner or later the keeper takes over; 0: there is none. An
// agent that has it run the lose hook has until others take over.
func (w *World) keeperDeadline(m *machine) (deadline int64, margin time.Duration) {
	run := m.ownLoseHook()
	switch {
	case m.state == election.Lead && run == nil:
		return m.lease, -w.base.StopBudget / 2
	case m.plannedEnd() != 0:
		deadline = m.plannedEnd()
	case m.hooks.keeper.planned != 0:
		deadline = m.hooks.keeper.planned
	case run == nil || run.due > 0:
		deadline = m.overLease
	}
	return deadline, w.base.TakeoverDelay - 10*time.Millisecond
}

// plannedEnd is the end of the lease while a planned end renews it, on the host's clock;
// 0: there is none.
func (m *machine) plannedEnd() int64 {
	if !m.runs() || m.state != election.Stopping || m.node.Status().Lease.IsZero() {
		return 0
	}
	return int64(m.node.Status().Lease.Sub(epoch))
}

// ownLoseHook is the lose hook that the agent has asked for.
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

// noticeDeath: the agent's pidfd says that it is dead.
func (w *World) noticeDeath(m *machine) {
	h := &m.hooks
	k := &h.keeper
	switch wasSeen := k.sawDeath; {
	case wasSeen:
	case k.took: // for its silence, before it died
		k.sawDeath = true
		if k.over {
			w.bequeath(m)
		}
	case !h.acting.IsZero():
		k.sawDeath = true
		deadline, _ := w.keeperDeadline(m)
		w.keeperTakesOver(m, deadline)
	default: // the lose hook that the agent had asked for has ended, or nothing ever began
		k.sawDeath, k.over = true, true
		w.bequeath(m)
	}
}

// keeperTakesOver ends the become hook and runs the lose hook, without an order. One
// that was ordered and runs goes on.
func (w *World) keeperTakesOver(m *machine, deadline int64) {
	h := &m.hooks
	k := &h.keeper
	w.fired(KeeperLose)
	k.took = true
	k.run++
	if own := m.ownLoseHook(); own != nil && m.runs() {
		k.owes = *own
	}
	takes, ok := w.keeperHookTakes()
	switch h.current.Hook {
	case election.Become:
		w.hookEnded(m, h.current, false)
	case election.Lose:
		takes = time.Duration(max(0, h.endsAt-w.now))
	}
	h.current, h.queue = hookRun{}, nil
	h.run++
	bound := int64(0)
	if deadline != 0 {
		bound = m.clock.when(epoch.Add(time.Duration(deadline)+w.base.TakeoverDelay), w.now)
	}
	w.keeperRuns(m, bound, takes, ok)
}

// keeperRuns runs the lose hook up to a true time; one that has passed is no bound.
func (w *World) keeperRuns(m *machine, bound int64, takes time.Duration, ok bool) {
	isBounded := bound > w.now
	if isBounded && w.now+int64(takes) > bound {
		takes, ok = time.Duration(bound-w.now), false
		w.fired(KeeperLoseCut)
	}
	w.keeperAfter(m, takes, func() {
		w.say(m, "keeper: lose hook ended epoch=%v ok=%t", m.hooks.keeper.epoch, ok)
		w.release(m, m.hooks.keeper.epoch, ok)
		if ok || !isBounded {
			w.keeperOver(m)
			return
		}
		w.fired(KeeperLoseAgain)
		w.keeperAfter(m, time.Duration(max(0, bound-w.now)), func() {
			takes, ok := w.keeperHookTakes()
			w.keeperRuns(m, 0, takes, ok)
		})
	})
}

// keeperAfter lets the keeper do something, on a host that runs.
func (w *World) keeperAfter(m *machine, d time.Duration, do func()) {
	run := m.hooks.keeper.run
	w.after(d, func() {
		switch {
		case m.hooks.keeper.run != run:
		case m.suspended:
			w.keeperAfter(m, 10*time.Millisecond, do)
		default:
			do()
		}
	})
}

// keeperHookTakes is hookTakes from the other stream, and whether it succeeds.
func (w *World) keeperHookTakes() (time.Duration, bool) {
	t, u := &w.hookTimes, &w.unusual
	switch {
	case u.happens(t.stuck):
		return t.timeout, false
	case u.happens(t.slow):
		return min(u.upTo(t.timeout), 10*max(t.lose, t.become)), true
	}
	return t.least + u.upTo(t.lose-t.least), !u.happens(t.fails)
}

// keeperOver: an agent that was silent is told; a dead one's will is next.
func (w *World) keeperOver(m *machine) {
	k := &m.hooks.keeper
	k.over = true
	if k.owes.Hook != 0 {
		w.hookEnded(m, k.owes, true)
		k.owes = hookRun{}
	}
	switch {
	case k.sawDeath:
		w.bequeath(m)
	case k.busy: // the agent that it took for silent is dead, or has died meanwhile
		w.keeperAfter(m, w.keeperTakes(2*time.Millisecond), func() { w.noticeDeath(m) })
	}
}

// keeperQuits: whoever starts waits for it no more.
func (w *World) keeperQuits(m *machine) {
	k := &m.hooks.keeper
	k.busy = false
	if then := k.then; then != nil {
		k.then = nil
		then()
	}
}

// hasTaken: the keeper has taken over, or is to do so in the agent's stead.
func (k *keeper) hasTaken(e wire.Epoch) bool { return k.took && k.epoch == e }

// awaitKeeper does something once the keeper that a dead agent left behind is done, or
// when the lease and the takeover delay have ended: nobody's hanging hook keeps a voter
// away for longer.
func (w *World) awaitKeeper(m *machine, then func(isDone bool)) {
	k := &m.hooks.keeper
	if !k.busy {
		then(true)
		return
	}
	waiting := k.run
	k.then = func() { waiting = -1; then(true) }
	end := max(m.lease, m.overLease) + int64(w.base.TakeoverDelay)
	w.after(time.Duration(m.clock.when(epoch.Add(time.Duration(end)), w.now)-w.now), func() {
		if waiting != -1 && k.then != nil && m.starting && !m.suspended {
			k.then = nil
			then(false)
		}
	})
}

// killKeeper ends the keeper, and what it runs. An agent that lives starts another,
// and leads no longer; else the next start does what is due.
func (w *World) killKeeper(m *machine, why Fault) {
	h := &m.hooks
	k := &h.keeper
	if k.dead || m.hostDown || m.suspended || !m.runs() && !k.busy {
		return
	}
	w.fired(why)
	w.say(m, "keeper killed: %v", why)
	if !m.isUp() {
		w.fired(BothDie)
	}
	cut := h.current
	h.current, k.dead = hookRun{}, true
	h.run++
	k.run++
	if m.runs() {
		w.startKeeper(m, m.life, cut)
		return
	}
	w.keeperQuits(m)
}

// startKeeper is the agent's, when it sees that its keeper is gone.
func (w *World) startKeeper(m *machine, life int32, cut hookRun) {
	w.after(time.Millisecond+w.keepers.upTo(2*time.Millisecond), func() {
		switch {
		case m.life != life:
			return
		case m.isBlocked():
			w.startKeeper(m, life, cut)
			return
		}
		h := &m.hooks
		w.noteOverslept(m)
		h.keeper.dead = false
		h.keeper.run++
		w.say(m, "starts another keeper")
		switch {
		case h.keeper.took && !h.keeper.over && h.acting.IsZero(): // what the last one did once more
			takes, ok := w.keeperHookTakes()
			w.keeperRuns(m, 0, takes, ok)
			return
		case h.keeper.took && !h.keeper.over: // it died with that; what the agent has asked for is asked again, with its bound
			if h.keeper.took = false; h.keeper.owes.Hook != 0 {
				h.queue = slices.Insert(h.queue, 0, h.keeper.owes)
			}
			h.keeper.owes = hookRun{}
		case h.keeper.busy: // with the will, which died with it
			w.keeperQuits(m)
			return
		case cut.Hook == election.Lose:
			h.queue = slices.Insert(h.queue, 0, cut)
		case cut.Hook == election.Become:
			w.hookEnded(m, cut, false)
		}
		w.nextHook(m)
		if !h.acting.IsZero() && h.keeper.epoch == h.acting {
			w.keeperLooks(m, h.keeper.run, 0)
			w.step(m, election.Command{Verb: election.Abdicate, Cause: election.HookFailed, Token: 6})
		}
	})
}

// release ends a leadership on its host, if the lose hook succeeded. docs/hooks.md:
// "A lose hook that fails, whatever its exit status, is tried three times within its
// time, and then again and again in the background until it succeeds, also after a
// restart, or until this host leads again: what it should release may still be held."
func (w *World) release(m *machine, e wire.Epoch, ok bool) {
	h := &m.hooks
	if h.acting == e {
		h.acting = wire.Epoch{}
	}
	if h.held = (wire.Epoch{}); ok {
		h.settled = e
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

// losePowerOfHooks: a host that is off holds nothing, and its keeper is gone.
// docs/hooks.md: "where the keeper was killed too, or the host lost its power, the next start
// runs the hook".
func (m *machine) losePowerOfHooks() {
	h := &m.hooks
	*h = hooks{run: h.run + 1, became: h.became, last: h.last, keeper: keeper{run: h.keeper.run + 1}}
}
