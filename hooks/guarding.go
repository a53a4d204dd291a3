package hooks

import (
	"context"
	"errors"
	"slices"
	"time"
)

// guarding is the guard of one leadership, from before its become-leader hook until
// its lose-leadership hook has ended, and whoever must replace it meanwhile.
type guarding struct {
	lose Event         // what the hook is told of this leadership
	anew chan struct{} // holds a token when the configuration has changed
	over chan struct{} // closed when the leadership has been dealt with

	// Under Runner.mu.
	guard  Guard // nil: none runs
	err    error // why none runs though one should; nil otherwise
	isLost bool  // the leadership is: none is started any more
}

func (w *guarding) epoch() uint64 { return w.lose.Epoch.Counter }

// guardPause is how long after a guard could not be started, or was killed, the next
// is. Arbitrary: it must not make a host busy that has no room for processes.
const guardPause = 5 * time.Second

// Renew tells until when the leadership's lease lasts, on the agent's clock; the
// zero time says that it does not end by itself. It never blocks.
func (r *Runner) Renew(deadline time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lease = deadline
	if w := r.guarding; w != nil && w.guard != nil {
		w.guard.Renew(deadline)
	}
}

// Guard describes the guard of the present leadership; false if there is none and
// none is missing.
func (r *Runner) Guard() (GuardStatus, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch w := r.guarding; {
	case w == nil:
		return GuardStatus{}, false
	case w.guard != nil:
		return w.guard.Status(), true
	case w.err != nil:
		return GuardStatus{Err: w.err.Error()}, true
	}
	return GuardStatus{}, false
}

// beginGuarding starts the guard of ev's leadership, unless an earlier attempt has,
// and tells when that has been tried. It takes a fork, and no more: failover waits for
// it.
func (r *Runner) beginGuarding(ctx context.Context, cfg Config, ev Event) <-chan error {
	started := make(chan error, 1)
	if cfg.Guards == nil {
		started <- nil
		return started
	}
	lose := ev
	lose.Kind, lose.Within, lose.Attempt, lose.Ended = LoseLeadership, 0, 0, nil
	w := &guarding{lose: lose, anew: make(chan struct{}, 1), over: make(chan struct{})}
	r.mu.Lock()
	if r.guarding != nil && r.guarding.epoch() == w.epoch() {
		r.mu.Unlock()
		started <- nil
		return started
	}
	before := r.guarding
	w.isLost = w.epoch() <= r.over
	r.guarding = w
	r.mu.Unlock()
	r.dismiss(before)
	r.aftermath.Go(func() {
		r.startGuard(w)
		started <- nil
		r.keepGuard(ctx, w)
	})
	return started
}

// startGuard starts a guard for w, if there is something for it to do.
func (r *Runner) startGuard(w *guarding) {
	r.mu.Lock()
	cfg, deadline, isLost := r.configFor(w.epoch()), r.lease, w.isLost
	r.mu.Unlock()
	if isLost || cfg.Commands[LoseLeadership].IsZero() {
		return
	}
	g, err := cfg.Guards.Start(GuardOrder{Lose: w.lose, Command: cfg.Commands[LoseLeadership], Timeout: cfg.Timeout,
		Grace: cfg.Grace, Dir: cfg.Dir, Socket: cfg.Socket, Deadline: deadline})
	if err != nil {
		cfg.Logger.Error("guard not started; if this agent dies, the lose-leadership hook runs at its next start", "err", err)
		g = nil // not an interface that holds nothing
	}
	r.mu.Lock()
	isLost, w.err = w.isLost, err
	if !isLost {
		w.guard = g
	}
	if g != nil {
		g.Renew(r.lease) // it may have moved
	}
	r.mu.Unlock()
	if g != nil && isLost {
		g.Stop()
		r.aftermath.Go(func() { r.outlive(g) })
	}
}

// outlive waits for the end of a guard that nobody needs any more.
func (r *Runner) outlive(g Guard) {
	<-g.Done()
	r.forget(g.Forget)
}

func (r *Runner) forget(record func() error) {
	if err := record(); err != nil {
		r.logger().Warn("record of a guard not removed", "err", err)
	}
}

// keepGuard sees to it that there is a guard until the leadership is over, and that
// people hear of it if there is none.
func (r *Runner) keepGuard(ctx context.Context, w *guarding) {
	for {
		g, losing, done, again := r.lookAtGuard(w)
		select {
		case <-ctx.Done():
			return
		case <-w.over:
			return
		case <-again:
			r.startGuard(w)
		case <-w.anew:
			if g != nil {
				g.Stop()
				<-g.Done()
			}
			if r.hasTakenOver(w, g) {
				return
			}
			r.startGuard(w)
		case <-losing:
			r.hasTakenOver(w, g)
			return
		case <-done:
			if r.hasTakenOver(w, g) {
				return
			}
		}
	}
}

// lookAtGuard gives the guard that runs and what tells that it takes over or ends, or
// if it is missing, when to start one.
func (r *Runner) lookAtGuard(w *guarding) (g Guard, losing, done <-chan struct{}, again <-chan time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case w.isLost:
	case w.guard != nil:
		return w.guard, w.guard.Losing(), w.guard.Done(), nil
	case w.err != nil:
		return nil, nil, nil, time.After(r.guardPause)
	}
	return nil, nil, nil, nil
}

var errGuardGone = errors.New("the guard was killed")

// hasTakenOver deals with a guard that has taken over or has ended: it ends the
// leadership, which is told to whoever leads, or it is missing now.
func (r *Runner) hasTakenOver(w *guarding, g Guard) bool {
	if g == nil {
		return false
	}
	status := g.Status()
	if !status.TookOver {
		r.miss(w, g, status)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.isLost { // else whoever has lost it asks the guard
		r.end(w.epoch(), 0) // no further attempt of its become-leader
		r.tell(Result{Kind: LoseLeadership, Epoch: w.epoch(), Cause: causeAgentDied, Exit: -1, Err: errTakenOver, ByGuard: true, Unasked: true})
	}
	return true
}

// miss notes that w's guard has ended too early.
func (r *Runner) miss(w *guarding, g Guard, status GuardStatus) {
	r.mu.Lock()
	isLost := w.isLost
	if !isLost { // else whoever ends the leadership sees to it
		w.guard, w.err = nil, nil
		if status.Err != "" {
			w.err = errGuardGone
		}
	}
	r.mu.Unlock()
	if isLost {
		return
	}
	r.forget(g.Forget)
	if status.Err != "" {
		r.logger().Warn("guard lost; another is started soon", "err", status.Err, "epoch", w.epoch())
	}
}

// guardResult is the lose-leadership hook's result when the guard has run it.
func guardResult(epoch Epoch, status GuardStatus) Result {
	res := status.Lose
	res.Kind, res.Epoch, res.ByGuard = LoseLeadership, epoch.Counter, true
	return res
}

// yield has the guards of leaderships up to epoch leave the lose-leadership hook to
// this agent. That comes before the hook: to kill the become-leader may take longer
// than what is left of the lease. A hook that is bounded by the end of that is so by the
// guard, too. The caller holds mu.
func (r *Runner) yield(epoch uint64, isBounded bool) {
	if w := r.guarding; w != nil && w.epoch() <= epoch && !w.isLost {
		w.isLost = true
		if w.guard != nil {
			w.guard.Yield()
			deadline := r.lease
			if isBounded {
				deadline = r.overLease
			}
			w.guard.Renew(deadline)
		}
	}
}

// loseLeadership runs the hook of ev, unless the guard was quicker. While it runs the
// guard acts only if this agent dies, or is frozen for longer than the lease.
func (r *Runner) loseLeadership(ctx context.Context, cfg Config, ev Event, l *leash) Result {
	r.mu.Lock()
	w := r.guarding
	if w == nil || w.epoch() != ev.Epoch.Counter {
		r.mu.Unlock()
		return r.attempts(ctx, cfg, leadership, ev, l)
	}
	g := w.guard
	r.mu.Unlock()
	res := r.lose(ctx, cfg, ev, l, g)
	if ctx.Err() == nil || res.OK {
		r.endGuarding(w)
	}
	return res
}

// lose runs the hook in this agent, or takes the result of the guard that was quicker,
// which it may be in the middle of this agent's own hook.
func (r *Runner) lose(ctx context.Context, cfg Config, ev Event, l *leash, g Guard) Result {
	if g == nil {
		return r.attempts(ctx, cfg, leadership, ev, l)
	}
	stopping := Result{Kind: LoseLeadership, Epoch: ev.Epoch.Counter, Cause: ev.Cause, Exit: -1, Err: errStopping, isCut: true}
	if !arrives(ctx, g.Yielded()) {
		return stopping
	}
	if !g.Status().TookOver {
		if res := r.attemptsBeside(ctx, cfg, ev, l, g); res.OK || !g.Status().TookOver {
			return res
		}
	}
	if !arrives(ctx, g.Done()) {
		return stopping
	}
	return r.loseAfter(ctx, cfg, ev, g.Status())
}

// attemptsBeside runs the lose-leadership hook unless the guard takes over meanwhile.
func (r *Runner) attemptsBeside(ctx context.Context, cfg Config, ev Event, l *leash, g Guard) Result {
	if g != nil {
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			select {
			case <-g.Losing():
				l.pull(errTakenOver, time.Time{})
			case <-ended:
			}
		}()
	}
	return r.attempts(ctx, cfg, leadership, ev, l)
}

// loseAfter takes the result of a guard that had taken over and is gone, or runs the
// hook if that is not enough: the guard was killed in the middle of it, or a
// become-leader hook was started after it had ended what ran, by an agent that was
// frozen between two attempts.
func (r *Runner) loseAfter(ctx context.Context, cfg Config, ev Event, status GuardStatus) Result {
	r.raiseSeq()
	if status.HasEnded && r.becameAt <= status.Began {
		return guardResult(ev.Epoch, status)
	}
	r.journal.endHooksOf(ctx, cfg.Grace, ev.Epoch)
	return r.attempts(ctx, cfg, leadership, ev, newLeash(cfg.Timeout, cfg.Grace))
}

// arrives waits; it reports false if ctx ends before.
func arrives(ctx context.Context, news <-chan struct{}) bool {
	select {
	case <-news:
		return true
	case <-ctx.Done():
		return false
	}
}

// endGuarding ends the guard of a leadership that has been dealt with.
func (r *Runner) endGuarding(w *guarding) {
	r.mu.Lock()
	if r.guarding == w {
		r.guarding = nil
	}
	r.mu.Unlock()
	r.dismiss(w)
}

// dismiss lets go of a guarding, whose guard ends in the background.
func (r *Runner) dismiss(w *guarding) {
	if w == nil {
		return
	}
	r.mu.Lock()
	w.isLost = true
	g := w.guard
	r.mu.Unlock()
	close(w.over)
	if g != nil {
		g.Release()
		r.aftermath.Go(func() { r.outlive(g) })
	}
}

// raiseSeq goes on counting after the runs that a guard has added to the ledger.
func (r *Runner) raiseSeq() {
	if last, err := r.ledger.open(); err == nil && last > r.seq.Load() {
		r.seq.Store(last)
	}
}

// Recover finds out what the guards of an earlier life have done, and waits for
// those that still work. It is called before CleanUp and Run.
func (r *Runner) Recover(ctx context.Context) {
	cfg := r.config()
	if cfg.Guards == nil {
		return
	}
	records, err := cfg.Guards.Recover(ctx, func(process int) {
		cfg.Logger.Info("waiting for the guard of the last run", "process", process)
	})
	if err != nil {
		cfg.Logger.Error("guards of the last run not read", "err", err)
	}
	for _, rec := range records {
		if s := rec.Status; s.TookOver {
			cfg.Logger.Warn("guard of the last run has ended its leadership", "epoch", rec.Epoch.Counter, "ok", s.Lose.OK, "err", s.Lose.Err)
			if s.Lose.OK {
				r.journal.settle(rec.Epoch.Counter)
			}
		}
	}
	r.recovered = records
	r.raiseSeq()
}

// doneByGuard is the result of a lose-leadership hook that a guard of the last life
// has run; false if it has not, or in vain.
func (r *Runner) doneByGuard(epoch Epoch) (Result, bool) {
	i := slices.IndexFunc(r.recovered, func(rec GuardRecord) bool {
		return rec.Epoch == epoch && rec.Status.TookOver && rec.Status.Lose.OK
	})
	if i < 0 {
		return Result{}, false
	}
	return guardResult(epoch, r.recovered[i].Status), true
}
