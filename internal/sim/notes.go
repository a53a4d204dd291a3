package sim

import (
	"errors"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// notes are a host's journal of hooks, as hookrun writes it: one file, of which only the newest
// note counts.
type notes struct {
	page   hooks.Page // what a process that starts now would read
	synced hooks.Page // what a loss of power leaves, unless the kernel has written more
}

// writer is a keeper's writer of notes: one write at a time.
type writer struct {
	next   *hooks.Note // that waits; nil: none
	knows  wire.Epoch  // whoever has given it had heard that this one's lose hook has succeeded
	isBusy bool
	write  func() // what is under way
}

var errDisk = errors.New("no space left on device")

// note writes a note, in its own time.
func (w *World) note(k *keeper, n hooks.Note) {
	j := &k.journal
	if j.next != nil {
		n = n.InPlaceOf(*j.next)
	}
	j.next, j.knows = &n, k.knowsLost
	if !j.isBusy {
		w.writeNote(k)
	}
}

func (w *World) writeNote(k *keeper) {
	j, m := &k.journal, k.host
	n, knows := *j.next, j.knows
	j.next, j.isBusy = nil, true
	took := w.keeperTakes(200 * time.Microsecond)
	if n.IsSync {
		took += w.keepers.upTo(m.disk.slow)
	}
	j.write = func() {
		m.hooks.disk.write(m, n)
		m.hooks.isNoted = m.hooks.isNoted || knows == m.hooks.lost
	}
	w.after(took, func() {
		if k.isOver {
			return // it has died with its keeper, or not
		}
		var err error
		if m.disk.full || m.disk.errors {
			err = errDisk
		} else {
			j.write()
		}
		if n.IsBegin || n.IsLast {
			takes := w.keeperTakes(200 * time.Microsecond)
			if w.keepers.cut.more {
				takes += w.saying(k)
			}
			if w.resources.staysAway && n.IsBegin && w.keepers.oneIn(2) {
				takes += w.keepers.upTo(hooks.FirstPause)
			}
			w.tellKeeper(k, takes, hooks.Noted{Number: n.Number, Err: err})
		}
		if j.isBusy = false; j.next != nil && !k.isOver {
			w.writeNote(k)
		}
	})
}

// breakOff ends a keeper's write as its death does: before the file was there, or after.
func (w *World) breakOff(k *keeper) {
	if d := &k.host.disk; k.journal.isBusy && !d.full && !d.errors && w.keepers.oneIn(2) {
		k.journal.write()
	}
}

// write puts a note in the place of the one before.
func (d *notes) write(m *machine, n hooks.Note) {
	if d.page = n.Page; n.IsSync && !m.disk.lies {
		d.synced = n.Page
	}
}

// losePower leaves what was synced, or what the kernel has written since.
func (d *notes) losePower(w *World) {
	if w.keepers.isPlain || w.keepers.oneIn(2) {
		d.page = d.synced
	}
	d.synced = d.page
}
