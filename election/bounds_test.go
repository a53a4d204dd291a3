package election

import (
	"reflect"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// The tests of this file are about frames that a member did not write, or should not
// have. They bear the number of their case in the table of docs/security.md.

// stranger brings host number, which is in nobody's roster.
func (s *story) stranger(number int) *actor {
	s.t.Helper()
	s.actors[number] = &actor{s: s, number: number, incarnation: 1, nonce: uint32(1000 * number)}
	s.happens(MemberChanged{s.actors[number].member(Alive)})
	s.forgets()
	return s.actors[number]
}

// Who is in no roster leads nobody, in whatever words it says so, and whatever roster
// it says it has: neither promise nor epoch nor disk moves.
func TestCase37ANonVotersHeartbeatBindsNobody(t *testing.T) {
	for name, says := range map[string]func(*actor) wire.Frame{
		"heartbeat": func(a *actor) wire.Frame { return a.heartbeat(6) },
		"heartbeat, with a newer roster": func(a *actor) wire.Frame {
			f := a.heartbeat(6)
			f.RosterVersion = 96
			return f
		},
		"announcement": func(a *actor) wire.Frame {
			f := a.coordinator(6)
			f.Phase, f.Flags = wire.InForce, wire.AckReq|wire.Active
			return f
		},
		"told of": func(a *actor) wire.Frame {
			return a.says(wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Flags: wire.Fresh, Epoch: a.epoch(6)})
		},
		"told a roster": func(a *actor) wire.Frame {
			f := wire.Frame{Kind: wire.Roster, Phase: wire.Formed, RosterVersion: 1<<32 - 1, Count: 3}
			f.Voters[0], f.Voters[1], f.Voters[2] = hostID(1), hostID(2), hostID(8)
			return a.says(f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := voterOf(t, 1, Saved{}, 2, 3)
			insider := s.stranger(8)
			s.follows(3, 5)
			was := s.disk
			for range 5 {
				s.waits(50 * time.Millisecond)
				s.hears(s.actor(3).heartbeat(5))
				s.hears(says(insider))
				s.forgets()
				if voter := s.lastSent(wire.Probe); voter != nil { // the others hear the true one
					s.hears(s.actor(int(voter.To.Addr().As4()[3])).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Flags: wire.Fresh,
						Standing: wire.Following, Epoch: s.actor(3).epoch(5)}))
					s.forgets()
				}
			}
			if s.node.epoch != s.actor(3).epoch(5) || s.node.promise.Epoch != s.actor(3).epoch(5) || s.node.state != Follow {
				t.Errorf("%s, follows %v, promised to %v", s.node.state, s.node.epoch, s.node.promise.Epoch)
			}
			if !reflect.DeepEqual(s.disk, was) {
				t.Errorf("on disk is %+v, was %+v", s.disk, was)
			}
		})
	}
}

// Without a leader neither.
func TestCase37ANonVoterMovesNobodyWithoutALeader(t *testing.T) {
	s := voterOf(t, 1, Saved{}, 2, 3)
	insider := s.stranger(8)
	s.waits(time.Second)
	s.forgets()
	s.hears(insider.heartbeat(6))
	s.expects("ignored not-a-voter")
	s.hears(insider.says(wire.Frame{Kind: wire.Cid, Knowledge: wire.Knows, Epoch: insider.epoch(6)}))
	s.forgets()
	s.happens(LeaderReported{insider.epoch(6)})
	s.expects()
	if !s.node.epoch.IsZero() || s.disk.MaxCounter != 0 {
		t.Errorf("epoch %v, counter %d on disk", s.node.epoch, s.disk.MaxCounter)
	}
}

// A stranger that plays the next life of a voter which this node has not met, or which
// its silence speaks for, brings no roster: that would be told on by everybody (sim,
// seed 1188). Nor does a true voter one whose version no leader can have come to.
func TestCase37NobodysRosterIsTaken(t *testing.T) {
	s := voterWith(t, 3, Config{}, Saved{}, 1, 2)
	voter := s.actor(2)
	s.waits(2 * time.Second)
	s.forgets()
	s.hears(voter.tells(wire.Canvass, 1<<32-1, 2, 3))
	s.expects("ignored counter-jump")
	s.answersStale(1, 2)
	s.forgets()
	if got := s.disk.Roster.Version; got != 1 {
		t.Errorf("roster %d on disk", got)
	}
}

// A leader that was taken in by a change that was missed here is followed once a voter
// says that it hears it.
func TestCase37ALeaderThatAVoterHearsIsFollowed(t *testing.T) {
	s := voterOf(t, 1, Saved{}, 2, 3)
	newcomer := s.stranger(8)
	s.waits(time.Second)
	s.forgets()
	beat := newcomer.heartbeat(6)
	beat.RosterVersion = 81
	s.hears(beat)
	asked := s.lastSent(wire.Probe)
	s.forgets()
	s.hears(s.actor(int(asked.To.Addr().As4()[3])).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Flags: wire.Fresh,
		Standing: wire.Following, Epoch: newcomer.epoch(6)}))
	s.forgets()
	beat = newcomer.heartbeat(6)
	beat.RosterVersion = 81
	s.hears(beat)
	s.forgets()
	s.is(Follow)
	if s.node.epoch != newcomer.epoch(6) {
		t.Errorf("follows %v", s.node.epoch)
	}
}

// Where nobody of its roster is there any more a host believes no stranger, whoever says
// so of whom: whoever has the key can be as many members. Its status says what it hears.
func TestCase37StrangersVouchForNobody(t *testing.T) {
	s := voterOf(t, 1, Saved{}, 2, 3)
	leader, other := s.stranger(8), s.stranger(9)
	for _, gone := range []int{2, 3} {
		s.happens(MemberChanged{s.actor(gone).member(Dead)})
	}
	s.waits(2 * time.Second)
	s.forgets()
	was := s.disk
	for range 5 {
		beat := leader.heartbeat(6)
		beat.RosterVersion = 81
		s.hears(beat)
		s.expects("ignored not-a-voter")
		s.hears(other.says(wire.Frame{Kind: wire.ProbeAck, Flags: wire.Fresh, Standing: wire.Following, Epoch: leader.epoch(6)}))
		s.forgets()
		s.hears(leader.told(81, 1, 8, 9))
		s.expects("ignored late-reply")
		s.waits(50 * time.Millisecond)
		s.forgets()
	}
	if !reflect.DeepEqual(s.disk, was) || s.node.leaderKnown {
		t.Errorf("on disk is %+v, was %+v; follows %v", s.disk, was, s.node.epoch)
	}
	if !s.node.Status().Outdated {
		t.Error("its status does not say that a newer roster is heard")
	}
	s.waits(2 * time.Second)
	s.forgets()
	if s.node.Status().Outdated {
		t.Error("its status still says so when nothing is heard any more")
	}
	s.happens(MemberChanged{s.actor(2).member(Alive)}) // one comes back
	s.forgets()
	beat := leader.heartbeat(6)
	beat.RosterVersion = 81
	s.hears(beat)
	s.forgets()
	s.hears(s.actor(2).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Flags: wire.Fresh, Standing: wire.Following, Epoch: leader.epoch(6)}))
	s.forgets()
	beat = leader.heartbeat(6)
	beat.RosterVersion = 81
	s.hears(beat)
	s.forgets()
	if s.is(Follow); s.node.Status().Outdated {
		t.Error("its status says so under a leader that is confirmed")
	}
}

// A member's counter more than 2^20 above what a node knows is not taken, nor is it by
// a node that knows nothing yet: one frame uses up no counters.
func TestCase38AFarEpochIsNotTaken(t *testing.T) {
	s := storyOf(t, 1, Config{}, 2, 3)
	s.hears(s.actor(2).heartbeat(maxJump + 1))
	s.expects("ignored counter-jump")
	s.happens(LeaderReported{s.actor(2).epoch(maxJump + 1)})
	s.expects("ignored counter-jump")
	s.hears(s.actor(3).heartbeat(5)) // whoever has a leader has said so by now
	s.expects("start → follow leader=n3")
	for range 10 {
		s.waits(100 * time.Millisecond)
		s.forgets()
		s.hears(s.actor(3).heartbeat(5))
		s.hears(s.actor(2).heartbeat(5 + maxJump + 1))
		s.expects("ignored counter-jump")
	}
	if s.disk.MaxCounter != 5 {
		t.Errorf("counter %d on disk", s.disk.MaxCounter)
	}
}

// One frame may take a running node's counter half as far as a member that goes on
// saying so can: then the others believe what that node was made to believe.
func TestCase38AFarEpochTakesTime(t *testing.T) {
	s := storyOf(t, 1, Config{}, 2, 3)
	s.follows(3, 5)
	beats := func(d time.Duration) {
		for ; d > 0; d -= 50 * time.Millisecond {
			s.waits(50 * time.Millisecond)
			s.forgets()
			s.hears(s.actor(3).heartbeat(5))
			s.forgets()
		}
	}
	beats(jumpPause)
	s.hears(s.actor(2).heartbeat(5 + onceJump + 1))
	s.expects("ignored counter-jump")
	beats(jumpAsFrom)
	s.hears(s.actor(2).heartbeat(5 + onceJump + 2))
	s.expects("follow → follow leader=n2")
	s.hears(s.actor(3).heartbeat(5 + 2*onceJump + 3)) // and not again at once
	s.expects("ignored counter-jump")
	s.hears(s.actor(3).heartbeat(5 + onceJump + 3))
	s.expects("follow → follow leader=n3")
}

// Nor is a node that leads alone, and so knows no cluster, taken further by one frame than
// the others follow it: else each refused the other for ever (sim, seed 5219).
func TestCase38WhoLeadsAloneIsTakenNoFurther(t *testing.T) {
	s := storyOf(t, 3, Config{MinAcks: 1}, 1, 2)
	s.node.saved.MaxCounter = 36
	s.hears(s.actor(2).heartbeat(36 + onceJump + 1))
	s.expects("ignored counter-jump")
	s.hears(s.actor(2).heartbeat(36 + onceJump))
	s.expects("start → follow leader=n2")
	s.node.epoch = wire.Epoch{} // it leads alone again
	s.hears(s.actor(2).heartbeat(36 + 2*onceJump))
	s.expects("ignored counter-jump")
}

// A host that begins anew joins a cluster that is far on: a second member says so too,
// or the first goes on saying so.
func TestCase38ANewHostJoinsAFarCluster(t *testing.T) {
	for name, confirm := range map[string]func(*story){
		"two say so": func(s *story) {
			s.hears(s.actor(2).says(wire.Frame{Kind: wire.Cid, Epoch: s.actor(3).epoch(1 << 40)}))
		},
		"one goes on": func(s *story) {
			s.waits(farPatience)
			s.forgets()
			s.hears(s.actor(3).heartbeat(1 << 40))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := storyOf(t, 1, Config{}, 2, 3)
			s.hears(s.actor(3).heartbeat(1 << 40))
			s.expects("ignored counter-jump")
			confirm(s)
			s.forgets()
			s.hears(s.actor(3).heartbeat(1 << 40))
			s.expects("start → follow leader=n3")
		})
	}
}

// Who has led or followed once, alone or in a life before, is taken no further than one that
// runs among others: two members who say so, or one that goes on, may be one forger.
func TestCase38WhoEverBelongedIsTakenNoFurther(t *testing.T) {
	for name, belonged := range map[string]func(*testing.T) *story{
		"in a life before": func(t *testing.T) *story {
			return voterOf(t, 1, Saved{MaxCounter: 5, Accepted: wire.Epoch{Counter: 5, Owner: hostID(3)}}, 2, 3)
		},
		"alone": func(t *testing.T) *story {
			s := storyOf(t, 3, Config{}, 2)
			s.happens(MemberChanged{s.actor(2).member(Dead)})
			s.forgets()
			s.waits(5 * time.Second)
			s.forgets()
			s.is(Lead)
			s.happens(MemberChanged{s.actor(2).member(Alive)})
			s.forgets()
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := belonged(t)
			for range 10 {
				s.hears(s.actor(2).heartbeat(1 << 40))
				s.forgets()
				s.hears(s.actor(2).says(wire.Frame{Kind: wire.Query, Epoch: s.actor(2).epoch(1 << 40)}))
				s.forgets()
				s.waits(farPatience)
				s.forgets()
			}
			if s.disk.MaxCounter > 1<<20 {
				t.Errorf("counter %d on disk", s.disk.MaxCounter)
			}
		})
	}
}

// Ids cost nothing: however many new hosts say so, they bring a counter no further in a minute than one host does at once. Whoever has
// a place of its own is believed as ever, and a node that has met nobody before believes the first.
func TestCase38ManyNewHostsTakeNobodyFar(t *testing.T) {
	s := storyOf(t, 1, Config{}, 2, 3)
	s.follows(3, 5)
	news := func(number int, counter uint64) {
		s.happens(Received{From: (&host{number: number}).addr(), Frame: s.actor(number).heartbeat(counter), IsNew: true})
		s.forgets()
	}
	for number := 10; number < 100; number++ {
		s.stranger(number)
		news(number, s.disk.MaxCounter+100)
		news(number, s.disk.MaxCounter+maxJump)
	}
	if got := s.disk.MaxCounter; got > 5+smallJump {
		t.Errorf("counter %d on disk", got)
	}
	s.hears(s.actor(2).heartbeat(5 + onceJump))
	s.expects("follow → follow leader=n2")
	s.happens(LeaderReported{s.actor(3).epoch(5 + onceJump + smallJump + 1)})
	s.expects("ignored counter-jump")

	fresh := storyOf(t, 1, Config{}, 2, 3)
	fresh.happens(Received{From: (&host{number: 2}).addr(), Frame: fresh.actor(2).heartbeat(onceJump), IsNew: true})
	fresh.expects("start → follow leader=n2")
}

// Two clusters that have run apart for long and never met come together. Each leader takes the other's counter for a thief's until the
// other is no new host any more, ten minutes later. Until then both lead. Then the lower one gives way.
func TestCase38PartsThatNeverMetLeadBothAtFirst(t *testing.T) {
	s := storyOf(t, 3, Config{}, 1)
	s.leads(1)
	s.stranger(2)
	far := func() wire.Frame { return s.actor(2).heartbeat(2000) }
	for range 100 {
		s.happens(Received{From: (&host{number: 2}).addr(), Frame: far(), IsNew: true})
		s.expects("ignored counter-jump")
	}
	s.is(Lead)
	s.hears(far())
	s.expectsSome("lead → stopping cause=superseded")
	s.forgets()
}

// However many epochs somebody announces, few are written down.
func TestCase51AFloodOfEpochsIsNotWrittenDown(t *testing.T) {
	for name, says := range map[string]func(*actor, uint64) wire.Frame{
		"heartbeats": (*actor).heartbeat,
		"claims":     (*actor).claims,
		"told": func(a *actor, counter uint64) wire.Frame {
			return a.says(wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Flags: wire.Fresh, Epoch: a.epoch(counter)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := voterOf(t, 1, Saved{}, 2, 3)
			s.follows(3, 5)
			writes := 0
			for i := range uint64(10_000) { // in one second
				s.now = s.now.Add(100 * time.Microsecond)
				for _, e := range s.node.Step(s.now, Received{From: (&host{number: 2}).addr(), Frame: says(s.actor(2), 10+i)}) {
					if save, is := e.(Save); is {
						writes++
						s.disk = save.State
					}
				}
			}
			if writes > 2*(writesAtOnce+10) {
				t.Errorf("%d writes", writes)
			}
			s.hears(s.actor(2).heartbeat(20_000))
			s.forgets()
		})
	}
}

// Values that no member can mean keep nobody waiting.
func TestCase38ValuesAreBounded(t *testing.T) {
	s := storyOf(t, 1, Config{}, 2, 3)
	f := s.actor(3).heartbeat(5)
	f.Interval = 1<<32 - 1
	s.hears(f)
	s.forgets()
	if got := s.node.suspectTimeout(); got > 6*s.node.cfg.Heartbeat {
		t.Errorf("doubts its leader after %v", got)
	}
	s.waits(5 * time.Second)
	s.forgets()
	if s.node.leaderKnown {
		t.Error("a leader that has been silent for five seconds")
	}
	for ms, want := range map[uint32]time.Duration{0: 0, 400: 400 * time.Millisecond, 1<<32 - 1: s.node.longestWait()} {
		if got := s.node.waitOf(ms); got != want {
			t.Errorf("%d ms: waits %v, want %v", ms, got, want)
		}
	}
}

// Who is told to wait, waits no longer than anybody can have to.
func TestCase38NobodyWaitsForEver(t *testing.T) {
	s := storyOf(t, 1, Config{}, 2, 3)
	s.waits(2 * time.Second)
	s.forgets()
	for range 100 {
		if s.node.state == Elect {
			break
		}
		s.waits(10 * time.Millisecond)
		s.forgets()
	}
	s.hears(s.actor(3).replies(wire.Election, wire.Frame{Kind: wire.Answer, Verdict: wire.OK, ETA: 1<<32 - 1}))
	s.forgets()
	s.is(Wait)
	if wait := s.node.Deadline().Sub(s.now); wait > s.node.longestWait()+time.Second {
		t.Errorf("waits %v", wait)
	}
}

// lastSent is the latest frame of the kind that was sent to anybody in this step.
func (s *story) lastSent(k wire.Kind) *Send {
	for i := len(s.sent) - 1; i >= 0; i-- {
		if s.sent[i].Frame.Kind == k {
			return &s.sent[i]
		}
	}
	return nil
}
