package sim

import (
	"time"

	"github.com/bully-agent/bully-agent/internal/session"
)

// sessionFaults are what happens to sessions in one schedule, beside what the weather does to datagrams.
type sessionFaults struct {
	renews         bool // sessions are replaced now and then, whatever is under way in them
	loseHandshakes odds // datagrams of handshakes are lost on their own
}

// drawSessionFaults draws them for schedules with sealed ports.
func (w *World) drawSessionFaults() {
	p := &w.ports
	if !p.isSealed {
		return
	}
	p.renews = p.rng.IntN(3) == 0
	if p.rng.IntN(3) == 0 {
		p.loseHandshakes = percent(20)
	}
}

// hurtSessionsAgain replaces sessions after a while, and comes back.
func (w *World) hurtSessionsAgain() {
	p := &w.ports
	if !p.renews {
		return
	}
	pause := 20*time.Millisecond + time.Duration(p.rng.Float64()*float64(8*w.base.Lease)) // more would cost curves, and show nothing new
	w.after(pause, func() {
		if !w.raging {
			return
		}
		if p.rng.IntN(2) == 0 {
			w.swapKeys()
		} else {
			w.ageSessions(pick(p.rng, w.machines...))
		}
		w.hurtSessionsAgain()
	})
}

// swapKeys has each host begin with the other of the cluster's keys, as a step of key rotate does: all sessions are replaced.
func (w *World) swapKeys() {
	w.fired(KeysSwapped)
	w.say(nil, "the cluster's keys change places")
	for _, m := range w.machines {
		m.keysSwapped = !m.keysSwapped
		if s, is := m.lan.(*sealedPort); is && s.isOpen() {
			s.table.SetKeys(s.now(), w.ring(m))
			s.arm()
		}
	}
}

// renewedAfter is as old as sessions become before the end that began them begins others (S7).
const renewedAfter = 70 * time.Minute

// ageSessions has the sessions of a host's life be as old as those that are renewed: it begins others by an INIT.
func (w *World) ageSessions(m *machine) {
	s, is := m.lan.(*sealedPort)
	if !is || !s.isOpen() || s.begun() == 0 {
		return
	}
	w.fired(SessionsRenewed)
	w.say(m, "its sessions are old and renewed")
	s.ahead += renewedAfter
	s.table.Tick(s.now())
	s.arm()
}

// report is what the table knows.
func (s *sealedPort) report() session.Report { return s.table.Report(s.now()) }

// begun is how many sessions this life has had.
func (s *sealedPort) begun() uint64 { return s.report().Begun }
