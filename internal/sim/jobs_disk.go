package sim

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/jobs"
)

// ledgerFile is the ledger as package agent writes it: a new file that takes the
// old one's name, so that a crash leaves one of the two.
type ledgerFile struct {
	content []byte    // what a process that starts now would read
	synced  []byte    // what a power cut leaves, if the disk lies
	at      time.Time // of the last write, by the host's clock
}

func (f *ledgerFile) write(b []byte, at time.Time, lies bool) {
	f.content, f.at = b, at
	if !lies {
		f.synced = b
	}
}

// readLedger is what a process that starts finds; nil: nothing.
func (w *World) readLedger(m *machine) *jobs.Ledger {
	if len(m.disk.ledger.content) == 0 {
		return nil
	}
	ledger, err := jobs.Parse(m.disk.ledger.content)
	if err != nil {
		panic("BUG: a ledger that was saved is unreadable: " + err.Error())
	}
	return ledger
}

// saveLedger carries out a Save effect: it takes a moment at least, in which the
// process may end.
func (w *World) saveLedger(m *machine, b []byte) verdict {
	j := w.jobs
	d := &m.disk
	if d.full || d.errors {
		if d.errors && j.rng.IntN(2) == 0 {
			d.ledger.write(slices.Clone(b), w.wall(m), d.lies) // the error came after the fact
		}
		return failed
	}
	took := j.upTo(pick(j.rng, time.Millisecond, 20*time.Millisecond))
	if d.slow > 0 {
		took += j.upTo(d.slow)
	}
	m.jobs.busy, m.jobs.pending = true, slices.Clone(b)
	life := m.life
	w.jobAfter(took, func() {
		if m.life == life && m.jobs.scheduler != nil {
			w.ledgerSaved(m)
		}
	})
	return blocked
}

func (w *World) ledgerSaved(m *machine) {
	if m.suspended { // with its disk
		life := m.life
		w.jobAfter(10*time.Millisecond, func() {
			if m.life == life && m.jobs.scheduler != nil {
				w.ledgerSaved(m)
			}
		})
		return
	}
	h := &m.jobs
	m.disk.ledger.write(h.pending, w.wall(m), m.disk.lies)
	h.pending = nil
	w.goOnJobs(m)
}

// goOnJobs carries out what relied on the Save, a moment later or when the
// process goes on.
func (w *World) goOnJobs(m *machine) {
	life := m.life
	w.jobAfter(w.jobs.upTo(time.Millisecond), func() {
		switch {
		case m.life != life || m.jobs.scheduler == nil:
		case m.isBlocked():
			w.jobAfter(10*time.Millisecond, func() {
				if m.life == life && m.jobs.scheduler != nil {
					w.goOnJobs(m)
				}
			})
		default:
			m.jobs.busy = false
			w.carryOutJobs(m)
			w.drainJobs(m)
		}
	})
}

// settleLedger decides what a crash leaves of a save that was under way.
func (w *World) settleLedger(m *machine) {
	f := &m.disk.ledger
	if m.jobs.pending != nil && w.jobs.rng.IntN(2) == 0 {
		f.write(m.jobs.pending, w.wall(m), m.disk.lies)
	}
	if m.hostDown && m.disk.lies {
		f.content = f.synced
	}
}

// onLedgerFailed tells the Scheduler, and tries again once a second.
func (w *World) onLedgerFailed(m *machine) {
	w.jobs.counts.Unsaved++
	w.jobStep(m, jobs.SaveFailed{})
	if m.jobs.broken {
		return
	}
	m.jobs.broken = true
	w.recoverLedger(m)
}

func (w *World) recoverLedger(m *machine) {
	life := m.life
	w.jobAfter(time.Second, func() {
		switch {
		case m.life != life || m.jobs.scheduler == nil:
		case m.disk.full || m.disk.errors:
			w.recoverLedger(m)
		default:
			m.jobs.broken = false
			w.jobStep(m, jobs.SaveRecovered{})
		}
	})
}
