package resourcerun

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/holder"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// This program is also the holders that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == holder.Word {
		os.Exit(holder.Main())
	}
	os.Exit(m.Run())
}

// patience bounds every wait, far above what is needed.
const patience = 30 * time.Second

// rig is Hands and what they have posted.
type rig struct {
	*Hands
	t      *testing.T
	dir    string
	events chan hooks.LaneEvent
	log    bytes.Buffer // under mu
	mu     sync.Mutex
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, dir: t.TempDir(), events: make(chan hooks.LaneEvent, 100)}
	log := hclog.New(&hclog.LoggerOptions{Output: &r.log, Mutex: &r.mu})
	r.Hands = New(t.Context(), Config{Dir: r.dir, Budget: 50 * time.Millisecond, Logger: log, Post: func(ev hooks.LaneEvent) { r.events <- ev }})
	return r
}

// said counts the lines of the log that have a text.
func (r *rig) said(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.log.String(), text)
}

func (r *rig) next() hooks.LaneEvent {
	r.t.Helper()
	select {
	case ev := <-r.events:
		return ev
	case <-time.After(patience):
		r.t.Fatal("nothing is posted")
		return nil
	}
}

// quiet fails the test if something is posted.
func (r *rig) quiet() {
	r.t.Helper()
	select {
	case ev := <-r.events:
		r.t.Fatalf("%#v is posted", ev)
	default:
	}
}

func (r *rig) begin(res hooks.Resource) error {
	r.t.Helper()
	r.Begin(hooks.BeginResource{Resource: res, Event: leadership, Within: patience})
	ev, ok := r.next().(hooks.ResourceBegun)
	if !ok || ev.Name != res.Name {
		r.t.Fatalf("%#v is posted, want the beginning of %s", ev, res.Name)
	}
	return ev.Err
}

func (r *rig) end(res hooks.Resource) error {
	r.t.Helper()
	r.End(hooks.EndResource{Resource: res, Within: patience})
	ev, ok := r.next().(hooks.ResourceEnded)
	if !ok || ev.Name != res.Name {
		r.t.Fatalf("%#v is posted, want the end of %s", ev, res.Name)
	}
	return ev.Err
}

var leadership = hooks.Event{Kind: hooks.BecomeLeader, Cause: "boot", Time: time.Unix(1000, 0), Epoch: hooks.Epoch{Counter: 7, Owner: "a"}}

// worker is a command that is kept running; DIR in it is the rig's directory.
func (r *rig) worker(line string) hooks.Resource {
	return hooks.Resource{Name: "worker", Command: hooks.Command{Shell: strings.ReplaceAll(line, "DIR", r.dir)}, Timeout: patience, Grace: patience}
}

// reads waits until a file has a whole line more than before, and gives its last.
func (r *rig) reads(name string, lines int) string {
	r.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(r.dir, name))
		if all := strings.Split(string(text), "\n"); len(all) > lines {
			return all[lines-1]
		}
	}
	r.t.Fatalf("%s never had %d lines", name, lines)
	return ""
}

func bootTime() time.Time { return sidecar.Now() }

func isAlive(t *testing.T, pid string) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	return unix.Kill(n, 0) == nil
}

const stayAlive = `; trap 'exit 0' TERM; while :; do sleep 0.01; done`

// A kept command runs with the epoch's token from its beginning to its end, however often it ends in between.
func TestACommandIsKeptRunning(t *testing.T) {
	r := newRig(t)
	w := r.worker(`echo $$ >>DIR/pids; echo $BULLY_EPOCH $BULLY_RESOURCE >>DIR/told` + stayAlive)
	if err := r.begin(w); err != nil {
		t.Fatal(err)
	}
	first := r.reads("pids", 1)
	if told := r.reads("told", 1); told != "7 worker" {
		t.Errorf("it is told %q", told)
	}
	n, _ := strconv.Atoi(first)
	if err := unix.Kill(n, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := r.reads("pids", 2)
	if states := r.States(); len(states) != 1 || !states[0].Has || !strings.Contains(states[0].Text, "started again once within a minute") {
		t.Errorf("states %+v", states)
	}
	if err := r.begin(w); err != nil { // begun again, it is left alone
		t.Fatal(err)
	}
	if n := r.said("resource begun"); n != 1 {
		t.Errorf("%d lines say that it has begun", n)
	}
	if err := r.end(w); err != nil {
		t.Fatal(err)
	}
	if isAlive(t, first) || isAlive(t, second) {
		t.Error("a run is alive after the end")
	}
	if states := r.States(); len(states) != 0 {
		t.Errorf("states %+v after the end", states)
	}
	r.quiet()
}

// A command that ends at once, again and again, has failed, and says how.
func TestACommandThatDoesNotRunHasFailed(t *testing.T) {
	r := newRig(t)
	w := r.worker(`echo >>DIR/runs; exit 3`)
	if err := r.begin(w); err != nil {
		t.Fatal(err)
	}
	failed, ok := r.next().(hooks.ResourceFailed)
	if !ok || failed.Err.Error() != "it ended 5 times within a minute: exit status 3" {
		t.Errorf("%v is posted", failed)
	}
	r.reads("runs", maxEnds)
	if err := r.end(w); err != nil {
		t.Error(err)
	}
}

// From the moment at which nothing is to be put back a command that ends stays ended.
func TestAFrozenCommandIsNotStartedAgain(t *testing.T) {
	r := newRig(t)
	w := r.worker(`echo $$ >>DIR/pids` + stayAlive)
	if err := r.begin(w); err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(r.reads("pids", 1))
	r.Freeze()
	if err := unix.Kill(n, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * firstPause)
	if err := r.end(w); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(r.dir, "pids")); strings.Count(string(text), "\n") != 1 {
		t.Errorf("it ran again: %q", text)
	}
	r.quiet()
}

// The lease ends a command before anybody says that nothing is put back: no line tells of a start that never was.
func TestACommandIsSaidToStartAgainWhenItDoes(t *testing.T) {
	r := newRig(t)
	w := r.worker(`echo $$ >>DIR/pids`)
	if err := r.begin(w); err != nil {
		t.Fatal(err)
	}
	r.reads("pids", maxEnds-1) // a long pause comes
	time.Sleep(firstPause)
	r.Freeze()
	if err := r.end(w); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(filepath.Join(r.dir, "pids"))
	if runs, said := strings.Count(string(text), "\n"), r.said("is started again"); said != runs-1 {
		t.Errorf("%d runs, and %d lines that it is started again", runs, said)
	}
}

// A command is dead when the lease has ended, though nobody says that it is to end.
func TestACommandEndsWithTheLease(t *testing.T) {
	r := newRig(t)
	r.Lease(bootTime().Add(300 * time.Millisecond))
	w := r.worker(`trap '' TERM; echo $$ >>DIR/pids; while :; do sleep 0.01; done`)
	if err := r.begin(w); err != nil {
		t.Fatal(err)
	}
	pid := r.reads("pids", 1)
	r.Freeze()
	for end := time.Now().Add(patience); isAlive(t, pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it lives after its lease")
		}
	}
	if err := r.end(w); err != nil {
		t.Error(err)
	}
}

// fake is a thing whose calls a test holds up.
type fake struct {
	hold          chan struct{} // calls wait for it; nil: they do not
	deaf          bool          // they do not obey their context either
	begins, ends  atomic.Int32
	isPaused      atomic.Bool
	lost          chan error
	failsToBegin  error
	calls, atOnce atomic.Int32
}

func (f *fake) enter() func() {
	if f.calls.Add(1) > 1 {
		f.atOnce.Store(1)
	}
	return func() { f.calls.Add(-1) }
}

func (f *fake) wait(ctx context.Context) error {
	switch {
	case f.hold == nil:
		return nil
	case f.deaf:
		<-f.hold
		return nil
	}
	select {
	case <-f.hold:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fake) Begin(ctx context.Context) error {
	defer f.enter()()
	f.begins.Add(1)
	f.isPaused.Store(false)
	if err := f.wait(ctx); err != nil {
		return err
	}
	return f.failsToBegin
}

func (f *fake) Keep(ctx context.Context) error {
	defer f.enter()()
	select {
	case err := <-f.lost:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (f *fake) Pause() { f.isPaused.Store(true) }

func (f *fake) End(ctx context.Context) error {
	defer f.enter()()
	f.ends.Add(1)
	return f.wait(ctx)
}

func (f *fake) State() string { return "" }

// says checks what people are told of the only resource.
func (r *rig) says(has bool, why string) {
	r.t.Helper()
	if states := r.States(); len(states) != 1 || states[0].Has != has || states[0].Why != why {
		r.t.Errorf("states %+v, want one, here %t, %q", states, has, why)
	}
}

// put has the rig use a fake for a resource.
func (r *rig) put(f *fake) hooks.Resource {
	res := hooks.Resource{Name: "fake", Unit: "fake.service"}
	f.lost = make(chan error)
	r.tenants = append(r.tenants, &tenant{Resource: res, thing: f, turn: make(chan struct{}, 1)})
	return res
}

// What cannot be kept is told once; begun again it is kept again, and no two calls go on at a time.
func TestWhatIsLostIsTold(t *testing.T) {
	r, f := newRig(t), &fake{}
	res := r.put(f)
	for range 2 {
		if err := r.begin(res); err != nil {
			t.Fatal(err)
		}
		f.lost <- errors.New("deleted")
		if ev, ok := r.next().(hooks.ResourceFailed); !ok || ev.Err.Error() != "deleted" {
			t.Errorf("%v is posted", ev)
		}
	}
	if err := r.end(res); err != nil || f.begins.Load() != 2 || f.ends.Load() != 1 || f.atOnce.Load() != 0 {
		t.Errorf("end: %v, begun %d times, ended %d times, two calls at a time: %d", err, f.begins.Load(), f.ends.Load(), f.atOnce.Load())
	}
}

// What has gone wrong is said until it goes well. A beginning that is given up has not gone wrong.
func TestStatesSayWhatHasGoneWrong(t *testing.T) {
	r, f := newRig(t), &fake{failsToBegin: errors.New("no such device")}
	res := r.put(f)
	if r.begin(res) == nil {
		t.Fatal("it has begun")
	}
	r.says(false, "has not begun: no such device")
	f.failsToBegin = nil
	if err := r.begin(res); err != nil {
		t.Fatal(err)
	}
	r.says(true, "")
	f.lost <- errors.New("deleted")
	r.next()
	r.says(false, "has failed: deleted")
	if err := r.begin(res); err != nil {
		t.Fatal(err)
	}
	r.says(true, "")
	waitFor(t, func() bool { return f.calls.Load() == 1 }) // it is kept: an end that comes before that has its turn first
	f.hold = make(chan struct{})
	r.End(hooks.EndResource{Resource: res, Within: 200 * time.Millisecond})
	r.next()
	r.says(false, "has not ended: it does not answer within 200ms")
	close(f.hold)
	if err := r.end(res); err != nil {
		t.Fatal(err)
	}
	f = &fake{hold: make(chan struct{})}
	res = r.put(f)
	r.Begin(hooks.BeginResource{Resource: res, Event: leadership, Within: patience})
	waitFor(t, func() bool { return f.begins.Load() == 1 })
	r.Freeze()
	r.next()
	r.says(false, "")
}

// A beginning is given up when nothing is to be put back any more.
func TestFreezeGivesUpABeginning(t *testing.T) {
	r, f := newRig(t), &fake{hold: make(chan struct{})}
	res := r.put(f)
	r.Begin(hooks.BeginResource{Resource: res, Event: leadership, Within: patience})
	waitFor(t, func() bool { return f.begins.Load() == 1 })
	r.Freeze()
	if ev, ok := r.next().(hooks.ResourceBegun); !ok || !errors.Is(ev.Err, context.Canceled) {
		t.Errorf("%v is posted", ev)
	}
	if !f.isPaused.Load() {
		t.Error("it is not paused")
	}
}

// A freeze that comes right after the order gives up the beginning, too.
func TestFreezeGivesUpABeginningThatHasNotStarted(t *testing.T) {
	for range 100 {
		r, f := newRig(t), &fake{hold: make(chan struct{})}
		res := r.put(f)
		r.Begin(hooks.BeginResource{Resource: res, Event: leadership, Within: 5 * time.Second})
		r.Freeze()
		if ev, ok := r.next().(hooks.ResourceBegun); !ok || !errors.Is(ev.Err, context.Canceled) {
			t.Fatalf("%v is posted", ev)
		}
	}
}

// A resource that is being begun is asked for again, after a reload, say: there is one beginning, and its end ends all.
func TestABeginningThatGoesOnIsThatOfBoth(t *testing.T) {
	for range 100 {
		r, f := newRig(t), &fake{hold: make(chan struct{})}
		res := r.put(f)
		for range 2 {
			r.Begin(hooks.BeginResource{Resource: res, Event: leadership, Within: patience})
		}
		waitFor(t, func() bool { return f.begins.Load() == 1 })
		time.AfterFunc(time.Millisecond, func() { close(f.hold) })
		if ev, ok := r.next().(hooks.ResourceBegun); !ok || ev.Err != nil {
			t.Fatalf("%v is posted", ev)
		}
		if err := r.end(res); err != nil {
			t.Fatal(err)
		}
		r.quiet()
	}
}

// The outcome of a beginning that an end gives up is posted before that end: it is not taken for that of the resource which
// comes next by the same name.
func TestAnEndComesAfterTheBeginningThatItGivesUp(t *testing.T) {
	for range 100 {
		r, f := newRig(t), &fake{}
		f.hold = make(chan struct{})
		res := r.put(f)
		r.Begin(hooks.BeginResource{Resource: res, Event: leadership, Within: patience})
		waitFor(t, func() bool { return f.begins.Load() == 1 })
		time.AfterFunc(time.Millisecond, func() { close(f.hold) })
		r.End(hooks.EndResource{Resource: res, Within: patience})
		if ev, ok := r.next().(hooks.ResourceBegun); !ok {
			t.Fatalf("%v is posted first", ev)
		}
		if ev, ok := r.next().(hooks.ResourceEnded); !ok || ev.Err != nil {
			t.Fatalf("%v is posted", ev)
		}
	}
}

// What hangs is given up soon after its time, and is waited for by what comes next.
func TestWhatHangsIsGivenUp(t *testing.T) {
	r, f := newRig(t), &fake{hold: make(chan struct{}), deaf: true}
	res := r.put(f)
	r.Begin(hooks.BeginResource{Resource: res, Event: leadership, Within: 10 * time.Millisecond})
	if ev, ok := r.next().(hooks.ResourceBegun); !ok || ev.Err == nil || ev.Err.Error() != "it does not answer within 10ms" {
		t.Errorf("%v is posted", ev)
	}
	r.End(hooks.EndResource{Resource: res, Within: 10 * time.Millisecond})
	if ev, ok := r.next().(hooks.ResourceEnded); !ok || ev.Err == nil {
		t.Errorf("%v is posted, though nobody could end it", ev)
	}
	if f.ends.Load() != 0 || f.atOnce.Load() != 0 {
		t.Errorf("ended %d times while it hung", f.ends.Load())
	}
	close(f.hold)
	if err := r.end(res); err != nil {
		t.Error(err)
	}
}

// Who asks for an end once more only shortens its time, and there is one answer.
func TestAnEndIsHurried(t *testing.T) {
	r, f := newRig(t), &fake{hold: make(chan struct{})}
	res := r.put(f)
	r.End(hooks.EndResource{Resource: res, Within: patience})
	waitFor(t, func() bool { return f.ends.Load() == 1 })
	r.End(hooks.EndResource{Resource: res, Within: 10 * time.Millisecond})
	if ev, ok := r.next().(hooks.ResourceEnded); !ok || ev.Err == nil {
		t.Errorf("%v is posted", ev)
	}
	r.quiet()
}

func waitFor(t *testing.T, isSo func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !isSo(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came to that")
		}
	}
}

// An address at which a member is reached is refused.
func TestTheAddressOfAMember(t *testing.T) {
	r := newRig(t)
	ev := leadership
	ev.Members = []hooks.Member{{Name: "beta", Addr: "192.0.2.7:7950"}}
	res := hooks.Resource{Name: "a", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")}, Interface: "eth0"}
	r.Begin(hooks.BeginResource{Resource: res, Event: ev, Within: patience})
	const want = "192.0.2.7 is the own address of beta, at which the other agents reach it"
	if begun, ok := r.next().(hooks.ResourceBegun); !ok || begun.Err == nil || begun.Err.Error() != want {
		t.Errorf("%v is posted", begun)
	}
}

// A resource that has changed is another: the one before is ended by who has begun it, also after the other has begun.
func TestOneNameTwoResources(t *testing.T) {
	r := newRig(t)
	before, after := r.worker(`echo $$ >>DIR/before`+stayAlive), r.worker(`echo $$ >>DIR/after`+stayAlive)
	for _, w := range []hooks.Resource{before, after} {
		if err := r.begin(w); err != nil {
			t.Fatal(err)
		}
	}
	first, second := r.reads("before", 1), r.reads("after", 1)
	if err := r.end(before); err != nil || isAlive(t, first) || !isAlive(t, second) {
		t.Errorf("end: %v, the one before lives: %t, the one after: %t", err, isAlive(t, first), isAlive(t, second))
	}
	if err := r.end(after); err != nil || isAlive(t, second) {
		t.Errorf("end: %v, the one after lives: %t", err, isAlive(t, second))
	}
}
