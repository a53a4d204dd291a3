package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Rules of what others tell (R8, M1) that could be broken without any other
// directed test noticing.

// vouches asks the node who leads, and reports whether it says that it hears one.
func (s *story) vouches(asker int) bool {
	s.t.Helper()
	s.hearsAndForgets(s.actor(asker).says(wire.Frame{Kind: wire.Query, Flags: wire.AckReq}))
	cid := s.lastTo(asker, wire.Cid)
	return cid.Knowledge != wire.KnowsNone || cid.Flags&wire.Fresh != 0
}

// A leader that a node is told of was not heard because the one before it was.
func TestR8_TheNextLeaderIsNotHeardYet(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	if !n.vouches(1) {
		t.Error("does not hear its leader")
	}
	n.hearsAndForgets(n.actor(3).resigns(1))
	n.happens(LeaderReported{n.actor(1).epoch(2)})
	n.expects("stagger → follow leader=n1 cause=told-of-leader")
	if n.vouches(3) {
		t.Error("vouches for a leader that it never heard")
	}
}

// Nor is the one that a leader is told of, when it has to go for it.
func TestR8_WhoSupersedesIsNotHeardYet(t *testing.T) {
	n := leading(t)
	n.hears(n.actor(1).replies(wire.Heartbeat, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Flags: wire.Fresh, Epoch: n.actor(2).epoch(8)}))
	n.expects("lead → stopping cause=superseded", "stop hook", "lose hook")
	if n.vouches(1) {
		t.Error("vouches for a leader that it never heard")
	}
	n.loseHookEnds()
	n.expects("stopping → follow leader=n2", "save promoted=none")
}

// Who has just started hears of the leader's former life first, whose end the one that it
// asked has not noticed yet. Which life leads nobody has said: it goes on waiting to hear it.
func TestMended34_WhichLifeLeadsIsNotTold(t *testing.T) {
	for name, isHeard := range map[string]bool{"it leads": true, "it has forgotten": false} {
		t.Run(name, func(t *testing.T) {
			n := storyOf(t, 3, Config{}, 1, 2)
			n.happens(LeaderReported{n.actor(2).epoch(20)})
			n.expects("start → follow leader=n2 cause=told-of-leader")
			n.happens(MemberChanged{n.actor(2).member(Dead)})
			n.forgets()
			n.actor(2).incarnation, n.actor(2).nonce = n.actor(2).incarnation+1, 2222
			n.happens(MemberChanged{n.actor(2).member(Alive)})
			n.expects()
			n.is(Follow)
			if isHeard {
				n.hears(n.actor(2).heartbeat(20))
				n.expects()
				n.actor(2).incarnation, n.actor(2).nonce = n.actor(2).incarnation+1, 3333
				n.happens(MemberChanged{n.actor(2).member(Alive)}) // that one did lead
				n.expectsSome("follow → stagger cause=leader-restarted")
				return
			}
			n.waits(n.node.suspectTimeout())
			n.expectsSome("follow → suspect cause=leader-silent")
		})
	}
}

// Gossip is slow: it goes on telling of a leadership that has ended.
func TestR8_GossipRevivesNobody(t *testing.T) {
	t.Run("who resigned", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		n.hearsAndForgets(n.actor(3).resigns(1))
		n.happens(LeaderReported{n.actor(3).epoch(1)})
		n.expects()
		n.is(Stagger)
	})
	t.Run("whom we gave up", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		for n.node.state != Stagger {
			n.waits(10 * time.Millisecond)
			n.forgets()
		}
		n.happens(LeaderReported{n.actor(3).epoch(1)})
		n.expects()
		n.is(Stagger)
	})
	t.Run("who is dead", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.happens(MemberChanged{n.actor(3).member(Dead)})
		n.forgets()
		n.happens(LeaderReported{n.actor(3).epoch(1)})
		n.expects()
		n.is(Start)
	})
}

// E4: only most opinions that are young, and of this very leadership, put a doubt off.
func TestE4_WhichOpinionsCount(t *testing.T) {
	const old = 10 // seconds that the node did not run for
	for name, tc := range map[string]struct {
		says func(n *story, f *wire.Frame, other int)
		want bool
	}{
		"all are fresh":             {func(*story, *wire.Frame, int) {}, true},
		"one of three is":           {func(_ *story, f *wire.Frame, other int) { f.HeartbeatAge += uint32(other/2) * 1000 * old }, false},
		"all are of an older epoch": {func(n *story, f *wire.Frame, _ int) { f.Epoch = n.actor(1).epoch(1) }, false},
		"all are old, though younger than ours": {func(n *story, f *wire.Frame, _ int) {
			f.HeartbeatAge = uint32(n.node.suspectTimeout().Milliseconds()) + 1
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := storyOf(t, 4, Config{}, 1, 2, 3, 5)
			n.follows(5, 2)
			n.sleeps(old * time.Second)
			n.happens(Tick{})
			n.forgets()
			for n.node.state == Follow {
				n.waits(time.Millisecond)
				n.forgets()
			}
			n.is(Suspect)
			for _, other := range []int{1, 2, 3} {
				opinion := wire.Frame{Kind: wire.ProbeAck, HeartbeatAge: 5, Epoch: n.actor(5).epoch(2), Standing: wire.Following}
				tc.says(n, &opinion, other)
				n.hearsAndForgets(n.actor(other).replies(wire.Probe, opinion))
			}
			for n.node.state == Suspect {
				n.waits(time.Millisecond)
				n.forgets()
			}
			if follows := n.node.state == Follow; follows != tc.want {
				t.Errorf("%s; goes on following: %t, want %t", n.node.state, follows, tc.want)
			}
		})
	}
}

// The leader said that it goes: who has not heard that yet does not bring it back.
func TestR8_WhoLeftIsNotBroughtBack(t *testing.T) {
	for _, late := range []wire.Frame{
		{Kind: wire.Answer, Verdict: wire.LeaderAlive, Flags: wire.Fresh},
		{Kind: wire.ProbeAck, Standing: wire.Following, Flags: wire.Fresh, HeartbeatAge: 10},
	} {
		n := storyOf(t, 1, Config{}, 2, 3)
		n.follows(3, 1)
		n.hearsAndForgets(n.actor(3).says(wire.Frame{Kind: wire.Leave}))
		late.Epoch = n.actor(3).epoch(1)
		n.hearsAndForgets(n.actor(2).says(late))
		n.is(Stagger)
	}
}
