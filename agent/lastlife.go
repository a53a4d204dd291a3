package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
)

// Before an agent takes part, it ends what its last life has left: the keeper, if that
// still works, what that ran for jobs, and the lose-leadership hook that is due. Nobody is
// bound to that life any more once its lease and the takeover delay have ended. What takes
// longer goes on beside this life, which joins, votes and follows meanwhile, and does not
// stand: nobody's hanging hook silences a voter.

// lastLife is the end of the last life, in a goroutine of its own.
type lastLife struct {
	cut       context.CancelFunc // ends the goroutine soon; what has not ended is still due
	recovered chan struct{}      // closed when a keeper runs, and nothing that jobs ran; never, if that is cut
	over      chan struct{}      // closed when the goroutine has ended

	// To be read once over is closed.
	isEnded bool  // nothing is left, and this life's keeper may run what it is told to
	err     error // why there is no keeper
	cleaned cleaned
}

// endLastLife begins to end what the last life has left; ctx ends that early.
func (a *agent) endLastLife(ctx context.Context) *lastLife {
	l := &lastLife{recovered: make(chan struct{}), over: make(chan struct{})}
	ctx, l.cut = context.WithCancel(ctx)
	go func() {
		defer close(l.over)
		if err := a.runner.Recover(ctx); err != nil {
			l.err = fmt.Errorf("hooks and jobs need a keeper: %w", err) // no Refusal: a host that is short of processes has some later
			return
		}
		if ctx.Err() != nil {
			return
		}
		if err := a.jobRunner.Recover(ctx); err != nil {
			a.log.Error("former runs of jobs not all ended", "err", err)
		}
		close(l.recovered)
		l.cleaned = a.seat.cleanUp(ctx)
		l.isEnded = ctx.Err() == nil
	}()
	return l
}

// within waits for the end, for d at most, and reports whether it has come.
func (l *lastLife) within(d time.Duration) bool {
	enough := time.NewTimer(d)
	defer enough.Stop()
	select {
	case <-l.over:
	case <-enough.C:
	}
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// then runs what may not begin before the end; never, if that was cut.
func (l *lastLife) then(ctx context.Context, run func(context.Context) error) error {
	<-l.over
	if !l.isEnded {
		return nil
	}
	return run(ctx)
}

// released is how long after the start the longest lease of the last life (M40) and the takeover delay have ended,
// by all clocks. That life had ended before: it held the lock of the state directory. For
// at_start alone, which nobody waits for, the delay does not count.
func (a *agent) released() time.Duration {
	if a.seat.losesNothing() {
		return lease.WaitLength(a.cfg.Election.Lease)
	}
	return lease.WaitLength(a.cfg.Election.LongestLease()) + a.cfg.Election.TakeoverDelay
}

// besideLastLife tells the loop how far the end of the last life has come.
func (a *agent) besideLastLife(ctx context.Context) {
	select {
	case <-a.last.recovered:
		a.call(ctx.Done(), a.seat.jobs.recovered)
	case <-a.last.over:
	}
	<-a.last.over
	a.call(ctx.Done(), func() {
		if a.fatal == nil {
			a.fatal = a.last.err
		}
		if a.last.isEnded {
			a.seat.settleBeside(a.last.cleaned)
		}
	})
}
