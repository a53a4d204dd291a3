package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// lists are host lists (S20). In some schedules one host is taken out of the lists of the others, of one after another, and is
// told so as its sessions would tell it. When all is calm nobody has a list any more. They have a stream of chance of their own.
type lists struct {
	rng  *rand.Rand
	some bool    // in this schedule
	lost wire.ID // who is taken out; zero: nobody yet
}

func (l *lists) upTo(d time.Duration) time.Duration {
	return time.Duration(l.rng.Float64() * float64(d))
}

func (w *World) drawLists(o *Options) {
	l := &w.lists
	l.rng = rand.New(rand.NewPCG(o.Seed, 0x71575))
	l.some = !o.Usual && w.size >= 3 && w.size <= 9 && w.mixed == noFault && l.rng.IntN(8) == 0
}

// unlistLater takes a host out, half of the time the one that leads. In quorum mode its leader may forget it, as it may forget
// whom an operator names.
func (w *World) unlistLater() {
	l := &w.lists
	if !l.some {
		return
	}
	w.after(2*time.Second+l.upTo(10*time.Second), func() {
		lost := pick(l.rng, w.machines...)
		if i := slices.IndexFunc(w.machines, func(m *machine) bool { return m.runs() && m.state == election.Lead }); i >= 0 && l.rng.IntN(2) == 0 {
			lost = w.machines[i]
		}
		if !w.raging || lost.copyOf != nil || w.attack.insider != nil || w.mode == Quorum && w.wipes+w.forgotten >= (w.machines[0].cfg.Expect-1)/2 {
			return
		}
		if w.mode == Quorum {
			w.forgotten++
		}
		w.fired(Unlisted)
		l.lost = lost.id
		w.say(lost, "taken out of the lists")
		for _, m := range w.machines {
			if m.id != l.lost {
				w.after(l.upTo(pick(l.rng, 50*time.Millisecond, 3*time.Second)), func() { w.unlist(m) })
			}
		}
	})
}

// unlist has a host reload without the line. Whoever shares its disk is the same host.
func (w *World) unlist(m *machine) {
	if !w.raging || m.id == w.lists.lost {
		return
	}
	m.unlists = true
	w.relist(m)
	w.spreadMeta(m)
	for _, lost := range w.machines {
		w.tellOut(m, lost, w.lists.upTo(300*time.Millisecond))
	}
}

// relist tells a process of its host's list: all hosts but the one that was taken out.
func (w *World) relist(m *machine) {
	e := election.HostsChanged{}
	if m.unlists {
		for _, other := range w.machines {
			for _, id := range append(slices.Clone(other.former), other.id) { // a line stays until somebody takes it out
				if id != w.lists.lost && !slices.Contains(e.IDs, id) {
					e.IDs = append(e.IDs, id)
				}
			}
		}
		slices.SortFunc(e.IDs, wire.ID.Compare)
		e.Digest = digestOut
	}
	w.say(m, "%v", e)
	w.step(m, e)
}

// digestOut is what a list says of itself from which a host was taken out.
const digestOut = 1

// tellOut has a host hear, in a session with one that has taken it out, that it is out.
func (w *World) tellOut(by, lost *machine, within time.Duration) {
	life := lost.life
	w.after(within, func() {
		if w.raging && by.unlists && by.runs() && lost.id == w.lists.lost && lost.life == life && lost.runs() && w.talk(by, lost) {
			w.bar(lost, election.BarListed, true)
		}
	})
}

// beginListed: a process begins with its host's list, and is told soon who leaves it out.
func (w *World) beginListed(m *machine) {
	if w.lists.lost.IsZero() {
		return
	}
	if m.unlists {
		w.relist(m)
	}
	for _, by := range w.machines {
		if by.unlists && m.id == w.lists.lost {
			w.tellOut(by, m, w.lists.upTo(300*time.Millisecond))
		}
	}
}

// newInLists puts a host that has another id into all lists.
func (w *World) newInLists() {
	for _, m := range w.machines {
		if m.unlists && m.runs() {
			w.relist(m)
		}
	}
}

// calmLists: nobody has a list.
func (w *World) calmLists() {
	if w.lists.lost.IsZero() {
		return
	}
	for _, m := range w.machines {
		if m.unlists {
			m.unlists = false
			w.relist(m)
			w.spreadMeta(m)
		}
		if m.runs() {
			w.bar(m, election.BarListed, false)
		}
	}
}

// i30WaitsForWhoIsOut: I30: nobody claims within the lease of a leader that its list has lost, counted from the last heartbeat that it
// took.
func (w *World) i30WaitsForWhoIsOut(m *machine, e *election.Transition) {
	waited := w.now - m.heardAt
	if m.unlists && m.heardEpoch.Owner == w.lists.lost && e.Cause == election.NotListed && waited < int64(w.base.ShortestLease())*99/100 {
		w.fail(30, "n%d claims %v after the last heartbeat of n%v, which its list has lost", m.number, time.Duration(waited), m.heardEpoch)
	}
}
