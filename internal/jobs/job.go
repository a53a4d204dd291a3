package jobs

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Limits of a table of jobs. They bound the ledger, which every agent keeps and
// sends to the others.
const (
	MaxJobs = 128 // jobs of one cluster
	MaxName = 63  // bytes of a job's name
)

// Limits of a job.
const (
	DefaultTimeout = 24 * time.Hour      // of a job that sets none
	MaxTimeout     = 31 * 24 * time.Hour // arbitrary; a longer one would block a vanished host's job for ever
	DefaultDelay   = 10 * time.Second    // before the first retry, arbitrary
	MaxDelay       = time.Hour           // to which the delay of retries doubles
	MaxRetries     = 20                  // arbitrary; a job that fails so often wants a person
)

// Job is the definition of one singleton job, the same on every host.
type Job struct {
	// Name is unique and matches [A-Za-z0-9][A-Za-z0-9._-]{0,62}: it is in file
	// names, command lines, environments and on the wire.
	Name     string
	Schedule Schedule

	// Timeout bounds each attempt, whole seconds; zero means DefaultTimeout.
	// Higher lets slow runs end, and lets the run of a vanished host block the
	// job for longer.
	Timeout time.Duration

	Overlap Overlap
	Missed  Missed

	// StartingDeadline is how late a slot may still start; zero means however
	// late.
	StartingDeadline time.Duration

	// Retries is how many more attempts a run has after one that failed or
	// timed out, on the same host while it leads. The first comes after
	// RetryDelay (zero: DefaultDelay), and each further one after twice the
	// delay before, at most MaxDelay.
	Retries    int
	RetryDelay time.Duration

	OnLoss OnLoss
}

// Overlap says what becomes of a slot that comes during a run of the same job.
type Overlap uint8

// AtOnce is how many runs of the job may go on at a time.
func (j Job) AtOnce() int {
	if j.Overlap == OverlapAllow {
		return MaxActive
	}
	return 1
}

// The overlap policies, in the words of the configuration file.
const (
	OverlapForbid  Overlap = iota // it is skipped
	OverlapQueue                  // it waits for the end of the run
	OverlapReplace                // it ends the run
	OverlapAllow                  // it runs as well
)

// Missed says what becomes of slots that came while this host did not lead, but for
// those of the failover (FailoverGrace).
type Missed uint8

// The policies for missed slots.
const (
	MissedSkip Missed = iota // they are skipped
	MissedOnce               // the newest runs, for all of them
	MissedAll                // they all run, at most MaxPending
)

// OnLoss says what becomes of a run whose host stops leading.
type OnLoss uint8

// The policies for a lost leadership.
const (
	OnLossKill   OnLoss = iota // it is ended before the lease has ended
	OnLossFinish               // it goes on, and blocks the next leader
)

var (
	overlapWords = [...]string{OverlapForbid: "forbid", OverlapQueue: "queue", OverlapReplace: "replace", OverlapAllow: "allow"}
	missedWords  = [...]string{MissedSkip: "skip", MissedOnce: "once", MissedAll: "all"}
	onLossWords  = [...]string{OnLossKill: "kill", OnLossFinish: "finish"}
)

// String gives the policy's word.
func (o Overlap) String() string { return wordOf(overlapWords[:], int(o)) }

// String gives the policy's word.
func (m Missed) String() string { return wordOf(missedWords[:], int(m)) }

// String gives the policy's word.
func (o OnLoss) String() string { return wordOf(onLossWords[:], int(o)) }

func wordOf(words []string, i int) string {
	if i < len(words) && words[i] != "" {
		return words[i]
	}
	return "unknown"
}

// IsName reports whether s can be a job's name. It can be a file's, too, and is neither
// an option nor hidden.
func IsName(s string) bool { return isFormerName(s) && strings.IndexByte("._-", s[0]) < 0 }

// isFormerName is IsName as it was when names could begin with any of its characters:
// ledgers may have some.
func isFormerName(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return 1 <= len(s) && len(s) <= MaxName
}

// Check says what is wrong with the job, all of it; the text of each error
// begins with the configuration's key.
func (j *Job) Check() error {
	var errs []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(!IsName(j.Name), "name %q: expected 1 to %d letters, digits, dots, dashes or underscores, first a letter or digit", j.Name, MaxName)
	refuse(j.Schedule.text == "", "schedule: expected one, such as %q", "30 2 * * *")
	refuse(j.Timeout < 0 || j.Timeout > MaxTimeout || j.Timeout%time.Second != 0,
		"timeout %v: expected whole seconds up to %v, or 0 for %v", j.Timeout, MaxTimeout, DefaultTimeout)
	refuse(int(j.Overlap) >= len(overlapWords), "overlap: expected forbid, queue, replace or allow")
	refuse(int(j.Missed) >= len(missedWords), "missed: expected skip, once or all")
	refuse(j.StartingDeadline < 0, "starting_deadline %v: expected a time, or 0 for none", j.StartingDeadline)
	refuse(j.Retries < 0 || j.Retries > MaxRetries, "retries %d: expected 0 to %d", j.Retries, MaxRetries)
	refuse(j.RetryDelay < 0 || j.RetryDelay > MaxDelay, "retry_delay %v: expected up to %v, or 0 for %v", j.RetryDelay, MaxDelay, DefaultDelay)
	refuse(int(j.OnLoss) >= len(onLossWords), "on_loss: expected kill or finish")
	return errors.Join(errs...)
}

// timeout bounds one attempt.
func (j *Job) timeout() time.Duration {
	if j.Timeout > 0 {
		return j.Timeout
	}
	return DefaultTimeout
}

// delay is how long after the attempt-th attempt the next one comes.
func (j *Job) delay(attempt uint8) time.Duration {
	d := j.RetryDelay
	if d == 0 {
		d = DefaultDelay
	}
	for range attempt - 1 {
		if d *= 2; d > MaxDelay {
			return MaxDelay
		}
	}
	return d
}
