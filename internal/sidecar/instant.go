package sidecar

import (
	"time"

	"github.com/bully-agent/bully-agent/internal/durable"
)

// Instant is a reading of CLOCK_BOOTTIME in nanoseconds, the same in all processes of a
// machine. 0 is none.
type Instant int64

// Now reads the clock.
func Now() Instant { return Instant(durable.BootTime()) }

// Add is the instant that much later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub is how much later than j this is.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Time is the instant as a time, for comparing with others of its kind; zero if it is none.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i))
}

// At is the reverse of Time.
func At(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return max(Instant(t.UnixNano()), 1)
}

// Convert turns a deadline on the caller's clock into an instant; the zero time is none.
// Our clock is read first: a caller that is stopped between the two readings gets a
// deadline that is too early, never one that is too late.
func Convert(deadline time.Time, clock func() time.Time) Instant {
	if deadline.IsZero() {
		return 0
	}
	at := Now()
	return max(at.Add(deadline.Sub(clock())), 1)
}
