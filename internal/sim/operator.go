package sim

import (
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

func (w *World) operate(m *machine) {
	if !m.runs() {
		return
	}
	other := pick(w.rng, w.machines...)
	switch w.rng.IntN(6) {
	case 0, 1:
		w.fired(OpStepDown)
		w.command(m, election.Command{Verb: election.StepDown, For: w.upTo(3 * time.Second), Token: 1})
	case 2:
		w.fired(OpHandOver)
		w.command(m, election.Command{Verb: election.HandOver, To: other.id, Token: 2})
	case 3:
		w.leave(m)
	case 4:
		w.fired(OpReprioritise)
		m.cfg.Priority = uint16(1 + w.rng.IntN(9))
		w.command(m, election.Command{Verb: election.Reprioritise, Priority: m.cfg.Priority, Token: 3})
		w.spreadMeta(m)
	case 5:
		w.forgetSomebody()
	}
}

func (w *World) command(m *machine, c election.Command) {
	w.say(m, "%v", c)
	w.step(m, c)
}

func (w *World) leave(m *machine) {
	if m.leaving || m.isBlocked() {
		return
	}
	w.fired(OpLeave)
	m.leaving = true
	life := m.life
	w.command(m, election.Command{Verb: election.Leave, Token: leaveToken})
	w.after(2*time.Second+w.upTo(4*time.Second), func() {
		if m.life == life && w.raging {
			w.kill(m, Crash) // its supervisor's patience has ended
		}
		w.restartLater(m)
	})
}

func (w *World) forgetSomebody() {
	if w.mode != Quorum || w.forgotten >= (w.machines[0].cfg.Expect-1)/2 {
		return
	}
	for _, m := range w.machines {
		if !m.isUp() || m.state != election.Lead {
			continue
		}
		target := w.lostID
		if target.IsZero() {
			if w.wipes > 0 {
				return
			}
			target = pick(w.rng, w.machines...).id
		}
		if target == m.id {
			return
		}
		w.fired(OpForget)
		w.forgotten++
		w.lostID = wire.ID{}
		w.command(m, election.Command{Verb: election.Forget, Force: true, To: target, Token: m.forgetting(target)})
		return
	}
}

// forgetting gives the token by which the reply is told from others.
func (m *machine) forgetting(id wire.ID) uint64 {
	m.forgets = append(m.forgets, id)
	return forgetToken + uint64(len(m.forgets)-1)
}
