package systemd

import (
	"context"
	"fmt"
	"slices"

	"github.com/godbus/dbus/v5"
)

// Begin has systemd start the unit, and returns when it is active, with all that is PartOf= it and started with it. One that
// is active already stays as it is. If ctx ends first, systemd is still at it: End stops that.
//
// A unit that fails and that systemd starts again by itself (Restart=) is waited for.
func (u *Unit) Begin(ctx context.Context) error {
	u.isPaused.Store(false)
	if err := ParseUnit(u.name); err != nil {
		return err
	}
	b, err := u.dial(ctx, newEar())
	if err != nil {
		return fmt.Errorf("unit %s: %w", u.name, err)
	}
	defer b.close()
	all, err := u.see(ctx, b)
	if err != nil {
		return u.explain(err)
	}
	if err := all[0].isRefused(); err != nil {
		return err
	}
	b.hold(ctx, all[0].name)
	b.expect(all[0].name)
	job, err := u.order(ctx, b, all)
	if err != nil {
		return u.explain(err)
	}
	return u.awaitBegun(ctx, b, job)
}

// order gives the order to start, if there is need. What has failed in an earlier leadership counts no more in this one:
// systemd refuses to start what has hit its limit (StartLimitBurst=), and need not say that it did.
func (u *Unit) order(ctx context.Context, b *bus, all []facts) (job dbus.ObjectPath, err error) {
	isPartDown := slices.ContainsFunc(all[1:], func(part facts) bool { return part.isPulled && part.hasFailed() })
	if all[0].isActive() && !all[0].hasJob && !isPartDown {
		return "", nil
	}
	for i, f := range all {
		if f.active == "failed" && (i == 0 || f.isPulled) {
			if err := b.order(ctx, "ResetFailedUnit", f.name).Err; err != nil {
				return "", err
			}
		}
	}
	return b.start(ctx, u.name)
}

// awaitBegun returns when the unit is up, or will not be.
func (u *Unit) awaitBegun(ctx context.Context, b *bus, job dbus.ObjectPath) error {
	for {
		all, err := u.see(ctx, b)
		if err != nil {
			return u.late(ctx, err)
		}
		isUp, err := hasBegun(all, b.result(job))
		if isUp || err != nil {
			u.restarts = all[0].restarts
			return err
		}
		isSame, err := b.watch(ctx, all)
		if err != nil {
			return u.late(ctx, err)
		}
		if isSame { // else it may have changed since it was looked at
			b.wait(ctx, lookEverySoon)
		}
	}
}

// late says how the unit was when the time of its beginning ended, if that is why a call failed.
func (u *Unit) late(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return u.explain(err)
	}
	return fmt.Errorf("unit %s did not start in its time: it is %s", u.name, u.State())
}

// hasBegun reports whether a unit and its parts are up; an error says why they will not be. result is that of the job that
// started it; "" before its end, and where none was needed.
func hasBegun(all []facts, result string) (isUp bool, err error) {
	unit := all[0]
	if unit.isDown() {
		return false, fmt.Errorf("unit %s did not start: %s", unit.name, whyNot(unit, result))
	}
	if !unit.isActive() || unit.hasJob {
		return false, nil
	}
	isUp = true
	for _, part := range all[1:] {
		switch {
		case !part.isPulled:
		case part.hasFailed():
			return false, fmt.Errorf("unit %s did not start: its part %s failed: %s", unit.name, part.name, part.why())
		case part.hasJob, part.active == "activating":
			isUp = false
		}
	}
	return isUp, nil
}

// whyNot says what has kept a unit from being active.
func whyNot(f facts, result string) string {
	switch result {
	case "canceled":
		return "another order to systemd has canceled it"
	case "dependency":
		return "a unit that it needs has failed (systemctl list-dependencies " + f.name + ")"
	case "timeout":
		return "timeout of its job"
	case "done", "skipped", "":
		if f.active == "inactive" && !f.isUnmet {
			return "it has ended again (a service of Type=oneshot needs RemainAfterExit=yes)"
		}
	case "failed":
	default:
		return "systemd says " + result
	}
	return f.why()
}

// hasFailed reports whether it has, and systemd leaves it at that.
func (f facts) hasFailed() bool { return f.active == "failed" && !f.hasJob }
