package hookrun

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// loop owns Lanes and Hands, as the keeper's does: one thing at a time, each by whoever has mu.
type loop struct {
	hands   *Hands
	results chan hooks.Result // what was told
	cleaned chan hooks.Result
	jobs    chan hooks.JobResult
	clock   func() time.Time

	mu    sync.Mutex
	lanes hooks.Lanes
	cfg   Config // as set last
	timer *time.Timer
	moved *sync.Cond                    // after each step
	ended map[uint64]func(hooks.Result) // by hooks.Asked.ID
	runs  int                           // of hooks that have ended, or were not started
	gone  int                           // of what has hung
}

// newLoop makes one that does not run yet; results are not read before room many have come.
func newLoop(cfg Config, pause time.Duration, room int) (*loop, error) {
	return newLoopBy(time.Now, cfg, pause, room)
}

// newLoopBy is newLoop with another clock.
func newLoopBy(clock func() time.Time, cfg Config, pause time.Duration, room int) (*loop, error) {
	l := &loop{results: make(chan hooks.Result, room), cleaned: make(chan hooks.Result, 1), jobs: make(chan hooks.JobResult, room), clock: clock,
		cfg: cfg, ended: map[uint64]func(hooks.Result){}}
	l.moved = sync.NewCond(&l.mu)
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	l.hands, l.lanes, err = Open(cfg, Loop{Clock: clock, Post: l.step, Budget: time.Hour, Pause: pause})
	l.timer = time.AfterFunc(time.Hour, l.Tick)
	return l, err
}

// step has the lanes know of an event, and carries out what comes of it.
func (l *loop) step(ev hooks.LaneEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stepLocked(ev)
}

func (l *loop) stepLocked(ev hooks.LaneEvent) {
	switch l.hands.Heard(ev); ev.(type) {
	case hooks.StartFailed, hooks.Exited:
		l.runs++
	case hooks.Gone:
		l.gone++
	}
	for _, e := range l.lanes.Step(l.clock(), ev) {
		switch e := e.(type) {
		case hooks.Tell:
			l.tell(e)
		case hooks.Cleaned:
			l.hands.Flush(func() { l.cleaned <- e.Result })
		case hooks.TellJob:
			l.jobs <- e.Result
		default:
			l.hands.Do(e)
		}
	}
	l.timer.Stop()
	if at := l.lanes.Deadline(); !at.IsZero() {
		l.timer.Reset(at.Sub(l.clock()))
	}
	l.moved.Broadcast()
}

func (l *loop) tell(e hooks.Tell) {
	if e.Result.Kind.OfLeadership() {
		l.results <- e.Result
	}
	if ended := l.ended[e.ID]; ended != nil {
		delete(l.ended, e.ID)
		ended(e.Result)
	}
}

// await waits until the lanes are so.
func (l *loop) await(is func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !is() {
		l.moved.Wait()
	}
}

// Run runs hooks until ctx is done, and then ends them.
func (l *loop) Run(ctx context.Context) {
	l.step(hooks.Opened{})
	<-ctx.Done()
	l.close()
	l.await(l.lanes.IsAllAtRest)
	closed := make(chan struct{})
	l.mu.Lock()
	l.hands.Close(func() { close(closed) })
	l.mu.Unlock()
	<-closed
}

func (l *loop) close() {
	l.hands.Hurry()
	l.step(hooks.Closed{})
}

// CleanUp has what an earlier life owes be done, before Run.
func (l *loop) CleanUp(ctx context.Context, ev hooks.Event) hooks.Result {
	l.step(hooks.CleanUp{Event: ev})
	defer context.AfterFunc(ctx, l.close)()
	return <-l.cleaned
}

func (l *loop) Start(a hooks.Asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Event.Ended != nil {
		a.ID = uint64(len(l.ended) + 1)
		for l.ended[a.ID] != nil {
			a.ID++
		}
		l.ended[a.ID] = a.Event.Ended
	}
	l.stepLocked(a)
}

func (l *loop) Stop(epoch uint64)     { l.step(hooks.Stopped{Epoch: epoch}) }
func (l *loop) Renew(lease time.Time) { l.step(hooks.Renewed{Lease: lease}) }
func (l *loop) Tick()                 { l.step(hooks.Tick{}) }

func (l *loop) SetConfig(cfg Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg = cfg
	l.hands.SetSocket(cfg.Socket)
	l.stepLocked(hooks.Reloaded{Config: cfg.WithDefaults()})
}

// config is one of its own, to be changed.
func (l *loop) config() Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	cfg := l.cfg
	cfg.Config = cfg.WithDefaults()
	return cfg
}

func (l *loop) Owed() (hooks.Epoch, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lanes.Owed()
}

func (l *loop) Keeps() (uint64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lanes.Keeps()
}

// The latency that an election sees between an order and a running hook.
func BenchmarkStartToExec(b *testing.B) {
	l, err := newLoop(Config{Dir: b.TempDir(), Config: hooks.Config{Commands: map[hooks.Kind]hooks.Command{hooks.BecomeLeader: {Argv: []string{"/bin/true"}}}}}, 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { l.Run(ctx); close(done) }()
	var toExec, whole time.Duration
	var epoch uint64
	for b.Loop() {
		epoch++
		begun := time.Now()
		l.Start(hooks.Asked{Event: event(b, hooks.BecomeLeader, epoch)})
		res := <-l.results
		if !res.OK {
			b.Fatal(res.Err)
		}
		toExec += res.Started.Sub(begun)
		whole += time.Since(begun)
	}
	b.ReportMetric(float64(toExec.Microseconds())/float64(b.N), "µs-to-exec/op")
	b.ReportMetric(float64(whole.Microseconds())/float64(b.N), "µs-to-result/op")
	cancel()
	<-done
}
