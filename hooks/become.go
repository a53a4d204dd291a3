package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// becomeLeader runs the hook of ev once it is on disk that this begins.
func (r *Runner) becomeLeader(ctx context.Context, cfg Config, ev Event, l *leash) Result {
	if err := cmp.Or(ev.barred(), r.hangs(ev.Kind)); err != nil {
		return r.skip(ev, err)
	}
	hasHooks := !cfg.Commands[BecomeLeader].IsZero() || !cfg.Commands[LoseLeadership].IsZero()
	if ctx.Err() == nil && hasHooks {
		r.mu.Lock()
		k := r.kept
		r.mu.Unlock()
		err := l.await(r.journal.begin(ev, k), r.recordPatience)
		if err != nil {
			if l.pulled() == nil {
				err = fmt.Errorf("%w: %w", ErrNotRecorded, err)
			}
			return r.withdraw(ev, err)
		}
	}
	r.begun = ev.Epoch.Counter
	return r.attempts(ctx, cfg, leadership, ev, l)
}

// barred asks the event's Bar, if it has one.
func (ev Event) barred() error {
	if ev.Bar == nil {
		return nil
	}
	return ev.Bar()
}

// withdraw ends a become-leader that was noted and not started.
func (r *Runner) withdraw(ev Event, why error) Result {
	r.journal.withdraw()
	return r.skip(ev, why)
}

// skip ends a become-leader that was not started. If none of its epoch was, there is
// nothing to lose either.
func (r *Runner) skip(ev Event, why error) Result {
	epoch := ev.Epoch.Counter
	if r.begun < epoch {
		r.mu.Lock()
		r.unstarted[epoch], r.kept = true, nil
		r.mu.Unlock()
	}
	r.logger().Error("hook not started", "hook", string(BecomeLeader), "epoch", epoch, "err", why)
	return Result{Kind: BecomeLeader, Epoch: epoch, Cause: ev.Cause, Exit: -1, Err: why, IsCut: true}
}

var errDiskHangs = errors.New("the disk does not answer")

// recordPatience is how long a disk may take for what must be there before a
// become-leader hook. Arbitrary: a leader that is not ready serves nobody.
const recordPatience = 5 * time.Second

// await waits for the outcome of a write, for d at most.
func (l *leash) await(outcome <-chan error, d time.Duration) error {
	late := time.NewTimer(d)
	defer late.Stop()
	for {
		select {
		case err := <-outcome:
			return err
		case <-late.C:
			return errDiskHangs
		case <-l.tugged:
			if reason := l.pulled(); reason != nil {
				return reason
			}
		}
	}
}

// TryRecording finds out whether a become-leader hook could be recorded now in the
// state directory. It waits for the disk.
func TryRecording(dir string) error {
	return tryFile(filepath.Join(dir, journalName+".try"), 2*trySize)
}

// Owed is the epoch whose lose-leadership hook has not succeeded yet, by what the
// disk says; false if there is none.
func (r *Runner) Owed() (Epoch, bool) { return r.journal.owed() }
