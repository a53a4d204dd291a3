package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// BootClock gives a clock that goes on while the machine is suspended, which
// Go's own monotonic clock does not (golang/go#24595), and that nobody can set:
// leases and silences are measured with it. Its readings look like wall time as
// of the clock's creation, so that logs make sense; they are for comparing with
// each other.
func BootClock() func() time.Time {
	start, boot := time.Now().Round(0), BootTime()
	return func() time.Time { return start.Add(BootTime() - boot) }
}

// BootTime reads CLOCK_BOOTTIME, which all processes of a machine share.
func BootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("BUG: CLOCK_BOOTTIME: " + err.Error()) // there since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}

// wallClock is for people and hooks: when something happened, never how long.
func wallClock() time.Time { return time.Now() }
