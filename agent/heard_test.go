package agent

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
)

// A host that is cut off hears nobody, and memberlist, which is slow there, goes on
// calling all alive. What people see is what was heard.
func TestACutHostShowsThatItHearsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(c.hosts[4])
		time.Sleep(20 * time.Second)
		cut := c.hosts[1]
		for _, h := range c.hosts {
			if s := h.agent.Status(); s.Alive != 5 || len(s.Silent) != 0 {
				t.Errorf("before the cut %s shows %d alive, silent %q", h.name, s.Alive, s.Silent)
			}
			for _, m := range h.agent.Members() {
				if (m.HeardMS == nil) != m.Self || m.HeardMS != nil && *m.HeardMS > 10_000 {
					t.Errorf("before the cut %s shows %+v", h.name, m)
				}
			}
		}
		c.lan.Isolate(cut.name)
		time.Sleep(13 * time.Second)
		s := cut.agent.Status()
		if s.Alive != 1 || s.Members != 5 || s.Quorum != nil {
			t.Errorf("13 s after its cut it shows %d alive of %d, silent %q", s.Alive, s.Members, s.Silent)
		}
		for _, m := range cut.agent.Members() {
			if !m.Self && (m.Status == "alive" || m.HeardMS == nil || *m.HeardMS < 12_000) {
				t.Errorf("13 s after its cut it shows %+v", m)
			}
		}
		c.lan.Heal()
		time.Sleep(40 * time.Second)
		if s := cut.agent.Status(); s.Alive != 5 || len(s.Silent) != 0 {
			t.Errorf("after the heal %d alive, silent %q", s.Alive, s.Silent)
		}
		c.stopAll()
	})
}

// In a minority others answer, only too few: it is not said beside their number that nobody does.
func TestAMinorityDoesNotSayThatNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		c.expecting(5)
		c.startAll()
		for _, h := range c.hosts[2:] {
			c.kill(h)
		}
		wasIsolated := false
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			s := c.hosts[0].agent.Status()
			wasIsolated = wasIsolated || s.Isolated
			if slices.ContainsFunc(s.Notes, func(n string) bool { return strings.HasPrefix(n, "no other member answers") }) {
				t.Errorf("quorum %+v, notes %q", s.Quorum, s.Notes)
				break
			}
		}
		if !wasIsolated {
			t.Error("it never looked for others in vain")
		}
		c.stopAll()
	})
}

// In a minority the voters that are named as being here are as many as the quorum counts, at every moment.
func TestTheVotersNamedAreThoseCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		c.expecting(5)
		c.startAll()
		for _, h := range c.hosts[2:] {
			c.kill(h)
		}
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			for _, h := range c.hosts[:2] {
				s, named := h.agent.Status(), 0
				for _, v := range s.Roster.Voters {
					if v.Alive {
						named++
					}
				}
				if named != s.Quorum.Have && !t.Failed() {
					t.Errorf("%s names %d of the roster as here, and counts %d: %+v", h.name, named, s.Quorum.Have, s.Roster.Voters)
				}
			}
		}
		c.stopAll()
	})
}

// A follower counts the voters that it heard lately.
func TestAFollowerCountsWhomItHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.expecting(3)
		for _, h := range c.hosts {
			c.start(h)
		}
		low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		c.agrees(top)
		time.Sleep(10 * time.Second)
		c.lan.CutUDP(low.name, mid.name)
		c.lan.CutUDP(mid.name, low.name)
		time.Sleep(9 * time.Second)
		s := mid.agent.Status()
		if *s.Quorum != (control.Quorum{Need: 2, Have: 2}) || !slices.Equal(s.Silent, []string{"n1"}) ||
			!slices.Equal(votersOf(s), []string{"n1 (gone)", "n2", "n3"}) {
			t.Errorf("quorum %+v, silent %q, voters %q", s.Quorum, s.Silent, votersOf(s))
		}
		c.lan.Heal()
		c.stopAll()
	})
}

// A leader that was cut off for a moment is given up and comes back as a follower: gossip never called it dead, and no frame of it
// reaches the other followers. It is listed as alive once it has answered a ping, whoever leads from then on.
func TestWhoIsBackIsListedAsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4)
		for _, h := range c.hosts {
			h.settings = func(cfg *Config) { cfg.Election.Preempt = election.PreemptNever }
			c.start(h)
		}
		low, mid, next, top := c.hosts[0], c.hosts[1], c.hosts[2], c.hosts[3]
		c.agrees(top)
		statusOfTop := func() string {
			for _, m := range low.agent.Members() {
				if m.Name == top.name {
					return m.Status
				}
			}
			return ""
		}
		c.lan.Isolate(top.name)
		low.awaitLeader(t, next)
		if got := statusOfTop(); got != "dead" {
			t.Errorf("given up, it is listed as %s", got)
		}
		c.lan.Heal()
		time.Sleep(20 * time.Second)
		if got := statusOfTop(); got != "alive" {
			t.Errorf("back, it is listed as %s", got)
		}
		if err := next.order("handover", map[string]string{"to": mid.name}); err != nil {
			t.Fatal(err)
		}
		low.awaitLeader(t, mid)
		if got := statusOfTop(); got != "alive" {
			t.Errorf("when another leads, it is listed as %s", got)
		}
		c.stopAll()
	})
}

// awaitLeader waits until h shows that one as its leader.
func (h *testHost) awaitLeader(t *testing.T, want *testHost) {
	t.Helper()
	for range 2000 {
		if l := h.agent.Status().Leader; l != nil && l.Name == want.name {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s does not follow %s", h.name, want.name)
}
