package sim

import (
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// disk is a state file as package agent writes it: two slots, alternately, each
// write synced before it counts as done.
type disk struct {
	state  election.Saved // what a process that starts now would read
	older  election.Saved // the other slot
	backup election.Saved // a copy taken some time ago

	full    bool          // no write succeeds
	errors  bool          // a write fails, but what was written may be there
	slow    time.Duration // a sync takes up to so long
	lies    bool          // a sync is reported that has not happened
	synced  election.Saved
	pending *election.Saved // being written

	ledger   ledgerFile
	receipts receiptFile
	saved    receiptFile // in the backup
}

// write makes state the newer slot.
func (d *disk) write(state election.Saved) {
	d.older, d.state = d.state, state
	if !d.lies {
		d.synced = state
	}
}

// save carries out a Save effect.
func (w *World) save(m *machine, state election.Saved) verdict {
	w.i1DiskNeverGoesBack(m, &m.disk.state, &state)
	switch {
	case m.disk.full:
		w.fired(DiskFull)
		return failed
	case m.disk.errors:
		w.fired(DiskError)
		if w.rng.IntN(2) == 0 {
			m.disk.write(state) // the error came after the fact
		}
		return failed
	case m.disk.slow > 0:
		w.saveSlowly(m, state)
		return blocked
	}
	m.disk.write(state)
	return done
}

// saveSlowly blocks the process until the sync has ended, as an fsync does.
func (w *World) saveSlowly(m *machine, state election.Saved) {
	w.fired(DiskSlow)
	took := w.upTo(m.disk.slow)
	m.busy, m.waited, m.disk.pending = true, true, &state
	began, life := m.clock.at(w.now), m.life
	if w.raging && w.rng.IntN(8) == 0 {
		w.after(w.upTo(took), func() {
			if m.life == life && m.busy {
				w.crash(m)
			}
		})
	}
	w.after(took, func() {
		if m.life != life {
			return
		}
		m.disk.pending = nil
		m.disk.write(state)
		m.busy = false
		w.say(m, "synced after %v", took.Round(time.Millisecond))
		if spent := time.Duration(m.clock.at(w.now) - began); spent > 3*time.Millisecond {
			m.backlog = append([]election.Event{election.DiskTimed{Took: spent}}, m.backlog...)
		}
		w.goOn(m)
	})
}

// settle decides what a crash leaves of a write that was under way.
func (d *disk) settle(w *World) {
	if d.pending == nil {
		return
	}
	switch w.rng.IntN(3) {
	case 0:
		d.write(*d.pending)
	case 1:
		w.fired(TornWrite) // the slot's checksum fails: the older one counts
	default:
		w.fired(LostWrite)
	}
	d.pending = nil
}

// losePower forgets what was never really synced.
func (d *disk) losePower(w *World) {
	if a, b := &d.state, &d.synced; d.lies && (a.MaxCounter != b.MaxCounter || a.Incarnation != b.Incarnation || a.Vote != b.Vote) {
		w.fired(LyingSync)
		d.state, d.receipts = d.synced, receiptFile{}
	}
}

// retrySave is the agent's: once a second after a failed save, until one succeeds.
func (w *World) retrySave(m *machine) {
	life := m.life
	w.after(time.Second, func() {
		switch {
		case m.life != life || !m.saveDown:
		case m.disk.full || m.disk.errors || m.isBlocked():
			w.retrySave(m)
		default:
			m.saveDown = false
			w.step(m, election.SaveRecovered{})
		}
	})
}
