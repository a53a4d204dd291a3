package agent

import (
	"context"
	"io/fs"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// fakeOutcomes is how the hooks of a fakeHooks end, what its disk and its guard say,
// and what it was told of leases.
type fakeOutcomes struct {
	mu     sync.Mutex
	fail   map[hooks.Kind]error // the hooks that fail, and why
	disk   error                // TryRecording's answer
	owes   hooks.Epoch
	guard  *hooks.GuardStatus // nil: there is none
	leases []time.Time        // as renewed
	tried  []int              // Event.Attempt of each event
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
	res.Cause, res.Attempts, res.Seq = ev.Cause, 1, 0
	if err := f.fail[ev.Kind]; err != nil {
		res.OK, res.Err, res.Exit = false, err, 1
	}
	return res
}

func (f *fakeOutcomes) attempts() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]int{}, f.tried...)
}

func (f *fakeOutcomes) Recover(context.Context) {}

func (f *fakeOutcomes) Renew(deadline time.Time) {
	f.set(func(f *fakeOutcomes) { f.leases = append(f.leases, deadline) })
}

func (f *fakeOutcomes) Guard() (hooks.GuardStatus, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.guard == nil {
		return hooks.GuardStatus{}, false
	}
	return *f.guard, true
}

func (f *fakeOutcomes) Owed() (hooks.Epoch, bool) { return f.owes, f.owes.Counter > 0 }

func (f *fakeOutcomes) Keeps() (uint64, bool) { return 0, false }

func (f *fakeOutcomes) IsRunning(hooks.Kind) bool { return false }

func (f *fakeOutcomes) TryRecording() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.disk
}

func (f *fakeOutcomes) Runs() ([]hooks.Run, error) { return nil, nil }

func (f *fakeOutcomes) Output(uint64) (hooks.Run, []byte, error) {
	return hooks.Run{}, nil, fs.ErrNotExist
}
