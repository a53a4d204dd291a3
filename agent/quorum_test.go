package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// expecting makes every host of a cluster expect so many voters.
func (c *cluster) expecting(n int) {
	for _, h := range c.hosts {
		also := h.settings
		h.settings = func(cfg *Config) {
			cfg.Election.Expect = n
			if also != nil {
				also(cfg)
			}
		}
	}
}

func votersOf(s control.Status) (names []string) {
	if s.Roster == nil {
		return nil
	}
	for _, v := range s.Roster.Voters {
		name := v.Name
		if !v.Alive {
			name += " (gone)"
		}
		names = append(names, name)
	}
	return names
}

// A follower hears its leader only, and does not take that for a minority.
func TestFollowersOfFiveSeeAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		c.expecting(5)
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(c.hosts[4])
		time.Sleep(10 * time.Second)
		for _, h := range c.hosts {
			s := h.agent.Status()
			if len(s.Notes) != 0 || s.Quorum == nil || *s.Quorum != (control.Quorum{Need: 3, Have: 5}) {
				t.Errorf("%s: quorum %+v, notes %q", h.name, s.Quorum, s.Notes)
			}
		}
		c.stopAll()
	})
}

// Quorum mode from the first start to a minority and back, as status tells it.
func TestStatusOfQuorumMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		c.start(low)
		c.start(mid)
		time.Sleep(20 * time.Second)
		for _, h := range []*testHost{low, mid} {
			s := h.agent.Status()
			const why = "waiting for 3 voters, 2 seen: n1, n2"
			if s.Leader != nil || s.WhyNoLeader != why || !slices.Contains(s.Notes, why) || s.Roster != nil {
				t.Errorf("before the third voter %s shows leader %v, why %q, roster %v, notes %q", h.name, s.Leader, s.WhyNoLeader, s.Roster, s.Notes)
			}
			if s.Mode != "quorum" || s.Promise != "at most one leader at any instant; a minority has none" || s.Expect != 3 {
				t.Errorf("%s: mode %s, promise %q, expect %d", h.name, s.Mode, s.Promise, s.Expect)
			}
			if s.Quorum == nil || *s.Quorum != (control.Quorum{Need: 3, Have: 2}) {
				t.Errorf("%s: quorum %+v", h.name, s.Quorum)
			}
		}

		c.start(top)
		c.agrees(top)
		time.Sleep(time.Second)
		for _, h := range c.hosts {
			s := h.agent.Status()
			if !slices.Equal(votersOf(s), []string{"n1", "n2", "n3"}) || !s.Roster.Formed || s.WhyNoLeader != "" || len(s.Notes) != 0 {
				t.Errorf("%s: roster %+v, why %q, notes %q", h.name, s.Roster, s.WhyNoLeader, s.Notes)
			}
		}
		if s := top.agent.Status(); s.Quorum == nil || s.Quorum.Need != 2 || s.Quorum.Have != 3 {
			t.Errorf("the leader's quorum: %+v", s.Quorum)
		}
		if mode := top.hooks.lastMode(); mode != "quorum 2" {
			t.Errorf("hooks run in mode %q, want quorum 2", mode)
		}

		c.kill(top)
		c.kill(mid)
		time.Sleep(20 * time.Second)
		s := low.agent.Status()
		const minority = "only 1 of 3 voters answer: no leader here until 2 do"
		if s.Leader != nil || s.WhyNoLeader != minority || !slices.Contains(s.Notes, minority) || s.Role == "observer" {
			t.Errorf("a minority shows role %s, leader %v, why %q, notes %q", s.Role, s.Leader, s.WhyNoLeader, s.Notes)
		}
		if got := votersOf(s); !slices.Equal(got, []string{"n1", "n2 (gone)", "n3 (gone)"}) {
			t.Errorf("a minority shows voters %q", got)
		}
		c.start(mid)
		c.agrees(mid)
		c.stopAll()
	})
}

// A roster that has not formed has as many voters here as are named so, on a host that only watches too.
func TestAYoungRosterCountsWhomItNames(t *testing.T) {
	ids := []wire.ID{{1}, {2}, {3}}
	v := &view{others: []membership.Member{{ID: ids[1], Status: membership.Left}, {ID: ids[2]}}}
	v.self.ID = ids[0]
	shown := &tally{settings: &election.Config{Expect: 3}, self: ids[0], known: onlyHere{v, ids[0]}}
	for _, state := range []election.State{election.Start, election.Observe} {
		status := election.Status{State: state, Heard: ids, Roster: election.Roster{Version: 1, IDs: ids}}
		named := 0
		for _, v := range shown.controlRoster(status).Voters {
			if v.Alive {
				named++
			}
		}
		if have := shown.controlQuorum(status).Have; have != named || have == len(ids) {
			t.Errorf("%v: it counts %d and names %d", state, have, named)
		}
	}
}

// onlyHere has one member here, as the failure detector says.
type onlyHere struct {
	view *view
	id   wire.ID
}

func (o onlyHere) seen() *view { return o.view }

func (o onlyHere) isHere(id wire.ID) bool { return id == o.id }

// Who hears a leader by a roster that it cannot confirm is not told of a network that is
// cut, and to make the cluster anew.
func TestAnOutdatedRosterIsNamed(t *testing.T) {
	why := (&tally{}).minority(election.Status{Outdated: true})
	if !strings.Contains(why, "a newer roster is heard") || !strings.Contains(why, "remove this host's state directory") {
		t.Errorf("says %q", why)
	}
}

// Two that stepped down answer each other well, though neither asks the other:
// nobody is sent to look for a fault of the network.
func TestWhoOnlyWatchesIsNoMinority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		last, held := c.hosts[0], []*testHost{c.hosts[2], c.hosts[1]}
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(held[0])
		for i, h := range held {
			if err := h.order("step-down", map[string]string{"for": "1h"}); err != nil {
				t.Fatal(err)
			}
			c.agrees(c.hosts[1-i])
		}
		c.kill(last)
		time.Sleep(20 * time.Second)
		for _, h := range held {
			s := h.agent.Status()
			if s.Leader != nil || s.WhyNoLeader != "this host cannot lead, and hears no leader" {
				t.Errorf("%s shows leader %v, why %q", h.name, s.Leader, s.WhyNoLeader)
			}
			if s.Quorum == nil || *s.Quorum != (control.Quorum{Need: 2, Have: 2}) || len(s.Notes) != 1 {
				t.Errorf("%s: quorum %+v, notes %q", h.name, s.Quorum, s.Notes)
			}
		}
		c.kill(held[0])
		time.Sleep(20 * time.Second)
		if s := held[1].agent.Status(); s.WhyNoLeader != "only 1 of 3 voters answer: no leader here until 2 do" {
			t.Errorf("alone: why %q", s.WhyNoLeader)
		}
		c.stopAll()
	})
}

// A fourth voter where three were expected observes, and everybody says so.
func TestMoreVotersThanExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4)
		c.expecting(3)
		late, top := c.hosts[0], c.hosts[3]
		for _, h := range c.hosts[1:] {
			c.start(h)
		}
		c.agrees(top)
		c.start(late)
		time.Sleep(10 * time.Second)
		if s := late.agent.Status(); !slices.Contains(s.Notes, "4 voters are present but expect = 3: this host is outside the roster and only observes") {
			t.Errorf("the fourth notes %q", s.Notes)
		}
		if s := top.agent.Status(); !slices.Contains(s.Notes, "4 voters are present but expect = 3: host n1 is outside the roster and only observes") {
			t.Errorf("the leader notes %q", s.Notes)
		}
		expectRefusal(t, top.order("handover", map[string]string{"to": "n1"}), "observer")
		c.stopAll()
	})
}

// Too many from the start: no roster forms, and the reason is said.
func TestMoreVotersThanExpectedFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4)
		c.expecting(3)
		for _, h := range c.hosts {
			c.start(h)
		}
		time.Sleep(10 * time.Second)
		const why = "4 voters are present (n1, n2, n3, n4) but expect = 3: nobody leads before 3 voters have agreed on a roster"
		if s := c.hosts[0].agent.Status(); s.Leader != nil || s.WhyNoLeader != why || !slices.Contains(s.Notes, why) {
			t.Errorf("leader %v, why %q, notes %q", s.Leader, s.WhyNoLeader, s.Notes)
		}
		c.kill(c.hosts[0])
		c.agrees(c.hosts[3])
		c.stopAll()
	})
}

// A voter that is gone for good is forgotten, and another takes its place.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4)
		c.expecting(3)
		spare, mid, gone, top := c.hosts[0], c.hosts[1], c.hosts[2], c.hosts[3]
		for _, h := range []*testHost{mid, gone, top} {
			c.start(h)
		}
		c.agrees(top)
		expectRefusal(t, top.order("forget", map[string]string{"member": "n1"}), "unknown_member")
		expectRefusal(t, top.order("forget", map[string]string{"member": "n4"}), "self")
		expectRefusal(t, mid.order("forget", map[string]string{"member": "n3"}), "not_leader", "run it on n4")
		c.kill(gone)
		time.Sleep(10 * time.Second)
		if err := top.order("forget", map[string]string{"member": "n3"}); err != nil {
			t.Fatal(err)
		}
		if got := votersOf(top.agent.Status()); !slices.Equal(got, []string{"n2", "n4"}) {
			t.Errorf("after it was forgotten: %q", got)
		}
		expectRefusal(t, top.order("forget", map[string]string{"member": "n3"}), "not_voter")
		c.start(spare)
		time.Sleep(10 * time.Second)
		for _, h := range []*testHost{spare, mid, top} {
			if got := votersOf(h.agent.Status()); !slices.Equal(got, []string{"n1", "n2", "n4"}) {
				t.Errorf("%s: voters %q once the spare is here", h.name, got)
			}
		}
		c.stopAll()
	})
}

// A host that is taken out though it is alive says so itself, in a new life too, and
// what it says to do brings it back.
func TestAForgottenHostSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		for _, h := range c.hosts {
			c.start(h)
		}
		gone, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		c.agrees(top)
		expectRefusal(t, top.order("forget", map[string]string{"member": "n1"}), "voter_alive", "alive", "--force")
		expectRefusal(t, top.order("forget", map[string]string{"member": "n1", "force": "yes"}), "usage", "true")
		if err := top.order("forget", map[string]string{"member": "n1", "force": "true"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		events, _ := gone.agent.Events(0)
		if !slices.ContainsFunc(events, func(e control.Event) bool { return e.Cause == "forgotten" }) {
			t.Error("no event tells that n1 was forgotten")
		}
		for _, h := range c.hosts {
			if m := seenBy(h, gone); m.Status != "alive" || m.Role != "observer" || m.Voter || !m.Outside {
				t.Errorf("%s lists who was forgotten as %+v", h.name, m)
			}
		}
		for life := range 2 {
			s := gone.agent.Status()
			want := fmt.Sprintf("this host was forgotten: roster %d leaves it out", s.Roster.Version)
			if !slices.ContainsFunc(s.Notes, func(note string) bool {
				return strings.HasPrefix(note, want) && strings.Contains(note, "empty "+gone.dir)
			}) {
				t.Errorf("life %d: notes %q", life, s.Notes)
			}
			gone.stop()
			<-gone.done
			if life == 0 {
				c.start(gone)
				time.Sleep(30 * time.Second)
			}
		}
		if err := os.RemoveAll(gone.dir); err != nil {
			t.Fatal(err)
		}
		c.start(gone)
		time.Sleep(30 * time.Second)
		for _, h := range []*testHost{gone, mid, top} {
			s := h.agent.Status()
			if got := votersOf(s); !slices.Equal(got, []string{"n1", "n2", "n3"}) || len(s.Notes) > 0 {
				t.Errorf("%s: voters %q, notes %q", h.name, got, s.Notes)
			}
			if all := h.agent.Members(); len(all) != 3 || s.Members != 3 {
				t.Errorf("%s lists the id that was removed: %+v", h.name, all)
			}
			if m := seenBy(h, gone); m.Role != "voter" || !m.Voter || m.Outside {
				t.Errorf("%s lists who votes again as %+v", h.name, m)
			}
		}
		c.stopAll()
	})
}

// A voter whose state directory was removed is listed beside the host that it became until it is forgotten: it counts.
func TestAVoterIsListedUntilItIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		for _, h := range c.hosts {
			c.start(h)
		}
		gone, top := c.hosts[0], c.hosts[2]
		c.agrees(top)
		former := gone.agent.view.self.ID.String()
		c.kill(gone)
		if err := os.RemoveAll(gone.dir); err != nil {
			t.Fatal(err)
		}
		c.start(gone)
		time.Sleep(30 * time.Second)
		rows := func() (ids []string) {
			for _, m := range top.agent.Members() {
				ids = append(ids, m.ID)
			}
			return ids
		}
		if ids := rows(); len(ids) != 4 || !slices.Contains(ids, former) {
			t.Errorf("before: %q", ids)
		}
		if err := top.order("forget", map[string]string{"member": former}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if ids := rows(); len(ids) != 3 || slices.Contains(ids, former) {
			t.Errorf("after: %q", ids)
		}
		c.stopAll()
	})
}

// M9: two sizes of quorum that differ by more than one need not overlap.
func TestExpectMovesByOne(t *testing.T) {
	ids := func(n int) (out []wire.ID) {
		for i := range n {
			out = append(out, wire.ID{byte(i + 1)})
		}
		return out
	}
	cases := []struct{ expect, voters, ok int }{
		{3, 3, 1}, {3, 4, 1}, {3, 2, 1}, {4, 3, 1}, {5, 3, 0}, {3, 5, 0}, {7, 5, 0}, {0, 5, 1}, {5, 0, 1},
	}
	for _, tt := range cases {
		r := election.Roster{IDs: ids(tt.voters)}
		if tt.voters > 0 {
			r.Version, r.Formed = 1, true
		}
		err := checkExpect(tt.expect, r)
		if (err == nil) != (tt.ok == 1) {
			t.Errorf("expect %d with a roster of %d: %v", tt.expect, tt.voters, err)
		}
		if err != nil && !strings.Contains(err.Error(), fmt.Sprintf("expect is %d and the roster on disk has %d voters", tt.expect, tt.voters)) {
			t.Errorf("both numbers are missing in %q", err)
		}
	}
}

// A voter whose expect was changed by two does not start, and has lost nothing.
func TestExpectIsCheckedAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(c.hosts[2])
		h := c.hosts[0]
		h.stop()
		<-h.done
		h.agent = nil
		before, _ := os.ReadFile(filepath.Join(h.dir, stateName))
		_, err := open(t.Context(), h.config(c, func(cfg *Config) { cfg.Election.Expect = 5 }))
		var refused *Refusal
		if !errors.As(err, &refused) || refused.ExitCode() != 7 {
			t.Errorf("started with %v, want a refusal with exit code 7", err)
		}
		after, _ := os.ReadFile(filepath.Join(h.dir, stateName))
		if len(before) == 0 || !bytes.Equal(before, after) {
			t.Errorf("the state was written")
		}
		c.start(h)
		time.Sleep(5 * time.Second)
		if s := h.agent.Status(); s.Leader == nil || s.Leader.Name != "n3" {
			t.Errorf("with the old expect it follows %v", s.Leader)
		}
		c.stopAll()
	})
}

// An agent that nobody was ever heard by leads alone, and says what to look at; one
// that has lost its company does not say that it never had any.
func TestAnAgentThatHeardNobodySaysWhatToCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		a, b := c.hosts[0], c.hosts[1]
		c.lan.Isolate(a.name)
		c.start(a)
		c.start(b)
		time.Sleep(10 * time.Second)
		never := func(n string) bool { return strings.HasPrefix(n, "no other member was ever heard: ") }
		s := a.agent.Status()
		if !s.LeaderIsSelf || !slices.ContainsFunc(s.Notes, func(n string) bool { return never(n) && strings.Contains(n, "UDP and TCP port") }) {
			t.Errorf("leads %t, notes %q", s.LeaderIsSelf, s.Notes)
		}
		c.lan.Heal()
		time.Sleep(40 * time.Second)
		c.kill(b)
		time.Sleep(20 * time.Second)
		if s := a.agent.Status(); slices.ContainsFunc(s.Notes, never) || len(s.Notes) != 1 {
			t.Errorf("after its company went: notes %q", s.Notes)
		}
		c.stopAll()
	})
}
