package election

import (
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// lastWill is the will that holds, and whom it is for.
func (s *story) lastWill() (Will, []int) {
	s.t.Helper()
	if len(s.wills) == 0 {
		s.t.Fatal("no will was left")
	}
	will := s.wills[len(s.wills)-1]
	var heirs []int
	for _, letter := range will.Letters {
		heirs = append(heirs, int(letter.To.Addr().As4()[3]))
	}
	return will, heirs
}

// will is what a's keeper sends after its death: a frame that a finished long ago.
func (a *actor) will(counter uint64) wire.Frame {
	f := a.says(wire.Frame{Kind: wire.Resign, Reason: wire.Died, Flags: wire.Draining, Epoch: a.epoch(counter)})
	a.seq += 200 // numbers that others have had since
	return f
}

// leadsVoters brings a voter to lead in quorum mode.
func leadsVoters(t *testing.T) *story {
	t.Helper()
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.canvasses(1)
	return n
}

// canvasses brings a voter to lead with the vote of host number.
func (s *story) canvasses(number int) {
	s.t.Helper()
	for s.node.state != Elect && s.now.Sub(s.zero) < 5*time.Second {
		s.waits(10 * time.Millisecond)
		s.forgets()
	}
	s.hearsAndForgets(s.actor(number).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
	s.hearsAndForgets(s.actor(number).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: s.node.epoch}))
	s.is(Lead)
}

// A will is the finished RESIGN of the very epoch, for each voter, and is there before
// the become hook starts.
func TestM24_ALeaderLeavesAWill(t *testing.T) {
	n := leadsVoters(t)
	will, heirs := n.lastWill()
	if len(n.wills) != 1 || will.Epoch != n.node.epoch || !slices.Equal(heirs, []int{1, 2}) {
		t.Fatalf("%d wills, the last for %v: %v", len(n.wills), heirs, will)
	}
	for _, letter := range will.Letters {
		f := letter.Frame
		isFinished := f.Sender == hostID(3) && f.Nonce == n.node.cfg.Nonce && f.Algo == n.node.cfg.algo() && f.ConfigHash == n.node.hash
		if !isFinished || f.Kind != wire.Resign || f.Reason != wire.Died || f.Epoch != n.node.epoch || !f.Successor.IsZero() || f.Flags != wire.Draining {
			t.Errorf("letter %v", &f)
		}
		for _, sent := range n.sent {
			if sent.To == letter.To && sent.Frame.Seq == f.Seq {
				t.Errorf("the number of %v is used again by %v", &f, &sent.Frame)
			}
		}
	}
	t.Run("renewed when it would miss somebody", func(t *testing.T) {
		n := leadsVoters(t)
		for range 40 {
			n.acks(1)
			n.forgets()
			n.waits(50 * time.Millisecond)
			n.forgets()
		}
		if len(n.wills) != 1 {
			t.Fatalf("%d wills in 40 heartbeats", len(n.wills))
		}
		elsewhere := n.actor(2).member(Alive)
		elsewhere.Addr = (&host{number: 7}).addr()
		for what, m := range map[string]Member{"address": elsewhere, "life": {ID: hostID(1), Addr: (&host{number: 1}).addr(), Incarnation: 2, Nonce: 9, Priority: 1, Status: Alive}} {
			was := len(n.wills)
			n.happens(MemberChanged{m})
			n.forgets()
			n.acks(1)
			n.forgets()
			n.waits(50 * time.Millisecond)
			n.forgets()
			if len(n.wills) != was+1 {
				t.Errorf("%d wills after another %s", len(n.wills)-was, what)
			}
			n.actor(1).incarnation, n.actor(1).nonce = 2, 9
			if what == "address" {
				n.actor(1).incarnation, n.actor(1).nonce = 1, 1000
			}
		}
	})
	t.Run("withdrawn when it ends cleanly", func(t *testing.T) {
		n := leadsVoters(t)
		n.happens(Command{Verb: Abdicate, Token: 1})
		n.forgets()
		if len(n.wills) != 1 {
			t.Fatal("withdrawn before the lose hook has ended")
		}
		n.loseHookEnds()
		n.forgets()
		if will, heirs := n.lastWill(); len(heirs) != 0 || len(n.wills) != 2 {
			t.Errorf("the will is %v", will)
		}
	})
	t.Run("kept when a save fails behind which it came", func(t *testing.T) {
		will := Will{Epoch: wire.Epoch{Counter: 1, Owner: hostID(3)}}
		if kept := afterSave([]Effect{Save{}, will, StopHook{}}); len(kept) != 1 || kept[0].String() != will.String() {
			t.Errorf("kept %v", kept)
		}
	})
}

// In available mode a will is for whoever was asked to wait for it.
func TestM26_ALeaderAsksToWait(t *testing.T) {
	n := leading(t)
	if len(n.wills) != 0 {
		t.Fatalf("nobody has to wait, and a will was left: %v", n.wills)
	}
	beats := func() (count int, flags wire.Flags) {
		for _, sent := range n.sent {
			if sent.Frame.Kind == wire.Heartbeat {
				count, flags = count+1, sent.Frame.Flags
			}
		}
		return count, flags
	}
	before, flags := beats()
	if flags&wire.Wait != 0 {
		t.Fatal("asks to wait for nothing")
	}
	n.happens(HoldersChanged{Some: true})
	n.forgets()
	if after, flags := beats(); after != before+2 || flags&wire.Wait == 0 {
		t.Errorf("%d heartbeats said so at once, the last with %v", after-before, flags)
	}
	if _, heirs := n.lastWill(); !slices.Equal(heirs, []int{1, 2}) {
		t.Errorf("a will for %v", heirs)
	}
	n.acks(1)
	n.forgets()
	n.happens(HoldersChanged{Some: false})
	n.forgets()
	if _, flags := beats(); flags&wire.Wait != 0 {
		t.Error("goes on asking to wait")
	}
	if _, heirs := n.lastWill(); len(heirs) != 0 {
		t.Errorf("a will for %v", heirs)
	}
	t.Run("takeover_delay implies it", func(t *testing.T) {
		n := storyOf(t, 3, Config{TakeoverDelay: time.Second}, 1, 2)
		n.leads(1)
		for _, sent := range n.sent {
			if isSaid := sent.Frame.Flags&wire.Wait != 0; isSaid != (sent.Frame.Kind == wire.Coordinator || sent.Frame.Kind == wire.Heartbeat) {
				t.Errorf("%v", &sent.Frame)
			}
		}
		if _, heirs := n.lastWill(); !slices.Equal(heirs, []int{1, 2}) {
			t.Errorf("a will for %v", heirs)
		}
	})
}

// heldBack brings a voter to wait for the lease of leader 3, whose process is gone.
func heldBack(t *testing.T) *story {
	t.Helper()
	n := voterOf(t, 2, Saved{}, 1, 3)
	n.follows(3, 4)
	n.happens(tetherTo(n.actor(3)))
	n.forgets()
	n.happens(refusedBy(n.actor(3)))
	n.forgets()
	n.is(Stagger)
	return n
}

// A will frees the voter as RESIGN does, however old its number is; its copies, and
// what else still comes of that life, mean nothing.
func TestM25_AWillEndsTheLeaseOfItsEpoch(t *testing.T) {
	n := heldBack(t)
	old := n.actor(3).will(4)
	old.Seq -= 100 // far below the window
	n.hears(old)
	n.expects("stagger → stagger cause=process-gone", "stagger → elect", "send n1 CANVASS")
	if n.node.promise != (quorum.Promise{}) {
		t.Errorf("still bound: %+v", n.node.promise)
	}
	n.hears(old)
	n.expects("ignored after-its-will")
	n.hears(n.actor(3).heartbeat(4))
	n.expects("ignored after-its-will")
	n.hears(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
	n.expects("save", "elect → claim", "send n1 COORDINATOR")
	n.forgets()
}

// The voter hears the will before it notices anything else.
func TestM25_AWillBeforeAnyDoubt(t *testing.T) {
	for _, state := range []State{Follow, Suspect} {
		n := voterOf(t, 2, Saved{}, 1, 3)
		n.follows(3, 4)
		if state == Suspect {
			n.happens(tetherTo(n.actor(3)))
			n.forgets()
		}
		n.is(state)
		n.hears(n.actor(3).will(4))
		n.expectsSome(state.String()+" → stagger cause=process-gone", "stagger → elect")
		n.forgets()
		n.node.Step(n.now, Tick{})
		if n.node.leaderKnown {
			t.Errorf("in %v: it follows on", state)
		}
	}
}

// A will is about one epoch: of an older one of the same leader it frees nobody.
func TestM25_AWillOfAnotherEpoch(t *testing.T) {
	n := heldBack(t)
	bound := n.node.promise
	n.hears(n.actor(3).will(3))
	n.expects()
	n.waits(100 * time.Millisecond)
	n.expects()
	if n.is(Stagger); n.node.promise != bound {
		t.Errorf("bound by %+v, and after a will of another epoch by %+v", bound, n.node.promise)
	}
	t.Run("or of another's", func(t *testing.T) {
		n := heldBack(t)
		f := n.actor(1).will(4)
		f.Epoch = n.actor(3).epoch(4)
		n.hears(f)
		n.expects("ignored not-the-owner")
		n.is(Stagger)
	})
	t.Run("or that nobody has heard of", func(t *testing.T) {
		n := heldBack(t)
		n.hears(n.actor(3).will(9))
		n.expects()
		n.is(Stagger)
		if resigned := n.node.peer(hostID(3)).resigned; resigned != 0 {
			t.Errorf("tombstone %d", resigned)
		}
	})
	t.Run("or of a life that nobody has met", func(t *testing.T) {
		n := heldBack(t)
		n.actor(3).incarnation, n.actor(3).nonce = 2, 5
		n.hears(n.actor(3).will(4))
		n.expects("ignored unknown-life")
		if p := n.node.peer(hostID(3)); p.Nonce == 5 {
			t.Error("a will began a life")
		}
	})
}

// Whoever has granted a newer claim waits for that, and writes the tombstone down.
func TestM25_AWillAfterANewerGrant(t *testing.T) {
	n := voterOf(t, 2, Saved{}, 1, 3, 4, 5)
	n.follows(3, 4)
	n.node.promise.Release(n.actor(3).epoch(4)) // as time would
	n.hearsAndForgets(n.actor(5).claims(5))
	n.is(Wait)
	bound := n.node.promise
	n.hears(n.actor(3).will(4))
	n.expects()
	if n.is(Wait); n.node.promise != bound || n.node.peer(hostID(3)).resigned != 4 {
		t.Errorf("bound by %+v, before by %+v; tombstone %d", n.node.promise, bound, n.node.peer(hostID(3)).resigned)
	}
	n.hears(n.actor(5).says(wire.Frame{Kind: wire.Heartbeat, Flags: wire.Active, Epoch: n.actor(5).epoch(5), Lease: 400, Interval: 50}))
	n.expects("wait → follow leader=n5")
}

// The dead leader is the best of all, and is asked for nothing: its will is no sign
// that it lives, nor is the failure detector that has not noticed.
func TestM25_AWillIsNoSignOfLife(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.hearsAndForgets(n.actor(3).says(wire.Frame{Kind: wire.Heartbeat, Flags: wire.Active | wire.Wait, Epoch: n.actor(3).epoch(1), Lease: 400, Interval: 50}))
	n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
	n.hears(n.actor(3).will(1))
	n.expectsSome("follow → stagger cause=process-gone", "stagger → elect", "save", "elect → claim epoch=2/n2", "send n1 COORDINATOR")
	n.forgets()
	p := n.node.peer(hostID(3))
	if n.node.presumedAlive(p) || !n.node.isGone(p) || !p.heard.IsZero() {
		t.Errorf("alive %t, gone %t, heard %v", n.node.presumedAlive(p), n.node.isGone(p), p.heard)
	}
	n.happens(MemberChanged{n.actor(3).member(Alive)}) // late news of that life
	n.forgets()
	if n.node.presumedAlive(p) {
		t.Error("alive again by the failure detector's word")
	}
	n.actor(3).incarnation, n.actor(3).nonce = 2, 5
	n.hearsAndForgets(n.actor(3).says(wire.Frame{Kind: wire.Query}))
	if !n.node.presumedAlive(p) {
		t.Error("the next life is not alive")
	}
}

// The will comes to one voter after the other. Who has it first is told by the next
// that it is still bound, and asks again soon: not when that promise would have ended.
func TestM25_AVoterThatHasNoWillYet(t *testing.T) {
	n := heldBack(t)
	n.hearsAndForgets(n.actor(3).will(4))
	n.is(Elect)
	n.hears(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Leased, ETA: 350}))
	n.expects("elect → stagger cause=promised")
	n.waits(30 * time.Millisecond)
	n.expects("stagger → elect", "send n1 CANVASS")
	t.Run("or hears the leader", func(t *testing.T) {
		n := heldBack(t)
		n.hearsAndForgets(n.actor(3).will(4))
		n.hearsAndForgets(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.LeaderAlive, Epoch: n.actor(3).epoch(4)}))
		if n.node.leaderKnown {
			t.Fatal("follows the dead leader again")
		}
		n.waits(60 * time.Millisecond)
		n.expectsSome("stagger → elect")
		n.forgets()
	})
}

// A follower whose leader asked for it waits for the will, or for the lease.
func TestM26_AFollowerWaitsForTheWill(t *testing.T) {
	waiting := func(t *testing.T, flags wire.Flags) *story {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		n.hearsAndForgets(n.actor(3).says(wire.Frame{Kind: wire.Heartbeat, Flags: wire.Active | flags, Epoch: n.actor(3).epoch(1), Lease: 400, Interval: 50}))
		n.happens(tetherTo(n.actor(3)))
		n.forgets()
		n.hearsAndForgets(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Standing: wire.Following}))
		n.happens(refusedBy(n.actor(3)))
		return n
	}
	t.Run("nobody asked", func(t *testing.T) {
		waiting(t, 0).expects("suspect → stagger cause=process-gone", "stagger → elect", "save", "elect → claim", "send n1 COORDINATOR")
	})
	t.Run("the will comes", func(t *testing.T) {
		n := waiting(t, wire.Wait)
		n.expects("suspect → stagger cause=process-gone")
		n.waits(200 * time.Millisecond)
		n.expects()
		n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
		n.hears(n.actor(3).will(1))
		n.expects("stagger → stagger", "stagger → elect", "save", "elect → claim", "send n1 COORDINATOR")
	})
	t.Run("none comes", func(t *testing.T) {
		n := waiting(t, wire.Wait)
		heard := n.node.lastFromLeader
		n.forgets()
		for n.node.state != Claiming && n.now.Sub(heard) < 2*time.Second {
			n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
			n.waits(10 * time.Millisecond)
			n.forgets()
		}
		if waited := n.now.Sub(heard); waited < 408*time.Millisecond || waited > 450*time.Millisecond {
			t.Errorf("claims after %v, want the lease", waited)
		}
	})
	t.Run("it was not heard yet", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3, 4)
		n.follows(4, 1)
		n.hearsAndForgets(n.actor(4).resigns(1))
		n.happens(LeaderReported{n.actor(3).epoch(2)})
		n.forgets()
		n.happens(tetherTo(n.actor(3)))
		n.hearsAndForgets(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Standing: wire.Following}))
		n.happens(refusedBy(n.actor(3)))
		n.expectsSome("suspect → stagger cause=process-gone")
		n.forgets()
		n.waits(200 * time.Millisecond)
		n.expects()
	})
	t.Run("a leader before had asked", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3, 4)
		n.follows(4, 1)
		n.hearsAndForgets(n.actor(4).says(wire.Frame{Kind: wire.Heartbeat, Flags: wire.Active | wire.Wait, Epoch: n.actor(4).epoch(1), Lease: 400, Interval: 50}))
		n.hearsAndForgets(n.actor(4).resigns(1))
		n.hearsAndForgets(n.actor(3).says(wire.Frame{Kind: wire.Heartbeat, Flags: wire.Active, Epoch: n.actor(3).epoch(2), Lease: 400, Interval: 50}))
		if n.node.waits {
			t.Error("waits for the will of a leader that did not ask for it")
		}
	})
}

// While the roster changes both majorities bind, so a death frees the voters of both: the
// one that goes is told until the change holds.
func TestM24_TheWillIsForTheVotersOfBothRosters(t *testing.T) {
	n := voterOf(t, 5, Saved{}, 1, 2, 3, 4)
	n.leadsVoters(3, 4)
	n.hasConfirmed()
	n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 1})
	n.expectsSome("save roster=17/4")
	beats := func() {
		for _, number := range []int{3, 4} {
			n.acks(number)
		}
		n.waits(50 * time.Millisecond)
		n.forgets()
	}
	beats()
	if _, heirs := n.lastWill(); !slices.Equal(heirs, []int{1, 2, 3, 4}) {
		t.Errorf("while the roster changes the will is for %v", heirs)
	}
	n.hasRoster(2)
	n.hasRoster(3)
	n.forgets()
	beats()
	if _, heirs := n.lastWill(); !slices.Equal(heirs, []int{2, 3, 4}) {
		t.Errorf("once the change holds the will is for %v", heirs)
	}
}
