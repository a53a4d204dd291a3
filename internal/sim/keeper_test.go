package sim

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// TestTheKeeperTakesItsTime: it takes over half a stop budget before the lease ends,
// ends a hook that takes too long with the lease, and runs it once more; whoever goes on
// waits for that, and runs none itself.
func TestTheKeeperTakesItsTime(t *testing.T) {
	w := stage(t, Quorum)
	b := w.machines[1]
	w.hookTimes = hookTimes{become: time.Millisecond, lose: 400 * time.Millisecond, timeout: time.Second}
	w.hookTimes.stuck = percent(100)
	w.become(b, 7)
	w.lead(b, 7, 400*time.Millisecond)
	w.freeze(b, Freeze, time.Hour)
	if w.pass(340 * time.Millisecond); b.hooks.keeper.took {
		t.Fatal("the keeper took over early")
	}
	if w.pass(20 * time.Millisecond); !b.hooks.keeper.took || b.hooks.acting.IsZero() {
		t.Fatalf("half a stop budget before the end of the lease the keeper is %+v", b.hooks.keeper)
	}
	if w.pass(45 * time.Millisecond); !b.hooks.acting.IsZero() || b.hooks.held.IsZero() || b.hooks.keeper.over {
		t.Fatalf("after the lease: acting in %v, holding %v, keeper %+v", b.hooks.acting, b.hooks.held, b.hooks.keeper)
	}
	if w.failure != nil || w.faults[KeeperLoseCut] != 1 || w.faults[KeeperLoseAgain] != 1 {
		t.Errorf("%v, cut %d times, begun again %d times", w.failure, w.faults[KeeperLoseCut], w.faults[KeeperLoseAgain])
	}
}

// TestTheNextAgentWaitsForTheKeeper until the lease has ended, and then votes beside it:
// it stands only when the lose hook has ended.
func TestTheNextAgentWaitsForTheKeeper(t *testing.T) {
	w := stage(t, Quorum)
	b := w.machines[1]
	w.hookTimes = hookTimes{become: time.Millisecond, lose: 400 * time.Millisecond, timeout: time.Second}
	w.hookTimes.stuck = percent(100)
	w.become(b, 7)
	w.lead(b, 7, 400*time.Millisecond)
	w.kill(b, Crash)
	w.boot(b)
	if w.pass(390 * time.Millisecond); b.runs() {
		t.Fatal("the next agent did not wait for the keeper")
	}
	if w.pass(20 * time.Millisecond); !b.runs() || b.node.Status().Held.IsZero() || w.faults[StartsBeside] != 1 {
		t.Fatalf("the lease has ended; the next agent runs: %t", b.runs())
	}
	if w.pass(1100 * time.Millisecond); !b.node.Status().Held.IsZero() || !b.hooks.keeper.epoch.IsZero() {
		t.Fatalf("the lose hook has ended; held until %v, keeper %+v", b.node.Status().Held, b.hooks.keeper)
	}
}

// TestAnEndIsToldToWhoAsked: the next agent may start before the keeper has noticed the
// death of the last one, and hears nothing of what that one had asked for.
func TestAnEndIsToldToWhoAsked(t *testing.T) {
	w, _, b := testator(t, Available)
	w.apply(b, election.StartHook{Hook: election.Lose, Epoch: b.epoch, Cause: election.Stopped})
	w.kill(b, Crash)
	w.startBeside(b, true)
	if w.pass(time.Second); !b.hooks.acting.IsZero() || b.hooks.owed != 0 || w.failure != nil {
		t.Errorf("acting in %v, %d ends owed, %v", b.hooks.acting, b.hooks.owed, w.failure)
	}
}

// TestAHostThatIsWokenByAKill: its keeper looks at the deadline first thing, and not when it
// comes to see that the agent is dead.
func TestAHostThatIsWokenByAKill(t *testing.T) {
	w, _, b := testator(t, Quorum)
	w.freeze(b, Suspend, time.Hour)
	w.pass(250 * time.Millisecond)
	w.kill(b, Crash)
	b.hooks.keeper.sawDeath = true // it never comes to see it
	if w.pass(160 * time.Millisecond); !b.hooks.acting.IsZero() || !b.hooks.keeper.took || w.failure != nil {
		t.Errorf("after the lease: acting in %v, keeper %+v, %v", b.hooks.acting, b.hooks.keeper, w.failure)
	}
}

// TestAKeeperThatDiesInItsAgentsStead: the next one is asked for the lose hook again, which has
// no longer than it had.
func TestAKeeperThatDiesInItsAgentsStead(t *testing.T) {
	w, _, b := testator(t, Quorum)
	w.hookTimes.stuck = percent(100)
	w.apply(b, election.StartHook{Hook: election.Lose, Epoch: b.epoch, Cause: election.LinkLost, Within: 140 * time.Millisecond})
	b.overLease = b.clock.at(w.now) + int64(140*time.Millisecond) - int64(w.base.TakeoverDelay)
	w.pass(130 * time.Millisecond)
	deadline, _ := w.keeperDeadline(b)
	w.keeperTakesOver(b, deadline)
	w.killKeeper(b, KeeperDies)
	if w.pass(5 * time.Millisecond); b.hooks.keeper.dead || b.hooks.acting.IsZero() {
		t.Fatalf("keeper dead: %t, acting in %v", b.hooks.keeper.dead, b.hooks.acting)
	}
	if w.pass(15 * time.Millisecond); !b.hooks.acting.IsZero() || b.hooks.held.IsZero() || w.failure != nil {
		t.Errorf("after its time: acting in %v, holding %v, %v", b.hooks.acting, b.hooks.held, w.failure)
	}
}

// testator makes b lead with a will to a, and with a lose hook of 50 ms at most.
func testator(t *testing.T, mode Mode) (w *World, a, b *machine) {
	t.Helper()
	w = stage(t, mode)
	w.keepers.isPlain, w.keepers.areSlow, w.keepers.die, w.keepers.lend = false, false, false, false
	w.hookTimes = hookTimes{become: time.Millisecond, lose: 50 * time.Millisecond, timeout: time.Second}
	a, b = w.machines[0], w.machines[1]
	w.become(b, 7)
	w.lead(b, 7, 400*time.Millisecond)
	w.record.owners[b.epoch] = leadership{who: b.number, nonce: b.nonce, led: true}
	w.apply(b, election.Will{Epoch: b.epoch, Letters: []election.Send{{To: a.addr(), Frame: wire.Frame{Kind: wire.Resign,
		Reason: wire.Died, Sender: b.id, Nonce: b.nonce, Epoch: b.epoch}}}})
	w.pass(2 * time.Millisecond)
	return w, a, b
}

func (w *World) lettersSent() uint64 { return w.net.sent[wire.Resign] }

// TestM24_AKeeperSendsTheWill of a dead agent three times, when its lose hook has ended.
func TestM24_AKeeperSendsTheWill(t *testing.T) {
	w, _, b := testator(t, Quorum)
	w.kill(b, Crash)
	for !b.hooks.acting.IsZero() && w.failure == nil {
		if w.lettersSent() != 0 {
			t.Fatal("the will was sent before the lose hook had ended")
		}
		w.pass(time.Millisecond)
	}
	if w.pass(100 * time.Millisecond); w.failure != nil || w.lettersSent() != 3 || w.faults[WillSent] != 1 || b.hooks.keeper.busy {
		t.Errorf("%v, sent %d times, keeper %+v", w.failure, w.lettersSent(), b.hooks.keeper)
	}
}

// TestM24_WillsThatAreNotSent: of an agent that is silent, after a lose hook that has
// failed, and of a host that is off.
func TestM24_WillsThatAreNotSent(t *testing.T) {
	for name, c := range map[string]func(w *World, b *machine){
		"silent": func(w *World, b *machine) { w.freeze(b, Freeze, time.Hour) },
		"failed": func(w *World, b *machine) { w.hookTimes.fails = percent(100); w.kill(b, Crash) },
		"off":    func(w *World, b *machine) { w.kill(b, PowerLoss) },
		"no keeper": func(w *World, b *machine) {
			w.kill(b, Crash)
			w.killKeeper(b, KeeperDies)
		},
	} {
		w, _, b := testator(t, Quorum)
		c(w, b)
		if w.pass(3 * time.Second); w.lettersSent() != 0 || w.failure != nil {
			t.Errorf("%s: sent %d times, %v", name, w.lettersSent(), w.failure)
		}
	}
}

// TestM24_AWillWaitsForWhoBorrowed: until it reports its end, or the time that it was
// told is past.
func TestM24_AWillWaitsForWhoBorrowed(t *testing.T) {
	for name, ends := range map[string]time.Duration{"it ends": 200 * time.Millisecond, "its time has ended": time.Hour} {
		w, _, b := testator(t, Quorum)
		b.hooks.holder = &holder{life: b.life, until: b.lease, endsAt: w.now + int64(ends)}
		end := min(ends, time.Duration(b.lease-b.clock.at(w.now)))
		w.kill(b, Crash)
		if w.pass(end - 5*time.Millisecond); w.lettersSent() != 0 {
			t.Errorf("%s: the will was sent before", name)
		}
		if w.pass(100 * time.Millisecond); w.lettersSent() != 3 || w.faults[WillWaits] != 1 || w.failure != nil {
			t.Errorf("%s: sent %d times, %v", name, w.lettersSent(), w.failure)
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
		if w.pass(5 * time.Second); m.hooks.acting == was || m.hooks.keeper.dead || w.failure != nil {
			t.Errorf("acting in %v, keeper %+v, %v", m.hooks.acting, m.hooks.keeper, w.failure)
		}
		return
	}
}
