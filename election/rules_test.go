package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// The rules of protocol section 2.4, one test each: it fails without the line
// that obeys the rule.

func TestR1_Validate(t *testing.T) {
	for _, tc := range []struct {
		name, counted string
		spoil         func(*wire.Frame)
	}{
		{"another cluster", "other-cluster", func(f *wire.Frame) { f.Cluster++ }},
		{"nobody we know", "unknown-sender", func(f *wire.Frame) { f.Sender = hostID(9) }},
		{"another algorithm", "other-mode", func(f *wire.Frame) { f.Algo = wire.Algo(wire.Enhanced) }},
		{"ourselves", "unknown-sender", func(f *wire.Frame) { f.Sender, f.Nonce = hostID(2), 77 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := storyOf(t, 2, Config{}, 1, 3)
			f := n.actor(3).heartbeat(9)
			tc.spoil(&f)
			n.hearsFrom(3, f)
			n.expects("ignored " + tc.counted)
			n.is(Start)
			if n.node.saved.MaxCounter != 0 {
				t.Error("a refused frame raised the counter")
			}
		})
	}
	t.Run("another configuration", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		f := n.actor(3).heartbeat(9)
		f.ConfigHash++
		n.hears(f)
		n.expects("ignored config-mismatch")
	})
	t.Run("a member that left", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.happens(MemberChanged{n.actor(3).member(Left)})
		n.hears(n.actor(3).heartbeat(9))
		n.expects("ignored unknown-sender")
	})
}

func TestR2_Incarnation(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.actor(3).incarnation, n.actor(3).nonce = 5, 55
	n.happens(MemberChanged{n.actor(3).member(Alive)})
	n.follows(3, 1)

	n.actor(3).incarnation, n.actor(3).nonce = 4, 44
	n.hears(n.actor(3).heartbeat(2))
	n.expects("ignored old-incarnation")
	n.actor(3).incarnation, n.actor(3).nonce = 5, 56 // a copy of its state was started too, and says goodbye when they meet
	n.hears(n.actor(3).says(wire.Frame{Kind: wire.Leave}))
	n.expects("ignored old-incarnation")
	n.actor(3).incarnation, n.actor(3).nonce = 6, 66 // CE4: it restarted, and does not know that it led
	n.hears(n.actor(3).says(wire.Frame{Kind: wire.Query, Flags: wire.AckReq}))
	n.forgets()
	if n.node.leaderKnown || n.node.contest.cause != LeaderRestarted {
		t.Errorf("a restarted leader is still followed: %v", n.node.Status())
	}
}

func TestR3_CounterHygiene(t *testing.T) {
	t.Run("what was seen is never made again", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		n.hears(n.actor(1).says(wire.Frame{Kind: wire.Query, Epoch: n.actor(2).epoch(41)}))
		n.forgets()
		n.hears(n.actor(2).heartbeat(41))
		n.forgets()
		n.happens(Received{From: n.actor(2).member(Alive).Addr, Frame: n.actor(2).says(wire.Frame{
			Kind: wire.Resign, Epoch: n.actor(2).epoch(41), Reason: wire.Transfer, Successor: hostID(3)})})
		n.forgets()
		if n.disk.MaxCounter != 42 {
			t.Errorf("claimed with counter %d on disk, want 42", n.disk.MaxCounter)
		}
	})
	t.Run("a joiner takes any counter, a running node no jump", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.hears(n.actor(3).heartbeat(1 << 40))
		n.expects("ignored counter-jump") // one frame is not enough
		n.waits(farPatience)
		n.hears(n.actor(3).heartbeat(1 << 40))
		n.expects("ignored counter-jump")
		n.hears(n.actor(3).heartbeat(1 << 40))
		n.expects("start → follow")
		n.hears(n.actor(3).heartbeat(1<<40 + maxJump + 1))
		n.expects("ignored counter-jump")
		n.happens(LeaderReported{n.actor(1).epoch(1<<40 + maxJump + 1)})
		n.expects("ignored counter-jump")
		n.hears(n.actor(3).heartbeat(1<<40 + onceJump))
		n.expects("ignored counter-jump") // it has jumped a moment ago
		n.hears(n.actor(3).heartbeat(1<<40 + smallJump))
		n.expects("follow → follow")
	})
	t.Run("never beyond the end", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.hears(n.actor(3).heartbeat(wire.MaxCounter + 1))
		n.expects("ignored counter-out-of-range")
		n.hears(n.actor(1).heartbeat(wire.MaxCounter))
		n.expects("ignored counter-jump")
		n.hears(n.actor(3).says(wire.Frame{Kind: wire.Query, Epoch: n.actor(1).epoch(wire.MaxCounter)})) // nor are two of one
		n.expects("ignored counter-jump")
		n.hears(n.actor(1).heartbeat(wire.MaxCounter))
		n.expects("start → follow")
		n.happens(MemberChanged{n.actor(3).member(Left)})
		n.hears(n.actor(1).says(wire.Frame{Kind: wire.Resign, Epoch: n.actor(1).epoch(wire.MaxCounter), Successor: hostID(2)}))
		n.expects("send n1 RESIGN_ACK", "follow → elect", "ignored counter-exhausted", "elect → observe")
	})
}

func TestR4_EpochOrder(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3, 4)
	n.follows(3, 5)
	n.hears(n.actor(4).coordinator(4))
	n.expects("send n4 COORD_ACK epoch=5/n3 verdict=stale")
	n.hears(n.actor(2).heartbeat(5)) // equal counters: the smaller owner loses
	n.expects("send n2 COORD_ACK epoch=5/n3 verdict=stale")
	n.hears(n.actor(4).coordinator(5))
	n.expects("follow → follow leader=n4 epoch=5/n4", "send n4 COORD_ACK epoch=5/n4 verdict=accept")
	n.hears(n.actor(2).coordinator(6))
	n.expects("follow → follow leader=n2 epoch=6/n2", "send n2 COORD_ACK epoch=6/n2 verdict=accept")
}

func TestR5_StaleLeader(t *testing.T) {
	stale := func(n *story, flags wire.Flags) wire.Frame {
		return n.actor(1).replies(wire.Heartbeat, wire.Frame{Kind: wire.CoordAck, Flags: flags,
			AckVerdict: wire.AckStale, Epoch: n.actor(2).epoch(8)})
	}
	t.Run("the higher epoch has a leader: give way", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		n.leads(1)
		n.hears(stale(n, wire.Fresh))
		n.expects("lead → stopping cause=superseded", "stop hook epoch=1/n3", "lose hook epoch=1/n3")
		n.happens(HookEnded{Lose, n.node.reign.epoch, true})
		n.forgets()
		n.is(Follow)
		if n.node.epoch != n.actor(2).epoch(8) {
			t.Errorf("follows %v", n.node.epoch)
		}
	})
	t.Run("nobody leads it: claim above it", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		n.leads(1)
		n.hears(stale(n, 0))
		n.expects("lead → stopping cause=re-minted", "stop hook epoch=1/n3", "lose hook epoch=1/n3")
		n.happens(HookEnded{Lose, n.node.reign.epoch, true})
		n.forgets()
		if want := (wire.Epoch{Counter: 9, Owner: hostID(3)}); n.node.epoch != want || n.disk.MaxCounter != 9 {
			t.Errorf("claims %v with %d on disk, want %v", n.node.epoch, n.disk.MaxCounter, want)
		}
	})
}

func TestR6_OneRoundAtATime(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.waits(2*time.Second + 24*time.Millisecond)
	n.forgets()
	n.waits(time.Millisecond)
	n.expects("stagger → elect", "send n3 ELECTION reason=boot")
	n.hears(n.actor(1).election(wire.Epoch{}))
	n.expects("send n1 ANSWER verdict=ok")
	n.hears(n.actor(3).replies(wire.Election, wire.Frame{Kind: wire.Answer, Verdict: wire.OK, ETA: 50}))
	n.expects("elect → wait")
	n.hears(n.actor(1).election(wire.Epoch{}))
	n.expects("send n1 ANSWER verdict=ok")
	n.is(Wait)
}

func TestR7_NoCoup(t *testing.T) {
	t.Run("who hears the leader says so", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 4)
		n.hears(n.actor(1).election(n.actor(3).epoch(4)))
		n.expects("send n1 ANSWER epoch=4/n3 verdict=leader-alive")
		n.is(Follow)
	})
	t.Run("also to one that has given up a later leader, which it alone may not hear", func(t *testing.T) {
		n := storyOf(t, 2, Config{Algorithm: Smallest}, 1, 3, 4)
		n.follows(3, 4)
		n.hears(n.actor(1).election(n.actor(4).epoch(9)))
		n.expects("send n1 ANSWER epoch=4/n3 verdict=leader-alive")
		n.is(Follow)
	})
	t.Run("so does the leader, and shows itself to the starter alone", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		n.leads(1)
		n.hears(n.actor(2).election(n.node.epoch))
		n.expects("send n2 ANSWER", "send n2 COORDINATOR phase=active")
	})
	t.Run("but not to the leader itself, which claims anew", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		early := n.actor(3).canvasses()
		n.follows(3, 1)
		n.hears(n.actor(3).says(early)) // from before it led
		n.expects("send n3 ANSWER verdict=leader-alive")
		anew := n.actor(3).canvasses()
		anew.Epoch = n.actor(3).epoch(1)
		n.hears(anew)
		n.expects("send n3 ANSWER verdict=yes")
		n.is(Follow)
	})
	t.Run("nor to one that led and knows a later epoch than its own", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		n.follows(3, 1)
		anew := n.actor(3).canvasses()
		anew.Epoch = n.actor(2).epoch(5)
		n.hears(anew)
		n.expects("send n3 ANSWER verdict=yes")
	})
	t.Run("the starter abandons its round", func(t *testing.T) {
		n := electing(t)
		n.hears(n.actor(3).replies(wire.Election, wire.Frame{Kind: wire.Answer, Verdict: wire.LeaderAlive, Epoch: n.actor(4).epoch(4)}))
		n.expects("elect → follow leader=n4 epoch=4/n4 cause=peers-hear-leader")
	})
	t.Run("even for a leader that it knows nothing of", func(t *testing.T) {
		n := electing(t)
		n.hears(n.actor(3).replies(wire.Election, wire.Frame{Kind: wire.Answer, Verdict: wire.LeaderAlive,
			Epoch: wire.Epoch{Counter: 5, Owner: hostID(9)}}))
		n.expects("elect → stagger cause=peers-hear-leader")
		n.waits(99 * time.Millisecond)
		n.expects()
		n.waits(time.Millisecond)
		n.expects("stagger → elect", "send n4 ELECTION") // not for ever; and the old leader is asked now
	})
}

// electing gives host 2 of four that lost its leader n4 and now challenges n3.
func electing(t *testing.T) *story {
	t.Helper()
	n := storyOf(t, 2, Config{}, 1, 3, 4)
	n.follows(4, 4)
	for n.node.state != Elect {
		n.waits(time.Millisecond)
		n.forgets()
	}
	return n
}

func TestR8_AcceptThenCheck(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.hears(n.actor(1).coordinator(2))
	n.expects("follow → follow leader=n1", "send n1 COORD_ACK verdict=accept")
	n.waits(n.node.suspectTimeout() - time.Millisecond)
	n.expects()
	n.waits(time.Millisecond)
	n.expects("follow → suspect cause=leader-silent", "send n3 PROBE", "send n1 PROBE purpose=leader")
}

func TestR9_OwnerOnly(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 4)
	for _, k := range []wire.Kind{wire.Heartbeat, wire.Coordinator, wire.Resign} {
		n.hears(n.actor(1).says(wire.Frame{Kind: k, Epoch: n.actor(3).epoch(5), Interval: 50, Lease: 400}))
		n.expects("ignored not-the-owner")
	}
	n.is(Follow)
	if n.node.epoch != n.actor(3).epoch(4) || n.node.saved.MaxCounter != 4 {
		t.Errorf("followed %v at counter %d by hearsay", n.node.epoch, n.node.saved.MaxCounter)
	}
}

func TestR10_AckOrHeartbeat(t *testing.T) {
	t.Run("an announcement is repeated to who is silent, not to who answered", func(t *testing.T) {
		n := storyOf(t, 3, Config{MinAcks: 2}, 1, 2)
		n.waits(2 * time.Second)
		n.forgets()
		n.hears(n.actor(1).says(wire.Frame{Kind: wire.Query}))
		n.hearsAndForgets(n.actor(2).says(wire.Frame{Kind: wire.Query}))
		for n.node.state != Claiming {
			n.waits(5 * time.Millisecond)
			n.forgets()
			n.hearsAndForgets(n.actor(2).says(wire.Frame{Kind: wire.Query}))
			n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
		}
		n.hearsAndForgets(n.actor(1).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch}))
		n.waits(390 * time.Millisecond)
		n.expects("send n2 COORDINATOR", "send n2 COORDINATOR", "send n2 COORDINATOR")
		for range maxClaims - 1 { // n2's disk may be slow: for the same epoch it has it by then
			n.waits(10 * time.Millisecond)
			n.expects("send n1 COORDINATOR epoch=1/n3", "send n2 COORDINATOR epoch=1/n3")
			n.hearsAndForgets(n.actor(1).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch}))
			n.waits(390 * time.Millisecond)
			n.expects("send n2 COORDINATOR", "send n2 COORDINATOR", "send n2 COORDINATOR")
		}
		n.waits(10 * time.Millisecond)
		n.expects("send n1 RESIGN reason=abandoned", "send n2 RESIGN reason=abandoned", "claim → stagger cause=claim-unheard")
	})
	t.Run("a heartbeat says the same", func(t *testing.T) {
		n := storyOf(t, 1, Config{}, 2, 3)
		n.hears(n.actor(3).heartbeat(7)) // its COORDINATOR was lost
		n.expects("start → follow leader=n3 epoch=7/n3")
	})
}

func (s *story) hearsAndForgets(f wire.Frame) {
	s.t.Helper()
	s.forgets()
	s.hears(f)
	s.forgets()
}

func TestR11_Ineligible(t *testing.T) {
	t.Run("a node that leaves answers so, and does not stand", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		n.follows(2, 1)
		n.happens(Command{Verb: Leave, Token: 5})
		n.forgets()
		n.hears(n.actor(1).election(n.actor(2).epoch(2)))
		n.expects("send n1 ANSWER verdict=ineligible flags=draining")
		n.waits(5 * time.Second)
		n.is(Observe)
	})
	t.Run("and is not waited for", func(t *testing.T) {
		n := electing(t)
		n.hears(n.actor(1).says(wire.Frame{Kind: wire.Query}))
		n.forgets()
		n.hears(n.actor(3).replies(wire.Election, wire.Frame{Kind: wire.Answer, Verdict: wire.Ineligible}))
		n.expects("save", "elect → claim cause=no-answer", "send n1 COORDINATOR", "send n3 COORDINATOR")
	})
	t.Run("nor asked", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		f := n.actor(3).says(wire.Frame{Kind: wire.Query, Flags: wire.Draining})
		n.hears(f)
		n.forgets()
		n.hears(n.actor(1).says(wire.Frame{Kind: wire.Query}))
		n.forgets()
		n.waits(2 * time.Second)
		n.forgets()
		for _, sent := range n.sent {
			if sent.Frame.Kind == wire.Election {
				t.Errorf("challenged a node that cannot lead: %v", sent)
			}
		}
		n.is(Claiming) // it acknowledges all the same, and so is waited for
		n.hearsAndForgets(n.actor(3).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch}))
		n.is(Lead)
	})
}

// A node that is always a little late, for want of processor time, forgave itself at
// every step, and followed a leader that had been silent for as long as it liked.
func TestR12_LagIsForgivenOnce(t *testing.T) {
	const late = 60 * time.Millisecond
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	wakes := func() {
		n.now = n.node.Deadline().Add(late)
		n.step(Tick{})
		n.forgets()
	}
	for n.node.state == Follow && n.now.Sub(n.node.lastFromLeader) < time.Second {
		wakes()
	}
	n.is(Suspect)
	suspected := n.now
	for n.node.state != Claiming && n.now.Sub(suspected) < 5*time.Second {
		wakes()
		n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query})) // others go on talking
	}
	n.is(Claiming)
}

func TestR12_Lag(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.sleeps(10 * time.Second)
	n.happens(Tick{})
	n.expects("ignored frozen") // no suspicion: the heartbeats of ten seconds wait in the socket
	n.is(Follow)
	n.hears(n.actor(3).heartbeat(1))
	n.expects()
	n.sleeps(10 * time.Second)
	n.happens(Tick{})
	n.expects("ignored frozen")
	n.waits(n.node.suspectTimeout()/2 - time.Millisecond)
	n.expects()
	n.waits(time.Millisecond)
	n.expects("follow → suspect", "send n1 PROBE", "send n3 PROBE")
}

func TestR13_HookGate(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(1)
	n.acks(1)
	n.sleeps(400 * time.Millisecond)
	n.showsAll = true
	n.hears(n.actor(1).says(wire.Frame{Kind: wire.Query, Flags: wire.AckReq}))
	n.expects("lead → stopping cause=lease-expired", "lease none", "stop hook epoch=1/n3", "lose hook epoch=1/n3",
		"ignored frozen", "send n1 CID state=none")
}

func TestR13_StepsDownBeforeTheLeaseEnds(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(1)
	end := n.node.leaseEnd()
	n.waits(end.Add(-n.node.cfg.StopBudget).Sub(n.now) - time.Nanosecond)
	n.is(Lead)
	n.waits(time.Nanosecond)
	n.expects("lead → stopping cause=lease-expired", "stop hook", "lose hook"+by(end))
	n.acks(1) // late acknowledgements revive nothing
	n.expects()
	n.is(Stopping)
}
