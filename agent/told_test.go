package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/wire"
)

// A host that others make up is listed as told, and counts nowhere: no event, no hook, nobody more alive. Once gossip has it dead, the
// list has it no more.
func TestWhoIsToldOfIsShownAndIsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 2)
		for _, h := range c.hosts {
			c.start(h)
		}
		top := c.hosts[1]
		c.agrees(top)
		i := newInsider(t, c)
		made := asTold(top)
		made.ID, made.Nonce, made.Addr, made.Gossip = wire.ID{0: 0xdd, 6: 0x80, 8: 0x80}, 5, c.hosts[0].addr, 1
		isTold := func(m control.Member) bool { return m.Status == "told" }
		isListed := func() bool { return slices.ContainsFunc(top.agent.Members(), isTold) }
		for range 10 {
			made.Gossip++
			i.tells(top.addr, made.Alive())
			time.Sleep(500 * time.Millisecond)
		}
		if !isListed() {
			t.Fatalf("it is not listed: %+v", top.agent.Members())
		}
		members := top.agent.Members()
		if m := members[slices.IndexFunc(members, isTold)]; m.ID != made.ID.String() || m.Voter || m.Leader || !slices.Equal(m.Notes, []string{"others tell of it, not met"}) {
			t.Errorf("it is listed as %+v", m)
		}
		if s := top.agent.Status(); s.Alive != 2 {
			t.Errorf("%d are alive", s.Alive)
		}
		events, _ := top.agent.Events(0)
		if slices.ContainsFunc(events, func(e control.Event) bool { return e.Type == "member" && e.Member != c.hosts[0].name }) {
			t.Errorf("events tell of it: %+v", events)
		}
		for end := time.Now().Add(time.Minute); isListed(); time.Sleep(time.Second) {
			if time.Now().After(end) {
				t.Fatal("it is listed for ever")
			}
		}
		_ = i.seal.Shutdown()
		c.stopAll()
	})
}
