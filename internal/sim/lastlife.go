package sim

import (
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// Before an agent takes part, it ends what its last life has left: the keeper, if that still works,
// and the lose hook that is due. As package agent's lastLife has it, what takes longer than the lease
// and the takeover delay goes on beside this life, which does not stand meanwhile.

// recover starts the keeper of the life that is to begin, which waits for that of the last one.
func (w *World) recover(m *machine) {
	boot := m.boots
	w.launch(m, m.life+1)
	released := lease.WaitLength(m.longestLease(w)) + w.base.TakeoverDelay
	w.after(time.Duration(m.clock.when(m.clock.time(w.now).Add(released), w.now)-w.now), func() {
		if m.boots == boot && m.starting {
			w.startBeside(m, true)
		}
	})
}

func (m *machine) longestLease(w *World) time.Duration {
	return max(w.base.LongestLease(), m.cfg.LongestLease())
}

// launch starts a keeper for an agent's life.
func (w *World) launch(m *machine, life int32) {
	k := &keeper{host: m, life: life}
	took := time.Duration(0)
	if !w.keepers.isPlain {
		took = time.Millisecond + w.keepers.upTo(2*time.Millisecond)
	}
	if m.hooks.keeper == nil {
		m.hooks.keeper = k
	} else {
		m.hooks.next = k
	}
	w.in(k, took, func() {
		k.isThere = true
		if m.hooks.keeper == k {
			w.takeLock(k)
		}
	})
}

// takeLock: nobody else works in the state directory.
func (w *World) takeLock(k *keeper) {
	m := k.host
	m.hooks.keeper = k
	if !k.isThere {
		return
	}
	w.openKeeper(k)
	switch {
	case w.isBeginning(m, k):
		w.putStray(k)
		w.cleanUp(k)
	case m.runs() && m.life == k.life:
		w.take(m, k)
	default: // whoever has started it has died meanwhile
		w.orphan(k)
	}
}

// cleanUp runs the lose hook of a leadership that the last life did not end, unless its keeper has.
func (w *World) cleanUp(k *keeper) {
	m := k.host
	owed := m.disk.state.Promoted
	if e, isOwed := k.lanes.Owed(); isOwed && owed.IsZero() {
		owed = wire.Epoch{Counter: e.Counter, Owner: m.id}
	}
	if owed.IsZero() {
		w.onCleanedUp(m, hooks.Result{})
		return
	}
	w.say(m, "lose hook epoch=%v cause=%s", owed, election.UncleanRestarted)
	k.isCleaning = true
	w.stepLanes(k, hooks.CleanUp{Event: m.hookEvent(hooks.LoseLeadership, owed, election.UncleanRestarted)})
}

// onCleaned: what was due of the last life has ended, well or not.
func (w *World) onCleaned(k *keeper, r hooks.Result) {
	m := k.host
	w.in(k, w.keeperTakes(time.Millisecond), func() {
		k.isCleaning = false
		switch {
		case k.sawDeath:
			w.endKeeper(k)
		case w.isBeginning(m, k):
			w.onCleanedUp(m, r)
		}
	})
}

// onCleanedUp lets the agent begin, or stand, if it has begun.
func (w *World) onCleanedUp(m *machine, r hooks.Result) {
	if m.starting {
		w.start(m)
	} else {
		w.settleBeside(m)
	}
	if !m.runs() {
		return
	}
	m.client.beside = false
	if k := m.hooks.keeper; k != nil && k.isOpen && k.life == m.life && !k.isOver {
		w.take(m, k)
	} else {
		w.replaceKeeper(m)
	}
	if r.Kind != "" && !r.OK {
		w.redoLose(m, r)
	}
}

// settleBeside: what the last life has left has ended, and this one may stand.
func (w *World) settleBeside(m *machine) {
	if saved := m.disk.state; !saved.Promoted.IsZero() && saved.Promoted == m.debt {
		w.i8DebtIsForgottenLast(m, m.debt)
		saved.Promoted = wire.Epoch{}
		m.disk.write(saved)
	}
	w.step(m, election.Command{Verb: election.Stand, Token: 7})
}

// replaceKeeper is the agent's, when it sees that its keeper is gone.
func (w *World) replaceKeeper(m *machine) {
	life := m.life
	w.after(0, func() {
		switch {
		case m.life != life || !m.runs() || m.hooks.keeper != nil && m.hooks.keeper.life == life:
		case m.frozen || m.suspended:
			w.after(10*time.Millisecond, func() {
				if m.life == life {
					w.replaceKeeper(m)
				}
			})
		default:
			w.noteOverslept(m)
			w.say(m, "starts another keeper")
			w.launch(m, life)
		}
	})
}

// isBeginning: the life that a keeper serves has not begun yet, or goes on beside what the last one has left.
func (w *World) isBeginning(m *machine, k *keeper) bool {
	return m.starting && m.life+1 == k.life || m.runs() && m.life == k.life && m.client.beside
}

// giveUpStart: an agent ends before it has begun, and its keeper with it.
func (w *World) giveUpStart(m *machine) {
	for _, k := range []*keeper{m.hooks.keeper, m.hooks.next} {
		if k != nil && k.life == m.life+1 {
			w.orphan(k)
		}
	}
}
