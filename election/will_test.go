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
	for _, to := range will.To {
		heirs = append(heirs, int(to.Addr().As4()[3]))
	}
	return will, heirs
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

// A will is announced by each COORDINATOR and HEARTBEAT, by the hash of the secret for the very
// epoch and life. Whom the keeper tells is said before the become hook starts.
func TestM24_ALeaderLeavesAWill(t *testing.T) {
	n := leadsVoters(t)
	will, heirs := n.lastWill()
	if len(n.wills) != 1 || will.Epoch != n.node.epoch || !slices.Equal(heirs, []int{1, 2}) {
		t.Fatalf("%d wills, the last for %v: %v", len(n.wills), heirs, will)
	}
	want := n.node.commitment.Hash(n.node.cfg.Cluster, n.node.epoch, n.node.saved.Incarnation, n.node.cfg.Nonce)
	announced := 0
	for _, sent := range n.sent {
		switch is := sent.Frame.Kind == wire.Coordinator || sent.Frame.Kind == wire.Heartbeat; {
		case is && sent.Frame.Will != want, !is && !sent.Frame.Will.IsZero():
			t.Errorf("%v announces %v, want %v", &sent.Frame, sent.Frame.Will, want)
		case is:
			announced++
		}
	}
	if announced < 4 {
		t.Errorf("announced %d times", announced)
	}
	beats := func(n *story) {
		n.acks(1)
		n.forgets()
		n.waits(50 * time.Millisecond)
		n.forgets()
	}
	t.Run("said anew when it would miss somebody", func(t *testing.T) {
		n := leadsVoters(t)
		for range 40 {
			beats(n)
		}
		if len(n.wills) != 1 {
			t.Fatalf("%d wills in 40 heartbeats", len(n.wills))
		}
		elsewhere := n.actor(2).member(Alive)
		elsewhere.Addr = (&host{number: 7}).addr()
		n.happens(MemberChanged{elsewhere})
		n.forgets()
		beats(n)
		if _, heirs := n.lastWill(); len(n.wills) != 2 || !slices.Equal(heirs, []int{1, 7}) {
			t.Errorf("%d wills, the last for %v", len(n.wills), heirs)
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
	t.Run("not announced before a keeper has the secret", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.happens(Entrusted{})
		n.canvasses(1)
		for _, sent := range n.sent {
			if !sent.Frame.Will.IsZero() {
				t.Fatalf("%v announces %v", &sent.Frame, sent.Frame.Will)
			}
		}
		if len(n.wills) != 0 {
			t.Fatalf("a will was left: %v", n.wills)
		}
		n.happens(Entrusted{wire.Secret{3}.Commit()})
		beats(n)
		if _, heirs := n.lastWill(); !slices.Equal(heirs, []int{1, 2}) || n.sent[len(n.sent)-1].Frame.Will.IsZero() {
			t.Errorf("with a keeper: for %v, %v", heirs, n.sent[len(n.sent)-1])
		}
	})
	t.Run("the same in all of an epoch", func(t *testing.T) {
		n := leadsVoters(t)
		n.happens(Entrusted{wire.Secret{99}.Commit()}) // another keeper, which does not know the first one's secret
		beats(n)
		if f := n.sent[len(n.sent)-1].Frame; f.Kind != wire.Heartbeat || f.Will != want {
			t.Errorf("%v announces %v, before %v", &f, f.Will, want)
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

// A will frees the voter as RESIGN does; its copies, and what else still comes of that life, mean
// nothing.
func TestM25_AWillEndsTheLeaseOfItsEpoch(t *testing.T) {
	n := heldBack(t)
	n.happens(n.actor(3).will())
	n.expects("stagger → stagger cause=process-gone", "stagger → elect", "send n1 CANVASS")
	if n.node.promise != (quorum.Promise{}) {
		t.Errorf("still bound: %+v", n.node.promise)
	}
	n.happens(n.actor(3).will())
	n.expects("ignored unknown-will")
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
		n.happens(n.actor(3).will())
		n.expectsSome(state.String()+" → stagger cause=process-gone", "stagger → elect")
		n.forgets()
		n.node.Step(n.now, Tick{})
		if n.node.leaderKnown {
			t.Errorf("in %v: it follows on", state)
		}
	}
}

// Who has not the secret ends nobody; nor does who has another's, or that of another epoch or life.
func TestM25_AWillOfAnother(t *testing.T) {
	expectNothing := func(t *testing.T, n *story, what string, c wire.Commitment) {
		t.Helper()
		bound := n.node.promise
		n.happens(WillHeard{c})
		n.expects("ignored " + what)
		if n.is(Stagger); n.node.promise != bound || n.node.peer(hostID(3)).died {
			t.Errorf("bound by %+v, and by %+v before", n.node.promise, bound)
		}
		if known := n.node.Pledges(); what == "unknown-will" && known.Match(c) {
			t.Error("a port would hand it on")
		}
	}
	t.Run("a guess", func(t *testing.T) {
		n := heldBack(t)
		expectNothing(t, n, "unknown-will", wire.Secret{7}.Commit())
		expectNothing(t, n, "unknown-will", wire.Commitment{})
		expectNothing(t, n, "unknown-will", n.actor(1).will().Commitment)
	})
	t.Run("announced second", func(t *testing.T) {
		n := heldBack(t)
		late := n.actor(3).heartbeat(4)
		late.Will = wire.Secret{7}.Commit().Hash(n.node.cfg.Cluster, late.Epoch, late.Incarnation, late.Nonce)
		n.hears(late)
		n.forgets()
		n.happens(refusedBy(n.actor(3)))
		n.forgets()
		n.happens(WillHeard{wire.Secret{7}.Commit()})
		n.expects("ignored unknown-will")
		if n.node.peer(hostID(3)).died {
			t.Error("a second announcement counted")
		}
	})
	t.Run("of an epoch that was neither followed nor granted", func(t *testing.T) {
		n := heldBack(t)
		n.hears(n.actor(1).heartbeat(3))
		n.forgets()
		expectNothing(t, n, "unknown-will", n.actor(1).will().Commitment)
	})
	t.Run("announced by another than the owner", func(t *testing.T) {
		n := voterOf(t, 2, Saved{}, 1, 3)
		silent := n.actor(3).heartbeat(4)
		silent.Will = wire.WillHash{}
		n.hearsAndForgets(silent)
		f := n.actor(1).heartbeat(4)
		f.Epoch = silent.Epoch
		f.Will = n.actor(1).secret().Commit().Hash(n.node.cfg.Cluster, f.Epoch, f.Incarnation, f.Nonce)
		n.hearsAndForgets(f)
		n.happens(n.actor(1).will())
		n.expects("ignored unknown-will")
		if n.node.epoch != silent.Epoch {
			t.Fatalf("follows %v", n.node.epoch)
		}
	})
	t.Run("of a life that has another behind it", func(t *testing.T) {
		n := heldBack(t)
		will := n.actor(3).will()
		n.actor(3).incarnation, n.actor(3).nonce = 2, 5
		n.hears(n.actor(3).says(wire.Frame{Kind: wire.Query}))
		n.forgets()
		n.happens(will)
		n.expects("ignored unknown-life")
		if p := n.node.peer(hostID(3)); p.died || p.Nonce != 5 {
			t.Errorf("the next life has ended: %t", p.died)
		}
	})
}

// Whoever missed the announcement is not freed, and waits for the lease.
func TestM25_AWillThatWasNotAnnounced(t *testing.T) {
	n := voterOf(t, 2, Saved{}, 1, 3)
	silent := func() wire.Frame {
		f := n.actor(3).heartbeat(4)
		f.Will = wire.WillHash{}
		return f
	}
	for range 50 {
		n.hears(silent())
		n.forgets()
		n.waits(50 * time.Millisecond)
		n.forgets()
	}
	bound := n.node.promise
	n.happens(n.actor(3).will())
	n.expects("ignored unknown-will")
	if n.node.promise != bound || bound.Epoch.IsZero() {
		t.Errorf("bound by %+v, before by %+v", n.node.promise, bound)
	}
}

// What is followed or granted keeps its place, whatever else is announced.
func TestM25_PledgesAreFew(t *testing.T) {
	n := voterOf(t, 2, Saved{}, 1, 3)
	n.follows(3, 4)
	var p Pledges
	kept := func(e wire.Epoch) bool { return e.Counter == 2 || e.Counter == 5 }
	for counter := range uint64(50) {
		p.add(pledge{epoch: wire.Epoch{Counter: counter + 1, Owner: hostID(3)}}, kept)
	}
	var counters []uint64
	for _, w := range p.all {
		counters = append(counters, w.epoch.Counter)
	}
	slices.Sort(counters)
	if !slices.Equal(counters, []uint64{2, 5, 49, 50}) {
		t.Errorf("kept %v", counters)
	}
}

// Whoever has granted a newer claim waits for that, and writes the tombstone down.
func TestM25_AWillAfterANewerGrant(t *testing.T) {
	n := voterOf(t, 2, Saved{}, 1, 3, 4, 5)
	n.follows(3, 4)
	n.node.promise.Release(n.actor(3).epoch(4)) // as time would
	n.hearsAndForgets(n.actor(5).claims(5))
	n.is(Wait)
	bound := n.node.promise
	n.happens(n.actor(3).will())
	n.expects()
	if n.is(Wait); n.node.promise != bound || n.node.peer(hostID(3)).resigned != 4 {
		t.Errorf("bound by %+v, before by %+v; tombstone %d", n.node.promise, bound, n.node.peer(hostID(3)).resigned)
	}
	n.hears(n.actor(5).says(wire.Frame{Kind: wire.Heartbeat, Flags: wire.Active, Epoch: n.actor(5).epoch(5), Lease: 400, Interval: 50}))
	n.expects("wait → follow leader=n5")
}

// A claimant that dies before it leads frees the voter that has granted it: nothing of a
// leadership was begun, or its keeper would not say so.
func TestM25_AWillOfAClaimant(t *testing.T) {
	n := voterOf(t, 2, Saved{}, 1, 3, 4, 5)
	n.follows(3, 4)
	n.node.promise.Release(n.actor(3).epoch(4)) // as time would
	n.hearsAndForgets(n.actor(5).claims(5))
	n.is(Wait)
	n.happens(n.actor(5).will())
	n.forgets()
	if !n.node.promise.Epoch.IsZero() {
		t.Errorf("bound by %+v", n.node.promise)
	}
}

// The dead leader is the best of all, and is asked for nothing: its will is no sign
// that it lives, nor is the failure detector that has not noticed.
func TestM25_AWillIsNoSignOfLife(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.hearsAndForgets(n.actor(3).says(wire.Frame{Kind: wire.Heartbeat, Flags: wire.Active | wire.Wait, Epoch: n.actor(3).epoch(1), Lease: 400, Interval: 50}))
	n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
	n.happens(n.actor(3).will())
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
	n.happens(n.actor(3).will())
	n.forgets()
	n.is(Elect)
	n.hears(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Leased, ETA: 350}))
	n.expects("elect → stagger cause=promised")
	n.waits(30 * time.Millisecond)
	n.expects("stagger → elect", "send n1 CANVASS")
	t.Run("or hears the leader", func(t *testing.T) {
		n := heldBack(t)
		n.happens(n.actor(3).will())
		n.forgets()
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
		n.happens(n.actor(3).will())
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
