package agent

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/wire"
)

// awaitLease waits until the lease that h shows is as wanted, woken by the agent
// alone.
func (h *testHost) awaitLease(t *testing.T, what string, isWanted func(control.Lease) bool) control.Lease {
	t.Helper()
	for late := time.After(time.Minute); ; {
		lease, newer := h.agent.Lease()
		if isWanted(lease) {
			return lease
		}
		select {
		case <-newer:
		case <-late:
			t.Fatalf("%s: %+v", what, lease)
		}
	}
}

func mayAct(l control.Lease) bool { return l.Leader && l.Ready && l.RemainMS > 0 }

// The leader's agent says so as soon as its become hook is done, and goes on
// saying for how long; nobody else's does.
func TestTheLeaseIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		top := c.hosts[2]
		for _, h := range c.hosts {
			h.hooks.takes = time.Second
			c.start(h)
		}
		begun := top.awaitLease(t, "it leads", func(l control.Lease) bool { return l.Leader })
		if begun.Ready {
			t.Error("ready before the become hook has ended")
		}
		lease := top.awaitLease(t, "it is ready", mayAct)
		if lease.Epoch.Counter != 1 || lease.Epoch.Owner != top.agent.seat.state.ID.String() || lease.RemainMS > 400 || lease.Until == 0 {
			t.Errorf("it shows %+v", lease)
		}
		news := 0
		for end := time.Now().Add(4 * time.Second); time.Now().Before(end); news++ {
			l, newer := top.agent.Lease()
			if !mayAct(l) || l.RemainMS < 140 {
				t.Fatalf("a healthy leader shows %+v", l)
			}
			<-newer
		}
		if news < 40 || news > 120 {
			t.Errorf("%d renewals shown in ten times the lease, want some 80", news)
		}
		if l, _ := c.hosts[0].agent.Lease(); l.Leader || l.Ready || l.Until != 0 {
			t.Errorf("a follower shows %+v", l)
		}
		c.stopAll()
	})
}

// A hand-over waits for those who run something on the strength of the lease; the
// lease is renewed and shown meanwhile. The lose hook comes after them, and the
// other leads after that.
func TestAHandOverWaitsForHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		mid, top := c.hosts[1], c.hosts[2]
		for _, h := range c.hosts {
			h.settings = func(cfg *Config) { cfg.Election.Preempt = election.PreemptNever }
			c.start(h)
		}
		top.awaitLease(t, "it leads", mayAct)
		lease, leave := top.agent.Enter(10 * time.Second)
		_, quick := top.agent.Enter(time.Second)
		done := make(chan error, 1)
		go func() { done <- top.order("handover", map[string]string{"to": "n2"}) }()
		top.awaitLease(t, "the end is shown", func(l control.Lease) bool { return !l.Leader })
		quick(true)
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			if l, _ := lease(); l.Leader || l.RemainMS < 100 || l.Epoch.Counter != 1 || l.Cause != "stepped-down" {
				t.Fatalf("while it waits it shows %+v", l)
			}
		}
		top.expectHooks(t, "become-leader 1 boot")
		mid.expectHooks(t)
		leave(true)
		leave(true) // as a broken connection after a farewell
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		c.agrees(mid)
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 stepped-down")
		if l, _ := top.agent.Lease(); l.Leader || l.Until != 0 {
			t.Errorf("after the hand-over it shows %+v", l)
		}
		c.stopAll()
	})
}

// A time that is told is a time that is lent: a hand-over waits until it has passed, also where
// nobody stays who hears of more, and nobody is told a later one meanwhile.
func TestAHandOverWaitsForWhatWasTold(t *testing.T) {
	const lent = 2 * time.Second
	wide := func(cfg *Config) {
		cfg.Election.Preempt = election.PreemptNever
		cfg.Election.Lease, cfg.Election.StopBudget = lent, 200*time.Millisecond
	}
	for name, c := range map[string]struct {
		told  func(*testHost) time.Duration
		waits bool
	}{
		"nothing": {func(*testHost) time.Duration { return 0 }, false},
		"who asked once": {func(h *testHost) time.Duration {
			l, _ := h.agent.Lease()
			return time.Duration(l.RemainMS) * time.Millisecond
		}, true},
		"a holder that has left": {func(h *testHost) time.Duration {
			lease, leave := h.agent.Enter(time.Second)
			lease()
			leave(true)
			return 0
		}, false},
		"a holder that could not be told any more": {func(h *testHost) time.Duration {
			lease, leave := h.agent.Enter(time.Second)
			l, _ := lease()
			leave(false)
			return time.Duration(l.RemainMS) * time.Millisecond
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, 2)
				for _, h := range cl.hosts {
					h.settings = wide
					cl.start(h)
				}
				top := cl.hosts[1]
				top.awaitLease(t, "it leads", func(l control.Lease) bool { return l.Leader })
				time.Sleep(2 * lent) // what awaitLease was told has ended
				begun, left := time.Now(), c.told(top)
				over := begun.Add(left)
				done := make(chan error, 1)
				go func() { done <- top.order("handover", map[string]string{"to": "n1"}) }()
				for c.waits && time.Until(over) > 50*time.Millisecond {
					time.Sleep(20 * time.Millisecond)
					if l, _ := top.agent.Lease(); time.Duration(l.RemainMS)*time.Millisecond > time.Until(over)+20*time.Millisecond && !l.Leader {
						t.Fatalf("what was lent ends in %v, and somebody is told %+v", time.Until(over), l)
					}
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				took := time.Since(begun)
				if c.waits && took < left-20*time.Millisecond || !c.waits && took > lent/2 {
					t.Errorf("the hand-over took %v, with %v lent", took, left)
				}
				cl.stopAll()
			})
		})
	}
}

// A holder that does not leave holds a hand-over up for its grace and no longer.
func TestAStubbornHolderIsNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		for _, h := range c.hosts {
			h.settings = func(cfg *Config) { cfg.Election.Preempt = election.PreemptNever }
			c.start(h)
		}
		c.agrees(c.hosts[1])
		for _, grace := range []time.Duration{2 * time.Second, 20 * time.Second} {
			h, other := c.hosts[0], c.hosts[1]
			if c.leader() == other {
				h, other = other, h
			}
			h.agent.Enter(grace)
			begun := time.Now()
			if err := h.order("handover", map[string]string{"to": other.name}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took < grace || took > grace+dismissSlack+time.Second {
				t.Errorf("it took %v with a grace of %v", took, grace)
			}
			c.agrees(other)
		}
		c.stopAll()
	})
}

// Whoever is still there long after its lease has something that cannot be ended: status says so until it leaves. One that
// was waiting for the lease runs nothing.
func TestAHolderThatOutlivesItsLeaseIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		top := c.hosts[2]
		c.expecting(3)
		for _, h := range c.hosts {
			c.start(h)
		}
		_, goes := top.agent.Enter(time.Second) // before it leads
		top.awaitLease(t, "it leads", mayAct)
		lease, leave := top.agent.Enter(time.Second)
		quit := make(chan struct{})
		go func() { // as the server does
			for {
				select {
				case <-second(lease()):
				case <-quit:
					return
				}
			}
		}()
		defer close(quit)
		named := func() bool { return slices.Contains(top.agent.Status().Notes, overstays) }
		time.Sleep(time.Minute)
		if named() {
			t.Error("named while this host leads")
		}
		c.lan.Isolate("n3")
		time.Sleep(time.Minute)
		if !named() {
			t.Errorf("notes %q", top.agent.Status().Notes)
		}
		leave(true)
		time.Sleep(5 * time.Second)
		if named() {
			t.Error("named after it has left")
		}
		goes(true)
		c.stopAll()
	})
}

func second(_ control.Lease, newer <-chan struct{}) <-chan struct{} { return newer }

// A lease that is lost leaves no time to wait for anybody: the lose hook runs at
// once, and holders see what is left.
func TestALostLeaseWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		top := c.hosts[2]
		for _, h := range c.hosts {
			c.start(h)
		}
		top.awaitLease(t, "it leads", mayAct)
		_, leave := top.agent.Enter(time.Hour)
		defer leave(true)
		c.lan.Isolate("n3")
		lease := top.awaitLease(t, "the loss is shown", func(l control.Lease) bool { return !l.Leader })
		if lease.RemainMS <= 0 || lease.RemainMS > 101 {
			t.Errorf("%d ms are left, want the stop budget of 100 ms", lease.RemainMS)
		}
		time.Sleep(200 * time.Millisecond)
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 lease-expired")
		top.hooks.plans(t, 0)
		if l, _ := top.agent.Lease(); l.Leader || l.Until != 0 {
			t.Errorf("afterwards it shows %+v", l)
		}
		c.lan.Heal()
		c.stopAll()
	})
}

// A leader whose acknowledgements fail is still heard, so its RESIGN is what lets others lead: it waits for what has
// borrowed the lease, as that of a planned end does, and for nothing longer than what was told of it.
func TestAnotherLeadsOnceABorrowedLeaseIsBack(t *testing.T) {
	for name, leaves := range map[string]bool{"told until": false, "has ended": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				mid, top := c.hosts[1], c.hosts[2]
				for _, h := range c.hosts {
					h.settings = func(cfg *Config) {
						cfg.Election.Preempt = election.PreemptNever
						cfg.Election.Lease, cfg.Election.StopBudget = 2*time.Second, 500*time.Millisecond
					}
					c.start(h)
				}
				c.agrees(top)
				lease, leave := top.agent.Enter(time.Hour)
				defer leave(true)
				c.lan.CutUDP("n1", "n3")
				c.lan.CutUDP("n2", "n3")
				var told time.Time
				for leads := true; leads; {
					l, newer := lease()
					if leads = l.Leader; leads {
						told = time.Now().Add(time.Duration(l.RemainMS) * time.Millisecond)
						<-newer
					}
				}
				lost := time.Now()
				if leaves {
					time.Sleep(20 * time.Millisecond)
					leave(true)
				}
				mid.awaitLease(t, "it leads", func(l control.Lease) bool { return l.Leader })
				if early := time.Until(told); (early > 0) != leaves {
					t.Errorf("another leads %v after the loss, %v before what was told has passed", time.Since(lost), early)
				}
				c.lan.Heal()
				c.agrees(mid)
				if err := mid.order("handover", map[string]string{"to": "n3"}); err != nil {
					t.Errorf("it has not ended: %v", err) // a planned end gives a holder its grace
				}
				c.stopAll()
			})
		})
	}
}

// slowly takes its time for a line with these words.
type slowly string

func (s slowly) Write(line []byte) (int, error) {
	if strings.Contains(string(line), string(s)) {
		time.Sleep(50 * time.Millisecond)
	}
	return len(line), nil
}

// M7: what is left of a lease is counted from the instant at which the node saw that it
// would end, however long the agent then takes until it asks for the lose hook.
func TestALateLoseHookHasNotLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		top := c.hosts[2]
		for _, h := range c.hosts {
			h.settings = func(cfg *Config) {
				cfg.Election.Expect = 3
				cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: slowly("began to step down")})
			}
			c.start(h)
		}
		c.agrees(top)
		c.lan.Isolate("n3")
		time.Sleep(time.Second)
		var due time.Time
		top.hooks.set(func(f *fakeOutcomes) { due = f.due })
		if over := due.Sub(lastLease(top)); due.IsZero() || over > 0 {
			t.Errorf("the lose hook has until %v after the end of the lease", over)
		}
		c.lan.Heal()
		c.stopAll()
	})
}

// A planned end that fails, since the host is cut off while it waits for holders,
// waits no more; the hook runs once.
func TestAPlanThatFailsWaitsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		top := c.hosts[2]
		for _, h := range c.hosts {
			c.start(h)
		}
		top.awaitLease(t, "it leads", mayAct)
		_, leave := top.agent.Enter(time.Hour)
		go func() { _ = top.order("step-down", nil) }()
		top.awaitLease(t, "the end is shown", func(l control.Lease) bool { return !l.Leader })
		top.expectHooks(t, "become-leader 1 boot")
		c.lan.Isolate("n3")
		time.Sleep(time.Second)
		leave(true)
		time.Sleep(time.Second)
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 lease-expired")
		c.lan.Heal()
		c.stopAll()
	})
}

// The keeper hears of a renewal before holders do: if the agent is killed in between, it waits long enough for those.
func TestTheKeeperHearsOfRenewalsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		top := c.hosts[2]
		for _, h := range c.hosts {
			c.start(h)
		}
		top.awaitLease(t, "it leads", mayAct)
		time.Sleep(time.Second) // it has renewed
		holders := top.agent.seat.holders
		var renewals, early atomic.Int32
		top.hooks.set(func(f *fakeOutcomes) {
			f.renews = func(before time.Time) {
				renewals.Add(1)
				holders.mu.Lock()
				defer holders.mu.Unlock()
				if holders.now.until.After(before) {
					early.Add(1)
				}
			}
		})
		_, leave := top.agent.Enter(time.Hour)
		time.Sleep(time.Second)
		go func() { _ = top.order("step-down", nil) }()
		top.awaitLease(t, "the end is shown", func(l control.Lease) bool { return !l.Leader })
		before := renewals.Load()
		time.Sleep(time.Second)
		if before == 0 || renewals.Load() == before {
			t.Errorf("%d renewals of a leadership, %d while it ends", before, renewals.Load()-before)
		}
		if n := early.Load(); n > 0 {
			t.Errorf("holders knew of %d of %d renewals first", n, renewals.Load())
		}
		leave(true)
		c.stopAll()
	})
}

// A lease whose end has passed is none, whatever the loop has said last: it may
// be frozen.
func TestALeaseThatIsOverIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &seat{seatConfig: seatConfig{runner: newFakeHooks()}, around: clockOnly{clock: time.Now}, holders: newHolders(time.Now)}
		s.holders.show(election.Status{State: election.Lead, Epoch: wire.Epoch{Counter: 3}}, true)
		s.holders.renew(time.Now().Add(400*time.Millisecond), time.Now())
		if l, _ := s.Lease(); !mayAct(l) || l.RemainMS != 400 {
			t.Errorf("it shows %+v", l)
		}
		time.Sleep(400 * time.Millisecond)
		if l, _ := s.Lease(); l.Leader || l.Ready || l.Until != 0 || l.RemainMS != 0 {
			t.Errorf("after its end it shows %+v", l)
		}
	})
}

// Nobody waits for a dismissal that another one has followed.
func TestDismissalsDoNotMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newHolders(time.Now)
		first := tn.enter(time.Second)
		if !tn.dismiss(true) {
			t.Fatal("the holder was overlooked")
		}
		tn.leave(first, true)
		second := tn.enter(time.Minute)
		tn.dismiss(true)
		expectVacant(t, tn, false) // the first dismissal's word is not the second's
		time.Sleep(30 * time.Second)
		expectVacant(t, tn, false)
		tn.leave(second, true)
		expectVacant(t, tn, true)
		if tn.dismiss(true) {
			t.Error("nobody is there, and somebody is waited for")
		}
	})
}

func expectVacant(t *testing.T, tn *holders, want bool) {
	t.Helper()
	select {
	case <-tn.dismissed:
		if !want {
			t.Error("dismissed too early")
		}
	default:
		if want {
			t.Error("not dismissed")
		}
	}
}

// Whoever is told until when the lease lasts has borrowed it: the keeper knows first, and
// knows when it has ended.
func TestWhoeverIsToldOfTheLeaseHasBorrowedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		for _, h := range c.hosts {
			c.start(h)
		}
		top := c.hosts[1]
		c.agrees(top)
		outcomes := &top.hooks.fakeOutcomes
		isLent := func() (is bool) {
			outcomes.set(func(f *fakeOutcomes) { is = f.isLent })
			return is
		}
		if isLent() {
			t.Error("lent to nobody")
		}
		if l, _ := top.agent.Lease(); !l.Leader || !isLent() {
			t.Errorf("told %+v, lent %t", l, isLent())
		}
		time.Sleep(2 * time.Second)
		if isLent() {
			t.Error("what was told has ended, and it is lent still")
		}
		_, leave := top.agent.Enter(time.Second)
		_, _ = top.agent.Lease()
		time.Sleep(2 * time.Second)
		if !isLent() {
			t.Error("a holder is there, and it is not lent")
		}
		leave(true)
		time.Sleep(2 * time.Second)
		outcomes.set(func(f *fakeOutcomes) { f.isDeaf = true })
		if l, _ := top.agent.Lease(); l.Leader {
			t.Errorf("the keeper does not know, and %+v was told", l)
		}
		c.stopAll()
	})
}

// A leader leaves a will before its become hook starts: for each voter, with the secret of its keeper.
func TestALeaderLeavesAWill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		for _, h := range c.hosts {
			c.start(h)
		}
		top := c.hosts[2]
		c.agrees(top)
		heirs := top.hooks.left()
		for _, to := range heirs {
			if to != c.hosts[0].addr && to != c.hosts[1].addr {
				t.Errorf("a will for %v", to)
			}
		}
		if known := c.hosts[0].agent.pledges.Load(); len(heirs) != 2 || known == nil || !known.Match(top.hooks.secret.Commit()) {
			t.Errorf("%d heirs, want one for each of the other voters; known: %t", len(heirs), known != nil)
		}
		c.stopAll()
	})
}
