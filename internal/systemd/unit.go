// Package systemd has units that a host has while it leads started, watched and stopped by systemd, over D-Bus.
//
//	unit.go   Unit: what its owner calls
//	begin.go  started, and until it is up
//	keep.go   watched: has it failed for good?
//	end.go    stopped, with all that is PartOf= it
//	check.go  what can be said before
//	facts.go  what systemd says of a unit
//	bus.go    a connection with systemd; ear.go: whose signals are believed
//
// Facts decide, not signals: a signal that was lost, or forged, only changes when they are read.
package systemd

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Unit is a unit of systemd that this host has while it leads. Its owner calls Begin, Keep and End one at a time, Pause and
// State at any time. No call outlives its context by more than the kernel takes to say no.
type Unit struct {
	name string
	note func(string)
	dial dial

	isPaused atomic.Bool
	state    atomic.Pointer[string]
	restarts uint32 // by systemd, that need no note
}

// lookEvery is how often a unit is looked at that nothing is heard of: a signal may be lost. Arbitrary.
const (
	lookEvery     = 2 * time.Second
	lookEverySoon = 500 * time.Millisecond // while somebody waits for it
)

// NewUnit makes the Unit of a name, of which nothing is asked yet. note gets what is worth a line in the log.
func NewUnit(name string, note func(string)) *Unit {
	return &Unit{name: name, note: note, dial: open}
}

// Pause has Keep report nothing any more, until the next Begin: the unit may be stopped from now on.
func (u *Unit) Pause() { u.isPaused.Store(true) }

// State is how the unit was when it was looked at last, in one line; empty: it was not.
func (u *Unit) State() string {
	if s := u.state.Load(); s != nil {
		return *s
	}
	return ""
}

func (u *Unit) say(state string) { u.state.Store(&state) }

// see reads the unit and its parts, and remembers how it is.
func (u *Unit) see(ctx context.Context, b *bus) ([]facts, error) {
	all, err := b.lookAll(ctx, u.name)
	if err == nil {
		u.say(all[0].String())
	}
	return all, err
}

// Test says why the unit could not begin now. It changes nothing.
func (u *Unit) Test(ctx context.Context) error {
	if err := ParseUnit(u.name); err != nil {
		return err
	}
	b, err := u.dial(ctx, newEar())
	if err != nil {
		return fmt.Errorf("unit %s: %w", u.name, err)
	}
	defer b.close()
	f, err := b.look(ctx, u.name)
	if err != nil {
		return u.explain(err)
	}
	return f.isRefused()
}

// explain puts what systemd answers to an order into people's words.
func (u *Unit) explain(err error) error {
	if isDenied(err) {
		return fmt.Errorf("unit %s: systemd takes no order of this user (%w): expected root, or a rule of polkit for org.freedesktop.systemd1.manage-units", u.name, err)
	}
	return fmt.Errorf("unit %s: %w", u.name, err)
}

// isDenied reports whether systemd takes no order of this user.
func isDenied(err error) bool {
	return isNamed(err, "org.freedesktop.DBus.Error.AccessDenied", "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired",
		"org.freedesktop.DBus.Error.AuthFailed")
}
