package lantest

import (
	"crypto/sha256"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/sealed"
)

// The facts about memberlist v0.7.0 that the design rests on, with its default LAN settings, on a sealed port. A test that fails after
// an update of memberlist says that a reason for something of ours is gone.

// member is one real memberlist on a host.
type member struct {
	*memberlist.Memberlist
	name string

	mu   sync.Mutex
	left map[string]time.Time // when this member saw another leave or die
}

func (m *member) NotifyJoin(*memberlist.Node)   {}
func (m *member) NotifyUpdate(*memberlist.Node) {}

func (m *member) NotifyLeave(n *memberlist.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left[n.Name] = time.Now()
}

// lost says when m saw another member go; zero: it did not.
func (m *member) lost(name string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left[name]
}

// sees lists the members in m's view, itself included.
func (m *member) sees() string {
	var names []string
	for _, n := range m.Members() {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// cluster is n members, named a, b, c …, who have all met.
func cluster(t *testing.T, lan *LAN, n int) []*member {
	t.Helper()
	var members []*member
	for i := range n {
		m := start(t, lan, string(rune('a'+i)), i+1)
		if i > 0 {
			if _, err := m.Join([]string{address(1).String()}); err != nil {
				t.Fatal(err)
			}
		}
		members = append(members, m)
	}
	meet(t, members)
	return members
}

// meet waits until all see all. Gossip nearly always does it within a second,
// but it sends a piece of news a few times to members drawn by lot and then
// stops; whom it missed learns it from a push/pull, one every 30 s.
func meet(t *testing.T, members []*member) {
	t.Helper()
	complete := func(m *member) bool { return m.sees() == all(members) }
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		if !slices.ContainsFunc(members, func(m *member) bool { return !complete(m) }) {
			return
		}
	}
	wantViews(t, members, all(members))
}

func start(t *testing.T, lan *LAN, name string, n int) *member {
	t.Helper()
	m := &member{name: name, left: make(map[string]time.Time)}
	port, err := sealed.Wrap(lan.Host(name, address(n)), sealed.Config{Cluster: "test", Key: identity.FromBytes(sha256.Sum256([]byte(name))),
		Life: [8]byte{byte(n)}, Keys: key.Open()})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for b := make([]byte, 2000); ; {
			if _, _, err := port.ReadFrame(b); err != nil {
				return
			}
		}
	}()
	conf := memberlist.DefaultLANConfig()
	conf.Name, conf.Transport, conf.LogOutput, conf.Events = name, port, io.Discard, m
	if m.Memberlist, err = memberlist.Create(conf); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = m.Shutdown()
		time.Sleep(20 * time.Second) // its last probe runs to its end
	})
	return m
}

func all(members []*member) string {
	var names []string
	for _, m := range members {
		names = append(names, m.name)
	}
	return strings.Join(names, " ")
}

func wantViews(t *testing.T, members []*member, want string) {
	t.Helper()
	for _, m := range members {
		if got := m.sees(); got != want {
			t.Errorf("%s sees %q, want %q", m.name, got, want)
		}
	}
}

// wantNobodyLost checks that no member was ever taken for dead.
func wantNobodyLost(t *testing.T, members []*member) {
	t.Helper()
	for _, m := range members {
		m.mu.Lock()
		if len(m.left) != 0 {
			t.Errorf("%s lost %v", m.name, m.left)
		}
		m.mu.Unlock()
	}
}

// TestCrashIsDetectedAfterSeconds is why the heartbeat exists: even with every
// cable whole memberlist needs its suspicion time-out, 4 s for five members.
func TestCrashIsDetectedAfterSeconds(t *testing.T) {
	for _, c := range []struct {
		name  string
		crash func(*LAN, *member)
	}{
		{"the process", func(_ *LAN, m *member) { _ = m.Shutdown() }},
		{"the machine", func(lan *LAN, m *member) { lan.Isolate(m.name); _ = m.Shutdown() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lan := New(1)
				members := cluster(t, lan, 5)
				crashed, survivors := members[4], members[:4]
				crash := time.Now()
				c.crash(lan, crashed)
				time.Sleep(time.Minute)

				wantViews(t, survivors, all(survivors))
				for _, m := range survivors {
					// 24 s is the time-out of a suspicion that nobody confirms, 7 s the
					// time until the first probe of the dead member has failed.
					if took := m.lost(crashed.name).Sub(crash); took < 4*time.Second || took > 31*time.Second {
						t.Errorf("%s knew after %v, want 4s to 31s", m.name, took)
					}
				}
			})
		})
	}
}

// TestFact1LongPartitionNeverHeals: the dead are forgotten after
// GossipToTheDeadTime, 30 s, and nobody calls them again.
func TestFact1LongPartitionNeverHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := New(1)
		members := cluster(t, lan, 5)
		lan.Partition([]string{"a", "b"}, []string{"c", "d", "e"})
		time.Sleep(2 * time.Minute)
		lan.Heal()
		time.Sleep(10 * time.Minute)
		wantViews(t, members[:2], "a b")
		wantViews(t, members[2:], "c d e")

		// One Join does it, so the rejoin loop is all that is missing.
		if _, err := members[0].Join([]string{address(5).String()}); err != nil {
			t.Fatal(err)
		}
		meet(t, members)
	})
}

// TestFact2MembersWithoutUDPAreAlive: memberlist's TCP ping hides that no
// datagram passes, while our frames are datagrams.
func TestFact2MembersWithoutUDPAreAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := New(1)
		members := cluster(t, lan, 5)
		for _, from := range members {
			for _, to := range members {
				lan.CutUDP(from.name, to.name)
			}
		}
		time.Sleep(time.Minute)
		wantViews(t, members, "a b c d e")
		wantNobodyLost(t, members)
	})
}

// TestFact3OneWayLossIsInvisible: indirect probes go round the cut, so nobody is
// suspected, while b hears nothing of what a sends.
func TestFact3OneWayLossIsInvisible(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(*LAN)
	}{
		{"datagrams", func(lan *LAN) { lan.CutUDP("a", "b") }},
		{"everything", func(lan *LAN) { lan.Cut("a", "b") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lan := New(1)
				members := cluster(t, lan, 5)
				c.cut(lan)
				time.Sleep(time.Minute)
				wantViews(t, members, "a b c d e")
				wantNobodyLost(t, members)
			})
		})
	}
}

// TestRestartWithAnotherNameIsTwoMembers: why the name holds a nonce. The old
// life stays alive for seconds beside the new one.
func TestRestartWithAnotherNameIsTwoMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := New(1)
		members := cluster(t, lan, 3)
		_ = members[2].Shutdown()
		again := start(t, lan, "c2", 3)
		if _, err := again.Join([]string{address(1).String()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		wantViews(t, members[:2], "a b c c2")
		time.Sleep(time.Minute)
		wantViews(t, members[:2], "a b c2")
	})
}

func TestLossyLANKeepsItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := New(1)
		members := cluster(t, lan, 5)
		lan.SetLoss(0.05)
		lan.SetDuplicate(0.05)
		lan.SetDelay(0, 20*time.Millisecond)
		time.Sleep(3 * time.Minute)
		wantViews(t, members, "a b c d e")
		wantNobodyLost(t, members)
	})
}
