package hooks

import (
	"context"
	"time"
)

// The seam to package guard, which imports this one.

// Guards starts the guards of leaderships: a process of its own each, which runs the
// lose-leadership hook when the agent is dead or silent.
type Guards interface {
	// Start starts one, and does not wait for more than that.
	Start(GuardOrder) (Guard, error)
	// Recover tells what the guards of an earlier life have done, oldest first. It
	// waits for those that are still at work, until ctx ends, and says for which
	// process.
	Recover(ctx context.Context, waits func(process int)) ([]GuardRecord, error)
}

// GuardOrder is what a guard has to know.
type GuardOrder struct {
	// Lose is what the hook is told; kind, cause, time and bound are the guard's.
	Lose           Event
	Command        Command
	Timeout, Grace time.Duration
	Dir, Socket    string    // as in Config
	Deadline       time.Time // of the lease, on the agent's clock; zero: none
}

// Guard is a guard that was started. All methods may be called by any goroutine,
// and none blocks.
type Guard interface {
	// Renew moves the deadline; the zero time takes it away.
	Renew(deadline time.Time)
	// Yield says that the agent runs the hook itself, and takes the deadline away.
	// The guard takes over if the agent dies all the same, or if a deadline that
	// Renew sets after that has passed, the takeover delay with it.
	Yield()
	// Yielded is closed when the guard has answered Yield, or has ended.
	Yielded() <-chan struct{}
	// Losing is closed when the guard has taken over.
	Losing() <-chan struct{}
	// Stop ends a guard whose leadership may go on. If the agent dies meanwhile it
	// takes over.
	Stop()
	// Release is Stop when the leadership has been dealt with: there is nothing left
	// to do for the guard, whoever dies.
	Release()
	// Done is closed when the guard has ended.
	Done() <-chan struct{}
	// Status is what is known of it now.
	Status() GuardStatus
	// Forget removes what it has left on disk, once it has ended.
	Forget() error
}

// GuardStatus describes a guard.
type GuardStatus struct {
	Process int    // process id; 0: it has not started yet
	Reach   string // for people: what it can end, and what not
	// TookOver is set when it has begun to run the lose-leadership hook, and Began is
	// when (CLOCK_BOOTTIME). Lose is how that ended, if HasEnded says that it has: a
	// guard that was killed leaves that open.
	TookOver bool
	Began    time.Duration
	HasEnded bool
	Lose     Result
	Err      string // what went wrong; empty if nothing did
}

// GuardRecord is what a guard of an earlier life has left.
type GuardRecord struct {
	Epoch  Epoch
	Status GuardStatus
	Forget func() error
}
