package sim

import (
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// A host tells of the end of a process on it: it closes its streams, and refuses
// what still comes to its port. A host that is off or cut off says nothing.

func (w *World) onTether(m *machine, e election.Tether) {
	m.tether, m.tetherStands, m.tetherGone = e, false, false
	if e.ID.IsZero() || !e.Addr.IsValid() {
		return
	}
	to := w.machineAt(e.Addr)
	m.tetherStands = to.runs() && to.nonce == e.Nonce && to.port == e.Addr.Port() && !to.suspended && w.talk(m, to)
}

// endTethers tells those that hold a stream to m's process.
func (w *World) endTethers(m *machine) {
	nonce := m.nonce
	if m.hangs {
		return
	}
	for _, a := range w.machines {
		if a != m && a.runs() && a.tetherStands && a.tether.Nonce == nonce {
			w.closeTether(a, m, nonce)
		}
	}
}

// closeTether delivers the FIN, again and again while it cannot arrive. It means
// something only if dialling again is refused.
func (w *World) closeTether(a, m *machine, nonce uint32) {
	life := a.life
	w.after(w.trips.trip/2+200*time.Microsecond+w.upTo(1500*time.Microsecond), func() {
		switch {
		case a.life != life || !a.tetherStands || a.tether.Nonce != nonce || m.runs() || m.hostDown:
		case !w.talk(a, m) || m.suspended:
			w.after(200*time.Millisecond, func() { w.closeTether(a, m, nonce) })
		default:
			w.fired(TetherEnds)
			a.tetherStands, a.tetherGone = false, true
			w.say(a, "liveness stream to n%d ends", m.number)
			w.step(a, election.TetherLost{ID: m.id, Nonce: nonce})
		}
	})
}

// forgeEnd lets something between two hosts end a stream and refuse the next, though
// the process at its end lives; now and then it answers a datagram in the same way.
func (w *World) forgeEnd(a *machine) {
	if !a.isUp() || !a.tetherStands {
		return
	}
	w.fired(TetherForged)
	a.tetherStands, a.forgedAt = false, w.now
	id, nonce, life := a.tether.ID, a.tether.Nonce, a.life
	w.say(a, "its liveness stream is ended by somebody between")
	w.step(a, election.TetherLost{ID: id, Nonce: nonce})
	if w.unusual.oneIn(2) {
		w.after(w.unusual.upTo(20*time.Millisecond), func() {
			if a.life == life {
				w.step(a, election.Refused{ID: id, Nonce: nonce})
			}
		})
	}
}

// hangTethers: the next end of m's process does not end the streams to it.
func (w *World) hangTethers(m *machine) {
	if !m.runs() {
		return
	}
	w.fired(TetherHangs)
	m.hangs = true
}

// refusalBurst is how many unreachables Linux sends at once; then one a second.
const refusalBurst = 6

// refuse answers a datagram to a port that nobody listens on.
func (w *World) refuse(p *packet) {
	host, asker := p.to, p.from
	if host.hostDown || !w.talk(host, asker) || !asker.tetherGone || asker.tether.ID != host.id {
		return
	}
	if w.now-host.refusedAt > int64(time.Second) {
		host.refusals = max(0, host.refusals-1)
		host.refusedAt = w.now
	}
	if host.refusals >= refusalBurst {
		return
	}
	host.refusals++
	life, nonce := asker.life, asker.tether.Nonce
	w.after(w.net.weather.delay+w.trips.trip/2, func() {
		if asker.life == life {
			w.fired(PortRefuses)
			w.step(asker, election.Refused{ID: host.id, Nonce: nonce})
		}
	})
}

// setLink pulls a machine's own cable, or plugs it in; the kernel says so.
func (w *World) setLink(m *machine, up bool) {
	if m.linkUp == up {
		return
	}
	m.linkUp = up
	w.detector.dirty = true
	if !up {
		w.fired(LinkDown)
	}
	w.say(m, "link up=%t", up)
	life := m.life
	w.after(w.upTo(5*time.Millisecond), func() {
		if m.life == life && m.linkUp == up {
			w.step(m, election.LinkChanged{Up: up})
		}
	})
}
