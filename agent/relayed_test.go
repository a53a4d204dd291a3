package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// Of five hosts the leader alone reaches the worst. Another one lists that as dead and reached by others, in one event and one note
// for as long as it is so, runs no hook for it again, and has it back when it is reached.
func TestAMemberThatOnlyTheLeaderReaches(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of three agents")
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		c.startAll()
		time.Sleep(20 * time.Second)
		far, mid := c.hosts[0], c.hosts[1]
		for _, h := range c.hosts[1:4] {
			c.lan.Cut(h.name, far.name)
			c.lan.Cut(far.name, h.name)
		}
		is := func() (m control.Member, noted bool) {
			members := mid.agent.Members()
			i := slices.IndexFunc(members, func(m control.Member) bool { return m.Name == far.name })
			return members[i], slices.Contains(mid.agent.Status().Notes, relayedNote(far.name))
		}
		told := func() (n int) {
			events, _ := mid.agent.Events(0)
			for _, e := range events {
				if e.Type == "member" && e.Member == far.name {
					n++
				}
			}
			return n
		}
		for end := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) {
			if m, noted := is(); m.Relayed && noted {
				break
			}
			if time.Now().After(end) {
				t.Fatal("within five minutes it is not listed as reached by others")
			}
		}
		before := told()
		for range 180 {
			time.Sleep(time.Second)
			if m, noted := is(); m.Status != "dead" || !m.Relayed || !noted {
				t.Fatalf("it is %+v, noted %v", m, noted)
			}
		}
		if n := told(); n != before || n < 3 { // joined, failed, relayed
			t.Errorf("%d events tell of it, and %d three minutes before", n, before)
		}
		c.lan.Heal()
		time.Sleep(time.Minute)
		if m, noted := is(); m.Status != "alive" || m.Relayed || noted {
			t.Errorf("healed, it is %+v, noted %v", m, noted)
		}
		c.stopAll()
	})
}
