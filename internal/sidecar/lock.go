package sidecar

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// A sidecar holds the lock (flock) of a file for as long as it lives: whoever gets it knows
// that the sidecar is gone.

// Owner is the sidecar that holds a lock, by its own word.
type Owner struct {
	Process  int           `json:"process"`  // 0: it has not come to say
	Patience time.Duration `json:"patience"` // how long it may work without its starter
}

// Room is more than a lease and a takeover delay last: what a sidecar may work without
// its starter before its command has to end. Arbitrary.
const Room = 10 * time.Second

// ErrStillWorks is returned for a lock whose owner may not be killed, or did not die of it.
var ErrStillWorks = errors.New("it still works")

// Outwait gets the lock of a file. It waits for an owner that still works, and asks for that
// then; one that works for longer than it may is killed.
func Outwait(ctx context.Context, file *os.File, owner func() Owner) error {
	if err := await(ctx, file, 0); !errors.Is(err, ErrStillWorks) {
		return err
	}
	o := owner()
	if o.Patience <= 0 {
		o.Patience = Room
	}
	err := await(ctx, file, o.Patience)
	if !errors.Is(err, ErrStillWorks) || o.Process <= 1 {
		return err
	}
	_ = unix.Kill(o.Process, unix.SIGKILL) // it lives, since it has the lock: the number is its own
	return await(ctx, file, ending.Unkillable)
}

// lockPause is between two tries of a lock. Arbitrary.
const lockPause = 5 * time.Millisecond

// await gets the lock within that time.
func await(ctx context.Context, file *os.File, within time.Duration) error {
	for late := time.Now().Add(within); ; {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return err
		case time.Now().After(late):
			return ErrStillWorks
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
