package sim

import (
	"net/netip"
	"testing"
	"time"
)

// underWay counts the datagrams from one machine to another.
func (w *World) underWay(from, to *machine) (count int) {
	for _, p := range w.timeline.heap {
		if p.kind == arrival && p.frame.from == from && p.frame.to == to {
			count++
		}
	}
	return count
}

// Sessions are replaced, by keys that change places and by age, while acknowledgements are under way in them: those that come
// late count from the heartbeat that they echo (I14), and the leadership stays.
func TestSessionsReplacedWithAcknowledgementsUnderWay(t *testing.T) {
	w := calmSealed(t, Options{Seed: 1, Nodes: 3, Mode: Quorum})
	cutOff, follower, leader := w.machines[0], w.machines[1], w.machines[2]
	w.cutPair(cutOff, leader) // what the follower acknowledges is all that keeps the lease
	follower.far = 70 * time.Millisecond
	w.runUntil(w.now+int64(10*time.Second), nil)
	epoch, sessions, between := leader.epoch, tableOf(leader).begun(), 0
	for i := range 60 {
		between += w.underWay(follower, leader)
		if i%2 == 0 {
			w.swapKeys()
		} else {
			w.ageSessions(leader)
		}
		w.runUntil(w.now+int64(330*time.Millisecond), nil)
	}
	if w.failure != nil || leader.epoch != epoch || !w.acts(leader) {
		t.Errorf("the leader is in %v of %v, from %v: %+v", leader.state, leader.epoch, epoch, w.failure)
	}
	if begun := tableOf(leader).begun() - sessions; begun < 30 || between < 40 {
		t.Errorf("%d sessions were begun, %d datagrams were under way", begun, between)
	}
}

// A fifth of the datagrams that begin sessions are lost, and sessions are replaced all the time: frames get through, and the
// leader stays.
func TestHandshakesAreLost(t *testing.T) {
	w := calmSealed(t, Options{Seed: 1, Nodes: 5, Mode: Quorum})
	leader := w.machines[4]
	epoch := leader.epoch
	w.ports.loseHandshakes = percent(20)
	for range 30 {
		w.swapKeys()
		w.runUntil(w.now+int64(2*time.Second), nil)
		for _, m := range w.machines[:4] {
			if heard := w.hearsFrom(m, 200*time.Millisecond); heard == 0 {
				t.Errorf("n%d hears nothing %v after sessions were replaced", m.number, 2*time.Second)
			}
		}
	}
	if lost := w.faults[HandshakeLost]; lost < 50 || leader.epoch != epoch || w.failure != nil {
		t.Errorf("%d datagrams of handshakes were lost; the leader is in %v of %v, from %v: %+v", lost, leader.state, leader.epoch, epoch, w.failure)
	}
}

// A host that starts while a fifth of the handshakes is lost is a follower within seconds.
func TestAHostStartsThoughHandshakesAreLost(t *testing.T) {
	w := calmSealed(t, Options{Seed: 1, Nodes: 3, Mode: Quorum})
	w.ports.loseHandshakes = percent(20)
	for range 20 {
		w.kill(w.machines[0], Crash)
		w.boot(w.machines[0])
		if !w.agreeBy(w.now+int64(10*time.Second), 20*time.Millisecond) {
			t.Fatalf("n1 is in %v ten seconds after its start", w.machines[0].state)
		}
	}
	if w.faults[HandshakeLost] == 0 || w.failure != nil {
		t.Errorf("%d datagrams of handshakes were lost, %+v", w.faults[HandshakeLost], w.failure)
	}
}

// Of the datagrams that prove a key two of three are lost, and nothing else: a host that starts follows all the same.
func TestProofsAreLost(t *testing.T) {
	const typeProof = 5 // protocol 10.2
	w := calmSealed(t, Options{Seed: 1, Nodes: 3, Mode: Quorum})
	lost, sent := 0, 0
	w.ports.tap = func(_ netip.AddrPort, b []byte) bool {
		if b[2]&0x0F != typeProof {
			return false
		}
		sent++
		isLost := sent%3 > 0
		if isLost {
			lost++
		}
		return isLost
	}
	for range 25 {
		w.kill(w.machines[0], Crash)
		w.boot(w.machines[0])
		if !w.agreeBy(w.now+int64(10*time.Second), 20*time.Millisecond) {
			t.Fatalf("n1 is in %v ten seconds after its start", w.machines[0].state)
		}
	}
	if lost < 40 || w.failure != nil {
		t.Errorf("%d of %d PROOFs were lost, %+v", lost, sent, w.failure)
	}
}

// What is beyond the promise comes in schedules with sealed ports as well: a copy of a state has the key of the original.
func TestBeyondThePromiseSealed(t *testing.T) {
	for _, f := range []Fault{ClockBeyond, SlewBeyond, VMPause, LyingSync, Restored, Clone} {
		var total tally
		for seed := uint64(1); seed <= 6; seed++ {
			play(t, Options{Seed: seed, Port: SealedPort, Attack: NoAttack, beyond: f}, &total)
		}
		if total.faults[f] == 0 {
			t.Errorf("%v never took effect", f)
		}
	}
}

// A state of two lives ago is proven to be older by whomever its host meets first, and by its own disk at the next start.
func TestAnOlderStateIsProven(t *testing.T) {
	for _, port := range []Port{ClearPort, SealedPort} {
		w := calmOf(t, Options{Seed: 1, Nodes: 3, Mode: Quorum, Port: port}, profiles[0])
		m := w.machines[0]
		backup, kept := m.disk.state, m.disk.receipts.copied()
		for range 2 {
			w.kill(m, Crash)
			w.boot(m)
			w.runUntil(w.now+int64(5*time.Second), nil)
		}
		w.kill(m, Crash)
		w.beyond = Restored
		w.waive(Restored)
		m.disk.state, m.disk.older, m.disk.receipts, m.restored = backup, backup, kept, true
		w.boot(m)
		w.runUntil(w.now+int64(10*time.Second), nil)
		if m.runs() || w.proofs != 1 || w.failure != nil {
			t.Errorf("port %d: it runs: %v, %d proofs, %+v", port, m.runs(), w.proofs, w.failure)
		}
		w.boot(m)
		w.runUntil(w.now+int64(5*time.Second), nil)
		if m.runs() || w.proofs != 1 {
			t.Errorf("port %d: it starts again: %v, %d proofs", port, m.runs(), w.proofs)
		}
	}
}
