package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/resourcerun"
	"github.com/bully-agent/bully-agent/internal/advertise"
	"github.com/bully-agent/bully-agent/internal/control"
)

// vip is a resource as it is configured, and how it is.
var vip = hooks.Resource{Name: "vip", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.50/32")}, Interface: "eth0"}

func vipIs(has bool, text, why string) resourcerun.State {
	return resourcerun.State{Name: vip.Name, What: vip.String(), Has: has, Text: text, Why: why}
}

// hasVIP starts a cluster of one that has it.
func hasVIP(t *testing.T) (*cluster, *testHost) {
	c := newCluster(t, 1)
	h := c.hosts[0]
	h.settings = func(cfg *Config) { cfg.Hooks.Resources = []hooks.Resource{vip} }
	c.start(h)
	c.agrees(h)
	return c, h
}

// lacks has the keeper say that something the leader is to have is lost, for a reason that begins with its name.
func (h *testHost) lacks(why string) {
	name, _, _ := strings.Cut(why, " ")
	h.hooks.results <- hooks.Result{Kind: hooks.BecomeLeader, Epoch: h.agent.Status().Epoch.Counter, Cause: "boot", Exit: -1, Resource: name,
		IsLater: true, Err: errors.New(why)}
	synctest.Wait()
}

// tells checks all that the events have told of resources.
func (h *testHost) tells(t *testing.T, want ...string) {
	t.Helper()
	events, _ := h.agent.Events(0)
	var got []string
	for _, e := range events {
		if e.Type == "resource" {
			got = append(got, e.Cause+": "+e.Text)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// A reload with another host's own address changes nothing: the leader would hand over, and so would the next.
func TestAReloadSparesTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		h, other := c.hosts[0], c.hosts[1]
		resources := []hooks.Resource{vip}
		h.settings = func(cfg *Config) {
			cfg.Reload = func() (Reloaded, error) {
				return Reloaded{Hooks: hooks.Config{Resources: resources}, Seeds: cfg.Seeds, Priority: h.priority}, nil
			}
		}
		c.start(h)
		c.start(other)
		c.agrees(c.hosts[1])
		for _, m := range h.agent.Members() {
			at := netip.MustParseAddrPort(m.Addr).Addr()
			resources = []hooks.Resource{vip, {Name: "slip", Addresses: []netip.Prefix{netip.PrefixFrom(at, at.BitLen())}, Interface: "eth0"}}
			want := "resource slip: " + at.String() + " is the own address of " + m.Name + ", at which the other agents reach it"
			if err := h.agent.Reload(t.Context(), false); !errors.Is(err, control.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("a reload with the address of %s: %v", m.Name, err)
			}
			if s := h.agent.Status(); len(s.Resources) != 0 || !hasNote(s, "the last reload was refused, and nothing was changed: "+want) {
				t.Errorf("%d resources after it, notes %q", len(s.Resources), s.Notes)
			}
		}
		resources = []hooks.Resource{vip}
		if err := h.agent.Reload(t.Context(), false); err != nil {
			t.Error(err)
		}
		if s := h.agent.Status(); len(s.Resources) != 1 || hasNote(s, "the last reload was refused") {
			t.Errorf("%d resources after a good one, notes %q", len(s.Resources), s.Notes)
		}
		c.stopAll()
	})
}

// Of two reloads at a time the one that reads last is taken last, however long the other one reads.
func TestTheNewestReloadIsTakenLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		var reads atomic.Int32
		h.settings = func(cfg *Config) {
			cfg.Reload = func() (Reloaded, error) {
				n := reads.Add(1)
				if n == 1 {
					time.Sleep(time.Second) // its disk is slow
				}
				return Reloaded{Priority: uint16(n), Seeds: cfg.Seeds, Notes: []string{fmt.Sprint("file ", n)}}, nil
			}
		}
		c.startAll()
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				if err := h.agent.Reload(t.Context(), false); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		group.Wait()
		if s := h.agent.Status(); !hasNote(s, "file 2") {
			t.Errorf("notes %q", s.Notes)
		}
		c.stopAll()
	})
}

// An address that somebody has put on a follower is named there, and no more once it has gone.
func TestAnAddressThatSomebodyPutHereIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		hasIt, moved := false, make(chan bool)
		low.settings = func(cfg *Config) {
			cfg.Hooks.Resources = []hooks.Resource{vip}
			cfg.WatchLink = func(ctx context.Context, saw func(advertise.Sight)) error {
				for {
					eth0 := advertise.Link{Name: "eth0", Addrs: []netip.Addr{low.addr.Addr()}}
					if hasIt {
						put := netip.PrefixFrom(vip.Addresses[0].Addr(), 24) // another prefix than the configured one
						eth0.Addrs, eth0.Networks = append(eth0.Addrs, put.Addr()), append(eth0.Networks, put)
					}
					saw(advertise.Sight{Links: []advertise.Link{eth0}})
					select {
					case hasIt = <-moved:
					case <-ctx.Done():
						return nil
					}
				}
			}
		}
		top.settings = func(cfg *Config) { cfg.Hooks.Resources = []hooks.Resource{vip} }
		c.start(low)
		c.start(top)
		c.agrees(top)
		says := func(want string) {
			t.Helper()
			time.Sleep(3 * time.Second)
			if got := low.agent.Status().Resources[0]; got.Here || got.Text != want {
				t.Errorf("resources say %+v, want %q", got, want)
			}
		}
		says("")
		moved <- true
		says("but eth0 has 192.0.2.50/24 already, and not by this agent: stop what put it there, such as keepalived, or, if nothing needs it, ip addr del 192.0.2.50/24 dev eth0")
		low.hooks.have(vipIs(false, "", "has not ended: eth0 has it"))
		says("has not ended: eth0 has it")
		low.hooks.have()
		beside := func(is bool) { low.agent.calls <- func() { low.agent.seat.beside = is } }
		beside(true)
		says("") // its last life has left it
		beside(false)
		moved <- false
		says("")
		c.stopAll()
	})
}

// What becomes of a resource is an event, and in the status at once. That it is about to begin or to end is none.
func TestEventsTellOfResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := hasVIP(t)
		h.hooks.have(vipIs(false, "", ""))
		h.tells(t)
		h.hooks.have(vipIs(true, "", ""))
		if s := h.agent.Status(); len(s.Resources) != 1 || !s.Resources[0].Here {
			t.Errorf("resources %+v", s.Resources)
		}
		want := []string{"begun: resource vip has begun"}
		h.tells(t, want...)
		h.hooks.have(vipIs(true, "put back once", ""))
		want = append(want, "changed: resource vip: put back once")
		h.tells(t, want...)
		h.hooks.have(vipIs(false, "put back once", "has failed: deleted"))
		if s := h.agent.Status(); len(s.Resources) != 1 || s.Resources[0].Here || s.Resources[0].Text != "has failed: deleted" {
			t.Errorf("resources %+v", s.Resources)
		}
		want = append(want, "failed: resource vip has failed: deleted")
		h.tells(t, want...)
		h.hooks.have(vipIs(false, "", "has not begun: no such device"))
		h.hooks.have(vipIs(true, "", ""))
		h.hooks.have(vipIs(false, "", ""))
		want = append(want, "failed: resource vip has not begun: no such device", "begun: resource vip has begun")
		h.tells(t, want...)
		h.hooks.have()
		h.tells(t, append(want, "ended: resource vip has ended")...)
		c.stopAll()
	})
}

// What another host claims again and again is told once a minute, and then as it is.
func TestEventsTellSeldomWhatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := hasVIP(t)
		h.hooks.have(vipIs(true, "", ""))
		for _, text := range []string{"claimed once", "claimed 2 times", "claimed 3 times"} {
			h.hooks.have(vipIs(true, text, ""))
		}
		h.tells(t, "begun: resource vip has begun", "changed: resource vip: claimed once")
		time.Sleep(time.Minute + 2*lookInterval)
		h.tells(t, "begun: resource vip has begun", "changed: resource vip: claimed once", "changed: resource vip: claimed 3 times")
		c.stopAll()
	})
}

// A reload may have two resources of one name, while one is to end. Each is told of by itself.
func TestEventsTellOfTwoResourcesOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := hasVIP(t)
		before := resourcerun.State{Name: "vip", What: "unit vip.service", Has: true}
		h.hooks.have(before)
		h.hooks.have(before, vipIs(true, "", ""))
		h.hooks.have(vipIs(true, "", ""))
		h.tells(t, "begun: resource vip has begun", "begun: resource vip has begun", "ended: resource vip has ended")
		if s := h.agent.Status(); len(s.Resources) != 1 || !s.Resources[0].Here {
			t.Errorf("resources %+v", s.Resources)
		}
		c.stopAll()
	})
}

// The failure that a leadership ends for is told before that, and once, also if the keeper knows no more of the resource.
func TestEventsTellOfAFailureOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := hasVIP(t)
		h.lacks("vip has failed: deleted")
		h.tells(t, "failed: resource vip has failed: deleted")
		h.hooks.have(vipIs(false, "", "has not begun: busy"))
		h.lacks("vip has not begun: busy")
		h.tells(t, "failed: resource vip has failed: deleted", "failed: resource vip has not begun: busy")
		c.stopAll()
	})
}

// What people are told of a degraded leader, and of one that stepped down, names the resource, and calls it no hook.
func TestNotesNameTheResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		c.start(top)
		c.agrees(top)
		time.Sleep(time.Second)
		top.lacks("vip has failed: deleted")
		s := top.agent.Status()
		if !s.Degraded || !hasNote(s, "degraded: resource vip has failed: deleted; nobody else can lead") || hasNote(s, "hook") {
			t.Errorf("degraded %v, notes %q", s.Degraded, s.Notes)
		}
		if s.LastHook == nil || !s.LastHook.OK {
			t.Errorf("its become hook succeeded, and is shown as %+v", s.LastHook)
		}
		time.Sleep(10 * time.Second)
		c.start(low)
		time.Sleep(5 * time.Second)
		top.lacks("vip has failed: deleted")
		c.agrees(low)
		if s := top.agent.Status(); !hasNote(s, "this host stepped down since resource vip has failed: deleted") {
			t.Errorf("notes %q", s.Notes)
		}
		time.Sleep(hookHold)
		if s := top.agent.Status(); hasNote(s, "stepped down") {
			t.Errorf("notes %q after the hold-down", s.Notes)
		}
		events, _ := top.agent.Events(0)
		for _, e := range events {
			if e.Type == "hook" && strings.Contains(e.Text, "vip") {
				t.Errorf("event %+v", e)
			}
		}
		c.stopAll()
	})
}

// Each attempt of a leader that goes on without what it is to have is an event. The log has what follows from it once, beside the line of
// each attempt.
func TestTheLogSaysOnceThatALeaderIsDegraded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		log := h.logging()
		h.fails(hooks.BecomeLeader, errHook)
		c.start(h)
		c.agrees(h)
		time.Sleep(5 * time.Minute)
		if said, told := log.with("degraded: "), len(warnings(h)); said != 1 || told < 5 {
			t.Errorf("%d lines of %d failures", said, told)
		}
		c.stopAll()
	})
}

// A resource that has not ended is named as what may still be here.
func TestNotesNameTheResourceThatHasNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		for _, h := range c.hosts {
			h.settings = func(cfg *Config) { cfg.Election.Preempt = election.PreemptNever }
			c.start(h)
		}
		c.agrees(top)
		if err := top.order("step-down", nil); err != nil {
			t.Fatal(err)
		}
		c.agrees(low)
		top.hooks.results <- hooks.Result{Kind: hooks.LoseLeadership, Epoch: 1, Cause: "stepped-down", Exit: -1, Ran: true, Attempts: 1, Resource: "vip",
			Err: errors.New("vip has not ended: it does not answer")}
		synctest.Wait()
		if s := top.agent.Status(); !hasNote(s, "resource vip has not ended: it does not answer: it may still be here after the end of epoch 1") {
			t.Errorf("notes %q", s.Notes)
		}
		c.stopAll()
	})
}

// A leader is to do without some resources only: one that has it hand over, one that is here, and one of which nothing is known
// yet are none that it does without.
func TestExplainNamesWhatTheLeaderDoesWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		unit := func(name string, stays bool) hooks.Resource {
			return hooks.Resource{Name: name, Unit: name + ".service", Stays: stays}
		}
		all := []hooks.Resource{unit("web", true), unit("mail", true), unit("cache", true), unit("db", false)}
		h.settings = func(cfg *Config) { cfg.Hooks.Resources = all }
		c.start(h)
		c.agrees(h)
		is := func(i int, why string) resourcerun.State {
			return resourcerun.State{Name: all[i].Name, What: all[i].String(), Has: why == "", Why: why}
		}
		h.hooks.have(is(0, "has failed: it stopped"), is(1, ""), is(3, "has failed: it stopped"))
		e, err := h.agent.Explain(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range e.Reasons {
			if r.About == "resource" {
				got = append(got, r.Text)
			}
		}
		const want = `resource web has failed: it stopped; this host leads on without it (on_fail = "stay"), and begins it again and again`
		if len(got) != 1 || got[0] != want {
			t.Errorf("reasons %q", got)
		}
		c.stopAll()
	})
}
