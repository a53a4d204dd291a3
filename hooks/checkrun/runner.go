// Package checkrun runs the checks of a host in the keeper: each in a goroutine of its own,
// never twice at a time, and at once when it is new. Of what they say only changes are told,
// so that a check which hangs, forks, floods or flaps delays nobody.
package checkrun

import (
	"context"
	"reflect"
	"runtime"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/run"
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
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu    sync.Mutex // guards what tasks know, too
	tasks map[string]*task
}

// task is a check that is being run.
type task struct {
	Check
	judge
	why   string
	end   context.CancelFunc
	ended chan struct{} // closed when nothing of it runs any more
}

// New makes a Runner. socket is the agent's, for BULLY_SOCKET.
func New(socket string, tell func(Report)) *Runner {
	r := &Runner{socket: socket, tell: tell, tasks: map[string]*task{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// Set makes these the checks that run from now on. At first they are Pending. Later, when the
// configuration has changed, one that was changed keeps its state until its runs say
// otherwise, and one that is new passes until then: this host has led without it.
func (r *Runner) Set(checks []Check, isFirst bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.tasks
	r.tasks = map[string]*task{}
	for _, c := range checks {
		was := before[c.Name]
		if was != nil && reflect.DeepEqual(was.Check, c) {
			r.tasks[c.Name] = was
			delete(before, c.Name)
			continue
		}
		state := Passes
		if isFirst {
			state = Pending
		} else if was != nil {
			state = was.state
		}
		r.begin(c, state, was)
	}
	for _, t := range before {
		t.end()
	}
}

// begin runs a check once nothing is left of what it replaces; the caller holds mu.
func (r *Runner) begin(c Check, state State, before *task) {
	if r.ctx.Err() != nil {
		return
	}
	ctx, end := context.WithCancel(r.ctx)
	t := &task{Check: c, judge: judge{rise: c.Rise, fall: c.Fall, state: state}, end: end, ended: make(chan struct{})}
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
	r.stop()
	r.mu.Unlock()
	r.work.Wait()
}

// serve runs one check again and again.
func (r *Runner) serve(ctx context.Context, t *task) {
	runtime.LockOSThread() // see run.CheckUp
	defer runtime.UnlockOSThread()
	for ctx.Err() == nil {
		begun := time.Now()
		run := run.CheckUp(ctx, t.Name, t.Command, t.Timeout, r.socket)
		if ctx.Err() != nil {
			return
		}
		report, isNews := r.judge(t, run)
		if isNews {
			r.tell(report)
		}
		run.Await(ctx)
		pause := t.Interval - time.Since(begun)
		if report.State == Pending {
			pause = min(pause, eager)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// judge judges a run. What people are told of a check that does not pass is news as well.
func (r *Runner) judge(t *task, run run.Checkup) (report Report, isNews bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := t.take(run.Err == nil)
	why := run.Why()
	isNews = changed || t.state != Passes && why != t.why
	t.why = why
	return Report{Name: t.Name, State: t.state, Why: why}, isNews
}
