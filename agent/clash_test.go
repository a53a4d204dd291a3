package agent

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// Two copies of one state directory ran on two sides of a cut, and both led. When they meet, the later life ends after its lose
// hook, and the earlier one goes on.
func TestTwoCopiesThatMeetLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		first, copied := c.hosts[0], c.hosts[1]
		c.start(first)
		c.agrees(first)
		copyState(t, first.dir, copied.dir)
		c.lan.Partition([]string{"n1"}, []string{"n2"})
		c.start(copied)
		time.Sleep(10 * time.Second)
		if !copied.agent.Status().LeaderIsSelf {
			t.Error("the copy does not lead on its side of the cut")
		}
		c.lan.Heal()
		select {
		case err := <-copied.done:
			copied.agent = nil
			if !errors.Is(err, ErrSameID) || !strings.Contains(err.Error(), "bully-agent id new") {
				t.Errorf("the copy ended with %v", err)
			}
		case <-time.After(2 * time.Minute):
			t.Error("the copy goes on")
		}
		time.Sleep(time.Second)
		if !first.agent.Status().LeaderIsSelf {
			t.Errorf("the first one does not lead: %+v", first.agent.Status())
		}
		first.expectHooks(t, "become-leader 1 boot")
		c.stopAll()
	})
}

// Of two lives both ends choose the same one.
func TestOneOfTwoCopiesStays(t *testing.T) {
	lives := []membership.Member{{Incarnation: 5, Nonce: 1}, {Incarnation: 5, Nonce: 9}, {Incarnation: 7, Nonce: 1}}
	for i := range lives {
		for _, isSettled := range []bool{false, true} {
			for j := range lives {
				a, b := lives[i], lives[j]
				if a.Settled = isSettled; i != j && staysBeside(a, b) == staysBeside(b, a) {
					t.Errorf("%+v and %+v: both stay, or none", a, b)
				}
			}
		}
	}
	settled, later := lives[2], lives[0]
	settled.Settled = true
	if !staysBeside(settled, later) || !staysBeside(lives[0], lives[2]) {
		t.Error("it is not the one that was there before")
	}
}

// A host that is to end claims nothing, though a timer of its is due in the same turn of the loop.
func TestAHostThatEndsClaimsNothing(t *testing.T) {
	now := time.Unix(1, 0)
	node, err := election.New(election.Config{ID: wire.ID{1}, Rand: rand.New(rand.NewPCG(1, 2))}, election.Saved{}, now)
	if err != nil {
		t.Fatal(err)
	}
	s := &seat{node: node, state: mustOpen(t, t.TempDir()), around: clockOnly{clock: func() time.Time { return now }}, shown: &standing{status: node.Status()}}
	s.tally = &tally{settings: &s.election}
	s.log = hclog.NewNullLogger()
	defer s.close()
	s.withdraw()
	for node.Deadline().After(now) {
		now = node.Deadline()
		s.step(election.Tick{})
	}
	if s := node.Status(); s.State != election.Start {
		t.Errorf("it is in %v", s.State)
	}
}
