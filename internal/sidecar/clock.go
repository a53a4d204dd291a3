package sidecar

import (
	"time"

	"github.com/bully-agent/bully-agent/internal/durable"
)

// Agent, keeper and holders tell deadlines by CLOCK_BOOTTIME, which is the same in all processes of a
// machine: as times since 1970, for comparing with others of their kind. The zero time is none.

// Now reads the clock.
func Now() time.Time { return time.Unix(0, int64(durable.BootTime())) }

// Convert gives a deadline on the caller's clock by ours; the zero time is none.
// Our clock is read first: a caller that is stopped between the two readings gets a
// deadline that is too early, never one that is too late.
func Convert(deadline time.Time, clock func() time.Time) time.Time {
	if deadline.IsZero() {
		return deadline
	}
	at := Now()
	return at.Add(deadline.Sub(clock()))
}

// Nano is a time as the kernel is told it, and as bytes have it: 0 is none, and what is long past is 1.
func Nano(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return max(at.UnixNano(), 1)
}
