package hooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeGuards are guards without processes. What happens to them is written into the
// rig's file "order", among the lines of hooks.
type fakeGuards struct {
	say     func(line string)
	records []GuardRecord

	mu      sync.Mutex
	refuse  error // why none can be started
	started []*fakeGuard
	stuck   bool // they do not answer Yield
}

func (f *fakeGuards) Start(o GuardOrder) (Guard, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return nil, f.refuse
	}
	g := &fakeGuard{of: f, order: o, losing: make(chan struct{}), yielded: make(chan struct{}), done: make(chan struct{})}
	f.started = append(f.started, g)
	f.say(fmt.Sprintf("guard:%d", o.Lose.Epoch.Counter))
	return g, nil
}

func (f *fakeGuards) Recover(context.Context, func(int)) ([]GuardRecord, error) {
	return f.records, nil
}

func (f *fakeGuards) set(refuse error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = refuse
}

func (f *fakeGuards) all() []*fakeGuard {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.started)
}

type fakeGuard struct {
	of            *fakeGuards
	order         GuardOrder
	losing        chan struct{}
	yielded, done chan struct{}

	mu        sync.Mutex
	status    GuardStatus
	leases    []time.Time
	forgotten bool
}

func (g *fakeGuard) Renew(deadline time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leases = append(g.leases, deadline)
}

func (g *fakeGuard) Yield() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.of.stuck && !isClosed(g.done) {
		g.close(g.yielded, "yield")
	}
}

func (g *fakeGuard) Stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end("stop")
}

func (g *fakeGuard) Release() { g.Stop() }

// end closes what closes at a guard's end; the caller holds mu.
func (g *fakeGuard) end(how string) {
	g.close(g.done, how)
	g.close(g.yielded, "")
}

func (g *fakeGuard) close(c chan struct{}, how string) {
	if isClosed(c) {
		return
	}
	if how != "" {
		g.of.say(fmt.Sprintf("%s:%d", how, g.order.Lose.Epoch.Counter))
	}
	close(c)
}

// beginsToLose is what a guard does when the agent was frozen.
func (g *fakeGuard) beginsToLose() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status.TookOver, g.status.Began = true, bootTime()
	g.close(g.losing, "takeover")
}

// takesOver is all of it.
func (g *fakeGuard) takesOver(err error) {
	g.beginsToLose()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status.HasEnded = true
	g.status.Lose = Result{Kind: LoseLeadership, Cause: "agent-died", OK: err == nil, Ran: true, Err: err}
	g.end("")
}

// isKilled ends the guard before it did anything.
func (g *fakeGuard) isKilled() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status.Err = "the guard died"
	g.end("killed")
}

func (g *fakeGuard) Yielded() <-chan struct{} { return g.yielded }
func (g *fakeGuard) Losing() <-chan struct{}  { return g.losing }
func (g *fakeGuard) Done() <-chan struct{}    { return g.done }

func (g *fakeGuard) Status() GuardStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.status
}

func (g *fakeGuard) Forget() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forgotten = true
	return nil
}

func (g *fakeGuard) isForgotten() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.forgotten
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// guardedRig is a rig with guards, which runs.
func guardedRig(t *testing.T, s scripts, cfg Config) (*rig, *fakeGuards) {
	t.Helper()
	f := &fakeGuards{}
	cfg.Guards = f
	g := setUp(t, s, cfg)
	f.say = func(line string) { appendLine(t, g.path("order"), line) }
	g.run()
	return g, f
}

func (g *rig) ordered(want string) {
	g.t.Helper()
	if got := strings.Join(g.lines("order"), " "); got != want {
		g.t.Errorf("in this order: %s\nwant: %s", got, want)
	}
}

func (f *fakeGuards) last(t *testing.T) *fakeGuard {
	t.Helper()
	all := f.all()
	if len(all) == 0 {
		t.Fatal("no guard was started")
	}
	return all[len(all)-1]
}

// One guard for each leadership, before its become hook; it has yielded before the
// lose hook runs, and is gone after it.
func TestGuardOfALeadership(t *testing.T) {
	g, f := guardedRig(t, scripts{BecomeLeader: note, LoseLeadership: note}, Config{Timeout: patience, Grace: time.Second})
	lease := time.Now().Add(time.Minute)
	g.Renew(lease)
	for epoch := uint64(1); epoch < 3; epoch++ {
		g.become(epoch)
		g.wants(BecomeLeader, epoch, true, true)
		if _, ok := g.Guard(); !ok {
			t.Error("no guard while it leads")
		}
		g.Renew(lease.Add(time.Second))
		g.Stop(epoch)
		g.Renew(lease.Add(time.Hour)) // a planned end goes on renewing
		g.lose(epoch)
		g.wants(LoseLeadership, epoch, true, true)
		if _, ok := g.Guard(); ok {
			t.Error("a guard without a leadership")
		}
		guard := f.last(t)
		g.until("the record to go", guard.isForgotten)
		if n := len(guard.leases); n != 4 || !guard.leases[1].Equal(lease.Add(time.Second)) || !guard.leases[2].Equal(lease.Add(time.Hour)) ||
			guard.leases[3] != guard.leases[2] { // which the answer took away
			t.Errorf("the guard was told %v", guard.leases)
		}
		if o := guard.order; o.Lose.Kind != LoseLeadership || o.Lose.Epoch.Counter != epoch || o.Timeout != patience || o.Grace != time.Second {
			t.Errorf("the guard's order: %+v", o)
		}
	}
	g.ordered("guard:1 become-leader:1 yield:1 lose-leadership:1 stop:1 guard:2 become-leader:2 yield:2 lose-leadership:2 stop:2")
}

// No lose hook, no guard; and none for notifications.
func TestNoGuardWithoutALoseHook(t *testing.T) {
	g, f := guardedRig(t, scripts{BecomeLeader: note, LeaderChange: note}, Config{})
	g.Start(event(LeaderChange, 1))
	g.become(1)
	g.wants(BecomeLeader, 1, true, true)
	g.lose(1)
	g.wants(LoseLeadership, 1, true, false)
	if n := len(f.all()); n > 0 {
		t.Errorf("%d guards", n)
	}
}

// A lose hook alone needs a guard as much.
func TestGuardWithoutABecomeHook(t *testing.T) {
	g, _ := guardedRig(t, scripts{LoseLeadership: note}, Config{Dir: t.TempDir()})
	g.become(1)
	g.wants(BecomeLeader, 1, true, false)
	g.lose(1)
	g.wants(LoseLeadership, 1, true, true)
	g.until("the guard's end", func() bool { return len(g.lines("order")) == 4 })
	g.ordered("guard:1 yield:1 lose-leadership:1 stop:1")
}

// The guard yields as soon as the leadership is lost, however long it takes to kill
// the become hook: nobody renews its lease any more.
func TestGuardYieldsAtOnce(t *testing.T) {
	g, f := guardedRig(t, scripts{BecomeLeader: note + "trap '' TERM; while :; do sleep 1; done", LoseLeadership: note}, Config{Grace: 300 * time.Millisecond})
	g.become(1)
	g.until("the become hook", func() bool { return len(g.lines("order")) == 2 })
	g.Stop(1)
	g.lose(1)
	if !isClosed(f.last(t).yielded) {
		t.Error("the guard does not know that the leadership is lost")
	}
	g.wants(BecomeLeader, 1, false, true)
	g.wants(LoseLeadership, 1, true, true)
}

// The guard was quicker: the agent does not run the hook again, and takes the
// guard's result for its own, good or bad.
func TestGuardTookOver(t *testing.T) {
	for _, failure := range []error{nil, errors.New("exit status 1")} {
		g, f := guardedRig(t, scripts{BecomeLeader: note, LoseLeadership: note}, Config{})
		f.stuck = true // it does not answer: it is about to run the hook
		g.become(1)
		g.wants(BecomeLeader, 1, true, true)
		g.Stop(1)
		g.lose(1)
		f.last(t).takesOver(failure)
		res := g.wants(LoseLeadership, 1, failure == nil, true)
		if !res.ByGuard || res.Unasked || res.Cause != "agent-died" || res.Err != failure {
			t.Errorf("result %+v", res)
		}
		g.nothingMore()
		g.until("the record to go", f.last(t).isForgotten)
		g.ordered("guard:1 become-leader:1 takeover:1")
	}
}

// The guard has ended a leadership that nobody has lost yet: whoever leads is told,
// and no further attempt of the become hook is made.
func TestGuardTookOverUnasked(t *testing.T) {
	g := setUp(t, scripts{BecomeLeader: note + "exit 75", LoseLeadership: note}, Config{Guards: &fakeGuards{}})
	f := g.config().Guards.(*fakeGuards)
	f.say = func(line string) { appendLine(t, g.path("order"), line) }
	g.pause = patience
	g.run()
	g.become(1)
	g.until("the first attempt", func() bool { return len(g.lines("order")) == 2 })
	f.last(t).takesOver(nil)
	results := []Result{g.result(), g.result()}
	slices.SortFunc(results, func(a, b Result) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
	if become, lose := results[0], results[1]; become.Kind != BecomeLeader || become.OK || !lose.Unasked || !lose.ByGuard {
		t.Fatalf("results %+v", results)
	}
	if s, ok := g.Guard(); !ok || !s.TookOver {
		t.Errorf("guard %+v, %v", s, ok)
	}
	g.lose(1)
	if res := g.wants(LoseLeadership, 1, true, true); !res.ByGuard || res.Unasked {
		t.Errorf("result %+v", res)
	}
	g.ordered("guard:1 become-leader:1 takeover:1")
}

// A guard that was killed is replaced; one that cannot be started is missed, and
// neither keeps the host from leading.
func TestGuardIsMissing(t *testing.T) {
	g, f := guardedRig(t, scripts{BecomeLeader: note, LoseLeadership: note}, Config{})
	f.set(errors.New("no room for processes"))
	g.become(1)
	g.wants(BecomeLeader, 1, true, true)
	if s, ok := g.Guard(); !ok || !strings.Contains(s.Err, "no room") {
		t.Errorf("guard %+v, %v", s, ok)
	}
	f.set(nil)
	g.lose(1)
	g.wants(LoseLeadership, 1, true, true)

	g.become(2)
	g.wants(BecomeLeader, 2, true, true)
	before := len(f.all())
	f.last(t).isKilled()
	g.until("another guard", func() bool { return len(f.all()) == before+1 })
	g.lose(2)
	g.wants(LoseLeadership, 2, true, true)
}

// A guard that is killed while the agent runs the lose hook is not missed.
func TestGuardIsKilledAfterItYielded(t *testing.T) {
	g, f := guardedRig(t, scripts{BecomeLeader: note, LoseLeadership: note + "read go <gate"}, Config{})
	g.mkfifo("gate")
	g.become(1)
	g.wants(BecomeLeader, 1, true, true)
	g.lose(1)
	g.until("the lose hook", func() bool { return len(g.lines("order")) == 4 })
	f.last(t).isKilled()
	g.open("gate")
	g.wants(LoseLeadership, 1, true, true)
	g.ordered("guard:1 become-leader:1 yield:1 lose-leadership:1 killed:1")
}

// A reload gives the leadership a lose hook that had none, and its guard with it. What
// the guard has then, it keeps.
func TestReloadAddsTheGuard(t *testing.T) {
	g, f := guardedRig(t, scripts{BecomeLeader: note}, Config{})
	g.become(1)
	g.wants(BecomeLeader, 1, true, true)
	for _, s := range []scripts{{LoseLeadership: note + "echo one"}, {LoseLeadership: "echo two"}, nil} {
		g.reload(s)
		g.until("the guard to be in charge", func() bool { _, ok := g.Guard(); return ok })
		if got := f.last(t).order.Command.Shell; !strings.Contains(got, "echo one") {
			t.Errorf("the guard would run %q", got)
		}
	}
	g.lose(1)
	g.wants(LoseLeadership, 1, true, true)
	g.until("the guard's end", func() bool { return len(g.lines("order")) == 5 })
	g.ordered("become-leader:1 guard:1 yield:1 lose-leadership:1 stop:1")
}

// Once a hook has failed, the guard has what the reload mends.
func TestReloadAfterAFailureReplacesTheGuard(t *testing.T) {
	g, f := guardedRig(t, scripts{BecomeLeader: note + "exit 1", LoseLeadership: "echo one"}, Config{})
	g.become(1)
	g.wants(BecomeLeader, 1, false, true)
	g.reload(scripts{BecomeLeader: note, LoseLeadership: "echo two"})
	g.until("the new guard", func() bool { return len(f.all()) == 2 })
	if got := f.last(t).order.Command.Shell; !strings.Contains(got, "echo two") {
		t.Errorf("the guard would run %q", got)
	}
	g.become(1)
	g.wants(BecomeLeader, 1, true, true)
	g.ordered("guard:1 become-leader:1 stop:1 guard:1 become-leader:1")
}

// A become hook that is not recorded gets no guard, and one that is tried again
// starts no other.
func TestGuardAndAttempts(t *testing.T) {
	g, f := guardedRig(t, scripts{BecomeLeader: note + "exit 1", LoseLeadership: note}, Config{Dir: t.TempDir()})
	mend := g.broken()
	g.become(1)
	g.wants(BecomeLeader, 1, false, false)
	g.lose(1)
	g.wants(LoseLeadership, 1, true, false)
	mend()
	for range 3 {
		g.become(2)
		g.wants(BecomeLeader, 2, false, true)
	}
	if n := len(f.all()); n != 1 {
		t.Errorf("%d guards, want 1", n)
	}
	g.lose(2)
	g.wants(LoseLeadership, 2, true, true)
}

// An agent that stops while it leads leaves its guard: it dies, and the guard sees
// to the rest.
func TestStoppingLeavesTheGuard(t *testing.T) {
	g, f := guardedRig(t, scripts{BecomeLeader: note, LoseLeadership: note}, Config{})
	g.become(1)
	g.wants(BecomeLeader, 1, true, true)
	g.end()
	if isClosed(f.last(t).done) {
		t.Error("the guard was stopped")
	}
}

// What the guard of the last life has done is not done again; what it has failed to
// do is.
func TestRecoverAndCleanUp(t *testing.T) {
	epoch := Epoch{7, owner}
	took := GuardStatus{TookOver: true, HasEnded: true, Lose: Result{OK: true, Ran: true}}
	failed := GuardStatus{TookOver: true, HasEnded: true, Lose: Result{Err: errors.New("exit status 1")}}
	for _, tt := range []struct {
		name    string
		record  GuardRecord
		byGuard bool
	}{
		{"it has", GuardRecord{Epoch: epoch, Status: took}, true},
		{"it has failed", GuardRecord{Epoch: epoch, Status: failed}, false},
		{"it had no reason", GuardRecord{Epoch: epoch}, false},
		{"it was another's", GuardRecord{Epoch: Epoch{6, owner}, Status: took}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forgotten := make(chan struct{})
			tt.record.Forget = func() error { close(forgotten); return nil }
			g := setUp(t, scripts{LoseLeadership: note}, Config{Guards: &fakeGuards{records: []GuardRecord{tt.record}}})
			g.Recover(context.Background())
			res := g.CleanUp(context.Background(), event(LoseLeadership, 7))
			if !res.OK || res.ByGuard != tt.byGuard || (len(g.lines("order")) == 0) != tt.byGuard {
				t.Errorf("result %+v, ran %v", res, g.lines("order"))
			}
			g.run()
			g.until("the record to go", func() bool { return isClosed(forgotten) })
		})
	}
}

// The agent is frozen between two attempts of its become hook, and goes on before it
// hears that the guard has ended the leadership: the second attempt is undone, too.
func TestBecomeAfterTheGuardsLose(t *testing.T) {
	g, f := guardedRig(t, scripts{BecomeLeader: note + "test -e second || { touch second; exit 75; }; exec sleep 1000", LoseLeadership: note}, Config{})
	g.become(1)
	g.until("the second attempt", func() bool { return len(g.lines("order")) == 3 })
	f.last(t).takesOverSince(1) // long before
	for range 2 {
		if res := g.result(); res.Kind == BecomeLeader && res.OK {
			t.Errorf("result %+v", res)
		}
	}
	g.lose(1)
	if res := g.result(); res.Kind != LoseLeadership || !res.OK || res.ByGuard {
		t.Errorf("result %+v, want the agent's own", res)
	}
	g.ordered("guard:1 become-leader:1 become-leader:1 takeover:1 lose-leadership:1")
}

// takesOverSince is takesOver of a guard that had begun then.
func (g *fakeGuard) takesOverSince(began time.Duration) {
	g.takesOver(nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status.Began = began
}

// The guard is killed in the middle of its lose hook: what it left running is ended,
// and this agent runs the hook, as soon as it may.
func TestGuardIsKilledWhileItLoses(t *testing.T) {
	g, f := guardedRig(t, scripts{BecomeLeader: note, LoseLeadership: note}, Config{})
	f.stuck = true
	g.become(1)
	g.wants(BecomeLeader, 1, true, true)
	left, _ := orphanOf(t, event(LoseLeadership, 1), "exec sleep 1000")
	f.last(t).beginsToLose()
	g.result() // unasked
	g.lose(1)
	f.last(t).isKilled()
	if res := g.wants(LoseLeadership, 1, true, true); res.ByGuard {
		t.Errorf("result %+v", res)
	}
	if left.alive() {
		t.Error("the guard's hook still runs")
	}
	g.ordered("guard:1 become-leader:1 takeover:1 killed:1 lose-leadership:1")
}

// The agent is frozen in its own lose hook, past the lease: the guard takes over, and
// the agent neither goes on nor tries again.
func TestGuardTakesOverALoseThatIsFrozen(t *testing.T) {
	g, f := guardedRig(t, scripts{BecomeLeader: note, LoseLeadership: note + "exec sleep 1000"}, Config{})
	g.become(1)
	g.wants(BecomeLeader, 1, true, true)
	g.lose(1)
	g.until("the lose hook", func() bool { return len(g.lines("order")) == 4 })
	f.last(t).takesOver(nil)
	if res := g.wants(LoseLeadership, 1, true, true); !res.ByGuard {
		t.Errorf("result %+v", res)
	}
	g.ordered("guard:1 become-leader:1 yield:1 lose-leadership:1 takeover:1")
}

// A lease that is renewed while a leadership ends is the guard's deadline, before and
// after it has yielded; one of before is not.
func TestGuardInAPlannedEnd(t *testing.T) {
	g, f := guardedRig(t, scripts{BecomeLeader: note, LoseLeadership: note + "read go <gate"}, Config{})
	g.mkfifo("gate")
	lease := time.Now().Add(time.Hour)
	g.Renew(lease)
	g.become(1)
	g.wants(BecomeLeader, 1, true, true)
	g.Stop(1)
	if isClosed(f.last(t).yielded) {
		t.Error("the guard has yielded before the hook starts")
	}
	g.lose(1)
	g.until("the lose hook", func() bool { return len(g.lines("order")) == 4 })
	if leases := f.last(t).leases; !leases[len(leases)-1].IsZero() {
		t.Errorf("the deadline of a leadership that is over still holds: %v", leases)
	}
	g.Renew(lease)
	if leases := f.last(t).leases; leases[len(leases)-1] != lease {
		t.Errorf("the guard was told %v", leases)
	}
	g.open("gate")
	g.wants(LoseLeadership, 1, true, true)
}

// The lose hook of a lost lease is bounded by that: so is the guard's patience.
func TestGuardOfALostLease(t *testing.T) {
	g, f := guardedRig(t, scripts{LoseLeadership: note}, Config{})
	lease := time.Now().Add(time.Hour)
	g.Renew(lease)
	g.become(1)
	g.wants(BecomeLeader, 1, true, false)
	g.Stop(1)
	g.loseWithin(1, patience)
	if leases := f.last(t).leases; leases[len(leases)-1] != lease {
		t.Errorf("the guard was told %v", leases)
	}
	g.wants(LoseLeadership, 1, true, true)
}

// A disk that hangs when the guard is to be started holds up no leadership for long,
// and the guard that comes late has nothing to do.
func TestGuardThatIsNotStartedInTime(t *testing.T) {
	g := setUp(t, scripts{BecomeLeader: note, LoseLeadership: note}, Config{Guards: &fakeGuards{}})
	f := g.config().Guards.(*fakeGuards)
	gate := make(chan struct{})
	f.say = func(line string) { <-gate; appendLine(t, g.path("order"), line) }
	g.recordPatience = shortPause
	g.run()
	g.become(1)
	if res := g.wants(BecomeLeader, 1, false, false); !errors.Is(res.Err, ErrNotRecorded) {
		t.Errorf("result %+v", res)
	}
	g.lose(1)
	g.wants(LoseLeadership, 1, true, false)
	close(gate)
	g.until("the guard's end", func() bool { return len(g.lines("order")) == 2 })
	g.ordered("guard:1 stop:1")
}
