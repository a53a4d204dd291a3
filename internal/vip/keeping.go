package vip

import (
	"fmt"
	"slices"
	"time"
)

// keeping decides what becomes of addresses that something takes away. It has no clock: the time is handed in, and the next
// deadline is handed out.
type keeping struct {
	away    time.Time   // since when not all of them are there, on an interface that is up; zero: they are
	dark    time.Time   // since when the interface has no carrier; zero: it has
	putBack []time.Time // within putsWithin
	why     error       // of the last try that has failed; nil: none has
}

const (
	// awayMost is how long addresses may be away before they count as lost. Clients have tried again by then, and another host
	// may have them.
	awayMost = 2 * time.Second
	// darkMost is how long the interface may be without carrier. A switch that restarts a port takes longer.
	darkMost = time.Second
	// maxPuts in putsWithin: whoever takes them away again and again does not want them there. Arbitrary.
	maxPuts    = 10
	putsWithin = time.Minute
)

// sight is what the kernel says of the addresses and their interface.
type sight struct {
	name       string
	isThere    bool // the interface
	isUp       bool
	hasCarrier bool
	missing    int  // of the addresses
	mayBe      bool // some of the missing may be put there now: none would be the interface's first
	isAhead    bool // some are there, and have become the interface's first
}

// look says whether to put back what is missing, and why the addresses cannot be kept any more; both are no while they are
// waited for, until then at the latest.
func (k *keeping) look(at time.Time, s sight) (puts bool, until time.Time, failed error) {
	k.putBack = slices.DeleteFunc(k.putBack, func(t time.Time) bool { return at.Sub(t) >= putsWithin })
	mark(&k.dark, at, s.isThere && s.isUp && !s.hasCarrier)
	mark(&k.away, at, s.missing > 0 || s.isThere && !s.isUp) // the kernel leaves addresses of IPv4 to an interface that is down
	puts = s.isThere && s.isUp && (s.missing > 0 && s.mayBe || s.isAhead)
	switch {
	case k.isOver(k.dark, at, darkMost):
		return false, at, fmt.Errorf("%s has no carrier", s.name)
	case k.isOver(k.away, at, awayMost):
		return false, at, k.reason(s)
	case puts && len(k.putBack) >= maxPuts:
		return false, at, fmt.Errorf("they were taken from %s %d times within %v", s.name, maxPuts, putsWithin)
	}
	return puts, k.deadline(), nil
}

// mark keeps since when something is so.
func mark(since *time.Time, at time.Time, isSo bool) {
	switch {
	case !isSo:
		*since = time.Time{}
	case since.IsZero():
		*since = at
	}
}

func (k *keeping) isOver(since, at time.Time, most time.Duration) bool {
	return !since.IsZero() && at.Sub(since) >= most
}

// deadline is when the next verdict may be another; zero: when something changes.
func (k *keeping) deadline() (at time.Time) {
	if !k.dark.IsZero() {
		at = k.dark.Add(darkMost)
	}
	if by := k.away.Add(awayMost); !k.away.IsZero() && (at.IsZero() || by.Before(at)) {
		at = by
	}
	return at
}

// reason is why addresses are away.
func (k *keeping) reason(s sight) error {
	switch {
	case !s.isThere:
		return fmt.Errorf("there is no interface %s any more", s.name)
	case !s.isUp:
		return fmt.Errorf("%s is down", s.name)
	case k.why != nil:
		return k.why
	}
	return fmt.Errorf("%s has no address of its own any more", s.name)
}

// put notes a try to put them back. One that fails is no taking.
func (k *keeping) put(at time.Time, err error) {
	if k.why = err; err == nil {
		k.putBack = append(k.putBack, at)
	}
}
