// Package ending says until when a command may run, and how it is ended. It decides from times
// alone; package run has the processes.
package ending

import (
	"errors"
	"time"
)

// The ending of a command is the same for all: TERM, a grace, KILL. KILL sent is not yet dead.

const (
	// KillSlack is left between KILL and the moment when all must be dead, for the kernel to
	// deliver it; a tenth of the room where that is short. From what busy hosts show, with
	// room to spare.
	KillSlack = 20 * time.Millisecond

	// MinGrace is between TERM and KILL in any case.
	MinGrace = time.Millisecond

	// Unkillable is how long after KILL a command is said to be stuck: it hangs in the
	// kernel, mostly on a disk or a network file system.
	Unkillable = 2 * time.Second

	// PollFirst and pollMost are between two looks at processes that cannot be waited for,
	// since they are nobody's children of ours.
	PollFirst = 2 * time.Millisecond
	pollMost  = 50 * time.Millisecond

	// DrainGrace is how long output is awaited after the group is gone. Only an escaped
	// child can hold the pipe by then; a pipe's content is read in far less. Arbitrary.
	DrainGrace = 100 * time.Millisecond
)

// Slack is what KILL has, of the room until all must be dead, for its work.
func Slack(room time.Duration) time.Duration { return min(KillSlack, max(0, room)/10) }

// Poll is how long to sleep between two looks, after the ending has taken so long.
func Poll(taken time.Duration) time.Duration { return min(max(taken/4, PollFirst), pollMost) }

// TryAgain is EX_TEMPFAIL of sysexits.h: a command asks for another attempt with it.
const TryAgain = 75

// ErrTimedOut is wrapped by the end of a command whose time had ended, its own or what
// the lease left of that, however it took its TERM.
var ErrTimedOut = errors.New("timed out")

// End is how a command ended.
type End struct {
	Err  error // why it has failed; nil: it has not
	Exit int   // of its first process; -1: a signal ended that, or it hangs in the kernel
	Took time.Duration

	// IsStuck says that something of the group lives on, though it has had KILL.
	IsStuck bool
}
