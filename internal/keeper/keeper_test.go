package keeper

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/httpd"
	"github.com/bully-agent/bully-agent/internal/reader"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// Hooks run as package hooks says, though in another process: in order, with one result
// each, their output in the ledger and their lines in the agent's log.
func TestHooksRun(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note + "echo said", hooks.LoseLeadership: note + "exit 3", hooks.LeaderChange: note}))
	ended := make(chan hooks.Result, 1)
	ev := d.event(hooks.BecomeLeader, 1)
	ev.Ended = func(res hooks.Result) { ended <- res }
	d.Start(ev, time.Time{})
	res := d.wants(hooks.BecomeLeader, 1, true)
	if !res.Ran || res.Seq != 1 || res.Attempts != 1 || res.Took <= 0 {
		t.Errorf("result %+v", res)
	}
	if dealt := <-ended; dealt.Seq != 1 {
		t.Errorf("the event ended with %+v", dealt)
	}
	r.Until("the run in the ledger", func() bool { _, _, err := d.Output(1); return err == nil })
	if run, out, err := d.Output(1); err != nil || run.Hook != hooks.BecomeLeader || string(out) != "said\n" {
		t.Errorf("run %+v, output %q (%v)", run, out, err)
	}
	d.lose(1)
	if res := d.wants(hooks.LoseLeadership, 1, false); res.Err.Error() != "exit status 3, attempt 3" || res.TakenOver {
		t.Errorf("result %+v", res)
	}
	d.Start(d.event(hooks.LeaderChange, 1), time.Time{})
	r.Until("the notification", func() bool { return strings.Contains(r.Text("order"), "leader-change") })
	r.Until("the lines in the log", func() bool {
		return strings.Contains(d.log.String(), "[INFO]  hook printed: epoch=1 hook=become-leader stream=stdout line=said")
	})
	r.Until("all runs in the ledger", func() bool { runs, err := d.Runs(0); return err == nil && len(runs) == 5 })
	d.end()
	if s := d.Status(); s.Err != "" {
		t.Errorf("status %+v", s)
	}
}

// An event among very many members is far longer than what a pipe holds.
func TestALongEvent(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: "wc -c >told"}))
	ev := d.event(hooks.BecomeLeader, 1)
	for i := range 5_000 {
		ev.Members = append(ev.Members, hooks.Member{ID: fmt.Sprint(i), Name: "a-name-as-long-as-they-come", Status: "alive"})
	}
	d.Start(ev, time.Time{})
	d.wants(hooks.BecomeLeader, 1, true)
	if n := r.PID("told"); n < 1<<18 {
		t.Errorf("it was told %d bytes", n)
	}
}

// A hook that runs or waits is said to, from the order on.
func TestIsRunning(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: "while [ ! -s go ]; do sleep 0.01; done", hooks.MemberChange: note}))
	d.become(1)
	if !d.IsRunning(hooks.BecomeLeader) || d.IsRunning(hooks.LoseLeadership) {
		t.Error("the become hook does not run, or the lose hook does")
	}
	if err := os.WriteFile(r.Path("go"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.wants(hooks.BecomeLeader, 1, true)
	if d.IsRunning(hooks.BecomeLeader) {
		t.Error("the become hook still runs")
	}
	d.Start(d.event(hooks.MemberChange, 1), time.Time{})
	d.Start(d.event(hooks.MemberChange, 1), time.Time{})
	r.Until("the notifications' end", func() bool { return !d.IsRunning(hooks.MemberChange) })
}

// A reload reaches the keeper, and a leadership keeps its hooks.
func TestReload(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: "echo old >>order"}))
	d.leads(1)
	d.reload(r.config(scripts{hooks.LoseLeadership: "echo new >>order"}))
	r.Until("the note that the leadership keeps its hooks", func() bool { epoch, ok := d.Keeps(); return ok && epoch == 1 })
	d.lose(1)
	d.wants(hooks.LoseLeadership, 1, true)
	d.leads(2)
	if _, ok := d.Keeps(); ok {
		t.Error("a new leadership keeps what is not configured any more")
	}
	d.lose(2)
	d.wants(hooks.LoseLeadership, 2, true)
	r.ordered("become-leader:test:1 old new")
}

// The keeper is killed: what it ran dies with it, the agent hears of it, and the next one
// runs the lose hook that the leadership had begun with.
func TestKeeperKilled(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note, hooks.LeaderChange: "echo $$ >pid; exec sleep 1000"}))
	d.leads(7)
	ended := make(chan hooks.Result, 1)
	ev := d.event(hooks.LeaderChange, 7)
	ev.Ended = func(res hooks.Result) { ended <- res }
	d.Start(ev, time.Time{})
	death := r.death(r.PID("pid"))
	first := d.Status().Process
	r.kill(first, unix.SIGKILL)
	death()
	if res := d.wants(hooks.LoseLeadership, 7, false); !res.Unasked || !errors.Is(res.Err, ErrDied) {
		t.Errorf("result %+v", res)
	}
	if res := <-ended; !errors.Is(res.Err, ErrDied) {
		t.Errorf("the notification ended with %+v", res)
	}
	r.Until("another keeper", func() bool { s := d.Status(); return s.Process != 0 && s.Process != first })
	d.lose(7)
	d.wants(hooks.LoseLeadership, 7, true)
	d.leads(8)
	d.lose(8)
	d.wants(hooks.LoseLeadership, 8, true)
	r.ordered("become-leader:test:7 lose-leadership:test:7 become-leader:test:8 lose-leadership:test:8")
}

// A keeper that is frozen while nothing is asked of it keeps nothing of what the leader has: it is ended, and the leadership with it.
func TestAKeeperThatIsFrozenIsFound(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}))
	d.leads(7)
	first := d.Status().Process
	r.kill(first, unix.SIGSTOP)
	if res := d.wants(hooks.LoseLeadership, 7, false); !res.Unasked || !errors.Is(res.Err, ErrDied) {
		t.Errorf("result %+v", res)
	}
	r.Until("another keeper", func() bool { s := d.Status(); return s.Process != 0 && s.Process != first })
	d.lose(7)
	d.wants(hooks.LoseLeadership, 7, true)
	r.ordered("become-leader:test:7 lose-leadership:test:7")
}

// A leadership that has ended is none that the death of a keeper could end once more.
func TestKeeperKilledAfterTheEnd(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}))
	d.leads(1)
	d.lose(1)
	d.wants(hooks.LoseLeadership, 1, true)
	first := d.Status().Process
	r.kill(first, unix.SIGKILL)
	r.Until("another keeper", func() bool { s := d.Status(); return s.Process != 0 && s.Process != first })
	d.leads(2)
	r.ordered("become-leader:test:1 lose-leadership:test:1 become-leader:test:2")
}

// A hook that prints while its leadership keeps the hooks that it began with took that note away.
func TestALogLineSaysNothingOfWhatIsKept(t *testing.T) {
	k := &process{}
	c := &Client{keeper: k}
	c.hear(k, report{Say: sayAck, Keeps: 7})
	c.hear(k, report{Say: sayLog, Log: &line{Text: "hook printed"}})
	if epoch, ok := c.Keeps(); epoch != 7 || !ok {
		t.Errorf("after a line in the log it keeps %d, %v", epoch, ok)
	}
}

// The leadership goes on with the next keeper: it keeps the hooks that it had begun with,
// whatever was reloaded meanwhile.
func TestTheNextKeeperKeepsTheHooks(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: "echo old >>order"}))
	d.leads(1)
	d.reload(r.config(scripts{hooks.LoseLeadership: "echo new >>order"}))
	r.Until("the note that the leadership keeps its hooks", func() bool { _, ok := d.Keeps(); return ok })
	r.Until("the note on disk", func() bool { return strings.Contains(r.Text("state/hook-journal.json"), "echo old") })
	r.kill(d.Status().Process, unix.SIGKILL)
	d.wants(hooks.LoseLeadership, 1, false)
	d.lose(1)
	d.wants(hooks.LoseLeadership, 1, true)
	r.ordered("become-leader:test:1 old")
}

// The keeper is killed before anything is cleaned up, or there is none at that moment: the
// next one does it, and what that comes to is said of no other.
func TestKeeperKilledBeforeTheCleanUp(t *testing.T) {
	t.Parallel()
	for name, isReplaced := range map[string]bool{"and another runs": true, "and none runs yet": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			d := r.desk(r.config(scripts{hooks.LoseLeadership: note}))
			d.recover()
			first := d.Status().Process
			death := r.death(first)
			r.kill(first, unix.SIGKILL)
			death()
			r.Until("the word of its death", func() bool { return d.Status().Process != first })
			if isReplaced {
				r.Until("another keeper", func() bool { return d.Status().Process != 0 })
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if res := d.CleanUp(ctx, d.event(hooks.LoseLeadership, 7)); !res.OK || !res.Ran {
				t.Errorf("result %+v", res)
			}
			d.run()
			r.ordered("lose-leadership:unclean-restart:7")
		})
	}
}

// The keeper is killed in the middle of a clean-up: the next one is asked for it, and ends what is left
// of the first attempt. Else this life could lead before the last one has let go.
func TestKeeperKilledDuringTheCleanUp(t *testing.T) {
	r := newRig(t)
	d := r.desk(r.config(scripts{hooks.LoseLeadership: note + "[ -e first ] || { echo $$ >first; sleep 1000 & sleep 1000; }"}))
	d.recover()
	go func() {
		r.UntilFile("first")
		r.kill(d.Status().Process, unix.SIGKILL)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if res := d.CleanUp(ctx, d.event(hooks.LoseLeadership, 7)); !res.OK || !res.Ran {
		t.Errorf("result %+v", res)
	}
	if left := r.Living(); len(left) > 0 {
		t.Errorf("%d processes live", len(left))
	}
	d.run()
	r.ordered("lose-leadership:unclean-restart:7 lose-leadership:unclean-restart:7")
}

// The keeper is killed in the middle of a become hook: that has failed. In the middle of
// a lose hook: the next one ends what is left of that, and runs it again.
func TestKeeperKilledDuringAHook(t *testing.T) {
	r := newRig(t)
	const once = "[ -e $BULLY_EVENT ] || { echo $$ >$BULLY_EVENT; sleep 1000 & sleep 1000; }"
	d := r.open(r.config(scripts{hooks.BecomeLeader: note + once, hooks.LoseLeadership: note + once}))
	d.become(7)
	r.UntilFile("become-leader")
	r.kill(d.Status().Process, unix.SIGKILL)
	if res := d.wants(hooks.BecomeLeader, 7, false); res.Unasked || !errors.Is(res.Err, ErrDied) {
		t.Errorf("result %+v", res)
	}
	d.lose(7)
	r.UntilFile("lose-leadership")
	r.kill(d.Status().Process, unix.SIGKILL)
	d.wants(hooks.LoseLeadership, 7, true)
	if left := r.Living(); len(left) > 0 {
		t.Errorf("%d processes live", len(left))
	}
	r.ordered("become-leader:test:7 lose-leadership:test:7 lose-leadership:test:7")
}

// The next keeper is let run last: from then on it judges its agent, and has heard by then what waits.
func TestTheNextKeeperRunsWhenItHasHeardAll(t *testing.T) {
	c := New(Config{Dir: t.TempDir(), Clock: clock})
	c.phase = running
	c.Renew(clock().Add(time.Minute), false)
	c.Start(eventOf("a", hooks.BecomeLeader, 7), time.Time{})
	c.waiting = nil // a keeper has had it
	c.Start(eventOf("a", hooks.LoseLeadership, 7), time.Time{})
	k := &process{}
	k.more = sync.NewCond(&k.mu)
	c.take(k, nil)
	var given []verb
	for _, g := range k.given {
		given = append(given, g.order.Do)
	}
	if want := []verb{toTrust, toRecover, toAdopt, toStart, toRun}; !slices.Equal(given, want) {
		t.Errorf("it is given %v, want %v", given, want)
	}
}

// The next keeper is told until when others act on the lease, also of an agent that may be silent for as long as it likes.
func TestTheNextKeeperKnowsUntilWhenOthersAct(t *testing.T) {
	c := New(Config{Dir: t.TempDir(), Clock: clock})
	c.phase = running
	until := clock().Add(time.Minute)
	c.Renew(until, true)
	c.Start(eventOf("a", hooks.BecomeLeader, 7), time.Time{})
	c.Lend()
	k := &process{}
	k.more = sync.NewCond(&k.mu)
	c.take(k, nil)
	leases := map[verb]time.Time{}
	for _, g := range k.given {
		leases[g.order.Do] = g.order.Lease
	}
	lent, ok := leases[toLend]
	if want := sidecar.Convert(until, clock); !ok || lent.Sub(want).Abs() > time.Second {
		t.Errorf("others act until %v, want %v", lent, want)
	}
	if at := leases[toAdopt]; !at.IsZero() {
		t.Errorf("the agent may be silent until %v, want for ever", at)
	}
}

// A loan that is held behind a reload has the end that was renewed since.
func TestAHeldLoanIsRenewed(t *testing.T) {
	first, next := now().Add(time.Second), now().Add(time.Minute)
	r := reading{until: first}
	r.holds(order{Do: toLend, Lease: first})
	r.holds(order{Do: toStart, Lease: first})
	r.renew(renewal{deadline: next, isAlone: true})
	if lent, silent := r.held[0].Lease, r.held[1].Lease; lent != next || !silent.IsZero() {
		t.Errorf("others act until %v, the agent may be silent until %v", lent, silent)
	}
}

// A keeper is killed in the middle of a lose hook that is bounded: the next one is asked for it with
// the bound that it had. So it is where the keeper had taken over for the agent's silence.
func TestKeeperKilledDuringABoundedHook(t *testing.T) {
	t.Parallel()
	const within = 5 * time.Second // in which the second keeper has begun it, on a busy machine too
	for name, lease := range map[string]time.Duration{"of an agent that answers": patience, "of one that is silent": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			d := r.open(r.config(scripts{hooks.LoseLeadership: note + "if [ -e first ]; then echo $$ >second; else echo $$ >first; fi; exec sleep 1000"}))
			d.Renew(clock().Add(lease), false)
			d.leads(7)
			ev := d.event(hooks.LoseLeadership, 7)
			begun := now()
			d.Start(ev, begun.Add(within))
			r.UntilFile("first")
			if lease < within {
				time.Sleep(lease) // it took over before that had passed
			}
			r.kill(d.Status().Process, unix.SIGKILL)
			death := r.death(r.PID("second"))
			// What is added is for a loaded machine, not for the code; the hook's own timeout is far longer.
			if died := death().Sub(begun); died > within+2*time.Second {
				t.Errorf("the hook died %v after it was first asked for, want by %v", died, within)
			}
		})
	}
}

// M7: the keeper is killed, the leadership is ended cleanly, and the next keeper takes longer
// than what was left of the lease then. The agent has renewed it meanwhile: it is not silent.
func TestKeeperKilledInAPlannedEnd(t *testing.T) {
	r := newRig(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note + "sleep 0.2"})
	r.program = []string{"/bin/sh", "-c", "while [ -e " + r.Path("slow") + " ]; do sleep 0.01; done; exec " + self + " " + Word}
	d := r.open(cfg)
	d.Renew(clock().Add(patience), false)
	d.leads(7)
	if err := os.WriteFile(r.Path("slow"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.kill(d.Status().Process, unix.SIGKILL)
	if res := d.wants(hooks.LoseLeadership, 7, false); !res.Unasked || !errors.Is(res.Err, ErrDied) {
		t.Errorf("result %+v", res)
	}
	d.Renew(clock(), false) // all that is left
	ev := d.event(hooks.LoseLeadership, 7)
	ev.IsPlanned = true
	d.Start(ev, time.Time{})
	d.Renew(clock().Add(patience), false)
	if err := os.Remove(r.Path("slow")); err != nil {
		t.Fatal(err)
	}
	if res := d.wants(hooks.LoseLeadership, 7, true); res.TakenOver || res.Unasked {
		t.Errorf("result %+v of an agent that lives", res)
	}
	r.ordered("become-leader:test:7 lose-leadership:test:7")
}

// A keeper that hangs is killed as soon as something is wanted of it, and does not hold
// up whoever wants it.
func TestStuckKeeper(t *testing.T) {
	t.Parallel()
	for name, renewals := range map[string]int{"with far more than its pipe holds": 50_000, "with room in its pipe": 0} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}))
			d.leads(7)
			keeper := d.Status().Process
			r.kill(keeper, unix.SIGSTOP)
			r.Until("it to stand still", func() bool { return standsStill(keeper) })
			for range renewals {
				d.Renew(clock().Add(time.Hour), false)
			}
			ev := d.event(hooks.LoseLeadership, 7)
			begun := time.Now()
			d.Start(ev, now().Add(patience))
			if took := time.Since(begun); took > patience/10 {
				t.Errorf("an order took %v", took)
			}
			d.wants(hooks.LoseLeadership, 7, true)
			r.ordered("become-leader:test:7 lose-leadership:test:7")
		})
	}
}

// Where no keeper can be started there is no agent, which says why.
func TestNoKeeper(t *testing.T) {
	r := newRig(t)
	r.program = []string{"/bin/false"}
	if err := r.desk(r.config(nil)).Recover(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "start keeper: ") {
		t.Errorf("%v", err)
	}
	r.program = nil
	if err := os.WriteFile(r.Path("state/hook-output"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.desk(r.config(nil)).Recover(t.Context()); err == nil || !strings.Contains(err.Error(), "hook ledger") {
		t.Errorf("%v", err)
	}
}

// Where the kernel has no pidfds, before Linux 5.3, a keeper runs hooks, finds its agent dead by its parent alone, and keeps a reader.
func TestWithoutPidfds(t *testing.T) {
	feed, err := reader.Open(httpd.Config{Listen: netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	r := newRig(t)
	d := r.desk(r.config(scripts{hooks.BecomeLeader: note}))
	d.cfg.Reader, d.cfg.pidfd = feed.Door(), func(int, int) (int, error) { return -1, unix.ENOSYS }
	d.recover()
	d.run()
	d.leads(7)
	for end := time.Now().Add(patience); d.Reader().Process == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no reader runs: %+v\n%s", d.Reader(), d.log)
		}
	}
}

// An agent that loses its keeper and cannot start another fails what it is asked to run.
func TestNoOtherKeeper(t *testing.T) {
	r := newRig(t)
	program := r.Path("program")
	if err := os.Symlink("/proc/self/exe", program); err != nil {
		t.Fatal(err)
	}
	r.program = []string{program, Word}
	d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}))
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	r.kill(d.Status().Process, unix.SIGKILL)
	r.Until("the failure", func() bool { return d.Status().Err != "" })
	d.become(7)
	d.wants(hooks.BecomeLeader, 7, false)
	d.lose(7)
	d.wants(hooks.LoseLeadership, 7, false)
}

// An agent that has closed its pipe and lives is silent, not dead: its deadline counts. Its keeper ends with the leadership: no
// order can come any more.
func TestDeafKeeper(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note + "echo x >lost"}))
	const lease = 600 * time.Millisecond
	begun := now()
	d.Renew(clock().Add(lease), false)
	d.leads(7)
	d.mu.Lock()
	k := d.keeper
	d.mu.Unlock()
	death := r.death(k.pid())
	if err := k.conn.Out.Close(); err != nil {
		t.Fatal(err)
	}
	r.UntilFile("lost")
	if took := now().Sub(begun); took < lease-d.settings.Budget-100*time.Millisecond {
		t.Errorf("the leadership was ended after %v, with a lease of %v", took, lease)
	}
	death()
}

// Signals that end other programs do not end a keeper.
func TestAKeeperDropsSignals(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note}))
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGTSTP} {
		r.kill(d.Status().Process, sig)
	}
	d.leads(1)
}

// The keeper may die before it has told of all: what has ended has ended, and what has not fails or waits for the next.
func TestWhatEndsIsToldOnce(t *testing.T) {
	c := New(Config{Dir: t.TempDir(), Clock: clock, Program: []string{"/nonexistent"}})
	k := &process{}
	k.more = sync.NewCond(&k.mu)
	c.keeper, c.phase = k, running
	answers := make(chan hooks.Result, 4)
	start := func(kind hooks.Kind) {
		ev := eventOf("a", kind, 1)
		ev.Ended = func(res hooks.Result) { answers <- res }
		c.Start(ev, time.Time{})
	}
	start(hooks.BecomeLeader)
	start(hooks.LoseLeadership)
	become := hooks.Result{Kind: hooks.BecomeLeader, Epoch: 1, OK: true}
	c.hear(k, report{Say: sayEnded, ID: 1, Outcome: tell(become)})()
	if len(c.open) != 1 || c.IsRunning(hooks.BecomeLeader) || !c.IsRunning(hooks.LoseLeadership) {
		t.Errorf("open %+v", c.open[0])
	}
	if again := c.hear(k, report{Say: sayEnded, ID: 1, Outcome: tell(become)}); again != nil {
		t.Error("one event has ended twice")
	}
	lose := hooks.Result{Kind: hooks.LoseLeadership, Epoch: 1, OK: true}
	c.hear(k, report{Say: sayEnded, ID: 2, Outcome: tell(lose)})()
	start(hooks.MemberChange)
	c.phase = closing // no other keeper is started
	c.lost(k, ErrDied)
	for _, want := range []hooks.Result{become, lose} {
		if res := <-c.Results(); res.Kind != want.Kind || !res.OK {
			t.Errorf("told %+v, want %+v", res, want)
		}
		if res := <-answers; res.Kind != want.Kind || !res.OK {
			t.Errorf("answered %+v, want %+v", res, want)
		}
	}
	if res := <-answers; res.Kind != hooks.MemberChange || !errors.Is(res.Err, ErrDied) || len(c.open) > 0 {
		t.Errorf("answered %+v, open %v", res, c.open)
	}
}

func TestKeeperByHand(t *testing.T) {
	if _, err := inherit(readFile); err == nil {
		t.Error("a keeper without an agent")
	}
}

// The keeper keeps nothing of the agent's but what it needs.
func TestAKeeperHoldsLittle(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(nil))
	dir := fmt.Sprintf("/proc/%d/fd", d.Status().Process)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var held []string
	for _, e := range entries {
		to, _ := os.Readlink(filepath.Join(dir, e.Name()))
		held = append(held, e.Name()+" "+to)
	}
	if slices.ContainsFunc(held, func(s string) bool { return strings.Contains(s, "/state/") && !strings.HasSuffix(s, fileName) }) {
		t.Errorf("it holds %q", held)
	}
}

// An agent that has begun beside the keeper of its last life tells its own what there is to
// do before that runs: notifications run then, by the newest configuration.
func TestWhatIsToldBeforeThereIsAKeeper(t *testing.T) {
	r := newRig(t)
	d := r.desk(r.config(nil))
	d.Renew(time.Time{}, false)
	d.Will(nil)
	d.Return()
	d.Stop(6)
	d.Start(d.event(hooks.MemberChange, 7), time.Time{})
	d.reload(r.config(scripts{hooks.MemberChange: note}))
	d.Jobs().Lost("lost")
	if !d.IsRunning(hooks.MemberChange) || !d.Lend() || d.Status() != (Status{}) {
		t.Errorf("status %+v", d.Status())
	}
	d.recover()
	d.Start(d.event(hooks.LeaderChange, 7), time.Time{}) // no hook is configured
	d.run()
	r.UntilFile("order")
	r.ordered("member-change:test:7")
	r.Until("the end of all", func() bool { return !d.IsRunning(hooks.MemberChange) && !d.IsRunning(hooks.LeaderChange) })
}

// When a hook began is told by the clock that people read: what the keeper minds is counted from the boot.
func TestResultsTellTheTimeOfDay(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: "exit 0"}))
	begun := time.Now()
	d.become(7)
	if res := d.wants(hooks.BecomeLeader, 7, true); res.Started.Before(begun.Round(0)) || res.Started.After(time.Now()) {
		t.Errorf("it says that the hook began at %v", res.Started)
	}
}

// A directory's files are of the process's own group without the bit, which units may forbid to set.
func TestSharedDirectoriesOfTheOwnGroup(t *testing.T) {
	for group, want := range map[int]string{7: "-rwxr-x---", 8: "grwxr-x---"} {
		if got := sharedMode(group, 7).String(); got != want {
			t.Errorf("group %d: %s, want %s", group, got, want)
		}
	}
}
