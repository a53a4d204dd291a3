package guard

import "time"

// scribe writes reports to the record, in order and on a goroutine of its own: a disk
// that hangs delays no ending and no lose-leadership hook.
type scribe struct {
	todo chan note
	done chan struct{} // closed when all is written
	err  error         // of the last write, once done is closed
}

type note struct {
	report Report
	synced bool
}

const (
	// maxNotes is more than a guard has stages: nobody waits for room.
	maxNotes = 8

	// notePatience is how long a guard that has ended waits for its record.
	// Arbitrary: a disk that hangs may do so for ever.
	notePatience = 2 * time.Second
)

func newScribe(r *record) *scribe {
	s := &scribe{todo: make(chan note, maxNotes), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for n := range s.todo {
			s.err = r.note(n.report, n.synced)
		}
	}()
	return s
}

// finish writes the last report. It gives the error, and does not wait for a disk
// that hangs.
func (s *scribe) finish(last note) error {
	s.todo <- last
	close(s.todo)
	select {
	case <-s.done:
		return s.err
	case <-time.After(notePatience):
		return errDiskHangs
	}
}
