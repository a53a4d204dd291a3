package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// id is the host's, made before its first start if need be.
func (h *testHost) id(t *testing.T) wire.ID {
	t.Helper()
	id, err := ReadID(h.dir)
	if err != nil {
		id, err = Stopped{Dir: h.dir, Cluster: "test"}.MakeID()
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// list is a host list of these, under their names.
func (c *cluster) list(hosts ...*testHost) identity.Hosts {
	c.t.Helper()
	var all []identity.Host
	for _, h := range hosts {
		all = append(all, identity.Host{Name: h.name, ID: h.id(c.t)})
	}
	list, err := identity.MakeHosts(all)
	if err != nil {
		c.t.Fatal(err)
	}
	return list
}

// startListed starts all hosts with a list of all. What next gives is what a reload of each finds.
func (c *cluster) startListed(hosts ...*testHost) (next map[*testHost]*identity.Hosts) {
	c.t.Helper()
	all := c.list(c.hosts...)
	next = map[*testHost]*identity.Hosts{}
	for _, h := range hosts {
		list := all
		next[h] = &list
		also := h.settings
		h.settings = func(cfg *Config) {
			if also != nil {
				also(cfg)
			}
			cfg.Hosts = all
			cfg.Reload = func() (Reloaded, error) { return Reloaded{Hosts: list, Seeds: cfg.Seeds, Priority: h.priority}, nil }
		}
		c.start(h)
	}
	return next
}

// A host is taken out of the lists of all, while every tenth datagram is lost: within a second nobody has it as a member any more. The
// leader stays; if it was that host it hands over, and another leads within a second. Then it observes, and is forgotten. Once it is listed
// again it votes and leads as before.
func TestAHostIsTakenOutOfTheList(t *testing.T) {
	for _, mode := range []string{"available", "quorum"} {
		for _, which := range []string{"follower", "leader"} {
			t.Run(mode+" "+which, func(t *testing.T) {
				if testing.Short() && !(mode == "quorum" && which == "leader") {
					t.Skip("skipped: short, and the leader of a quorum does the most")
				}
				synctest.Test(t, func(t *testing.T) { takesOut(t, mode == "quorum", which == "leader") })
			})
		}
	}
}

func takesOut(t *testing.T, isQuorum, leads bool) {
	c := newCluster(t, 5)
	if isQuorum {
		c.expecting(5)
	}
	next := c.startListed(c.hosts...)
	top := c.hosts[4]
	c.agrees(top)
	time.Sleep(5 * time.Second)
	c.lan.SetLoss(0.1)
	lost, leader := c.hosts[0], top
	if leads {
		lost, leader = top, c.hosts[3]
	}
	var stay []*testHost
	for _, h := range c.hosts {
		if h != lost {
			stay = append(stay, h)
		}
	}
	for _, h := range stay {
		*next[h] = c.list(stay...)
		err := h.agent.Reload(context.Background(), false)
		if refused := (*control.APIError)(nil); !errors.As(err, &refused) || refused.Status != 409 || !strings.Contains(refused.Message, "hosts would leave out members that are here: "+lost.name) ||
			!strings.Contains(refused.Hint, "reload --drop") {
			t.Errorf("%s leaves a living member out unasked: %v", h.name, err)
		}
		if err := h.agent.Reload(context.Background(), true); err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
	}
	began := time.Now()
	isOut := func(h *testHost) bool {
		return !slices.ContainsFunc(h.agent.Members(), func(m control.Member) bool { return m.ID == lost.id(t).String() && m.Status == "alive" })
	}
	for _, h := range stay {
		for !isOut(h) && time.Since(began) < 5*time.Second {
			time.Sleep(10 * time.Millisecond)
		}
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it is a member for %v", took)
	}
	if leads {
		for c.leader() != leader && time.Since(began) < 5*time.Second {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > 1500*time.Millisecond {
			t.Errorf("%s leads after %v", leader.name, took)
		}
	}
	time.Sleep(20 * time.Second)
	for _, h := range stay {
		s := h.agent.Status()
		if s.Leader == nil || s.Leader.Name != leader.name || s.Hosts.Listed != 4 || isQuorum && !slices.Equal(votersOf(s), namesOf(stay)) {
			t.Errorf("%s: leader %+v, list %+v, voters %v", h.name, s.Leader, s.Hosts, votersOf(s))
		}
	}
	s := lost.agent.Status()
	if !slices.Contains(s.Bars, "not-listed") || s.LeaderIsSelf || len(s.Hosts.LeftOutBy) == 0 ||
		!slices.ContainsFunc(s.Notes, func(n string) bool { return strings.Contains(n, "leaves it out of its hosts") }) {
		t.Errorf("%s: bars %v, leader %v, left out by %+v, notes %q", lost.name, s.Bars, s.Leader, s.Hosts.LeftOutBy, s.Notes)
	}
	want := []string{"become-leader 1 boot"}
	if leads {
		want = append(want, "lose-leadership 1 not-listed")
	}
	top.expectHooks(t, want...)
	c.lan.SetLoss(0)
	for _, h := range stay {
		*next[h] = c.list(c.hosts...)
		if err := h.agent.Reload(context.Background(), false); err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
	}
	time.Sleep(time.Minute)
	c.agrees(top)
	for _, h := range c.hosts {
		if s := h.agent.Status(); slices.Contains(s.Bars, "not-listed") || isQuorum && !slices.Equal(votersOf(s), namesOf(c.hosts)) {
			t.Errorf("%s, after all are listed again: bars %v, voters %v", h.name, s.Bars, votersOf(s))
		}
	}
	c.stopAll()
}

func namesOf(hosts []*testHost) (names []string) {
	for _, h := range hosts {
		names = append(names, h.name)
	}
	return names
}

// A host that is not listed and starts is let in by nobody: it learns of no member, stands for nothing, and says why. All call each
// other by the names of the list.
func TestAHostThatIsNotListedIsLetInByNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		list, err := identity.MakeHosts([]identity.Host{{Name: "east", ID: low.id(t)}, {Name: "west", ID: mid.id(t)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range []*testHost{low, mid} {
			h.settings = func(cfg *Config) { cfg.Hosts = list }
			c.start(h)
		}
		c.start(top)
		time.Sleep(3 * time.Minute) // after one, its seeds are tried at longer intervals
		s := top.agent.Status()
		if s.Leader != nil || !slices.Equal(s.Bars, []string{"not-listed"}) || s.Alive != 1 || len(s.Hosts.LeftOutBy) == 0 {
			t.Errorf("leader %+v, bars %v, %d alive, left out by %+v", s.Leader, s.Bars, s.Alive, s.Hosts.LeftOutBy)
		}
		top.expectHooks(t)
		for _, h := range []*testHost{low, mid} {
			s := h.agent.Status()
			isCalled := h == low // the newcomer's seeds are this host and itself
			if s.Leader == nil || s.Leader.Name != "west" || s.Members != 2 || isCalled && (len(s.Hosts.LeftOut) != 1 || s.Hosts.LeftOut[0].ID != top.id(t).String()) {
				t.Errorf("%s: leader %+v, %d members, left out %+v", h.name, s.Leader, s.Members, s.Hosts.LeftOut)
			}
		}
		if s := low.agent.Status(); s.Self.Name != "east" || !slices.ContainsFunc(s.Notes, func(n string) bool { return strings.Contains(n, "hosts does not name it") }) {
			t.Errorf("it calls itself %s, notes %q", s.Self.Name, s.Notes)
		}
		c.stopAll()
	})
}

// Lists that differ are named, by each of the two; where one host has none as well.
func TestListsThatDifferAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		all := c.list(low, top)
		low.settings = func(cfg *Config) { cfg.Hosts = all }
		c.start(low)
		c.start(top)
		c.agrees(top)
		time.Sleep(2 * time.Second)
		for _, h := range c.hosts {
			want := fmt.Sprintf("%s has another host list: ", c.hosts[1-slices.Index(c.hosts, h)].name)
			if s := h.agent.Status(); !slices.ContainsFunc(s.Notes, func(n string) bool { return strings.HasPrefix(n, want) && strings.Contains(n, all.Digest().String()) }) {
				t.Errorf("%s: notes %q", h.name, s.Notes)
			}
		}
		c.stopAll()
	})
}

// A member whose list changes each second, and is the same now and then, is told of once a minute.
func TestAListThatChangesWithoutEndIsToldOfRarely(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	a := &agent{cfg: Config{Now: func() time.Time { return now }}, log: hclog.NewNullLogger(), roll: newRoll(identity.Hosts{}),
		view: newView(membership.Member{}), quietAt: map[string]time.Time{}}
	m := membership.Member{ID: identity.Public{1}.ID(), Name: "n1", Status: membership.Alive}
	for i := range 180 {
		m.List = identity.Digest(i % 3)
		a.view.others = []membership.Member{m}
		a.lookAtLists()
		now = now.Add(time.Second)
	}
	if events, _ := a.ring.Events(0); len(events) != 3 {
		t.Errorf("in three minutes %d events tell of it, expected 3", len(events))
	}
	m.List = 7
	a.view.others = []membership.Member{m}
	for range 180 {
		a.lookAtLists()
		now = now.Add(time.Second)
	}
	if events, _ := a.ring.Events(0); len(events) != 4 || !strings.Contains(events[3].Text, identity.Digest(7).String()) {
		t.Errorf("then it stays another: %d events tell of it, expected one more", len(events))
	}
}

func TestCheckHosts(t *testing.T) {
	ids := make([]wire.ID, 6)
	for i := range ids {
		ids[i] = identity.Public{byte(i)}.ID()
	}
	list := func(which ...int) identity.Hosts {
		var all []identity.Host
		for _, i := range which {
			all = append(all, identity.Host{Name: fmt.Sprintf("h%d", i), ID: ids[i]})
		}
		hosts, err := identity.MakeHosts(all)
		if err != nil {
			t.Fatal(err)
		}
		return hosts
	}
	slip := ids[0]
	slip[3] ^= 1
	sorted := slices.Clone(ids[:3])
	slices.SortFunc(sorted, wire.ID.Compare)
	roster := election.Roster{Version: 1, Formed: true, IDs: sorted}
	for name, c := range map[string]struct {
		hosts  identity.Hosts
		self   wire.ID
		roster election.Roster
		want   string
	}{
		"no list":             {identity.Hosts{}, ids[0], roster, ""},
		"all":                 {list(0, 1, 2), ids[0], roster, ""},
		"a majority":          {list(0, 1), ids[0], roster, ""},
		"no majority":         {list(0, 4), ids[0], roster, "hosts names 1 of the 3 voters of the roster: expected 2 at least; it lacks "},
		"outside the roster":  {list(4, 5), ids[4], roster, ""},
		"no roster":           {list(0, 4), ids[0], election.Roster{}, ""},
		"without itself":      {list(1, 2), ids[0], roster, "hosts does not name this host, whose id is " + ids[0].String()},
		"where it stands":     {list(1, 2).At("agent.toml:7:1: network.hosts"), ids[0], roster, "agent.toml:7:1: network.hosts does not name this host, whose id is "},
		"a slip of one digit": {list(0, 1), slip, roster, "its id is " + slip.String() + ", and h0 is nearly that: " + ids[0].String()},
	} {
		err := checkHosts(c.hosts, c.self, c.roster)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		var refused *Refusal
		if err != nil && (!errors.As(err, &refused) || refused.Hint == "") {
			t.Errorf("%s: %v says nothing of what to do", name, err)
		}
	}
}

// An agent whose list lacks it does not start, and has changed nothing.
func TestAListWithoutThisHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		low.settings = func(cfg *Config) { cfg.Hosts = c.list(top) }
		low.id(t)
		err := Run(context.Background(), low.config(c, nil))
		var refused *Refusal
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "hosts does not name this host") {
			t.Errorf("it ended with %v", err)
		}
		if err := CheckState(low.dir, "test", low.name, 0, c.list(top)); !errors.As(err, &refused) {
			t.Errorf("a check says %v", err)
		}
		if s := mustOpen(t, low.dir); s.saved.Incarnation != 0 {
			t.Errorf("it has lived: %+v", s.saved)
		} else {
			s.close()
		}
	})
}
