package checkrun

import (
	"context"
	"reflect"
	"runtime"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// Check is a question about this host that a command answers: all is well if it exits with 0.
type Check struct {
	Name       string // of the form of a host's name
	Command    hooks.Command
	Interval   time.Duration // from the start of a run to that of the next
	Timeout    time.Duration // of a run, at most Interval
	Rise, Fall int           // at least 1
}

// Report is what has changed about a check.
type Report struct {
	Name  string
	State State
	Why   string // it did not pass the last time, in one line; empty: it did
}

// MaxChecks bounds how many there are. Arbitrary: each has a thread.
const MaxChecks = 16

// eager is how long after a run that of a check which is still Pending begins: a host that
// is well is not kept from leading by the interval.
const eager = 100 * time.Millisecond

// Runner runs checks until it is closed. Safe for concurrent use.
type Runner struct {
	socket string
	tell   func(Report) // called by any goroutine; it must not wait

	mu     sync.Mutex
	tasks  map[string]*task
	isOver bool
	work   sync.WaitGroup
}

// task is a check that is being run.
type task struct {
	check Check
	end   context.CancelFunc
	ended chan struct{} // closed when nothing of it runs any more

	mu    sync.Mutex
	judge judge
	why   string
}

// New makes a Runner. socket is the agent's, for BULLY_SOCKET.
func New(socket string, tell func(Report)) *Runner {
	return &Runner{socket: socket, tell: tell, tasks: map[string]*task{}}
}

// Set makes these the checks that run from now on. At first they are Pending. Later, when the
// configuration has changed, one that was changed keeps its state until its runs say
// otherwise, and one that is new passes until then: this host has led without it.
func (r *Runner) Set(checks []Check, isFirst bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isOver {
		return
	}
	before := r.tasks
	r.tasks = map[string]*task{}
	for _, c := range checks {
		was := before[c.Name]
		if was != nil && reflect.DeepEqual(was.check, c) {
			r.tasks[c.Name] = was
			delete(before, c.Name)
			continue
		}
		state := Passes
		if isFirst {
			state = Pending
		} else if was != nil {
			state = was.state()
		}
		r.begin(c, state, was)
	}
	for _, t := range before {
		t.end()
	}
}

// begin runs a check once nothing is left of what it replaces; the caller holds mu.
func (r *Runner) begin(c Check, state State, before *task) {
	ctx, end := context.WithCancel(context.Background())
	t := &task{check: c, end: end, ended: make(chan struct{}), judge: judge{rise: c.Rise, fall: c.Fall, state: state}}
	r.tasks[c.Name] = t
	r.work.Go(func() {
		defer close(t.ended)
		if before != nil {
			<-before.ended
		}
		r.serve(ctx, t)
	})
}

// Close ends what runs, and waits for that.
func (r *Runner) Close() {
	r.mu.Lock()
	r.isOver = true
	for _, t := range r.tasks {
		t.end()
	}
	r.mu.Unlock()
	r.work.Wait()
}

func (t *task) state() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.judge.state
}

// serve runs one check again and again.
func (r *Runner) serve(ctx context.Context, t *task) {
	runtime.LockOSThread() // see hooks.CheckUp
	defer runtime.UnlockOSThread()
	for ctx.Err() == nil {
		begun := time.Now()
		run := hooks.CheckUp(ctx, t.check.Name, t.check.Command, t.check.Timeout, r.socket)
		if ctx.Err() != nil {
			return
		}
		if report, isNews := t.take(run); isNews {
			r.tell(report)
		}
		run.Await(ctx)
		pause := t.check.Interval - time.Since(begun)
		if t.state() == Pending {
			pause = min(pause, eager)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// take judges a run. What people are told of a check that does not pass is news as well.
func (t *task) take(run hooks.Checkup) (Report, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := t.judge.take(run.Err == nil)
	why := run.Why()
	isNews := changed || t.judge.state != Passes && why != t.why
	t.why = why
	return Report{Name: t.check.Name, State: t.judge.state, Why: why}, isNews
}
