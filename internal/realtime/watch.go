package realtime

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// A loop that runs away at this priority would take the machine along, and so would a
// flood of datagrams that must be looked at. Well behaved, an agent uses some percent
// of one processor; who uses more than mostUsed becomes ordinary, and competes as
// everybody does, until it has been quiet. The kernel's own bound, 95 % of each
// second, stands behind it.
//
// RLIMIT_RTTIME would not do: children inherit it, a flood blocks now and then,
// which starts its count anew, and its signal is taken by the same runtime as this.
const (
	lookEvery = 2 * time.Second // arbitrary: a machine bears so much
	mostUsed  = 50              // percent of one processor in that time; arbitrary
	restFor   = time.Minute     // without real time, from the last excess; arbitrary
)

// Watch lowers this process while it uses too much, and raises it again; tell is
// called with what is in force after each change. It returns when ctx ends, at once if
// real time is not in force.
func Watch(ctx context.Context, tell func(State)) {
	if !Current().Realtime {
		return
	}
	nice := niceness()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	u := usage{at: time.Now(), cpu: used()}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		wants, percent := u.look(time.Now(), used())
		if s, changed := obey(wants, percent, nice); changed {
			tell(s)
		}
	}
}

// usage is what was used when, and what follows.
type usage struct {
	at      time.Time
	cpu     time.Duration
	resting time.Time // ordinary until then; zero: it is not
}

// look takes what has been used by now. It reports whether real time is right, and the
// share of one processor since the last look.
func (u *usage) look(now time.Time, cpu time.Duration) (realtime bool, percent int) {
	passed := max(now.Sub(u.at), 1)
	percent = int(100 * (cpu - u.cpu) / passed)
	u.at, u.cpu = now, cpu
	if percent > mostUsed {
		u.resting = now.Add(restFor)
	}
	return !now.Before(u.resting), percent
}

// obey makes it so, if it is not.
func obey(realtime bool, percent, nice int) (s State, changed bool) {
	mu.Lock()
	defer mu.Unlock()
	switch {
	case realtime == state.Realtime:
		return state, false
	case realtime:
		if err := raise(); err != nil {
			changed = state.Why != err.Error()
			state.Why = err.Error()
			return state, changed
		}
		state.Realtime, state.Why = true, ""
	default:
		state.Realtime = false
		state.Why = fmt.Sprintf("%d %% of a processor was used for %v: a flood, or a fault of the agent's; it is tried again after a quiet minute", percent, lookEvery)
		if err := lower(nice); err != nil {
			state.Why += " (" + err.Error() + ")"
		}
	}
	return state, true
}

// used is the processor time of all threads, the kernel's part included.
func used() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0 // cannot fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// niceness is what an ordinary thread of this process has.
func niceness() int {
	const zero = 20 // the system call tells 20 - nice, so that no result is negative
	n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	return zero - n
}
