package election

import (
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

func TestSmallestStarter(t *testing.T) {
	t.Run("the second minimum claims without an ELECTION", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Smallest}, 1, 3)
		n.follows(1, 1)
		n.hears(n.actor(3).says(wire.Frame{Kind: wire.Query}))
		n.forgets()
		n.node.loseLeader(LeaderFailed, n.now)
		n.forgets()
		n.waits(0)
		n.expects("stagger → elect", "save", "elect → claim", "send n3 COORDINATOR epoch=2/n2")
	})
	t.Run("anybody else asks all, better or worse", func(t *testing.T) {
		n := storyOf(t, 3, Config{Algorithm: Smallest}, 1, 2, 4)
		n.follows(1, 1)
		n.node.loseLeader(LeaderFailed, n.now)
		n.forgets()
		n.waits(25 * time.Millisecond)
		n.expects("stagger → elect", "send n2 ELECTION", "send n4 ELECTION")
		n.hears(n.actor(4).ineligible())
		n.hears(n.actor(2).ok(0))
		n.expects("elect → wait", "send n2 NOMINATE")
	})
	t.Run("it waits for nobody worse", func(t *testing.T) {
		n := storyOf(t, 3, Config{Algorithm: Smallest}, 1, 2, 4)
		n.starts()
		n.forgets()
		n.hears(n.actor(1).ok(0))
		n.expects("elect → wait", "send n1 NOMINATE")
	})
	t.Run("an answer of one that is not better counts for nothing", func(t *testing.T) {
		n := storyOf(t, 3, Config{Algorithm: Smallest}, 1, 4)
		n.starts()
		n.forgets()
		n.hears(n.actor(4).ok(0))
		n.is(Elect)
		n.hears(n.actor(1).ineligible())
		n.forgets()
		n.is(Claiming)
	})
}

func TestSmallestIsAsked(t *testing.T) {
	t.Run("the second minimum in its turn claims, which is the answer", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Smallest}, 1, 3, 4)
		n.follows(1, 1)
		n.node.loseLeader(LeaderFailed, n.now)
		n.forgets()
		n.hears(n.actor(3).election(n.actor(1).epoch(1)))
		n.expects("stagger → elect", "save", "elect → claim", "send n3 COORDINATOR", "send n4 COORDINATOR")
	})
	t.Run("a voter may not be free to grant the claim, so it gets an answer too", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Smallest, Expect: 3}, 1, 3)
		n.node.state, n.node.epoch = Claiming, wire.Epoch{Counter: 1, Owner: hostID(2)}
		n.node.lostLeader = life{id: hostID(1)}
		n.hears(n.actor(3).election(wire.Epoch{}))
		n.expects("send n3 COORDINATOR", "send n3 ANSWER verdict=ok")
		n.node.state, n.node.timers[stateTimer] = Start, n.node.settleEnd
	})
	t.Run("the second minimum that must wait for the old lease says so", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Smallest}, 1, 3, 4)
		n.follows(1, 1)
		n.node.loseLeader(LeaderFailed, n.now.Add(150*time.Millisecond))
		n.forgets()
		n.hears(n.actor(3).election(n.actor(1).epoch(1)))
		n.expects("stagger → elect", "send n3 ANSWER verdict=ok eta=150ms")
	})
	t.Run("the leader in doubt is not in its way, one that resigned is", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Smallest}, 1, 3)
		n.follows(1, 1)
		n.node.becomeSuspicious(LeaderSilent)
		n.forgets()
		if !n.node.isSecondMinimum() {
			t.Error("a silent leader keeps the second minimum from claiming")
		}
		n.hears(n.actor(1).heartbeat(1))
		n.forgets()
		n.hears(n.actor(1).says(wire.Frame{Kind: wire.Resign, Flags: wire.AckReq, Epoch: n.actor(1).epoch(1), Reason: wire.LeaseLost}))
		n.forgets()
		n.is(Stagger)
		if n.node.isSecondMinimum() {
			t.Error("the leader that resigned lives and is better")
		}
	})
	t.Run("a better node that is not the second minimum volunteers", func(t *testing.T) {
		n := storyOf(t, 3, Config{Algorithm: Smallest}, 1, 2, 4)
		n.follows(1, 1)
		n.node.loseLeader(LeaderFailed, n.now)
		n.forgets()
		n.hears(n.actor(4).election(n.actor(1).epoch(1)))
		n.expects("send n4 ANSWER verdict=ok eta=0ms")
		n.is(Stagger)
	})
	t.Run("a worse node is not waited for, and leaves the starter its time", func(t *testing.T) {
		n := storyOf(t, 4, Config{Algorithm: Smallest}, 1, 2, 3)
		n.follows(1, 1)
		n.node.loseLeader(LeaderFailed, n.now)
		n.forgets()
		turn := n.node.timers[stateTimer]
		n.hears(n.actor(3).election(n.actor(1).epoch(1)))
		n.expects("send n3 ANSWER verdict=ineligible")
		if !n.node.timers[stateTimer].After(turn) {
			t.Error("its turn comes as if nobody had started")
		}
	})
	t.Run("no coup: a leader that is heard stays (R7)", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Smallest}, 1, 3)
		n.follows(1, 1)
		n.hears(n.actor(3).election(n.actor(1).epoch(1)))
		n.expects("send n3 ANSWER verdict=leader-alive")
	})
}

func TestKnownMinimum(t *testing.T) {
	nothing := wire.Frame{Kind: wire.Cid, Knowledge: wire.KnowsNone}
	t.Run("claims as soon as all have said that nobody leads", func(t *testing.T) {
		n := storyOf(t, 1, Config{Algorithm: Smallest, KnownMinimum: 1}, 2, 3)
		n.waits(400 * time.Millisecond)
		n.expects("send n2 QUERY", "send n3 QUERY")
		n.hears(n.actor(2).replies(wire.Query, nothing))
		n.is(Start)
		n.hears(n.actor(3).replies(wire.Query, nothing))
		n.expects("start → stagger", "stagger → elect", "save", "elect → claim", "send n2 COORDINATOR", "send n3 COORDINATOR")
	})
	t.Run("asks all, where others ask the best few", func(t *testing.T) {
		for self, want := range map[int]int{1: 8, 9: candidatesFew} {
			all := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
			others := slices.Delete(all, self-1, self)
			n := storyOf(t, self, Config{Algorithm: Smallest, KnownMinimum: 1}, others...)
			n.waits(400 * time.Millisecond)
			n.forgets()
			if len(n.sent) != want {
				t.Errorf("n%d sent %d QUERYs, want %d", self, len(n.sent), want)
			}
		}
	})
	t.Run("it is none if somebody outranks it", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Smallest, KnownMinimum: 2}, 1)
		n.waits(400 * time.Millisecond)
		n.forgets()
		n.hears(n.actor(1).replies(wire.Query, nothing))
		n.is(Start)
	})
	t.Run("silence is an answer too", func(t *testing.T) {
		n := storyOf(t, 1, Config{Algorithm: Smallest, KnownMinimum: 1}, 2)
		n.waits(450 * time.Millisecond)
		n.forgets()
		if n.node.state == Start {
			t.Error("the known minimum still listens")
		}
	})
	t.Run("with a leader it follows", func(t *testing.T) {
		n := storyOf(t, 1, Config{Algorithm: Smallest, KnownMinimum: 1}, 2, 3)
		n.waits(400 * time.Millisecond)
		n.forgets()
		n.hears(n.actor(2).replies(wire.Query, nothing))
		n.hears(n.actor(3).replies(wire.Query, wire.Frame{Kind: wire.Cid, Knowledge: wire.Leads, Epoch: n.actor(3).epoch(4)}))
		n.expects("start → follow leader=n3 epoch=4/n3")
	})
	for name, cfg := range map[string]Config{
		"no minimum is known":    {Algorithm: Smallest},
		"another is the minimum": {Algorithm: Smallest, KnownMinimum: 2},
		"another algorithm":      {KnownMinimum: 1},
	} {
		t.Run(name+": it listens to the end", func(t *testing.T) {
			n := storyOf(t, 1, cfg, 5)
			n.waits(400 * time.Millisecond)
			n.forgets()
			n.hears(n.actor(5).replies(wire.Query, nothing))
			n.waits(1500 * time.Millisecond)
			n.is(Start)
		})
	}
}
