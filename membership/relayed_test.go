package membership

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Of twelve hosts one alone reaches the last: its gossip says again and again that it lives, the others find it dead each time.
// They are told of one end and no return, list it as reached by others, and hear of its return when they reach it.
func TestReachedThroughOneHost(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of gossip")
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		var all []*agent
		for i := range 12 {
			all = append(all, s.start(string(rune('a'+i))+"-host", "a-host"))
		}
		s.allSee(30*time.Second, all...)
		time.Sleep(10 * time.Second)
		relay, far, others := all[0], all[11], all[1:11]
		for _, a := range others {
			s.lan.Cut(a.name, far.name)
			s.lan.Cut(far.name, a.name)
		}
		isFar := func(m Member) bool { return m.ID == idOf(far.name) }
		ofFar := func(a *agent) Member {
			known := a.Known()
			return known[slices.IndexFunc(known, isFar)]
		}
		s.within(3*time.Minute, "all others list it as reached through others", func() bool {
			return !slices.ContainsFunc(others, func(a *agent) bool { return !ofFar(a).Relayed })
		})
		for _, a := range all {
			a.heard()
		}
		for range 300 {
			time.Sleep(time.Second)
			for _, a := range others {
				if m := ofFar(a); m.Status != Dead || !m.Relayed {
					t.Fatalf("%s says of it: %s, relayed %v", a.name, m.Status, m.Relayed)
				}
			}
		}
		for _, a := range others {
			a.hears()
		}
		if m := ofFar(relay); m.Status != Alive {
			t.Errorf("who reaches it says %s", m.Status)
		}

		s.lan.Heal()
		s.within(30*time.Second, "all see it again", func() bool {
			return !slices.ContainsFunc(others, func(a *agent) bool { return ofFar(a).Status != Alive || ofFar(a).Relayed })
		})
		time.Sleep(10 * time.Second)
		for _, a := range others {
			a.hears(fmt.Sprintf("joined %s#1", far.name))
		}
	})
}
