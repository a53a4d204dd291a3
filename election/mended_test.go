package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// The rules of the mended rules that speak of available mode. Each was broken
// once by a schedule, in a model; each fails here without its line.

// Followers reassured each other about a dead leader for ever, where hearsay
// counted as hearing.
func TestMended01_FirstHandOnly(t *testing.T) {
	for _, tc := range []struct {
		name  string
		hears func(n *story)
	}{
		{"a fresh opinion", func(n *story) {
			n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Epoch: n.actor(3).epoch(1), HeartbeatAge: 5, Standing: wire.Following}))
		}},
		{"gossip", func(n *story) { n.happens(LeaderReported{n.actor(3).epoch(1)}) }},
		{"a CID that knows it", func(n *story) {
			n.hears(n.actor(1).says(wire.Frame{Kind: wire.Cid, Knowledge: wire.Knows, Epoch: n.actor(3).epoch(1)}))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := storyOf(t, 2, Config{}, 1, 3)
			n.follows(3, 1)
			last := n.now
			n.waits(n.node.suspectTimeout())
			n.forgets()
			n.is(Suspect)
			tc.hears(n)
			n.forgets()
			if n.node.lastFromLeader != last {
				t.Errorf("lastFromLeader moved by %v without a frame of the leader's", n.node.lastFromLeader.Sub(last))
			}
		})
	}
	t.Run("peers that hear it put the doubt off by half a timeout", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		last := n.now
		n.waits(n.node.suspectTimeout())
		n.forgets()
		n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Epoch: n.actor(3).epoch(1), HeartbeatAge: 5, Standing: wire.Following}))
		for n.node.state == Suspect {
			n.forgets()
			n.waits(time.Millisecond)
		}
		n.expects("suspect → follow cause=peers-hear-leader")
		if n.node.lastFromLeader != last {
			t.Error("others' hearing counts as our own")
		}
		n.waits(n.node.suspectTimeout()/2 - time.Millisecond)
		n.expects()
		n.waits(time.Millisecond)
		n.expects("follow → suspect", "send n1 PROBE", "send n3 PROBE")
	})
	t.Run("at most six announced intervals, however poor the health", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		n.happens(HealthChanged{Score: 7})
		n.expects()
		if got := n.node.suspectTimeout(); got != 300*time.Millisecond {
			t.Errorf("suspect timeout %v at the worst health, want 300ms", got)
		}
	})
	t.Run("START has heard no leader", func(t *testing.T) {
		if n := storyOf(t, 2, Config{}, 1, 3); !n.node.lastFromLeader.IsZero() {
			t.Errorf("lastFromLeader %v at the start", n.node.lastFromLeader)
		}
	})
}

// A PROBE_ACK proves a leadership only if it speaks of that leadership.
func TestMended02_WhatAProbeProves(t *testing.T) {
	for _, tc := range []struct {
		name string
		ack  wire.Frame
		want State
	}{
		{"it leads this epoch", wire.Frame{Standing: wire.Leading, Epoch: wire.Epoch{Counter: 1, Owner: hostID(3)}}, Follow},
		{"it lives and leads no more", wire.Frame{Standing: wire.Following, Epoch: wire.Epoch{Counter: 1, Owner: hostID(3)}}, Stagger},
		{"it is stopping", wire.Frame{Standing: wire.Stopping, Epoch: wire.Epoch{Counter: 1, Owner: hostID(3)}}, Stagger},
		{"it leads another epoch", wire.Frame{Standing: wire.Leading, Epoch: wire.Epoch{Counter: 2, Owner: hostID(3)}}, Stagger},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := storyOf(t, 2, Config{}, 1, 3)
			n.follows(3, 1)
			n.waits(n.node.suspectTimeout())
			n.forgets()
			tc.ack.Kind = wire.ProbeAck
			n.hears(n.actor(3).replies(wire.Probe, tc.ack))
			n.forgets()
			n.is(tc.want)
		})
	}
	t.Run("another life ends the leadership", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		n.waits(n.node.suspectTimeout())
		n.forgets()
		n.actor(3).incarnation, n.actor(3).nonce = 2, 3333
		n.hears(n.actor(3).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Standing: wire.Leading, Epoch: n.actor(3).epoch(1)}))
		n.forgets()
		if n.node.state == Follow {
			t.Error("a new life was taken for the leader that the old one was")
		}
	})
	t.Run("nobody learns itself as leader from others", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.happens(LeaderReported{wire.Epoch{Counter: 9, Owner: hostID(2)}})
		n.expects()
		n.is(Start)
	})
}

// What was announced by a deaf or isolated node moved everybody, again and
// again.
func TestMended11_IsolatedOrDeaf(t *testing.T) {
	t.Run("a claim is not in force before enough acknowledged it", func(t *testing.T) {
		n := storyOf(t, 3, Config{MinAcks: 2}, 1, 2)
		n.waits(2*time.Second - 10*time.Millisecond)
		n.forgets()
		n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
		n.hearsAndForgets(n.actor(2).says(wire.Frame{Kind: wire.Query}))
		n.waits(10 * time.Millisecond)
		n.forgets()
		n.hears(n.actor(1).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch}))
		n.expects()
		n.is(Claiming)
		n.hears(n.actor(2).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch}))
		n.expects("save promoted=1/n3", "claim → lead", "become hook epoch=1/n3")
	})
	t.Run("an isolated node uses up no epoch", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		n.waits(10 * time.Second)
		n.forgets()
		if n.node.saved.MaxCounter != 0 || !n.node.Status().Isolated {
			t.Errorf("counter %d, isolated %t after ten seconds alone", n.node.saved.MaxCounter, n.node.Status().Isolated)
		}
	})
	t.Run("and leads its own part once all others are declared dead", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		n.waits(2 * time.Second)
		n.forgets()
		n.happens(MemberChanged{n.actor(1).member(Dead)})
		n.forgets()
		n.happens(MemberChanged{n.actor(2).member(Dead)})
		n.forgets()
		n.waits(6 * time.Second)
		n.forgets()
		n.is(Lead)
	})
	t.Run("whoever comes has a lease's time to acknowledge", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1)
		n.waits(2 * time.Second)
		n.forgets()
		n.is(Lead) // alone with n1, no acknowledgement is needed
		n.actors[2] = &actor{s: n, number: 2, incarnation: 1, nonce: 2000}
		n.happens(MemberChanged{n.actor(2).member(Alive)})
		n.expects()
		n.waits(140 * time.Millisecond) // the shortest lease, less the stop budget
		n.expects()
		n.is(Lead)
	})
}

// In available mode hooks must not hold a token below one in use.
func TestMended12_ReMint(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(1)
	old := n.node.epoch
	n.acks(1)
	n.forgets()
	n.hears(n.actor(1).replies(wire.Heartbeat, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Epoch: n.actor(2).epoch(8)}))
	n.expects("lead → stopping cause=re-minted", "stop hook epoch=1/n3", "lose hook epoch=1/n3 cause=re-minted")
	n.waits(200 * time.Millisecond) // no become hook while the lose hook runs
	n.expects()
	n.happens(HookEnded{Hook: Lose, Epoch: old, OK: true})
	n.forgets()
	for range 20 {
		if n.node.state == Claiming {
			break
		}
		n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	n.hears(n.actor(1).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch}))
	n.expects("save promoted=9/n3", "claim → lead epoch=9/n3 cause=re-minted", "become hook epoch=9/n3 cause=re-minted")
}

// A leader that is about to claim anew is stopped: it claims nothing, so its epoch has ended, and it
// says so before it goes. It said LEAVE alone, and in quorum mode its voters stayed bound to it.
func TestMended12_AStopDuringAReMint(t *testing.T) {
	for mode, leader := range map[string]func(*testing.T) *story{
		"available": func(t *testing.T) *story { n := storyOf(t, 3, Config{}, 1, 2); n.leads(1); return n },
		"quorum":    func(t *testing.T) *story { n := voterOf(t, 3, Saved{}, 1, 2); n.leadsVoters(1, 2); return n },
	} {
		t.Run(mode, func(t *testing.T) {
			n := leader(t)
			old := n.node.epoch
			n.acks(1)
			n.forgets()
			n.hears(n.actor(1).replies(wire.Heartbeat, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Epoch: n.actor(2).epoch(old.Counter + 1)}))
			n.expectsSome("lead → stopping cause=re-minted")
			n.forgets()
			n.happens(Command{Verb: Leave, Token: 4})
			n.expects()
			n.happens(HookEnded{Hook: Lose, Epoch: old, OK: true})
			n.expectsSome("send n1 RESIGN epoch=1/n3", "send n2 RESIGN epoch=1/n3")
			n.forgets()
			n.hears(n.actor(1).replies(wire.Resign, wire.Frame{Kind: wire.ResignAck}))
			n.hears(n.actor(2).replies(wire.Resign, wire.Frame{Kind: wire.ResignAck}))
			n.expectsSome("send n1 LEAVE", "send n2 LEAVE", "stopping → observe")
		})
	}
}

// One 32-bit series for all destinations wraps in 16 days at 64 members.
func TestMended14_SequenceNumbers(t *testing.T) {
	t.Run("are per destination", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		before := n.node.peer(hostID(2)).seq
		n.hears(n.actor(1).says(wire.Frame{Kind: wire.Probe, Flags: wire.AckReq}))
		n.expects("send n1 PROBE_ACK")
		if n.node.peer(hostID(2)).seq != before {
			t.Error("a frame to n1 used up a number of n2's")
		}
	})
	t.Run("go on where a forgotten destination left off", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		var others []Member
		for i := range 2 * maxEnded {
			others = append(others, Member{ID: wire.ID{9, byte(i >> 8), byte(i), 15: 1}, Nonce: uint32(i), Incarnation: 1,
				Addr: n.actor(1).member(Alive).Addr, Status: Alive})
			n.step(MemberChanged{others[i]})
		}
		n.node.peer(hostID(2)).seq += 1 << 30 // much has been sent to it, and to no other
		old := n.node.peer(hostID(2)).seq
		n.step(MemberChanged{n.actor(2).member(Dead)})
		for _, m := range others {
			n.now = n.now.Add(time.Millisecond)
			m.Status = Dead
			n.step(MemberChanged{m})
		}
		n.forgets()
		if n.node.peer(hostID(2)) != nil {
			t.Fatal("not forgotten")
		}
		n.happens(MemberChanged{n.actor(2).member(Alive)}) // the same life, back after a long cut
		n.forgets()
		if next := n.node.peer(hostID(2)).seq + 1; next <= old {
			t.Errorf("numbers go on at %d after %d, so that what is acknowledged late counts for others", next, old)
		}
	})
	t.Run("wrap", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		p := n.node.peer(hostID(1))
		p.seq = 1<<32 - 1
		n.hears(n.actor(1).says(wire.Frame{Kind: wire.Probe, Flags: wire.AckReq}))
		n.expects("send n1 PROBE_ACK")
		if at, ok := p.sentTime(0); !ok || at != n.now {
			t.Error("what echoes the first number after the wrap is not known")
		}
	})
	t.Run("ages saturate", func(t *testing.T) {
		for d, want := range map[time.Duration]uint32{-time.Second: 0, 1500 * time.Microsecond: 1,
			time.Hour: 3_600_000, (1<<32 - 2) * time.Millisecond: 1<<32 - 2, 50 * 24 * time.Hour: wire.AgeUnknown} {
			if got := millis(d); got != want {
				t.Errorf("millis(%v) = %d, want %d", d, got, want)
			}
		}
	})
}

// A node of another mode took part in elections that it could not understand.
func TestMended16_MixedModes(t *testing.T) {
	for _, algo := range []wire.Algo{wire.Smallest, wire.Enhanced, wire.Classic | wire.AlgoSticky,
		wire.Classic | wire.AlgoQuorum, wire.Classic | wire.AlgoLowest} {
		n := storyOf(t, 2, Config{}, 1, 3)
		for _, f := range []wire.Frame{n.actor(3).heartbeat(5), n.actor(3).coordinator(5), n.actor(1).election(wire.Epoch{})} {
			f.Algo = algo
			n.hears(f)
			n.expects("ignored other-mode")
		}
		n.is(Start)
	}
	if n := storyOf(t, 2, Config{Preempt: PreemptNever}, 1, 3); n.node.cfg.algo() != wire.Classic|wire.AlgoSticky {
		t.Error("preempt = never is not shown in the mode")
	}
}
