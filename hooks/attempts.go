package hooks

import (
	"context"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/run"
)

// A leadership hook that failed may be tried again. A become-leader hook asks for
// that by exit status 75; a lose-leadership hook is tried again whatever it says,
// since what it did not release stays taken.

const (
	// maxAttempts bounds the runs for one event (docs/hooks.md).
	maxAttempts = 3

	// firstPause is the wait before the second attempt; each further one is
	// twice as long. Arbitrary: long enough for a service to come up, short
	// enough for a hand-over to wait for.
	firstPause = time.Second
)

// attempts runs the hook of ev until it has succeeded, has failed for good, or may
// not go on. Losing the epoch ends a wait as it ends a run.
//
// All attempts of a lose-leadership hook together have no more than its timeout: a
// planned change waits for them, and so does whoever stops the agent. One that was
// ended since its time had ended is not begun again in what is left: it would be cut
// the earlier, and in its middle once more.
func (r *Runner) attempts(ctx context.Context, cfg Config, ln lane, ev Event, l *leash) Result {
	stop := context.AfterFunc(ctx, func() { l.pull(errStopping, time.Time{}) })
	defer stop()
	if ctx.Err() != nil {
		l.pull(errStopping, time.Time{}) // now, and not when the function above comes to run
	}
	begun, pause := time.Now(), r.pause
	for n := 1; ; n++ {
		res := r.execute(cfg, ln, ev, l)
		res.Attempts = n
		if n == maxAttempts || !res.isWorthAnother() || l.pulled() != nil || l.isUsedUp(res) {
			return res.afterAttempts()
		}
		if res.Kind == LoseLeadership {
			l.share(begun.Add(cfg.Timeout + cfg.Grace))
		}
		if !l.rest(pause) {
			return res.afterAttempts()
		}
		cfg.Logger.Warn("hook tried again", "hook", string(ev.Kind), "epoch", ev.Epoch.Counter, "attempt", n+1, "err", res.Err)
		ev.Attempt++
		pause *= 2
	}
}

func (res Result) isWorthAnother() bool {
	switch res.Kind {
	case LoseLeadership:
		return !res.OK
	case BecomeLeader:
		return res.Exit == run.TryAgain
	}
	return false
}

// isUsedUp: the hook ran until it had to be ended.
func (l *leash) isUsedUp(res Result) bool {
	return res.Ran && !time.Now().Before(l.TermBy(res.Started))
}

// afterAttempts has the error say that there were several.
func (res Result) afterAttempts() Result {
	if res.Err != nil && res.Attempts > 1 {
		res.Err = fmt.Errorf("%w, attempt %d", res.Err, res.Attempts)
	}
	return res
}
