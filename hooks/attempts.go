package hooks

import (
	"errors"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// A leadership hook that failed may be tried again. A become-leader hook asks for
// that by exit status 75; a lose-leadership hook is tried again whatever it says,
// since what it did not release stays taken.

const (
	// maxAttempts bounds the runs for one event (docs/hooks.md).
	maxAttempts = 3

	// FirstPause is the wait before the second attempt; each further one is
	// twice as long. Arbitrary: long enough for a service to come up, short
	// enough for a hand-over to wait for.
	FirstPause = time.Second
)

func (res Result) isWorthAnother() bool {
	switch res.Kind {
	case LoseLeadership:
		return !res.OK
	case BecomeLeader:
		return res.Exit == ending.TryAgain
	}
	return false
}

// afterAttempts has the error say that there were several.
func (res Result) afterAttempts() Result {
	if res.Err != nil && res.Attempts > 1 {
		res.Err = fmt.Errorf("%w, attempt %d", res.Err, res.Attempts)
	}
	return res
}

var errDiskHangs = errors.New("the disk does not answer")

// RecordPatience is how long a disk may take for what must be there before a
// become-leader hook. Arbitrary: a leader that is not ready serves nobody.
const RecordPatience = 5 * time.Second

// notRecorded is why a become-leader hook was not started.
func notRecorded(err error) error { return fmt.Errorf("%w: %w", ErrNotRecorded, err) }
