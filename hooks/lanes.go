package hooks

import (
	"maps"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// Lanes decides which hook runs when, and until when. It is a value: Step takes what has
// happened and gives what is to be done, and Deadline says when it wants to be asked next.
// It has no clock, goroutine, file or process of its own; the loop that drives it has (package keeper), and
// has all effects of one step carried out in their order before the next (hookrun.Hands).
//
// Each lane has at most one process group at a time. There are the leadership's, in the order of its events, the
// notifications', one for each question that a command answers (questions), and one for each attempt of a job (attempts). A
// hook's run goes through phases, each of which ends
// with an event:
//
//	Note ──▶ Noted        a become-leader only: it is on disk that its leadership begins
//	BeginResource ──▶ ResourceBegun  a become-leader only: each of what its leadership has
//	Prepare ──▶ Prepared  what an earlier run has left is gone, and the command is fit to run
//	Start ──▶ Started     a process runs: Bound shortens its time; or StartFailed
//	      ──▶ Exited      nothing of its group runs, but for what hangs
//	pause ──▶ Tick        then once more from Prepare, or not
//	EndResource ──▶ ResourceEnded    a lose-leadership only: each, in reverse
//	                                 and the end: Tell
type Lanes struct {
	cfg   LanesConfig
	hooks Config // of now
	book  book   // what the journal is to hold

	isReloaded bool // and what the leadership has was not held against that yet
	isUnswept  bool // what is configured since may be here, though this host does not lead

	orphans  bool // nothing of an earlier life runs, or all is known that does
	isOpen   bool // hooks run as they are asked for
	isClosed bool // what runs is ended, and nothing else begins
	agent    agentWatch

	queue     []request // leadership events in the order of Asked
	lead      *task     // that is carried out of them; nil: none
	notices   []request // at most one of each kind of notification, oldest first
	notice    *task     // that is carried out of them; nil: none
	isHushed  bool      // no notification is begun any more
	cleaning  *request  // a clean-up that waits for the end of orphans
	uncleaned failedCleanUp
	seq       uint64           // of the last run, BULLY_SEQ
	prepares  uint64           // number of the last Prepare
	begun     uint64           // highest epoch whose become-leader was tried
	leaves    Entry            // the become-leader that ran last, which may have left something running; zero: none
	stuck     map[Kind]Hanging // what has had KILL and lives on
	kept      *Kept            // of the leadership that has begun last, until its lose-leadership hook has succeeded
	over      uint64
	lost      Result        // how the last lose-leadership hook ended
	lostTries int           // of it, all that were made for its epoch
	reign     *Event        // become-leader of the leadership that goes on: nobody has asked for its end
	takenOver uint64        // the highest epoch that was ended in the agent's stead
	holds     holdings      // what the leadership that goes on has
	sweepAt   time.Time     // when what a sweep could not end is swept once more; zero: it is not
	sweepRest time.Duration // before that
	ready     uint64        // the last epoch whose become-leader hook has succeeded
	settleBy  time.Time     // until when the disk has time for the last page; zero: it is not awaited
	lentBy    time.Time     // when nobody acts on the lease of a gone agent any more; zero: nobody waits for that
	isOver    bool          // so it was said

	questions questions
	attempts  attempts

	effects []LaneEffect
}

// LanesConfig is what Lanes are told once.
type LanesConfig struct {
	Seq, JobSeq  uint64        // BULLY_SEQ of the last run of earlier lives, and of the last of a job
	Pause        time.Duration // before the second attempt; each further one is twice as long
	RecordWithin time.Duration // what a disk has for the note that a leadership begins
	Unread       bool          // what was recorded before is not known
	// Budget is how long before the end of the lease a silent agent loses its leadership, and
	// Takeover how much longer than the lease others wait before they take over.
	Budget, Takeover time.Duration
}

// request is one event that waits for its turn.
type request struct {
	Event
	id     uint64    // by which its end is told; 0: nobody asks
	due    time.Time // all of it is dead by then; zero: no bound
	repeat bool      // its epoch's lose-leadership was already queued or running
	bar    error     // why its become-leader must not start; nil: it may
	isNext bool      // the hook of the leadership before was run once more for it

	unasked bool      // it was taken over: nobody waits for its result
	taken   bool      // the agent was dead or silent: its end is seen to
	again   time.Time // when it is run once more should it have failed by then; zero: it is not
	cleanUp bool      // of an earlier life
}

// task is a request that is being carried out.
type task struct {
	request
	lane      Lane
	plan      Config
	limit     ending.Limit
	phase     taskPhase
	note      uint64    // that it waits for
	until     time.Time // that it waits for
	begun     time.Time // of the first attempt's preparation
	pause     time.Duration
	attempts  int
	preparing uint64     // number of this attempt's Prepare
	leaves    Entry      // that it is to end
	seq       uint64     // of this attempt's Start
	wait      wait       // for the worker of that, or of Prepare
	step      int        // which of the resources it is the turn of
	ending    []Resource // that were asked to end, in that order
	left      []Resource // that have not ended
	wanted    []Resource // by an exchange
	yieldBy   time.Time  // resources have ended by then; zero: no bound but their own
	started   time.Time  // of this attempt's process
	isRerun   bool
	entry     Entry
	res       Result
}

type taskPhase int

const (
	noting taskPhase = iota
	having           // its resources begin
	preparing
	starting
	underway
	pausing
	yielding // its resources end
	waiting  // for the end of a bound, to be run once more without one
)

// NewLanes gives Lanes for hooks by cfg; left is what the journal of an earlier life holds.
func NewLanes(cfg LanesConfig, hooks Config, left Page) Lanes {
	left.Runs = maps.Clone(left.Runs)
	if left.Runs == nil {
		left.Runs = map[Lane]Entry{}
	}
	// What the keeper before has written may not be on the disk yet.
	return Lanes{cfg: cfg, hooks: hooks, book: book{page: left, isLoose: left.Owed == nil}, seq: cfg.Seq, stuck: map[Kind]Hanging{}, attempts: attempts{seq: cfg.JobSeq}}
}

// Step takes one event and gives what is to be done, in order. The slice is valid until the
// next Step.
func (l *Lanes) Step(now time.Time, event LaneEvent) []LaneEffect {
	l.effects = l.effects[:0]
	l.take(now, event)
	l.advance(now)
	if l.agent.isDead {
		l.book.tighten()
	}
	if n, ok := l.book.flush(); ok {
		l.do(n)
	}
	l.sayUncleaned(now)
	l.sayOver(now)
	return l.effects
}

func (l *Lanes) do(e LaneEffect) { l.effects = append(l.effects, e) }

func (l *Lanes) take(now time.Time, event LaneEvent) {
	switch e := event.(type) {
	case Asked:
		l.onAsked(now, e)
	case Stopped:
		l.end(now, e.Epoch, 0)
	case Adopted:
		l.onAdopted(e)
	case CleanUp:
		l.onCleanUp(e.Event)
	case Opened:
		l.isOpen, l.isUnswept = true, false
		l.loseOn(now)
		l.sweepFirst()
		l.endOrphans(l.hooks.Grace, l.book.page.Owed)
	case OrphansEnded:
		l.onOrphansEnded(now, e)
	case Closed:
		l.onClosed(now)
	case Reloaded:
		l.onReloaded(e.Config)
	case Noted:
		l.onNoted(now, e)
	case Prepared:
		l.onPrepared(now, e)
	case Started:
		l.onStarted(e)
	case StartFailed:
		l.onStartFailed(now, e)
	case Exited:
		l.onExited(now, e)
	case ResourceBegun:
		l.onResourceBegun(now, e)
	case ResourceFailed:
		l.onResourceFailed(now, e)
	case ResourceEnded:
		l.onResourceEnded(now, e)
	case Reached:
		l.announce()
	case Gone:
		l.onGone(e.Entry)
	case Tick:
		l.judge(now)
	default:
		l.onAgentEvent(now, event)
		l.takeAside(now, event)
	}
}

// takeAside is take for questions and jobs, of which the other lanes know nothing.
func (l *Lanes) takeAside(now time.Time, event LaneEvent) {
	switch e := event.(type) {
	case Checking:
		l.questions.setChecks(now, e.Checks, l.do)
	case Inquired:
		l.questions.inquire(now, e, l.do)
	case Consulted:
		l.questions.onConsulted(now, e, l.do)
	case JobAsked:
		l.attempts.onAsked(now, e, 2*l.cfg.Budget, l.hooks.Grace, l.do)
	case JobStopped:
		l.attempts.release(l.attempts.all[e.ID], e.Cause, 0, l.do)
	case LeadershipLost:
		l.attempts.onLost(now, e.Cause, l.do)
	case JobEnded:
		l.attempts.onEnded(e, l.do)
	case RunFiled:
		l.attempts.onFiled(e.ID, l.do)
	}
}

// advance does what time alone has made due, and begins what waits where nothing runs.
func (l *Lanes) advance(now time.Time) {
	l.persist(now)
	l.retry(now)
	l.sweepAgain(now)
	l.questions.advance(now, l.do)
	for _, t := range []*task{l.lead, l.notice} {
		if t != nil && !t.until.IsZero() && !now.Before(t.until) {
			l.onTime(now, t)
		}
	}
	if !l.orphans || !l.isOpen {
		return
	}
	for l.lead == nil && len(l.queue) > 0 {
		l.leadNext(now)
	}
	if l.lead == nil && l.isReloaded {
		l.exchangeNext(now)
	}
	if l.isUnswept && l.AtRest() {
		l.sweepNew(now)
	}
	for l.notice == nil && len(l.notices) > 0 && !l.isHushed {
		req := l.notices[0]
		l.notices = l.notices[1:]
		l.attempt(now, l.carryOut(now, req, Notification, l.hooks))
	}
}

// Deadline is when Step wants a Tick at the latest; the zero time: never.
func (l *Lanes) Deadline() time.Time {
	at := earlier(earlier(l.book.syncAt, l.questions.deadline()), earlier(l.SilentAt(), l.lentBy))
	at = earlier(at, earlier(earlier(l.settleBy, l.uncleaned.by), earlier(l.holds.dueAt(), l.sweepAt)))
	for _, t := range []*task{l.lead, l.notice} {
		if t != nil {
			at = earlier(at, t.until)
		}
	}
	return at
}

// earlier is the first of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// carryOut makes a task of a request.
func (l *Lanes) carryOut(now time.Time, req request, ln Lane, plan Config) *task {
	t := &task{request: req, lane: ln, plan: plan, pause: l.cfg.Pause}
	t.limit = ending.Limit{Timeout: plan.Timeout, Grace: plan.Grace}
	t.limit.Within(now, yieldShare(now, req.due, plan))
	if t.yieldBy = req.due; t.yields() {
		t.yieldBy = earlier(req.due, now.Add(plan.Timeout+plan.Grace)) // that of the hook alone, were there nothing to yield
		t.limit.Share(now, yieldShare(now, t.yieldBy, plan))
	}
	if l.isClosed {
		t.limit.Cut(now, ErrStopping, time.Time{})
	}
	if ln == Leadership {
		l.lead = t
	} else {
		l.notice = t
	}
	return t
}

// running is the task of a lane that is in a phase; nil: there is none.
func (l *Lanes) running(ln Lane, in taskPhase) *task {
	t := l.lead
	if ln == Notification {
		t = l.notice
	}
	if t == nil || t.phase != in {
		return nil
	}
	return t
}

// onClosed ends what runs; what waits is answered in its turn.
func (l *Lanes) onClosed(now time.Time) {
	l.isClosed = true
	l.freeze(l.holds.by.Epoch.Counter)
	l.hush(now)
	l.questions.end(now, l.do)
	l.attempts.end(agentStopping, abortBudget, l.do)
	switch t := l.lead; {
	case t == nil:
	case t.phase == waiting:
		t.isRerun = true
		l.finish(now, t)
	default:
		l.cut(now, t, ErrStopping, time.Time{})
	}
}

// IsSettled reports whether no lose-leadership hook is due, also by the disk.
func (l *Lanes) IsSettled() bool { return l.book.isSettled() }

// AtRest reports whether no hook of the leadership runs or is queued.
func (l *Lanes) AtRest() bool { return l.lead == nil && len(l.queue) == 0 }

// IsAllAtRest reports whether none of any kind does, nor an attempt of a job.
func (l *Lanes) IsAllAtRest() bool {
	return l.AtRest() && l.notice == nil && len(l.notices) == 0 && l.attempts.areOver()
}

// Owed is the epoch whose lose-leadership hook has not succeeded yet; false if there is none.
func (l *Lanes) Owed() (Epoch, bool) {
	if l.book.page.Owed == nil {
		return Epoch{}, false
	}
	return *l.book.page.Owed, true
}
