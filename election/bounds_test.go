package election

import (
	"reflect"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// The tests of this file are about frames that a member did not write, or should not
// have. They bear the number of their case in the table of docs/security.md.

// answersBack is the member's answer to the latest question that it was asked.
func (a *actor) answersBack(standing wire.Standing, flags wire.Flags, e wire.Epoch) wire.Frame {
	a.s.t.Helper()
	return a.replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Standing: standing, Flags: flags, Epoch: e})
}

// A number far ahead, in the leader's name, makes nothing of what the leader sends a
// duplicate: it cannot have come so far.
func TestCase9AFarNumberIsNoNumber(t *testing.T) {
	s := storyOf(t, 1, Config{}, 2, 3)
	s.follows(3, 5)
	forged := s.actor(3).says(wire.Frame{Kind: wire.ResignAck})
	forged.Seq += 1<<31 - 100
	s.hearsFrom(9, forged)
	s.expects("ignored duplicate", "send n3 PROBE purpose=identity")
	for range 40 {
		s.waits(50 * time.Millisecond)
		s.forgets()
		s.hears(s.actor(3).heartbeat(5))
		s.is(Follow)
	}
	s.expects()
}

// Nor does a forger that goes as far as it can, again and again: the leader is asked
// where it is, and taken up there.
func TestCase9AShutWindowOpensForItsSender(t *testing.T) {
	s := storyOf(t, 1, Config{}, 2, 3)
	s.follows(3, 5)
	leader := s.actor(3)
	for range 40 {
		forged := leader.says(wire.Frame{Kind: wire.ResignAck})
		leader.seq--
		forged.Seq += jumpAtOnce - 100
		s.hearsFrom(3, forged)
		s.forgets()
		s.waits(50 * time.Millisecond)
		s.forgets()
		s.hears(leader.heartbeat(5))
		s.expects("ignored duplicate", "send n3 PROBE purpose=identity")
		s.hears(leader.answersBack(wire.Leading, wire.Active, leader.epoch(5)))
		s.expects("ignored window-restarted", "ignored denied-by-its-sender")
		s.hears(leader.heartbeat(5))
		s.expects()
		s.is(Follow)
	}
}

// What was sent before a window began anew does not come in a second time by that, nor
// what has overtaken the answer.
func TestCase9AnOldFrameStaysOld(t *testing.T) {
	s := storyOf(t, 1, Config{}, 2, 3)
	s.follows(3, 5)
	leader := s.actor(3)
	old := leader.heartbeat(5)
	s.hears(old)
	forged := leader.says(wire.Frame{Kind: wire.ResignAck})
	forged.Seq += 1000
	s.hears(forged)
	s.forgets()
	held := leader.heartbeat(5)
	s.waits(50 * time.Millisecond)
	s.forgets()
	s.hears(leader.heartbeat(5))
	s.forgets()
	s.hears(leader.answersBack(wire.Leading, wire.Active, leader.epoch(5)))
	s.forgets()
	for _, f := range []wire.Frame{old, held, forged} {
		s.waits(60 * time.Millisecond)
		s.forgets()
		s.hears(leader.heartbeat(5))
		s.hears(f)
		if f.Seq == forged.Seq {
			s.forgets() // in its own time that is a number like any other
			continue
		}
		s.expectsSome("ignored duplicate")
	}
}

// The successor's announcement came under a number that it could not have reached: a frame
// for whoever was at this address before had set the window. Its answer says that it leads,
// and nobody stands beside it until its next heartbeat.
func TestCase9TheAnswerSaysWhoLeads(t *testing.T) {
	s := storyOf(t, 4, Config{MinAcks: 1}, 2, 3)
	s.follows(3, 5)
	s.hears(s.actor(2).says(wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Epoch: s.actor(3).epoch(5)}))
	s.hears(s.actor(3).says(wire.Frame{Kind: wire.Resign, Flags: wire.AckReq, Epoch: s.actor(3).epoch(5), Reason: wire.Transfer, Successor: hostID(2)}))
	s.expects("send n3 RESIGN_ACK", "follow → stagger cause=leader-resigned")
	s.actor(2).seq += seriesGap
	s.hears(s.actor(2).coordinator(6))
	s.expects("ignored duplicate", "send n2 PROBE purpose=identity")
	s.hears(s.actor(2).answersBack(wire.Leading, wire.Active|wire.Fresh, s.actor(2).epoch(6)))
	s.expects("ignored window-restarted", "ignored denied-by-its-sender", "stagger → follow leader=n2 cause=told-of-leader")
	s.waits(50 * time.Millisecond)
	s.expects()
	s.hears(s.actor(2).heartbeat(6))
	s.expects()
}

// Whoever is asked back answers, and that says nothing of who leads: what voters have said
// meanwhile holds, or a forger would have them asked for ever.
func TestCase9TheAnswerForgetsNoVoter(t *testing.T) {
	s := voterWith(t, 5, Config{Forgeable: true}, Saved{}, 1, 2, 3, 4)
	s.hearsAndForgets(s.actor(2).says(wire.Frame{Kind: wire.HeartAck}))
	s.canvassed()
	s.hears(s.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
	slow := s.actor(3).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes})
	forged := s.actor(2).says(wire.Frame{Kind: wire.HeartAck})
	forged.Seq += 1 << 30
	s.hearsFrom(9, forged)
	s.expects("ignored duplicate", "send n2 PROBE purpose=identity")
	s.hears(s.actor(2).answersBack(wire.Candidate, 0, wire.Epoch{}))
	s.expects("ignored denied-by-its-sender")
	s.hears(slow)
	s.forgets()
	s.is(Claiming)
}

// An answer to no question, or to another, opens nothing.
func TestCase9OnlyTheAnswerOpensTheWindow(t *testing.T) {
	s := storyOf(t, 1, Config{}, 2, 3)
	s.follows(3, 5)
	leader := s.actor(3)
	forged := leader.says(wire.Frame{Kind: wire.ResignAck})
	forged.Seq += 1000
	s.hears(forged)
	s.forgets()
	s.waits(50 * time.Millisecond)
	s.forgets()
	s.hears(leader.heartbeat(5))
	s.forgets()
	right := leader.answersBack(wire.Leading, wire.Active, leader.epoch(5))
	for _, spoil := range []func(*wire.Frame){
		func(f *wire.Frame) { f.EchoSeq++ },
		func(f *wire.Frame) { f.Round++ },
		func(f *wire.Frame) { f.Kind = wire.Cid },
	} {
		f := right
		spoil(&f)
		s.hears(f)
		s.expects("ignored duplicate")
	}
	s.hears(right)
	s.expects("ignored window-restarted", "ignored denied-by-its-sender")
}

// Two whose windows are both shut find each other again: a question is answered
// whatever its number.
func TestCase9AQuestionIsAnsweredWhateverItsNumber(t *testing.T) {
	s := storyOf(t, 1, Config{}, 2, 3)
	s.follows(3, 5)
	leader := s.actor(3)
	forged := leader.says(wire.Frame{Kind: wire.ResignAck})
	forged.Seq += 1000
	s.hears(forged)
	s.forgets()
	s.waits(50 * time.Millisecond)
	s.forgets()
	question := leader.says(wire.Frame{Kind: wire.Probe, Flags: wire.AckReq, Purpose: wire.AskIdentity, Round: 9})
	s.hears(question)
	s.expects("ignored duplicate", "send n3 PROBE_ACK round=9 standing=following flags=fresh", "send n3 PROBE purpose=identity")
	s.hears(question) // once in a while, or it could be made to send without end
	s.expects("ignored duplicate")
}

// A forger that uses up the very next numbers is found out by the row of them.
func TestCase9UsedNumbersAreNoticed(t *testing.T) {
	s := storyOf(t, 1, Config{}, 2, 3)
	s.follows(3, 5)
	leader := s.actor(3)
	was := leader.seq
	for range 20 {
		s.hears(leader.says(wire.Frame{Kind: wire.ResignAck}))
		s.forgets()
	}
	leader.seq = was
	for range rowRefused {
		s.forgets()
		s.waits(20 * time.Millisecond)
		s.forgets()
		s.hears(leader.heartbeat(5))
	}
	s.expects("ignored duplicate", "send n3 PROBE purpose=identity")
	s.hears(leader.answersBack(wire.Leading, wire.Active, leader.epoch(5)))
	s.forgets()
	s.hears(leader.heartbeat(5))
	s.is(Follow)
	s.expects()
}

// forgeable is a story on a network where nothing proves whose a frame is.
func forgeable(t *testing.T, self int, others ...int) *story {
	t.Helper()
	return storyOf(t, self, Config{Forgeable: true}, others...)
}

// RESIGN in the leader's name: the leader, asked, still leads.
func TestCase10AForgedResignInQuorumMode(t *testing.T) {
	s := voterWith(t, 2, Config{Forgeable: true}, Saved{}, 1, 3)
	s.follows(3, 5)
	leader := s.actor(3)
	for _, reason := range []wire.Reason{wire.Transfer, wire.Abandoned} {
		forged := leader.says(wire.Frame{Kind: wire.Resign, Flags: wire.AckReq, Epoch: leader.epoch(5), Reason: reason, Successor: hostID(2)})
		s.hearsFrom(9, forged)
		s.forgets()
		if s.node.promise.Epoch != leader.epoch(5) || s.node.state != Follow {
			t.Fatalf("%v: %s, promised to %v", reason, s.node.state, s.node.promise.Epoch)
		}
		s.hears(leader.answersBack(wire.Leading, wire.Active, leader.epoch(5)))
		s.expects("ignored denied-by-its-sender")
		s.hears(leader.heartbeat(5))
		s.is(Follow)
		s.expects()
	}
}

// Nor does a leader that cannot answer lose its voters: it may be cut off, and lead.
func TestCase10ASilentLeaderHasNotResigned(t *testing.T) {
	s := voterWith(t, 2, Config{Forgeable: true}, Saved{}, 1, 3)
	s.follows(3, 5)
	forged := s.actor(3).says(wire.Frame{Kind: wire.Resign, Flags: wire.AckReq, Epoch: s.actor(3).epoch(5), Reason: wire.Transfer, Successor: hostID(2)})
	s.hearsFrom(9, forged)
	s.forgets()
	s.waits(150 * time.Millisecond)
	s.forgets()
	if s.node.promise.Epoch != s.actor(3).epoch(5) {
		t.Fatalf("promised to %v", s.node.promise.Epoch)
	}
}

// Who has resigned says so when it is asked, and its successor claims.
func TestCase10ATrueResignIsBelieved(t *testing.T) {
	s := voterWith(t, 2, Config{Forgeable: true}, Saved{}, 1, 3)
	s.follows(3, 5)
	leader := s.actor(3)
	s.hears(leader.says(wire.Frame{Kind: wire.Resign, Flags: wire.AckReq, Epoch: leader.epoch(5), Reason: wire.Transfer, Successor: hostID(2)}))
	s.expects("send n3 RESIGN_ACK", "send n3 PROBE purpose=identity")
	s.hears(leader.answersBack(wire.Candidate, 0, leader.epoch(5)))
	s.forgets()
	s.is(Claiming)
}

// A claimant that still claims has not withdrawn.
func TestCase10AForgedWithdrawal(t *testing.T) {
	s := voterWith(t, 1, Config{Forgeable: true}, Saved{}, 2, 3)
	s.waits(2 * time.Second)
	s.forgets()
	claimant := s.actor(3)
	s.hears(claimant.says(wire.Frame{Kind: wire.Coordinator, Flags: wire.AckReq, Phase: wire.Claim, Epoch: claimant.epoch(5), Lease: 400, RosterVersion: 1}))
	s.forgets()
	s.hearsFrom(9, claimant.says(wire.Frame{Kind: wire.Resign, Epoch: claimant.epoch(5), Reason: wire.Abandoned}))
	s.forgets()
	s.hears(claimant.answersBack(wire.Candidate, wire.Active, claimant.epoch(5)))
	s.expects("ignored denied-by-its-sender")
	if s.node.promise.Epoch != claimant.epoch(5) {
		t.Errorf("promised to %v", s.node.promise.Epoch)
	}
}

// LEAVE in the leader's name: the leader is there.
func TestCase11AForgedLeave(t *testing.T) {
	s := forgeable(t, 1, 2, 3)
	s.follows(3, 5)
	leader := s.actor(3)
	s.hearsFrom(9, leader.says(wire.Frame{Kind: wire.Leave}))
	s.expects("ignored address-mismatch", "send n3 PROBE purpose=identity")
	s.hears(leader.answersBack(wire.Leading, wire.Active, leader.epoch(5)))
	s.expects("ignored denied-by-its-sender")
	s.hears(leader.heartbeat(5))
	s.is(Follow)
	s.expects()
}

// One question that is lost on its way ends nobody: it is asked a second time, and the
// answer to either counts. A third time it is not asked.
func TestCase11ALostQuestionIsAskedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		end      func(a *actor) wire.Frame
		isSecond bool // question that is answered
	}{
		"LEAVE":                            {func(a *actor) wire.Frame { return a.says(wire.Frame{Kind: wire.Leave}) }, true},
		"LEAVE, and the answer comes late": {func(a *actor) wire.Frame { return a.says(wire.Frame{Kind: wire.Leave}) }, false},
		"a new life": {func(a *actor) wire.Frame {
			f := a.says(wire.Frame{Kind: wire.Query})
			f.Nonce, f.Incarnation = 77, f.Incarnation+1
			return f
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := forgeable(t, 1, 2, 3)
			s.follows(3, 5)
			leader := s.actor(3)
			s.hears(tc.end(leader))
			s.expects("send n3 PROBE purpose=identity")
			late := leader.answersBack(wire.Leading, wire.Active, leader.epoch(5))
			s.waits(10 * time.Millisecond)
			s.expects("send n3 PROBE purpose=identity flags=ack-req,retx")
			if tc.isSecond {
				late = leader.answersBack(wire.Leading, wire.Active, leader.epoch(5))
			}
			s.hears(late)
			s.expects("ignored denied-by-its-sender")
			s.waits(50 * time.Millisecond)
			s.is(Follow)
		})
	}
	s := forgeable(t, 1, 2, 3)
	s.follows(3, 5)
	s.hears(s.actor(2).says(wire.Frame{Kind: wire.Leave}))
	s.forgets()
	s.waits(10 * time.Millisecond)
	s.forgets()
	s.waits(10 * time.Millisecond)
	s.expects("departed n2 life=1")
}

// Who has left does not answer any more, or says that it takes no part.
func TestCase11ATrueLeaveIsBelieved(t *testing.T) {
	for name, leaves := range map[string]func(*story){
		"and is gone": func(s *story) {
			s.waits(10 * time.Millisecond)
			s.expects("send n2 PROBE purpose=identity flags=ack-req,retx")
			s.waits(10 * time.Millisecond)
		},
		"and still says": func(s *story) { s.hears(s.actor(2).answersBack(wire.Observing, 0, s.actor(3).epoch(5))) },
	} {
		t.Run(name, func(t *testing.T) {
			s := forgeable(t, 1, 2, 3)
			s.follows(3, 5)
			s.hears(s.actor(2).says(wire.Frame{Kind: wire.Leave}))
			s.expects("send n2 PROBE purpose=identity")
			leaves(s)
			s.expects("departed n2 life=1")
		})
	}
}

// isAskedIn waits until the host is asked who it is.
func (s *story) isAskedIn(number int, d time.Duration) {
	s.t.Helper()
	s.sent = nil
	for end := s.now.Add(d); s.now.Before(end); {
		s.waits(5 * time.Millisecond)
		s.forgets()
		for _, sent := range s.sent {
			if sent.Frame.Kind == wire.Probe && sent.Frame.Purpose == wire.AskIdentity && sent.To == (&host{number: number}).addr() {
				return
			}
		}
	}
	s.t.Fatalf("n%d is not asked", number)
}

// Who was cut off when it was said to leave, and believes the same of us, is asked again
// and again while memberlist sees it: neither said anything to the other for ever (sim,
// seed 8000004341).
func TestCase11WhoIsMissedIsAskedAgain(t *testing.T) {
	for _, standing := range []wire.Standing{wire.Following, wire.Observing} {
		s := forgeable(t, 1, 2, 3)
		s.follows(3, 5)
		s.hearsFrom(9, s.actor(2).says(wire.Frame{Kind: wire.Leave}))
		s.forgets()
		for range 2 { // the first question is lost
			s.waits(time.Second)
			if got := s.node.peer(hostID(2)).Status; got != Left {
				t.Fatalf("it is %v", got)
			}
			s.forgets()
			s.hears(s.actor(3).heartbeat(5))
			s.forgets()
			s.isAskedIn(2, 6*time.Second)
		}
		s.hears(s.actor(2).answersBack(standing, 0, s.actor(3).epoch(5)))
		s.expects("ignored denied-by-its-sender")
		if got := s.node.peer(hostID(2)).Status; got != Alive {
			t.Errorf("%v: it is %v", standing, got)
		}
	}
}

// Its question is answered, though it counts as gone here, too.
func TestCase11WhoIsMissedIsAnswered(t *testing.T) {
	s := forgeable(t, 1, 2, 3)
	s.follows(3, 5)
	s.hearsFrom(9, s.actor(2).says(wire.Frame{Kind: wire.Leave}))
	s.forgets()
	s.waits(60 * time.Millisecond)
	s.forgets()
	s.hears(s.actor(2).says(wire.Frame{Kind: wire.Probe, Flags: wire.AckReq, Purpose: wire.AskIdentity, Round: 9}))
	s.expects("ignored unknown-sender", "send n2 PROBE_ACK round=9 standing=following flags=fresh", "send n2 PROBE purpose=identity")
}

// Nobody asks for who has gone by memberlist's word.
func TestCase11WhoHasLeftIsNotMissed(t *testing.T) {
	s := forgeable(t, 1, 2, 3)
	s.follows(3, 5)
	s.hears(s.actor(2).says(wire.Frame{Kind: wire.Leave}))
	s.forgets()
	s.waits(20 * time.Millisecond)
	s.forgets()
	s.happens(MemberChanged{s.actor(2).member(Left)})
	s.forgets()
	s.sent = nil
	for range 200 {
		s.waits(50 * time.Millisecond)
		s.hears(s.actor(3).heartbeat(5))
		s.expects()
	}
}

// Whoever was moved to another's address by a life that was forged is asked where
// memberlist saw it, and taken back (sim, seed 1188).
func TestAForgedLifeIsNotForEver(t *testing.T) {
	s := forgeable(t, 1, 2, 3)
	s.waits(time.Second)
	s.forgets()
	moved := s.actor(3)
	old := moved.says(wire.Frame{Kind: wire.HeartAck})
	s.hears(old)
	s.forgets()
	s.waits(time.Second)
	s.forgets()
	forged := moved.says(wire.Frame{Kind: wire.HeartAck})
	forged.Nonce, forged.Incarnation = forged.Nonce+1, forged.Incarnation+1
	s.hearsFrom(2, forged)
	s.forgets()
	s.waits(20 * time.Millisecond) // its answer is lost
	s.forgets()
	if got := s.node.peer(hostID(3)); got.Nonce != forged.Nonce || got.Addr != (&host{number: 2}).addr() {
		t.Fatal("not believed")
	}
	s.isAskedIn(3, 6*time.Second)
	s.hears(moved.answersBack(wire.Candidate, 0, wire.Epoch{}))
	s.forgets()
	if got := s.node.peer(hostID(3)); got.Nonce != moved.nonce || got.Addr != (&host{number: 3}).addr() || got.unseen {
		t.Errorf("it is %+v", got.Member)
	}
	s.hears(moved.says(wire.Frame{Kind: wire.HeartAck})) // and its numbers are known
	s.expects("ignored late-ack")
	s.hears(old)
	s.expects("ignored duplicate")
}

// What it had sent stays old also where memberlist brings it back (sim, seed 1549).
func TestAForgedLifeMakesNothingNew(t *testing.T) {
	s := forgeable(t, 1, 2, 3)
	moved := s.actor(3)
	old := moved.says(wire.Frame{Kind: wire.HeartAck})
	s.hears(old)
	s.forgets()
	for range 2 {
		s.waits(time.Second)
		s.forgets()
		forged := moved.says(wire.Frame{Kind: wire.HeartAck})
		forged.Nonce, forged.Incarnation = forged.Nonce+1, forged.Incarnation+1
		s.hearsFrom(2, forged)
		s.forgets()
		s.waits(20 * time.Millisecond)
		s.forgets()
		if got := s.node.peer(hostID(3)).Nonce; got != forged.Nonce {
			t.Fatal("not believed")
		}
		s.waits(time.Second)
		s.forgets()
		s.happens(MemberChanged{moved.member(Dead)})
		s.forgets()
		s.happens(MemberChanged{moved.member(Alive)})
		s.forgets()
		s.hears(old)
		s.expects("ignored duplicate")
	}
}

// Nor of a life that frames alone told of, when the failure detector has seen it: its
// numbers went with it, so it says itself where it is. The frame of a dead member's next life is all
// that a forger needs.
func TestAForgedLifeMakesNothingNewOfAnUnseenOne(t *testing.T) {
	s := forgeable(t, 1, 2, 3)
	s.happens(MemberChanged{s.actor(3).member(Dead)})
	moved := s.actor(3)
	moved.incarnation, moved.nonce = 2, 3333
	old := moved.says(wire.Frame{Kind: wire.Probe, Flags: wire.AckReq, Purpose: wire.AskOpinion, Round: 8})
	s.hears(old)
	s.expectsSome("send n3 PROBE_ACK round=8")
	s.waits(time.Second)
	s.forgets()
	forged := moved.says(wire.Frame{Kind: wire.HeartAck})
	forged.Nonce, forged.Incarnation = forged.Nonce+1, forged.Incarnation+1
	s.hears(forged)
	s.forgets()
	if got := s.node.peer(hostID(3)).Nonce; got != forged.Nonce {
		t.Fatal("not believed")
	}
	s.waits(time.Second)
	s.forgets()
	s.happens(MemberChanged{moved.member(Alive)})
	s.forgets()
	s.hears(old)
	s.expects("ignored duplicate", "send n3 PROBE purpose=identity")
	s.hears(moved.answersBack(wire.Candidate, 0, wire.Epoch{}))
	s.expects("ignored window-restarted", "ignored denied-by-its-sender")
	s.hears(old)
	s.expects("ignored duplicate")
	s.hears(moved.says(wire.Frame{Kind: wire.Probe, Flags: wire.AckReq, Purpose: wire.AskOpinion, Round: 9}))
	s.expects("send n3 PROBE_ACK round=9")
}

// The detector's late word of a life that has ended makes nothing new of the next one.
func TestALateWordMakesNothingNew(t *testing.T) {
	s := forgeable(t, 1, 2, 3)
	late := s.actor(3).member(Alive)
	s.happens(MemberChanged{s.actor(3).member(Dead)})
	moved := s.actor(3)
	moved.incarnation, moved.nonce = 2, 3333
	old := moved.says(wire.Frame{Kind: wire.Probe, Flags: wire.AckReq, Purpose: wire.AskOpinion, Round: 8})
	s.hears(old)
	s.forgets()
	s.happens(MemberChanged{late})
	s.forgets()
	s.waits(time.Second)
	s.forgets()
	s.hears(old)
	s.expects("send n3 PROBE purpose=identity")
	s.hears(moved.answersBack(wire.Candidate, 0, wire.Epoch{}))
	s.expects("ignored duplicate")
	if got := s.node.peer(hostID(3)).Nonce; got != moved.nonce {
		t.Error("not believed")
	}
}

// A new life of a member that lives moves neither its address nor its leadership.
func TestAForgedLifeMovesNobodyThatLives(t *testing.T) {
	for _, from := range []int{3, 9} {
		s := forgeable(t, 1, 2, 3)
		s.follows(3, 5)
		leader := s.actor(3)
		forged := leader.says(wire.Frame{Kind: wire.Query, Flags: wire.AckReq})
		forged.Nonce, forged.Incarnation = forged.Nonce+1, forged.Incarnation+1
		s.hearsFrom(from, forged)
		if from == 9 { // it was heard a moment ago, elsewhere
			s.expects("ignored id-conflict")
		} else {
			s.expects("send n3 PROBE purpose=identity")
			s.hears(leader.answersBack(wire.Leading, wire.Active, leader.epoch(5)))
			s.expects("ignored denied-by-its-sender")
		}
		s.hears(leader.heartbeat(5))
		s.is(Follow)
		s.expects()
	}
}

// Nor of one that is quiet, as followers are to each other.
func TestAForgedLifeMovesNobodyThatIsQuiet(t *testing.T) {
	s := forgeable(t, 1, 2, 3)
	s.follows(3, 5)
	quiet := s.actor(2)
	forged := quiet.says(wire.Frame{Kind: wire.Query, Flags: wire.AckReq})
	forged.Nonce, forged.Incarnation = forged.Nonce+1, forged.Incarnation+1
	s.hearsFrom(9, forged)
	s.expects("send n2 PROBE purpose=identity")
	s.hears(quiet.answersBack(wire.Following, 0, s.actor(3).epoch(5)))
	s.expects("ignored denied-by-its-sender")
	if got := s.node.peer(hostID(2)).Addr; got != (&host{number: 2}).addr() {
		t.Errorf("its address is %v", got)
	}
}

// A restart is known as soon as the new life answers, or nobody does.
func TestATrueRestartIsBelieved(t *testing.T) {
	for _, answers := range []bool{true, false} {
		s := forgeable(t, 1, 2, 3)
		s.follows(3, 5)
		leader := s.actor(3)
		leader.nonce, leader.incarnation, leader.seq = leader.nonce+1, leader.incarnation+1, 7000
		s.hears(leader.says(wire.Frame{Kind: wire.Leave + 1, Flags: wire.AckReq}))
		s.forgets()
		if answers {
			s.hears(leader.answersBack(wire.Starting, 0, wire.Epoch{}))
		} else {
			s.waits(10 * time.Millisecond)
			s.expects("send n3 PROBE purpose=identity flags=ack-req,retx")
			s.waits(10 * time.Millisecond)
		}
		s.forgets()
		if s.node.leaderKnown || s.node.peer(hostID(3)).Nonce != leader.nonce {
			t.Errorf("answers %t: %s, leader known %t", answers, s.node.state, s.node.leaderKnown)
		}
	}
}

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
	for name, tc := range map[string]struct {
		nonce, version uint32
		why            string
	}{
		"of a life that nobody saw": {77, 81, "ignored roster-of-unseen-life"},
		"of no leader":              {0, 1<<32 - 1, "ignored counter-jump"},
	} {
		t.Run(name, func(t *testing.T) {
			s := voterWith(t, 3, Config{Forgeable: true}, Saved{}, 1, 2)
			voter := s.actor(2)
			s.waits(1990 * time.Millisecond)
			s.forgets()
			if tc.nonce != 0 {
				s.happens(MemberChanged{voter.member(Dead)})
				voter.nonce, voter.incarnation = tc.nonce, voter.incarnation+1
				s.hearsAndForgets(voter.says(wire.Frame{Kind: wire.Query}))
			}
			s.waits(10 * time.Millisecond)
			s.forgets()
			s.hears(voter.tells(wire.Canvass, tc.version, 2, 3))
			s.expects(tc.why)
			s.answersStale(1, 2)
			s.forgets()
			if got := s.disk.Roster.Version; got != 1 {
				t.Errorf("roster %d on disk", got)
			}
		})
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
