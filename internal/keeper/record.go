package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/run"
)

// fileName is a file in the state directory whose lock a keeper holds for as long as it
// lives: whoever gets it knows that there is none.
const fileName = "keeper.json"

// holder is what the file holds.
type holder struct {
	Process int `json:"process"`
	// Patience is how long it may work without its agent.
	Patience time.Duration `json:"patience"`
}

const (
	// leaseRoom is more than a lease and a takeover delay last. Arbitrary.
	leaseRoom = 10 * time.Second

	// lockPause is between two tries of a lock. Arbitrary.
	lockPause = 5 * time.Millisecond

	// unknownPatience is for a keeper that has not come to say its own. Arbitrary.
	unknownPatience = leaseRoom
)

// patienceWith is how long a keeper may work for an agent that is dead: it ends what
// runs, and the lose-leadership hook has what is left of the lease, and then its timeout.
func patienceWith(cfg hooks.Config) time.Duration {
	return leaseRoom + cfg.Longest() + cfg.Grace + 2*run.Unkillable
}

// lockFile gives the locked file. It waits for the keeper of an earlier life that still
// works, and says so; one that works for longer than it may is killed.
func lockFile(ctx context.Context, dir string, waits func(process int)) (*os.File, error) {
	file, err := durable.Open(filepath.Join(dir, fileName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := outwait(ctx, file, waits); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return file, nil
}

var errStillWorks = errors.New("the keeper of the last run still works")

func outwait(ctx context.Context, file *os.File, waits func(process int)) error {
	if err := await(ctx, file, 0); err == nil || !errors.Is(err, errStillWorks) {
		return err
	}
	n := readHolder(file)
	waits(n.Process)
	err := await(ctx, file, n.Patience)
	if err == nil || ctx.Err() != nil || n.Process <= 1 {
		return err
	}
	_ = unix.Kill(n.Process, unix.SIGKILL) // it lives, since it has the lock: the number is its own
	return await(ctx, file, run.Unkillable)
}

func readHolder(file *os.File) holder {
	n := holder{}
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<10))
	if err != nil || json.Unmarshal(text, &n) != nil || n.Patience <= 0 {
		n.Patience = unknownPatience
	}
	return n
}

// await gets the lock within that time.
func await(ctx context.Context, file *os.File, within time.Duration) error {
	late := time.Now().Add(within)
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return err
		case time.Now().After(late):
			return errStillWorks
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leftovers are the names of files that a crash leaves behind between the writing of a new
// hook journal and its renaming. The next write takes another name.
var leftovers = []string{"hook-journal.json.*.new", "hook-journal.json.try"}

// sweep removes them. No other keeper writes here then: the directory is locked. But the
// agent may try the disk.
func sweep(dir string) {
	agents := fmt.Sprintf(".%d.new", os.Getppid())
	for _, pattern := range leftovers {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // fails for a bad pattern only
		for _, path := range found {
			if !strings.HasSuffix(path, agents) {
				_ = os.Remove(path) // what stays is in nobody's way
			}
		}
	}
}
