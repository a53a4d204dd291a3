package hooks

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Runner runs hooks. Start, Stop, TakeOver, SetConfig, Owed, IsRunning, Last and Dropped
// never block and may be called by any goroutine, before and during Run; Rest waits. New
// makes one; Adopt and CleanUp may be called before Run, Run once.
type Runner struct {
	seq     atomic.Uint64 // of the last run, BULLY_SEQ
	backlog backlog
	journal journal
	ledger  ledger
	pause   time.Duration // before the second attempt

	recordPatience time.Duration // with a disk, before a become-leader hook

	aftermath sync.WaitGroup // runs whose output is awaited, bounded by drain

	// Only the leadership queue's goroutine asks for these.
	begun  uint64         // highest epoch whose become-leader was tried
	leaves entry          // the become-leader that ran last, which may have left something running; zero: none
	stuck  map[Kind]entry // the hooks that KILL has not ended

	toLead   chan struct{} // holds a token when queue may have something
	toNotify chan struct{} // … notices …
	toTell   chan struct{} // … untold …
	results  chan Result

	mu   sync.Mutex // guards all below
	cfg  Config
	kept *kept // of the leadership that has begun last, until its lose-leadership hook has succeeded

	// queue is the leadership events in the order of Start. It stays short, since
	// an election waits for the Result of one pair before it begins another.
	queue []request

	// current is the leadership hook that is being run; nil between two.
	current *current

	// over is the highest epoch known to be lost.
	// Invariant: no become-leader of an epoch up to over is started.
	over uint64

	// unstarted holds the epochs whose become-leader was dropped and whose
	// lose-leadership is still to be dropped with it.
	unstarted map[uint64]bool

	// lost is how the last lose-leadership hook ended.
	lost Result

	// reign is the become-leader event of the leadership that goes on: nobody has
	// asked for its lose-leadership hook; nil: there is none. takenOver is the highest
	// epoch that TakeOver has ended.
	reign     *Event
	takenOver uint64

	rested   *sync.Cond // of mu: the leadership queue may be at rest
	hush     context.CancelFunc
	noticing Kind // the notification that runs, "" if none does
	hushed   context.Context

	// notices is at most one event of each notification kind, oldest first.
	notices []Event

	untold  []Result // results on their way to the consumer, unbounded
	last    Result   // last leadership hook, for status
	dropped Dropped
}

// request is one event in the leadership queue.
type request struct {
	Event
	due    time.Time // all of it is dead by then; zero: no bound (from Event.Within)
	repeat bool      // its epoch's lose-leadership was already queued or running

	unasked bool      // it is TakeOver's own: nobody waits for its result
	taken   bool      // TakeOver sees to its end
	again   time.Time // when it is run once more should it have failed by then; zero: it is not
}

// current is the leadership event that is being run.
type current struct {
	kind  Kind
	epoch uint64
	leash *leash

	isRedo, unasked, taken bool
	again                  time.Time
}

const (
	// resultRoom is how many results outlive Run unread. More than an agent that
	// stops will ever leave.
	resultRoom = 64

	// overtakeGrace is what a lose-leadership hook that was tried once more has
	// for its end when this node leads again, killing included. Arbitrary.
	overtakeGrace = 200 * time.Millisecond

	// diskPatience is how long Run and CleanUp wait, at their end, for the last files.
	diskPatience = time.Second
)

// New makes a Runner and the directories it writes to. It fails if the
// configuration contradicts itself or Dir cannot be used; commands are checked
// by Check, not here.
func New(cfg Config) (*Runner, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &Runner{
		cfg:      cfg.withDefaults(),
		toLead:   make(chan struct{}, 1),
		toNotify: make(chan struct{}, 1),
		toTell:   make(chan struct{}, 1),
		results:  make(chan Result, resultRoom),
		pause:    firstPause,

		recordPatience: recordPatience,

		unstarted: make(map[uint64]bool),
		stuck:     make(map[Kind]entry),
	}
	r.rested = sync.NewCond(&r.mu)
	r.hushed, r.hush = context.WithCancel(context.Background())
	r.journal = journal{backlog: &r.backlog, log: r.logger}
	r.ledger = ledger{backlog: &r.backlog, log: r.logger}
	if cfg.Dir != "" {
		r.journal.path = filepath.Join(cfg.Dir, journalName)
		r.ledger.dir = filepath.Join(cfg.Dir, ledgerName)
	}
	r.journal.open()
	seq, err := r.ledger.open()
	if err != nil {
		return nil, err
	}
	r.seq.Store(seq)
	return r, nil
}

// SetConfig replaces the configuration from the next run on, for a leadership that
// has begun as far as kept says. Dir stays what New was given. The caller has
// validated it; a command that contradicts itself fails when it is to run.
func (r *Runner) SetConfig(cfg Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cfg = cfg.withDefaults()
	if r.kept == nil {
		return
	}
	next := r.kept.reload(r.cfg)
	if next.isAs(r.kept) {
		return
	}
	r.kept = next
	r.journal.keep(next)
}

func (r *Runner) config() Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cfg
}

func (r *Runner) logger() hclog.Logger { return r.config().Logger }

// Results delivers one Result for each become-leader and lose-leadership event,
// in the order of Start. Reading slowly loses nothing. The channel is never
// closed; what is unread when Run returns can still be read.
func (r *Runner) Results() <-chan Result { return r.results }

// Last gives the last leadership hook that ran or failed; false if there was none.
func (r *Runner) Last() (Result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, r.last.Kind != ""
}

// IsRunning reports whether the hook of such an event runs now, waits for its next
// attempt, or is queued.
func (r *Runner) IsRunning(kind Kind) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	queued := slices.ContainsFunc(r.queue, func(q request) bool { return q.Kind == kind })
	noticed := slices.ContainsFunc(r.notices, func(ev Event) bool { return ev.Kind == kind })
	return queued || noticed || (r.current != nil && r.current.kind == kind) || r.noticing == kind
}

// Dropped tells how many hooks were overtaken since New.
func (r *Runner) Dropped() Dropped {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Start queues the hook of an event. An event of a kind without a hook is queued
// too, so that its Result comes in its turn.
//
// A lose-leadership event ends its epoch as Stop does. One more for an epoch whose
// lose-leadership is queued or running does not run it again; it passes on a
// shorter Within (the lease was lost in the middle of a planned change,
// M7), and its Result repeats the first one's outcome.
func (r *Runner) Start(ev Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ev.Kind.ofLeadership() {
		r.notice(ev)
		return
	}
	if c := r.current; ev.Kind == BecomeLeader && c != nil && c.isRedo {
		c.leash.pull(errOvertaken, time.Now().Add(overtakeGrace))
	}
	req := request{Event: ev}
	if ev.Kind == BecomeLeader && ev.Epoch.Counter > r.over {
		r.reign = &ev
	}
	if ev.Kind == LoseLeadership {
		if ev.Within > 0 {
			req.due = time.Now().Add(ev.Within)
		}
		req.repeat = r.hasten(ev.Epoch.Counter, req.due)
		r.end(ev.Epoch.Counter, ev.Within)
		if r.reign != nil && r.reign.Epoch.Counter <= ev.Epoch.Counter {
			r.reign = nil
		}
	}
	r.queue = append(r.queue, req)
	wake(r.toLead)
}

// Stop says that the epoch has ended: its become-leader hook is killed if it runs
// and never started if it does not, in which case its lose-leadership is dropped
// too. Epochs rise, so an epoch below it has ended as well.
func (r *Runner) Stop(epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(epoch, 0)
}

// end is Stop with a budget, of which the killing may use its share; 0 is none.
func (r *Runner) end(epoch uint64, budget time.Duration) {
	r.over = max(r.over, epoch)
	if c := r.current; c != nil && c.kind == BecomeLeader && c.epoch <= r.over {
		var due time.Time
		if budget > 0 {
			due = time.Now().Add(budget / budgetShare)
		}
		c.leash.pull(errOver, due)
	}
}

// hasten reports whether the epoch's lose-leadership is queued or running, and
// bounds that by due, unless it was taken over, and has the bound of that.
func (r *Runner) hasten(epoch uint64, due time.Time) bool {
	if epoch == r.takenOver {
		due = time.Time{}
	}
	if c := r.current; c != nil && c.kind == LoseLeadership && c.epoch == epoch {
		c.leash.limit(due)
		return true
	}
	i := slices.IndexFunc(r.queue, func(q request) bool { // a repeat may be of a run that has ended
		return q.Kind == LoseLeadership && q.Epoch.Counter == epoch && !q.repeat
	})
	if i < 0 {
		return false
	}
	if q := &r.queue[i]; !due.IsZero() && (q.due.IsZero() || due.Before(q.due)) {
		q.due = due
	}
	return true
}

// notice keeps the newest event of each notification kind; an older one that has
// not run is superseded (docs/hooks.md). The newest has the whole state.
func (r *Runner) notice(ev Event) {
	before := len(r.notices)
	r.notices = slices.DeleteFunc(r.notices, func(old Event) bool {
		if old.Kind == ev.Kind {
			r.answer(old, Result{Kind: old.Kind, Epoch: old.Epoch.Counter, Cause: old.Cause, Exit: -1, Err: errSuperseded})
		}
		return old.Kind == ev.Kind
	})
	if len(r.notices) < before {
		if ev.Kind == LeaderChange {
			r.dropped.LeaderChanges++
		} else {
			r.dropped.MemberChanges++
		}
	}
	r.notices = append(r.notices, ev)
	wake(r.toNotify)
}

func wake(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// Run runs hooks until ctx is done; the hooks running then are ended by TERM,
// grace and KILL before it returns. Whoever wants a lose-leadership hook to run at
// the end waits for its Result first. The error is always nil.
//
// Its goroutines: one for each queue, one that delivers results.
func (r *Runner) Run(ctx context.Context) error {
	r.endOrphans(ctx, r.config().Grace)
	r.journal.forgetDone()
	var queues, teller sync.WaitGroup
	ended := make(chan struct{})
	queues.Go(func() { r.serveLeadership(ctx) })
	queues.Go(func() { r.serveNotices(r.hushed) })
	stop := context.AfterFunc(ctx, r.hush)
	defer stop()
	teller.Go(func() { r.deliver(ended) })
	queues.Wait()
	close(ended)
	teller.Wait()
	r.aftermath.Wait()
	r.backlog.wait(diskPatience)
	return nil
}

// CleanUp makes up for a leadership that an earlier life of this agent did not
// end: it kills what that life left running, then runs the lose-leadership hook
// for the epoch of ev, with the cause unclean-restart, unless that life's keeper
// has. An event without an epoch owes nothing: its hook is that of at_start, with
// the cause started, and nothing but its run is journalled. It blocks until the
// hook has ended and must be called before Run. Its Result is not delivered by
// Results.
func (r *Runner) CleanUp(ctx context.Context, ev Event) Result {
	runtime.LockOSThread() // see run.Start
	defer runtime.UnlockOSThread()
	ev.Kind, ev.Cause = LoseLeadership, causeUncleanRestart
	if ev.Epoch == (Epoch{}) {
		ev.Cause = CauseStarted
	}
	r.mu.Lock()
	if r.kept = r.journal.keptFor(ev.Epoch); r.kept != nil {
		r.cfg.Logger.Info("lose-leadership hook is the one that the last run had begun with", "epoch", ev.Epoch.Counter)
	}
	cfg := r.configFor(ev.Epoch.Counter)
	r.mu.Unlock()
	if ev.Cause == causeUncleanRestart {
		r.journal.owe(ev.Epoch) // whoever else had noted that forgets it after this
	}
	r.endOrphans(ctx, cfg.Grace)
	res := r.makeUp(ctx, cfg, ev)
	r.backlog.wait(diskPatience)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = max(r.over, ev.Epoch.Counter)
	r.remember(res)
	r.learn(res)
	return res
}

// endOrphans ends what an earlier life left running, and minds what that does not end.
func (r *Runner) endOrphans(ctx context.Context, grace time.Duration) {
	for _, e := range r.journal.endOrphans(ctx, grace) {
		r.noteStuck(e)
	}
}

// makeUp runs the hook of CleanUp, or gives the result that the last life's keeper had.
func (r *Runner) makeUp(ctx context.Context, cfg Config, ev Event) Result {
	res, isDone := r.journal.doneFor(ev.Epoch)
	if isDone {
		r.journal.settle(ev.Epoch.Counter)
		if !ev.AtStart {
			return res
		}
		ev.Cause, ev.Epoch, ev.Leader, ev.PrevLeader = CauseStarted, Epoch{}, Node{}, Node{} // as that of any start
	}
	l := newLeash(cfg.Timeout, cfg.Grace)
	if ev.Within > 0 {
		l.limit(time.Now().Add(ev.Within))
	}
	if res = r.attempts(ctx, cfg, leadership, ev, l); res.OK {
		r.journal.settle(ev.Epoch.Counter)
	}
	return res
}

// serveLeadership runs the leadership queue until ctx is done, and then answers
// what is left in it.
func (r *Runner) serveLeadership(ctx context.Context) {
	runtime.LockOSThread() // for good, see run.Start
	for {
		for r.leadNext(ctx) {
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-r.toLead:
		case <-ctx.Done():
		}
	}
}

// leadNext does the first request of the queue; it reports false if there is none.
func (r *Runner) leadNext(ctx context.Context) bool {
	req, cfg, l, ok := r.admit()
	switch {
	case !ok:
		return false
	case l == nil:
		cfg.Logger.Info("hook dropped", "hook", string(req.Kind), "epoch", req.Epoch.Counter, "cause", req.Cause)
	case req.Kind == BecomeLeader:
		r.conclude(req.Event, r.becomeLeader(ctx, cfg, req.Event, l))
	default:
		r.conclude(req.Event, r.loseLeadership(ctx, cfg, req.Event, l))
	}
	r.mu.Lock()
	r.rested.Broadcast()
	r.mu.Unlock()
	return true
}

// admit takes the first request of the queue. If it is to be run it gives a leash
// for it, in the same critical section, so that no Stop falls between; if not, the
// leash is nil and the request has been answered.
func (r *Runner) admit() (req request, cfg Config, l *leash, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return request{}, Config{}, nil, false
	}
	req, r.queue = r.queue[0], r.queue[1:]
	if res, settled := r.settle(req); settled {
		if !req.unasked {
			r.tell(res)
		}
		r.answer(req.Event, res)
		return req, r.cfg, nil, true
	}
	if req.Kind == BecomeLeader {
		r.keepFrom(req.Epoch)
	}
	cfg = r.configFor(req.Epoch.Counter)
	l = newLeash(cfg.Timeout, cfg.Grace)
	l.limit(req.due)
	r.current = &current{kind: req.Kind, epoch: req.Epoch.Counter, leash: l, isRedo: req.IsRedo,
		unasked: req.unasked, taken: req.taken, again: req.again}
	return req, cfg, l, true
}

// settle answers a request for which nothing is to be run.
func (r *Runner) settle(req request) (res Result, settled bool) {
	epoch := req.Epoch.Counter
	res = Result{Kind: req.Kind, Epoch: epoch, Cause: req.Cause, OK: true, Exit: -1}
	switch {
	case req.Kind == BecomeLeader && epoch <= r.over && epoch <= r.begun: // one more attempt, too late
		res.OK, res.Err = false, errOver
	case req.Kind == BecomeLeader && epoch <= r.over:
		r.unstarted[epoch] = true
		r.dropped.Pairs++
	case req.Kind == LoseLeadership && r.unstarted[epoch]:
		if !req.unasked && !r.losesAgain(epoch) {
			delete(r.unstarted, epoch)
		}
	case req.IsRedo && r.leadsAgain():
		res.OK, res.Err = false, errOvertaken
	case r.isTaken(req):
		r.journal.forgetDone() // the agent lives, and hears of it
		res, res.filed = r.lost, nil
	case req.repeat && r.lost.Epoch == epoch, r.isLost(req):
		res.OK, res.Err, res.IsCut, res.IsRepeat = r.lost.OK, r.lost.Err, r.lost.IsCut, r.lost.IsRepeat
	default:
		return Result{}, false
	}
	return res, true
}

// isLost reports whether the hook has succeeded for this epoch: who asks once more has not
// heard of that yet.
func (r *Runner) isLost(req request) bool {
	return req.Kind == LoseLeadership && !req.IsRedo && r.lost.Epoch == req.Epoch.Counter && r.lost.OK
}

// losesAgain reports whether another lose-leadership of the epoch is queued.
func (r *Runner) losesAgain(epoch uint64) bool {
	return slices.ContainsFunc(r.queue, func(q request) bool {
		return q.Kind == LoseLeadership && q.Epoch.Counter == epoch
	})
}

// leadsAgain reports whether a become-leader is queued.
func (r *Runner) leadsAgain() bool {
	return slices.ContainsFunc(r.queue, func(q request) bool { return q.Kind == BecomeLeader })
}

// conclude ends the current request with its result.
func (r *Runner) conclude(ev Event, res Result) {
	switch {
	case res.Kind == LoseLeadership && res.OK && res.TakenOver:
		r.journal.done(ev.Epoch, res)
	case res.Kind == LoseLeadership && res.OK:
		r.journal.settle(res.Epoch)
	case res.Kind == LoseLeadership:
		defer r.journal.persist() // after what is learnt
	}
	r.answer(ev, res)
	r.mu.Lock()
	defer r.mu.Unlock()
	unasked := r.current.unasked
	r.current = nil
	r.remember(res)
	r.learn(res)
	if !unasked {
		r.tell(res)
	}
}

func (r *Runner) remember(res Result) {
	if res.Ran || !res.OK {
		r.last = res
	}
	if res.Kind == LoseLeadership {
		r.lost = res
	}
}

// answer calls Ended when the output has been dealt with.
func (r *Runner) answer(ev Event, res Result) {
	switch {
	case ev.Ended == nil:
	case res.filed == nil:
		r.backlog.add(func() { ev.Ended(res) })
	default:
		r.aftermath.Go(func() {
			<-res.filed
			r.backlog.add(func() { ev.Ended(res) })
		})
	}
}

// tell queues a result; the caller holds mu.
func (r *Runner) tell(res Result) {
	if res.Kind == LoseLeadership && res.Epoch == r.lost.Epoch && !res.Unasked {
		r.lost.IsRepeat = true // when it is told again
	}
	r.untold = append(r.untold, res)
	wake(r.toTell)
}

// deliver hands results to the consumer at the consumer's pace. After ended, when
// no more can come, it leaves behind what fits into the channel.
func (r *Runner) deliver(ended <-chan struct{}) {
	for open := true; open; {
		select {
		case <-r.toTell:
		case <-ended:
			open = false
		}
		for res, ok := r.nextUntold(); ok; res, ok = r.nextUntold() {
			r.hand(res, ended)
		}
	}
}

func (r *Runner) hand(res Result, ended <-chan struct{}) {
	select {
	case r.results <- res: // also after ended, while there is room
		return
	default:
	}
	select {
	case r.results <- res:
	case <-ended:
		r.logger().Warn("hook result dropped, the agent had stopped reading", "result", res.String())
	}
}

func (r *Runner) nextUntold() (Result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.untold) == 0 {
		return Result{}, false
	}
	res := r.untold[0]
	r.untold = r.untold[1:]
	return res, true
}

// serveNotices runs the notifications, one at a time, until ctx is done.
func (r *Runner) serveNotices(ctx context.Context) {
	runtime.LockOSThread() // for good, see run.Start
	for {
		for ctx.Err() == nil && r.notifyNext(ctx) {
		}
		select {
		case <-r.toNotify:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Runner) notifyNext(ctx context.Context) bool {
	r.mu.Lock()
	if len(r.notices) == 0 {
		r.mu.Unlock()
		return false
	}
	ev, cfg := r.notices[0], r.cfg
	r.notices, r.noticing = r.notices[1:], ev.Kind
	r.mu.Unlock()
	res := r.attempts(ctx, cfg, notification, ev, newLeash(cfg.Timeout, cfg.Grace))
	r.mu.Lock()
	r.noticing = ""
	r.mu.Unlock()
	r.answer(ev, res)
	return true
}

// ReadRuns lists the last runs of hooks of an agent with this state directory, oldest
// first. It waits for the disk.
func ReadRuns(dir string, after uint64) ([]Run, error) { return ledgerIn(dir).runs(after) }

// ReadOutput gives one run by its BULLY_SEQ and the end of what it printed. The error
// is fs.ErrNotExist if it is not kept any more. It waits for the disk.
func ReadOutput(dir string, seq uint64) (Run, []byte, error) { return ledgerIn(dir).output(seq) }

func ledgerIn(dir string) *ledger { return &ledger{dir: filepath.Join(dir, ledgerName)} }
