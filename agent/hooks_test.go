package agent

import (
	"context"
	"io/fs"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/keeper"
	"github.com/bully-agent/bully-agent/wire"
)

// fakeOutcomes is how the hooks of a fakeHooks end, what its disk and its keeper say,
// and what it was told of leases.
type fakeOutcomes struct {
	mu        sync.Mutex
	fail      map[hooks.Kind]error // the hooks that fail, and why
	isCut     bool                 // since they were cut
	disk      error                // TryRecording's answer
	owes      hooks.Epoch
	noKeeper  error         // Recover's answer
	hanging   string        // atRecover, atCleanUp; empty: nothing
	gate      chan struct{} // until this is closed
	keeper    keeper.Status
	leases    []time.Time   // as renewed
	told      []string      // its events, with their causes, and "ending"
	takesLong time.Duration // the next Ending, as if the agent stood still
	heirs     []netip.AddrPort
	secret    wire.Secret // zero: no keeper has one
	isLent    bool
	isHurried bool                   // the result of a lose hook is told twice
	repeated  time.Duration          // so much later
	isDeaf    bool                   // it is not told what is lent
	tried     []int                  // Event.Attempt of each event
	running   hooks.Kind             // what IsRunning says; empty: nothing
	planned   int                    // lose hooks of planned ends
	due       time.Time              // when all of the last bounded event is to be dead
	renews    func(before time.Time) // at each renewal, of which it does not know yet
}

func (f *fakeOutcomes) set(change func(f *fakeOutcomes)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// end completes the result of an event.
func (f *fakeOutcomes) end(ev hooks.Event, res hooks.Result) hooks.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried = append(f.tried, ev.Attempt)
	if ev.IsPlanned {
		f.planned++
	}
	res.Cause, res.Attempts, res.Seq = ev.Cause, 1, 0
	if err := f.fail[ev.Kind]; err != nil {
		res.OK, res.Err, res.Exit, res.IsCut = false, err, 1, f.isCut
	}
	return res
}

// bound notes an event that has just been started, and its bound.
func (f *fakeOutcomes) bound(ev hooks.Event, due time.Time) {
	if !due.IsZero() {
		f.set(func(f *fakeOutcomes) { f.due = due })
	}
	f.set(func(f *fakeOutcomes) { f.told = append(f.told, string(ev.Kind)+" "+ev.Cause) })
}

// repeats says how long after its result it is told once more.
func (f *fakeOutcomes) repeats(ev hooks.Event) (after time.Duration, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.repeated, f.isHurried && ev.Kind == hooks.LoseLeadership && !ev.IsRedo
}

// plans checks how many lose hooks were those of planned ends.
func (f *fakeOutcomes) plans(t *testing.T, want int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.planned != want {
		t.Errorf("%d lose hooks of planned ends, want %d", f.planned, want)
	}
}

func (f *fakeOutcomes) attempts() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]int{}, f.tried...)
}

// What may hang in the clean-up of a last life.
const (
	atRecover = "the keeper of the last run still works"
	atCleanUp = "the lose hook still runs"
)

// hang has the clean-up hang there from the next start on, until go on is called.
func (f *fakeOutcomes) hang(where string) (goOn func()) {
	gate := make(chan struct{})
	f.set(func(f *fakeOutcomes) { f.hanging, f.gate = where, gate })
	return func() {
		f.set(func(f *fakeOutcomes) { f.hanging = "" })
		close(gate)
	}
}

// hangs returns when nothing hangs there any more, or with the error of ctx.
func (f *fakeOutcomes) hangs(ctx context.Context, where string) error {
	f.mu.Lock()
	isHere, gate := f.hanging == where, f.gate
	f.mu.Unlock()
	if !isHere {
		return nil
	}
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeOutcomes) Recover(ctx context.Context) error {
	if f.hangs(ctx, atRecover) != nil {
		return nil // as the keeper's Client
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.noKeeper
}

// renewing calls what a test wants done at a renewal.
func (f *fakeOutcomes) renewing() {
	f.mu.Lock()
	renews, before := f.renews, time.Time{}
	if n := len(f.leases); n > 0 {
		before = f.leases[n-1]
	}
	f.mu.Unlock()
	if renews != nil {
		renews(before)
	}
}

func (f *fakeOutcomes) Renew(deadline time.Time, isAlone bool) {
	f.renewing()
	f.set(func(f *fakeOutcomes) { f.leases = append(f.leases, silentBy(deadline, isAlone)) })
}

// silentBy is the deadline of an agent that says nothing; zero: there is none.
func silentBy(deadline time.Time, isAlone bool) time.Time {
	if isAlone {
		return time.Time{}
	}
	return deadline
}

func (f *fakeOutcomes) Ending(deadline time.Time, isAlone bool) {
	f.renewing()
	var takes time.Duration
	f.set(func(f *fakeOutcomes) {
		f.leases, f.told = append(f.leases, silentBy(deadline, isAlone)), append(f.told, "ending")
		takes, f.takesLong = f.takesLong, 0
	})
	time.Sleep(takes)
}

func (f *fakeOutcomes) Will(heirs []netip.AddrPort) {
	f.set(func(f *fakeOutcomes) { f.heirs = heirs })
}

func (f *fakeOutcomes) Commitment() wire.Commitment {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.secret == (wire.Secret{}) {
		return wire.Commitment{}
	}
	return f.secret.Commit()
}

func (f *fakeOutcomes) Lend() bool {
	f.set(func(f *fakeOutcomes) { f.isLent = !f.isDeaf })
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.isLent
}

func (f *fakeOutcomes) Return() { f.set(func(f *fakeOutcomes) { f.isLent = false }) }

func (f *fakeOutcomes) Status() keeper.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keeper
}

func (f *fakeOutcomes) Owed() (hooks.Epoch, bool) { return f.owes, f.owes.Counter > 0 }

func (f *fakeOutcomes) Keeps() (uint64, bool) { return 0, false }

func (f *fakeOutcomes) IsRunning(kind hooks.Kind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return kind == f.running
}

// setRunning says that a hook runs, as far as IsRunning tells.
func (f *fakeOutcomes) setRunning(kind hooks.Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = kind
}

func (f *fakeOutcomes) TryRecording() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.disk
}

func (f *fakeOutcomes) Runs(uint64) ([]hooks.Run, error) { return nil, nil }

func (f *fakeOutcomes) Output(uint64) (hooks.Run, []byte, error) {
	return hooks.Run{}, nil, fs.ErrNotExist
}

// left are those whom the keeper is to tell of a death.
func (f *fakeOutcomes) left() []netip.AddrPort {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.heirs
}
