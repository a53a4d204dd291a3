package agent

import (
	"time"

	"github.com/bully-agent/bully-agent/internal/durable"
)

// BootClock gives a clock that goes on while the machine is suspended, which
// Go's own monotonic clock does not (golang/go#24595), and that nobody can set:
// leases and silences are measured with it. Its readings look like wall time as
// of the clock's creation, so that logs make sense; they are for comparing with
// each other.
func BootClock() func() time.Time {
	start, boot := time.Now().Round(0), durable.BootTime()
	return func() time.Time { return start.Add(durable.BootTime() - boot) }
}

// wallClock is for people and hooks: when something happened, never how long.
func wallClock() time.Time { return time.Now() }
