package agent

import (
	"errors"
	"net/http"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
)

// maintenance of this host: an operator is at work on it, and it does not lead.
// The state file keeps it over restarts and reboots, on disk before anybody is told.
type maintenance struct {
	isOn   bool
	end    hold // zero: an operator ends it
	reason string
}

func appendMaintenance(b []byte, w maintenance) []byte {
	on := byte(0)
	if w.isOn {
		on = 1
	}
	b = appendHold(append(b, on), w.end)
	return append(append(b, byte(len(w.reason))), w.reason...)
}

// cutMaintenance takes what appendMaintenance wrote off the end of b, which has at least so many bytes and
// the voters before it. It begins where they, an epoch and a hold-down end.
func cutMaintenance(b []byte, head int) (rest []byte, w maintenance, err error) {
	if len(b) < head {
		return nil, maintenance{}, errSense
	}
	start := head + 16*int(b[head-1]) + epochSize + holdSize
	if len(b) < start+2+holdSize || len(b) != start+2+holdSize+int(b[start+1+holdSize]) || b[start] > 1 {
		return nil, maintenance{}, errSense
	}
	w.isOn, w.reason = b[start] == 1, string(b[start+2+holdSize:])
	if w.end, err = decodeHold(b[start+1:start+1+holdSize], control.LongestMaintenance); err != nil {
		return nil, maintenance{}, err
	}
	if membership.CheckReason(w.reason) != nil || !w.isOn && w != (maintenance{}) {
		return nil, maintenance{}, errSense
	}
	return b[:start], w, nil
}

// isOver: it was to end by itself, and has.
func (w maintenance) isOver(wall time.Time) bool {
	return w.isOn && !w.end.until.IsZero() && w.end.left(wall) == 0
}

// maintain has the node barred or not, on disk first; done is called once.
func (s *seat) maintain(w maintenanceOrder, done func(error)) {
	before := s.state.maintenance
	if err := s.keepMaintenance(w.maintenance); err != nil {
		done(&control.APIError{Status: http.StatusInternalServerError, Code: "disk_failed",
			Message: "maintenance was not changed: " + err.Error()})
		return
	}
	switch {
	case !w.isOn:
		s.step(election.Barred{Bar: election.BarMaintenance})
		s.tellMaintenance("maintenance ended")
		done(nil)
	case before.isOn: // with another reason or end
		s.tellMaintenance("maintenance changed")
		done(nil)
	default:
		s.command(election.Command{Verb: election.Maintain, Force: w.must}, func(err error) {
			if err != nil {
				_ = s.keepMaintenance(maintenance{}) // a failure is known; the next save has it
				s.publish()
				done(s.notMaintained(err))
				return
			}
			s.tellMaintenance("maintenance began")
			done(nil)
		})
	}
}

// keepMaintenance writes it down. After an error the disk, and this agent, have what was before.
func (s *seat) keepMaintenance(w maintenance) error {
	before := s.state.maintenance
	if w == before {
		return nil
	}
	s.state.maintenance = w
	err := s.save(s.state.saved)
	if err != nil {
		s.state.maintenance = before
		s.onDiskFailed(err)
	}
	return err
}

func (s *seat) notMaintained(reason error) error {
	if errors.Is(reason, election.ErrNobodyReady) {
		return &control.APIError{Status: http.StatusConflict, Code: "nobody_ready", Message: "nobody else can lead",
			Hint: "--force leads to no leader; nothing was changed"}
	}
	return s.refused(order{verb: election.Maintain, what: "begin maintenance"}, reason)
}

// tellMaintenance says what became of it.
func (s *seat) tellMaintenance(text string) {
	if w := s.state.maintenance; w.isOn && w.reason != "" {
		text += ": " + w.reason
	}
	s.log.Info(text)
	s.around.event(control.Event{Type: "warning", Cause: string(election.Maintenance), Text: text})
	s.publish()
}

// resumeMaintenance has a new life begin with the maintenance of the last.
func (s *seat) resumeMaintenance() {
	if s.state.maintenance.isOver(wallClock()) {
		s.state.maintenance = maintenance{} // on disk with the next save
	}
	if s.state.maintenance.isOn {
		s.step(election.Barred{Bar: election.BarMaintenance, On: true})
		s.tellMaintenance("maintenance goes on")
	}
}

// endMaintenance ends maintenance when its time has ended. It is called once a second.
func (s *seat) endMaintenance() {
	if s.state.maintenance.isOver(wallClock()) && s.diskAt.IsZero() {
		s.maintain(maintenanceOrder{}, func(error) {})
	}
}

// isMaintained: the host is in maintenance, and not about to be.
func isMaintained(status election.Status) bool { return status.Bars.Has(election.BarMaintenance) }

// maintenanceNotes tell of it on this host.
func (s *seat) maintenanceNotes(status election.Status) []string {
	if !isMaintained(status) {
		return nil
	}
	text := "in maintenance"
	if w := s.state.maintenance; w.reason != "" {
		text += " (" + w.reason + ")"
	}
	if until := s.state.maintenance.end.until; !until.IsZero() {
		text += " until " + until.Round(time.Second).Format(time.RFC3339)
	}
	return []string{text + ", so this host cannot lead; bully-agent maintenance off ends that"}
}

// controlMaintenance is how clients see it; nil: there is none.
func (w maintenance) controlMaintenance(status election.Status) *control.Maintenance {
	if !isMaintained(status) {
		return nil
	}
	return &control.Maintenance{Reason: w.reason, Until: w.end.until}
}
