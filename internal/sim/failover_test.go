package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// TestFailoverCost is I19 and protocol 5: what a usual failover costs, by counting
// the datagrams of the very code that ships.
func TestFailoverCost(t *testing.T) {
	for _, algorithm := range []election.Algorithm{election.Classic, election.Enhanced, election.Smallest} {
		for _, n := range []int{5, 10, 20, 100} {
			f := Fail(Options{Seed: 1, Nodes: n, Algorithm: algorithm})
			if want := uint64(2 * (n - 2)); f.Violation != nil || f.Datagrams != want {
				t.Errorf("%v, %d nodes, available mode: %d datagrams, want %d; %v", algorithm, n, f.Datagrams, want, f.Violation)
			}
			f = Fail(Options{Seed: 1, Nodes: n, Algorithm: algorithm, Mode: Quorum})
			voters := min(n, wire.MaxVoters)
			if want := uint64(4 * (voters - 2)); f.Violation != nil || f.Datagrams != want {
				t.Errorf("%v, %d nodes, quorum mode: %d datagrams, want %d; %v", algorithm, n, f.Datagrams, want, f.Violation)
			}
		}
	}
}

// A host that is cut off is replaced as soon after many changes of leader as after the first: what nodes remember of changes makes
// them slow to move the lead, not to find that the leader is gone.
func TestTheEighthFailoverIsAsFastAsTheFirst(t *testing.T) {
	w := newCalm(&Options{Seed: 1, Nodes: 5, Usual: true, noJobs: true, Attack: NoAttack})
	w.populate()
	w.castAlike()
	w.record = newRecord(w.net.size)
	for _, m := range w.machines {
		w.boot(m)
	}
	if !w.agreeBy(int64(time.Minute), 20*time.Millisecond) {
		t.Fatal("nobody leads after a minute")
	}
	var first time.Duration
	for round := range 8 {
		w.runUntil(w.now+int64(10*time.Second), nil)
		i := slices.IndexFunc(w.machines, w.acts)
		if i < 0 {
			t.Fatalf("nobody leads ten seconds after failover %d", round)
		}
		leader := w.machines[i]
		began := w.now
		w.isolate(leader, true)
		isReplaced := func() bool {
			return slices.ContainsFunc(w.machines, func(m *machine) bool { return m != leader && w.acts(m) })
		}
		if !w.runUntil(began+int64(time.Minute), isReplaced) {
			t.Fatalf("nobody leads a minute after failover %d", round+1)
		}
		took := time.Duration(w.now - began)
		if round == 0 {
			first = took
		}
		if took > first+leader.cfg.Lease {
			t.Errorf("failover %d took %v, expected no more than the first, %v, and a lease of %v", round+1, took, first, leader.cfg.Lease)
		}
		w.runUntil(w.now+int64(2*time.Second), nil)
		w.isolate(leader, false)
	}
	if w.failure != nil {
		t.Error(w.failure)
	}
}

// isolate cuts all links of a machine, or mends them.
func (w *World) isolate(m *machine, isCut bool) {
	for _, other := range w.machines {
		if other != m {
			w.setCut(m, other, isCut)
			w.setCut(other, m, isCut)
		}
	}
}
