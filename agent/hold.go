package agent

import (
	"encoding/binary"
	"net/http"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
)

// hold is a hold-down that an operator asked for (step-down --for), as the state
// file keeps it over restarts and reboots. No clock but the wall clock goes on
// while a machine is off, and that one may be wrong: length bounds what it can
// make of the hold-down. Whatever it says, a node that stands early or late is a
// matter of liveness, never of safety.
type hold struct {
	until  time.Time     // wall clock; zero: no hold-down
	length time.Duration // what was left of it when it was written
}

const holdSize = 16 // of a hold in the state file

// left is how much of the hold-down is to come. A clock that was set back makes
// it no longer than it was asked for.
func (h hold) left(wall time.Time) time.Duration {
	if h.until.IsZero() {
		return 0
	}
	return max(min(h.until.Sub(wall), h.length), 0)
}

func appendHold(b []byte, h hold) []byte {
	until := int64(0)
	if !h.until.IsZero() {
		until = h.until.UnixNano()
	}
	b = binary.BigEndian.AppendUint64(b, uint64(until))
	return binary.BigEndian.AppendUint64(b, uint64(h.length))
}

// decodeHold reads what appendHold wrote; anything else is refused.
func decodeHold(b []byte, longest time.Duration) (hold, error) {
	until, length := int64(binary.BigEndian.Uint64(b)), time.Duration(binary.BigEndian.Uint64(b[8:]))
	switch {
	case until == 0 && length == 0:
		return hold{}, nil
	case until == 0 || length <= 0 || length > longest:
		return hold{}, errSense
	}
	return hold{until: time.Unix(0, until), length: length}, nil
}

// keepHold puts the hold-down that the node has just begun on disk, before the
// operator is told that it did.
func (s *seat) keepHold() error {
	length := min(s.node.Status().Held.Sub(s.around.now()), longestHold)
	if length <= 0 {
		return nil // nothing came of the command
	}
	s.state.hold = hold{until: wallClock().Add(length), length: length}
	err := s.save(s.state.saved)
	if err == nil {
		return nil
	}
	s.onDiskFailed(err) // written with the next attempt
	return &control.APIError{Status: http.StatusInternalServerError, Code: "disk_failed",
		Message: "this host stepped down, but a restart of its agent before the disk takes writes again forgets for how long: " + err.Error()}
}

// forgetHold takes a hold-down that has ended from the disk: a host without a battery
// for its clock comes back in 1970, where it would begin once more. It is called once a
// second.
func (s *seat) forgetHold() {
	if s.state.hold.until.IsZero() || !s.node.Status().Held.IsZero() || !s.diskAt.IsZero() {
		return
	}
	s.state.hold = hold{}
	if err := s.save(s.state.saved); err != nil {
		s.onDiskFailed(err) // written with the next attempt
	}
}

// stand ends a hold-down before its time, on disk first.
func (s *seat) stand(done func(error)) {
	if s.beside {
		done(&control.APIError{Status: http.StatusConflict, Code: "busy", Message: "this host may not lead yet, nothing was changed: " + s.lastLifeNote(),
			Hint: "it may lead when that has ended"})
		return
	}
	if before := s.state.hold; !before.until.IsZero() {
		s.state.hold = hold{}
		if err := s.save(s.state.saved); err != nil {
			s.state.hold = before
			done(&control.APIError{Status: http.StatusInternalServerError, Code: "disk_failed",
				Message: "this host may not lead yet, nothing was changed: " + err.Error()})
			s.onDiskFailed(err)
			return
		}
	}
	s.isHeldBack = false
	s.command(election.Command{Verb: election.Stand}, func(err error) {
		s.publish()
		done(err)
	})
}

// holdNotes say why this host does not stand, and for a hold-down of which so much is
// left, until when.
func (s *seat) holdNotes(left time.Duration) (notes []string) {
	if s.beside {
		notes = append(notes, s.lastLifeNote())
	}
	if left > 0 {
		notes = append(notes, "this host stepped down and cannot lead before "+
			wallClock().Add(left).Round(time.Second).Format(time.RFC3339)+"; bully-agent step-down --end ends that")
	}
	return notes
}
