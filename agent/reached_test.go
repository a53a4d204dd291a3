package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// The two parts of a network that is torn for some seconds have a leader each. Gossip has noticed nothing when they meet. The keeper of
// the leader that stays hears that it has reached the other two, once for each, and its events say so; no other keeper hears anything.
func TestTheLeaderThatStaysHasReachedTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4)
		for _, h := range c.hosts {
			h.settings = func(cfg *Config) { cfg.Election.Preempt = election.PreemptNever }
		}
		c.startAll()
		goes := c.hosts[3]
		c.agrees(goes)
		before := reached(c)
		c.lan.Partition([]string{"n1", "n2"}, []string{"n3", "n4"})
		time.Sleep(3 * time.Second)
		stays := c.hosts[1]
		if status := stays.agent.Status(); !status.LeaderIsSelf || !goes.agent.Status().LeaderIsSelf {
			t.Fatalf("in its part %s is %+v", stays.name, status)
		}
		c.lan.Heal()
		c.agrees(stays)
		time.Sleep(time.Second)
		want := slices.Clone(before)
		want[1] += 2
		if got := reached(c); !slices.Equal(got, want) {
			t.Errorf("the keepers have heard it %v times, expected %v", got, want)
		}
		events, _ := stays.agent.Events(0)
		var who []string
		for _, e := range events {
			if e.Type == "member" && e.Cause == "reached" {
				who = append(who, e.Member)
			}
			if e.Type == "member" && e.Cause == "failed" {
				t.Errorf("gossip has noticed: %+v", e)
			}
		}
		if slices.Sort(who); !slices.Equal(who, []string{"n3", "n4"}) {
			t.Errorf("the events tell of %q", who)
		}
		c.stopAll()
	})
}

// reached is how often each host's keeper has heard that its leadership has reached somebody.
func reached(c *cluster) (times []int) {
	for _, h := range c.hosts {
		h.hooks.mu.Lock()
		times = append(times, h.hooks.reached)
		h.hooks.mu.Unlock()
	}
	return times
}
