package sim

import (
	"net/netip"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// ruler makes b lead with 400 ms of lease left, by its keeper's become hook.
func ruler(t *testing.T) (w *World, a, b *machine) {
	t.Helper()
	w = stage(t, Quorum)
	w.hookTimes = hookTimes{become: time.Millisecond, lose: 50 * time.Millisecond, timeout: time.Second}
	a, b = w.machines[0], w.machines[1]
	w.lead(b, 7, 400*time.Millisecond)
	b.disk.state.Promoted = b.epoch
	w.renewKeeper(b, epoch.Add(time.Duration(b.lease)))
	w.startHook(b, election.StartHook{Hook: election.Become, Epoch: b.epoch})
	w.pass(2 * time.Millisecond)
	if b.hooks.acting != b.epoch {
		t.Fatal("the become hook has not begun")
	}
	return w, a, b
}

// hangs has hooks go on until they are ended.
func (w *World) hangs() { w.hookTimes.stuck = percent(100) }

// loses reports whether a lose hook runs.
func (m *machine) loses() bool {
	k := m.hooks.keeper
	if k == nil {
		return false
	}
	g := k.groups[hooks.Leadership]
	return g != nil && g.kind == hooks.LoseLeadership && g.isBegun && !g.isOver
}

// TestTheKeeperTakesItsTime: it takes over half a stop budget before the lease ends,
// ends a hook that takes too long with the lease, and runs it once more.
func TestTheKeeperTakesItsTime(t *testing.T) {
	w, _, b := ruler(t)
	w.hangs()
	w.freeze(b, Freeze, time.Hour)
	if w.pass(340 * time.Millisecond); b.loses() {
		t.Fatal("the keeper took over early")
	}
	if w.pass(10 * time.Millisecond); !b.loses() || b.hooks.acting.IsZero() {
		t.Fatalf("half a stop budget before the end of the lease nothing loses; acting in %v", b.hooks.acting)
	}
	if w.pass(52 * time.Millisecond); !b.hooks.acting.IsZero() || b.hooks.held.IsZero() || !b.loses() {
		t.Fatalf("after the lease: acting in %v, holding %v, loses %t", b.hooks.acting, b.hooks.held, b.loses())
	}
	if w.failure != nil || w.faults[KeeperLose] != 1 || w.faults[HookKilled] != 1 {
		t.Errorf("%v, taken over %d times, cut %d times", w.failure, w.faults[KeeperLose], w.faults[HookKilled])
	}
}

// TestTheNextAgentWaitsForTheKeeper until the lease of the last life has ended by all clocks, and then
// votes beside it: it stands only when the lose hook has ended.
func TestTheNextAgentWaitsForTheKeeper(t *testing.T) {
	w, _, b := ruler(t)
	w.hangs()
	w.kill(b, Crash)
	w.boot(b)
	released := lease.WaitLength(b.longestLease(w))
	if w.pass(released - 10*time.Millisecond); b.runs() {
		t.Fatal("the next agent did not wait for the keeper")
	}
	if w.pass(20 * time.Millisecond); !b.runs() || b.node.Status().Held.IsZero() || w.faults[StartsBeside] != 1 {
		t.Fatalf("the lease has ended; the next agent runs: %t", b.runs())
	}
	w.hookTimes.stuck = 0
	if w.pass(3 * time.Second); !b.node.Status().Held.IsZero() || b.client.keeper == nil || b.client.keeper.life != b.life {
		t.Fatalf("the lose hook has ended; held until %v", b.node.Status().Held)
	}
	if w.failure != nil {
		t.Error(w.failure)
	}
}

// TestAnEndIsToldToWhoAsked: the next agent may start before the keeper has noticed the
// death of the last one, and hears nothing of what that one had asked for.
func TestAnEndIsToldToWhoAsked(t *testing.T) {
	w, _, b := ruler(t)
	w.hookTimes.least = 50 * time.Millisecond
	w.startHook(b, election.StartHook{Hook: election.Lose, Epoch: b.epoch, Cause: election.Stopped})
	w.kill(b, Crash)
	w.recover(b)
	w.startBeside(b, true)
	if w.pass(3 * time.Second); !b.hooks.acting.IsZero() || !b.client.isIdle() || w.failure != nil {
		t.Errorf("acting in %v, %d ends due, %v", b.hooks.acting, len(b.client.open), w.failure)
	}
}

// TestAHostThatIsWokenByAKill: its keeper looks at the deadline first thing, and not when it
// comes to see that the agent is dead.
func TestAHostThatIsWokenByAKill(t *testing.T) {
	w, _, b := ruler(t)
	w.freeze(b, Suspend, time.Hour)
	w.pass(250 * time.Millisecond)
	b.hooks.keeper.sawDeath = true // it never comes to see it
	w.kill(b, Crash)
	if w.pass(160 * time.Millisecond); !b.hooks.acting.IsZero() || w.faults[KeeperLose] != 1 || w.failure != nil {
		t.Errorf("after the lease: acting in %v, taken over %d times, %v", b.hooks.acting, w.faults[KeeperLose], w.failure)
	}
}

// TestAKeeperThatDiesWithALoseHook: the next one is asked for it again, and it has no longer than it
// had.
func TestAKeeperThatDiesWithALoseHook(t *testing.T) {
	w, _, b := ruler(t)
	w.hangs()
	w.startHook(b, election.StartHook{Hook: election.Lose, Epoch: b.epoch, Cause: election.LinkLost, By: b.clock.time(w.now).Add(140 * time.Millisecond)})
	w.pass(60 * time.Millisecond)
	w.killKeeper(b, KeeperDies)
	if w.pass(5 * time.Millisecond); !b.loses() || b.hooks.acting.IsZero() {
		t.Fatalf("loses: %t, acting in %v", b.loses(), b.hooks.acting)
	}
	if w.pass(75 * time.Millisecond); !b.hooks.acting.IsZero() || b.hooks.held.IsZero() || w.failure != nil {
		t.Errorf("after its time: acting in %v, holding %v, %v", b.hooks.acting, b.hooks.held, w.failure)
	}
}

// TestACleanUpIsAskedOfTheNextKeeper: nobody leads here before what the last life has left is lost.
func TestACleanUpIsAskedOfTheNextKeeper(t *testing.T) {
	w, _, b := ruler(t)
	w.hookTimes.least = 50 * time.Millisecond
	w.kill(b, Crash)
	w.killKeeper(b, KeeperDies)
	w.boot(b)
	w.pass(20 * time.Millisecond)
	if !b.loses() || b.runs() {
		t.Fatalf("loses: %t, runs: %t", b.loses(), b.runs())
	}
	w.killKeeper(b, KeeperDies)
	if w.pass(40 * time.Millisecond); !b.loses() || b.runs() {
		t.Fatalf("after another death: loses: %t, runs: %t", b.loses(), b.runs())
	}
	if w.pass(20 * time.Millisecond); !b.hooks.acting.IsZero() || !b.runs() || w.failure != nil {
		t.Errorf("acting in %v, runs: %t, %v", b.hooks.acting, b.runs(), w.failure)
	}
}

// TestWhatAKeeperLeavesIsEnded before the lose hook begins, whether or not that was noted.
func TestWhatAKeeperLeavesIsEnded(t *testing.T) {
	w, _, b := ruler(t)
	b.hooks.left = []leftover{{hooks.BecomeLeader, 7, 99}}
	w.kill(b, Crash)
	w.killKeeper(b, KeeperDies)
	w.boot(b)
	if w.pass(time.Second); len(b.hooks.left) != 0 || !b.hooks.acting.IsZero() || w.failure != nil {
		t.Errorf("left %v, acting in %v, %v", b.hooks.left, b.hooks.acting, w.failure)
	}
}

// aTestator is ruler with a will to a.
func aTestator(t *testing.T) (w *World, a, b *machine) {
	t.Helper()
	w, a, b = ruler(t)
	w.keepers.isPlain, w.keepers.areSlow, w.keepers.die, w.keepers.lend = false, false, false, false
	w.record.owners[b.epoch] = leadership{who: b.number, nonce: b.nonce, led: true}
	w.trust(b, b.hooks.keeper)
	w.apply(b, election.Will{Epoch: b.epoch, To: []netip.AddrPort{a.addr()}})
	w.pass(2 * time.Millisecond)
	return w, a, b
}

// TestM24_AKeeperSaysTheWill of a dead agent three times, when its lose hook has ended.
func TestM24_AKeeperSaysTheWill(t *testing.T) {
	w, _, b := aTestator(t)
	w.kill(b, Crash)
	for !b.hooks.acting.IsZero() && w.failure == nil {
		if w.wills.said != 0 {
			t.Fatal("the will was sent before the lose hook had ended")
		}
		w.pass(time.Millisecond)
	}
	if w.pass(100 * time.Millisecond); w.failure != nil || w.wills.said != 3 || w.faults[WillSent] != 1 || b.hooks.keeper != nil {
		t.Errorf("%v, sent %d times, keeper %v", w.failure, w.wills.said, b.hooks.keeper)
	}
}

func TestNoDamageMakesOneSecretOfAnother(t *testing.T) {
	given := map[wire.Secret]uint64{}
	for n := uint64(1); n <= 100; n++ {
		given[secretOf(n)] = n
	}
	for s, n := range given {
		for bit := range 8 * len(s) {
			damaged := s
			damaged[bit/8] ^= 1 << (bit % 8)
			if other, is := given[damaged]; is {
				t.Fatalf("one bit of secret %d makes secret %d", n, other)
			}
		}
	}
}

// TestM24_AWillWaitsForTheDisk: what the keeper says is over must be so after a loss of power, too.
func TestM24_AWillWaitsForTheDisk(t *testing.T) {
	w, _, b := aTestator(t)
	b.disk.slow = 600 * time.Millisecond
	w.kill(b, Crash)
	for w.wills.said == 0 && b.hooks.keeper != nil {
		w.pass(time.Millisecond)
	}
	if w.wills.said == 0 || b.hooks.disk.synced.Owed != nil {
		t.Errorf("sent %d times, and the disk has %+v", w.wills.said, b.hooks.disk.synced)
	}
}

// TestM24_WillsThatAreNotSent: of an agent that is silent, after a lose hook that has
// failed, of a host that is off, while somebody has borrowed the lease, and of a disk that takes nothing.
func TestM24_WillsThatAreNotSent(t *testing.T) {
	for name, c := range map[string]func(w *World, b *machine){
		"silent": func(w *World, b *machine) { w.freeze(b, Freeze, time.Hour) },
		"failed": func(w *World, b *machine) { w.hookTimes.fails = percent(100); w.kill(b, Crash) },
		"off":    func(w *World, b *machine) { w.kill(b, PowerLoss) },
		"no keeper": func(w *World, b *machine) {
			w.kill(b, Crash)
			w.killKeeper(b, KeeperDies)
		},
		"lent":      func(w *World, b *machine) { w.lendNow(b, b.epoch); w.kill(b, Crash) },
		"disk full": func(w *World, b *machine) { b.disk.full = true; w.kill(b, Crash) },
	} {
		w, _, b := aTestator(t)
		c(w, b)
		if w.pass(3 * time.Second); w.wills.said != 0 || w.failure != nil {
			t.Errorf("%s: sent %d times, %v", name, w.wills.said, w.failure)
		}
	}
}

// TestM18_AnAgentWhoseKeeperDied starts another, which runs the lose hook; it leads no
// longer.
func TestM18_AnAgentWhoseKeeperDied(t *testing.T) {
	w := newWorld(&Options{Seed: 3, Nodes: 3, Mode: Quorum, Usual: true})
	w.populate()
	w.record = newRecord(w.net.size)
	for _, m := range w.machines {
		m.cfg.Part = election.Voter
		w.boot(m)
	}
	if !w.agreeBy(int64(30*time.Second), 20*time.Millisecond) {
		t.Fatal("nobody leads")
	}
	w.pass(time.Second)
	for _, m := range w.machines {
		if !w.acts(m) {
			continue
		}
		was := m.epoch
		w.killKeeper(m, KeeperDies)
		if w.pass(5 * time.Second); m.hooks.acting == was || m.hooks.lost != was || m.hooks.keeper == nil || w.failure != nil {
			t.Errorf("acting in %v, lost %v, keeper %v, %v", m.hooks.acting, m.hooks.lost, m.hooks.keeper, w.failure)
		}
		return
	}
}
