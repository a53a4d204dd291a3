package guard

import (
	"time"

	"golang.org/x/sys/unix"
)

// instant is a reading of CLOCK_BOOTTIME in nanoseconds, the same in all
// processes of a machine. 0 is none.
type instant int64

func now() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("BUG: CLOCK_BOOTTIME: " + err.Error()) // there since Linux 2.6.39
	}
	return instant(ts.Nano())
}

func (i instant) add(d time.Duration) instant { return i + instant(d) }

func (i instant) sub(j instant) time.Duration { return time.Duration(i - j) }

// earlier is the earlier of two, of which either may be none.
func earlier(a, b instant) instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// convert turns a deadline on the caller's clock into an instant; the zero time
// is none. Our clock is read first: a caller that is stopped between the two
// readings gets a deadline that is too early, never one that is too late.
func convert(deadline time.Time, clock func() time.Time) instant {
	if deadline.IsZero() {
		return 0
	}
	at := now()
	return max(at.add(deadline.Sub(clock())), 1)
}
