package hooks

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// becomeLeader runs the hook of ev once it is on disk that this begins, and the
// leadership has its guard.
func (r *Runner) becomeLeader(ctx context.Context, cfg Config, ev Event, l *leash) Result {
	hasHooks := !cfg.Commands[BecomeLeader].IsZero() || !cfg.Commands[LoseLeadership].IsZero()
	if ctx.Err() == nil && hasHooks {
		r.mu.Lock()
		k := r.kept
		r.mu.Unlock()
		err := l.await(r.journal.begin(ev, k), r.recordPatience)
		if err == nil {
			err = l.await(r.beginGuarding(ctx, cfg, ev), r.recordPatience)
		}
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

// withdraw ends a become-leader that was not started. If none of its epoch was, there
// is nothing to lose either.
func (r *Runner) withdraw(ev Event, why error) Result {
	epoch := ev.Epoch.Counter
	r.journal.withdraw()
	if r.begun < epoch {
		r.mu.Lock()
		r.unstarted[epoch], r.kept = true, nil
		w := r.guarding
		r.mu.Unlock()
		if w != nil && w.epoch() == epoch {
			r.endGuarding(w)
		}
	}
	r.logger().Error("hook not started", "hook", string(BecomeLeader), "epoch", epoch, "err", why)
	return Result{Kind: BecomeLeader, Epoch: epoch, Cause: ev.Cause, Exit: -1, Err: why, isCut: true}
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

// TryRecording finds out whether a become-leader hook could be recorded now. It
// waits for the disk.
func (r *Runner) TryRecording() error { return r.journal.try() }

// Owed is the epoch whose lose-leadership hook has not succeeded yet, by what the
// disk says; false if there is none.
func (r *Runner) Owed() (Epoch, bool) { return r.journal.owed() }
