package agent

import (
	"context"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
)

// maintenanceOrder is what an operator wants to be so.
type maintenanceOrder struct {
	maintenance
	must bool // though nobody else can lead
}

// maintain implements the command "maintenance".
func (a *agent) maintain(ctx context.Context, args map[string]string) error {
	w, err := parseMaintenance(args)
	if err != nil {
		return err
	}
	return a.obey(ctx, func(done func(error)) { a.seat.maintain(w, done) })
}

// parseMaintenance takes the arguments, all of which must mean something.
func parseMaintenance(args map[string]string) (w maintenanceOrder, err error) {
	for key, value := range args {
		switch {
		case key == "state" && (value == "on" || value == "off"):
			w.isOn = value == "on"
		case key == "force" && value == "true":
			w.must = true
		case key == "reason" && membership.CheckReason(value) == nil:
			w.reason = value
		case key == "reason":
			return w, badOrder("%v", membership.CheckReason(value))
		case key == "for":
			length, err := time.ParseDuration(value)
			if err != nil || length <= 0 || length > control.LongestMaintenance {
				return w, badOrder("for is %q: expected a time such as 30m, at most %v", value, control.LongestMaintenance)
			}
			w.end = hold{until: wallClock().Add(length), length: length}
		default:
			return w, badOrder("maintenance has no argument %q that is %q: expected state on or off, for, reason, force", key, value)
		}
	}
	if args["state"] == "" {
		return w, badOrder("maintenance needs a state: expected on or off")
	}
	if !w.isOn && len(args) > 1 {
		return w, badOrder("maintenance off has no further arguments")
	}
	return w, nil
}
