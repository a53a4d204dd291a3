package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// five are hosts of priorities 10 … 50, of which the last leads.
func five(expect int) *Cluster {
	c := &Cluster{Settings: election.Config{MinAcks: election.AutoMinAcks, Heartbeat: 50 * time.Millisecond, Lease: 400 * time.Millisecond,
		StopBudget: 100 * time.Millisecond, PreemptDelay: time.Second, Expect: expect}, Counter: 7, LoseHook: 10 * time.Millisecond}
	for i := range 5 {
		id := wire.ID{byte(0x50 - i), 6: 0x40, 8: 0x80}
		c.Hosts = append(c.Hosts, Host{ID: id, Priority: uint16(10 * (i + 1)), Here: true, Leads: i == 4, Far: 50 * time.Microsecond})
		if expect > 0 {
			c.Roster = append(c.Roster, id)
		}
	}
	return c
}

// plays gives the times until the host leads, in order.
func plays(t *testing.T, c *Cluster, hit int, blow Blow, leader int) (took []time.Duration) {
	t.Helper()
	for seed := range uint64(8) {
		o := WhatIf(c, hit, blow, seed)
		if o.Violation != nil || o.Leader != leader || o.NoneLed {
			t.Fatalf("host %d, blow %d, seed %d: %+v %+v, expected leader %d", hit, blow, seed, o, o.Violation, leader)
		}
		took = append(took, o.Took)
	}
	slices.Sort(took)
	t.Logf("host %d, blow %d, expect %d: %v … %v … %v", hit, blow, c.Settings.Expect, took[0], took[4], took[7])
	return took
}

// What each blow costs, to the leader and to another, in both modes.
func TestWhatIf(t *testing.T) {
	const lease = 400 * time.Millisecond
	for _, expect := range []int{0, 5} {
		c := five(expect)
		for _, blow := range []Blow{AgentKilled, HostDies, HostCut, AgentStops, AgentFreezes} {
			if took := plays(t, c, 1, blow, 4); took[7] != 0 {
				t.Errorf("blow %d to a follower moves the leader after %v", blow, took[7])
			}
			took := plays(t, c, 4, blow, 3)
			isSeen := blow == AgentKilled || blow == AgentStops // by its kernel or itself, and not by its silence
			if isSeen && took[7] > lease/4 || !isSeen && (took[0] < lease/2 || took[7] > 2*lease) {
				t.Errorf("blow %d to the leader, expect %d: another leads after %v to %v", blow, expect, took[0], took[7])
			}
		}
	}
}

// Who is barred or missing does not lead; a cut leader leads no more where a quorum is needed.
func TestWhatIfOfOddClusters(t *testing.T) {
	c := five(0)
	c.Hosts[3].IsBarred = true
	plays(t, c, 4, HostDies, 2)
	c.Hosts[2].Here = false
	plays(t, c, 4, HostDies, 1)
	c = five(5)
	c.Hosts[0].Here, c.Hosts[1].Here = false, false
	for seed := range uint64(5) {
		if o := WhatIf(c, 2, HostDies, seed); o.Leader != -1 || o.HitLeads || o.Voters != 2 || o.Need != 3 || o.Violation != nil {
			t.Errorf("two of five are left: %+v", o)
		}
	}
	c = five(0)
	c.Hosts[4].Leads, c.Hosts[0].Leads, c.Settings.Preempt = false, true, election.PreemptNever // a worse one leads
	plays(t, c, 1, HostDies, 0)
	plays(t, c, 0, AgentStops, 4)
}

// One seed, one play.
func TestWhatIfIsRepeatable(t *testing.T) {
	c := five(5)
	if a, b := WhatIf(c, 4, HostDies, 3), WhatIf(c, 4, HostDies, 3); a != b {
		t.Errorf("%+v and %+v", a, b)
	}
}
