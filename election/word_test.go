package election

import (
	"fmt"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// restless is a node that follows n2, and has changed its leader so often within ten minutes.
func restless(t *testing.T, changes int) *story {
	t.Helper()
	n := storyOf(t, 5, Config{}, 1, 2, 3, 4)
	n.follows(2+changes%2, 1)
	for i := range changes {
		n.hearsAndForgets(n.actor(2 + (changes+i+1)%2).heartbeat(uint64(i + 2)))
	}
	n.is(Follow)
	return n
}

// doubtsLeader waits until the node has asked after its leader.
func (s *story) doubtsLeader() {
	s.t.Helper()
	for s.node.state == Follow {
		s.waits(10 * time.Millisecond)
		s.forgets()
	}
	s.is(Suspect)
}

// isToldAge: others say when the leader of that epoch was heard last, and these do not hear it themselves.
func (s *story) isToldAge(e wire.Epoch, age time.Duration, by ...int) {
	s.t.Helper()
	for _, number := range by {
		s.hearsAndForgets(s.actor(number).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, HeartbeatAge: millis(age), Epoch: e, Standing: wire.Following}))
	}
}

// decides lets the node come to its conclusion.
func (s *story) decides() State {
	s.t.Helper()
	for s.node.state == Suspect {
		s.waits(10 * time.Millisecond)
		s.forgets()
	}
	return s.node.state
}

// Who has changed its leader often follows one that is heard over others, as long as their word is no older than two
// leases, and later than what it heard itself by half a heartbeat. Whoever else goes by those that hear the leader
// themselves.
func TestMended37_WhoIsRestlessTakesAWordFromAfar(t *testing.T) {
	const own = time.Second
	for name, c := range map[string]struct {
		changes int
		age     time.Duration
		want    State
	}{
		"often":              {restlessAfter + 1, 700 * time.Millisecond, Follow},
		"often, an old word": {restlessAfter + 1, 800 * time.Millisecond, Stagger},
		"not so often":       {restlessAfter, 5 * time.Millisecond, Stagger},
	} {
		t.Run(name, func(t *testing.T) {
			n := restless(t, c.changes)
			n.doubtsLeader()
			n.node.lastFromLeader = n.now.Add(-own)
			n.isToldAge(n.node.epoch, c.age, 1, 3, 4)
			if got := n.decides(); got != c.want {
				t.Errorf("it is in %v, want %v", got, c.want)
			}
		})
	}
}

// A leader that died is given up as fast by who is restless: all heard it last at about the same time.
func TestMended37_AWordIsLaterThanOnesOwn(t *testing.T) {
	for later, want := range map[time.Duration]State{25 * time.Millisecond: Follow, 24 * time.Millisecond: Stagger} {
		n := restless(t, restlessAfter+1)
		n.doubtsLeader()
		asked, _ := n.node.peer(hostID(1)).sentTime(n.lastTo(1, wire.Probe).Seq)
		n.isToldAge(n.node.epoch, asked.Sub(n.node.lastFromLeader)-later, 1)
		if got := n.decides(); got != want {
			t.Errorf("a word that is later by %v: it is in %v, want %v", later, got, want)
		}
	}
}

// Who follows on a word alone hears another that announces a lower epoch. It says that its leader is there, or that one
// would claim above it.
func TestMended37_WhoFollowsOnAWordVouchesForItsLeader(t *testing.T) {
	for age, flags := range map[time.Duration]wire.Flags{100 * time.Millisecond: wire.Fresh, time.Second: 0} {
		n := restless(t, restlessAfter+1)
		n.doubtsLeader()
		n.node.lastFromLeader = n.now.Add(-2 * time.Second)
		n.isToldAge(n.node.epoch, age, 1)
		n.hearsAndForgets(n.actor(4).heartbeat(1))
		nack := n.lastTo(4, wire.CoordAck)
		if nack.AckVerdict != wire.AckStale || nack.Flags&wire.Fresh != flags {
			t.Errorf("a word of %v: it says %v", age, nack)
		}
	}
}

// One of many is enough, and all are asked.
func TestMended37_WhoIsRestlessAsksEverybody(t *testing.T) {
	n := storyOf(t, 7, Config{}, 1, 2, 3, 4, 5, 6)
	n.follows(3, 1)
	for i := range uint64(restlessAfter + 1) {
		n.hearsAndForgets(n.actor(2 + int(i%2)).heartbeat(i + 2))
	}
	n.doubtsLeader()
	for _, number := range []int{1, 2, 4, 5, 6} {
		if n.lastTo(number, wire.Probe).Kind != wire.Probe {
			t.Errorf("n%d is not asked", number)
		}
	}
}

// It hears of a later leader in the same way.
func TestMended37_WhoIsRestlessIsToldOfALaterLeader(t *testing.T) {
	for _, changes := range []int{restlessAfter, restlessAfter + 1} {
		n := restless(t, changes)
		n.doubtsLeader()
		n.isToldAge(n.actor(4).epoch(9), 100*time.Millisecond, 1)
		if follows := n.node.state == Follow && n.node.epoch == n.actor(4).epoch(9); follows != (changes > restlessAfter) {
			t.Errorf("after %d changes: %v of %v", changes, n.node.state, n.node.epoch)
		}
	}
}

// What is told on has grown older by the whole way, that of the answer included: so two that hear each other alone
// do not keep a dead leader alive.
func TestMended37_AWordGrowsOlderAllTheWay(t *testing.T) {
	n := storyOf(t, 5, Config{}, 1, 2, 3, 4)
	n.follows(2, 1)
	n.doubtsLeader()
	n.waits(time.Millisecond)
	n.forgets()
	asked, _ := n.node.peer(hostID(1)).sentTime(n.lastTo(1, wire.Probe).Seq)
	if !asked.Before(n.now) {
		t.Fatal("the answer takes no time")
	}
	n.isToldAge(n.node.epoch, 20*time.Millisecond, 1)
	n.waits(time.Millisecond)
	n.forgets()
	want := fmt.Sprintf("send n3 PROBE_ACK hbAge=%dms", (n.now.Sub(asked) + 20*time.Millisecond).Milliseconds())
	n.hears(n.actor(3).says(wire.Frame{Kind: wire.Probe, Epoch: n.node.epoch}))
	n.expectsSome(want)
	n.forgets()
	n.isToldAge(n.node.epoch, 500*time.Millisecond, 4) // an older word than is known
	n.hears(n.actor(3).says(wire.Frame{Kind: wire.Probe, Epoch: n.node.epoch}))
	n.expectsSome(want)
}

// A node is restless for half an hour after a change that comes too many within ten minutes.
func TestMended37_WhenANodeIsRestless(t *testing.T) {
	n := restless(t, restlessAfter)
	if n.node.isRestless() {
		t.Errorf("it is restless after %d changes", restlessAfter)
	}
	n = restless(t, restlessAfter+1)
	if left := n.node.unrest.until.Sub(n.now); !n.node.isRestless() || left != backOffFor {
		t.Errorf("it is restless: %t, for %v", n.node.isRestless(), left)
	}
	n = restless(t, 2)
	n.node.unrest.changes[0] = n.now.Add(-flapWindow - time.Second)
	for i := range uint64(restlessAfter - 1) {
		n.hearsAndForgets(n.actor(3 + int(i%2)).heartbeat(20 + i))
	}
	if n.node.isRestless() {
		t.Error("a change of long ago counts")
	}
}

// In quorum mode a majority hears a leader, or nobody leads: no word counts, and none is passed on.
func TestMended37_QuorumModeIsNeverRestless(t *testing.T) {
	n := voterOf(t, 5, Saved{}, 1, 2, 3, 4)
	n.node.unrest.until = n.now.Add(time.Hour)
	n.node.epoch = n.actor(2).epoch(9)
	n.node.word = word{n.node.epoch, n.now}
	if n.node.isRestless() || n.node.takesWordFor(n.node.epoch) || n.node.knownAge() != wire.AgeUnknown {
		t.Errorf("restless %t, takes a word %t, tells %d", n.node.isRestless(), n.node.takesWordFor(n.node.epoch), n.node.knownAge())
	}
}
