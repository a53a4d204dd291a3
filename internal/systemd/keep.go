package systemd

import (
	"context"
	"fmt"
	"time"
)

// Keep watches the unit until ctx ends, and returns nil. Else it says why this host has the unit no more: it has failed, or
// somebody has stopped it, and systemd does not start it again within the limits that the unit sets itself. A part that was
// started with it and fails is its failure, too.
//
// D-Bus that goes away says nothing about the unit: Keep connects again, for as long as it takes.
func (u *Unit) Keep(ctx context.Context) error {
	isLost := false
	for pause := firstPause; ; pause = min(2*pause, lookEvery) {
		failure, err := u.watch(ctx, func() {
			if isLost {
				u.note(fmt.Sprintf("systemd answers again; unit %s is %s", u.name, u.State()))
			}
			isLost, pause = false, firstPause
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case failure != nil && !u.isPaused.Load():
			return failure
		case failure != nil:
			<-ctx.Done()
			return nil
		case !isLost:
			isLost = true
			u.note(fmt.Sprintf("unit %s cannot be watched until systemd answers: %v", u.name, err))
			u.say(u.State() + ", when systemd answered last")
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// firstPause is before the first attempt to connect again; each further pause is twice as long. Arbitrary.
const firstPause = 50 * time.Millisecond

// watch looks at the unit whenever something is heard of it. It returns its failure, or that of the connection.
func (u *Unit) watch(ctx context.Context, seen func()) (failure, err error) {
	b, err := u.dial(ctx, newEar())
	if err != nil {
		return nil, err
	}
	defer b.close()
	for {
		all, err := u.see(ctx, b)
		if err != nil {
			return nil, err
		}
		seen()
		u.noteRestarts(all[0])
		if failure := isLost(all); failure != nil {
			return failure, nil
		}
		isSame, err := b.watch(ctx, all)
		if err != nil {
			return nil, err
		}
		if !isSame {
			continue // it may have changed since it was looked at
		}
		if !b.wait(ctx, lookEvery) {
			return nil, errGone
		}
	}
}

func (u *Unit) noteRestarts(f facts) {
	if f.restarts > u.restarts {
		u.note(fmt.Sprintf("unit %s was restarted by systemd, %d times so far", u.name, f.restarts))
	}
	u.restarts = f.restarts
}

// isLost says why the host has the unit no more. What starts, stops or has a job may be up again soon: systemd bounds that.
func isLost(all []facts) error {
	unit := all[0]
	if unit.isDown() {
		if unit.active == "inactive" {
			return fmt.Errorf("unit %s failed: it was stopped, or has ended by itself", unit.name)
		}
		return fmt.Errorf("unit %s failed: %s", unit.name, unit.why())
	}
	for _, part := range all[1:] {
		if part.isPulled && part.hasFailed() {
			return fmt.Errorf("unit %s failed: its part %s failed: %s", unit.name, part.name, part.why())
		}
	}
	return nil
}
