package election

import (
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// meetsDeath lets everybody that runs hear that h is dead.
func (w *world) meetsDeath(h *host) {
	for _, other := range w.hosts {
		if other != h {
			w.step(other, MemberChanged{h.member(Dead)})
		}
	}
}

// A leader with a full disk sent the change of the roster all the same when it
// repeated it: the witness wrote down what no leader had, and blocked everybody.
func TestMended19_ForgetWithAFullDisk(t *testing.T) {
	w := newWorld(t, 3, Config{MinAcks: AutoMinAcks, Expect: 3})
	w.lose = 50 * time.Millisecond
	witness, gone, leader := w.host(1), w.host(2), w.host(3)
	witness.part = Witness
	for _, h := range w.hosts {
		w.boot(h)
	}
	w.runFor(6 * time.Second)
	w.kill(gone)
	w.runFor(6 * time.Second)
	w.meetsDeath(gone)
	w.runFor(2 * time.Second)
	leader.diskFull = true
	w.step(leader, Command{Verb: Forget, Force: true, To: gone.id(), Token: 7})
	w.runFor(500 * time.Millisecond)
	if got := witness.disk.Roster.Version; got != 1 {
		t.Fatalf("the witness has roster %d on disk, its leader 1", got)
	}
	w.kill(leader)
	w.runFor(time.Second)
	leader.diskFull, leader.led, leader.disk.Promoted = false, wire.Epoch{}, wire.Epoch{}
	w.boot(leader)
	w.runFor(10 * time.Second)
	if len(w.leaders()) != 1 {
		t.Errorf("two of three voters are there, and nobody leads")
	}
}

// The leader counted itself among those that have a change on disk though its own
// save had failed, and the operator heard that the voter was forgotten.
func TestMended19_ForgetIsDoneWhenItIsOnDisk(t *testing.T) {
	w := newWorld(t, 5, Config{MinAcks: AutoMinAcks, Expect: 5})
	w.lose = 50 * time.Millisecond
	for _, h := range w.hosts {
		w.boot(h)
	}
	w.runFor(6 * time.Second)
	leader := w.leaders()[0]
	w.step(leader, Command{Verb: Forget, Force: true, To: w.host(1).id(), Token: 7})
	w.runFor(time.Second)
	if !strings.Contains(w.trace.String(), "reply ok") {
		t.Fatal("the first voter was not forgotten")
	}
	leader.diskFull = true
	said := w.trace.Len()
	w.step(leader, Command{Verb: Forget, Force: true, To: w.host(2).id(), Token: 8})
	w.runFor(time.Second)
	if got := w.trace.String()[said:]; strings.Contains(got, "reply ok") || !strings.Contains(got, "reply "+ErrLostMeanwhile.Error()) {
		t.Errorf("with nothing on the leader's disk:\n%s", got)
	}
	for _, h := range w.hosts[1:] {
		if got := len(h.disk.Roster.IDs); got != 4 {
			t.Errorf("n%d has %d voters on disk", h.number, got)
		}
	}
}

// Neither a change nor the word that the first roster holds is repeated once a
// save has failed: they may be in memory alone.
func TestMended19_AFailedSaveWithdrawsTheRoster(t *testing.T) {
	t.Run("a change", func(t *testing.T) {
		n := voterOf(t, 4, Saved{}, 1, 2, 3)
		n.leadsVoters(2, 3)
		n.fails = func(s Saved) bool { return s.Roster.Version > 1 }
		n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
		n.expects("lead → stopping cause=disk-failed", "stop hook", "lose hook")
		n.waits(80 * time.Millisecond)
		n.expects()
	})
	t.Run("a change that another's takes the place of", func(t *testing.T) {
		n := voterOf(t, 4, Saved{}, 1, 2, 3)
		n.leadsVoters(2, 3)
		n.happens(Command{Verb: Forget, Force: true, To: hostID(1), Token: 5})
		n.forgets()
		n.hears(n.actor(3).heartbeat(9))
		n.forgets()
		n.is(Stopping)
		n.hears(n.actor(3).roster(wire.Formed, 9*16, 1, 2, 3, 4))
		n.expects("save roster=144/4", "send n3 ROSTER_ACK verdict=accept version=144")
		n.waits(40 * time.Millisecond)
		n.expects()
	})
	t.Run("the first", func(t *testing.T) {
		n := storyOf(t, 3, Config{Expect: 3}, 1, 2)
		n.canvassed()
		n.fails = func(s Saved) bool { return s.Roster.Version > 0 }
		for _, number := range []int{1, 2} {
			n.hears(n.actor(number).replies(wire.Roster, wire.Frame{Kind: wire.RosterAck, AckVerdict: wire.Accept, RosterVersion: 1}))
		}
		n.expects("elect → observe cause=disk-failed")
		n.waits(80 * time.Millisecond)
		n.expects()
	})
}

// A voter that has granted a higher epoch: whoever was granted it may lead without
// the change, so the voter's word must not complete that.
func TestMended19_NoWordForALeaderThatWasVotedOut(t *testing.T) {
	one, two := wire.Epoch{Counter: 1, Owner: hostID(3)}, wire.Epoch{Counter: 2, Owner: hostID(2)}
	n := voterOf(t, 1, Saved{MaxCounter: 2, Accepted: one, Vote: two}, 2, 3)
	n.happens(LeaderReported{n.actor(3).epoch(1)})
	n.expects()
	n.hears(n.actor(3).roster(wire.Formed, 16, 1, 2, 3))
	n.expects("send n3 ROSTER_ACK verdict=not-voter version=1")
}

// The same voter has been told of the change by another: it has it on its disk, but
// wrote it down only after it had granted a higher epoch.
func TestMended19_NoWordForWhatItWasTold(t *testing.T) {
	one, two := wire.Epoch{Counter: 1, Owner: hostID(3)}, wire.Epoch{Counter: 2, Owner: hostID(2)}
	n := voterOf(t, 4, Saved{MaxCounter: 2, Accepted: one, Vote: two}, 1, 2, 3)
	n.canvassed()
	n.isTold(1, 17, 2, 3, 4)
	n.answersStale(1, 2, 3)
	n.expectsSome("save roster=17/3")
	n.forgets()
	change := n.actor(3).roster(wire.Formed, 17, 2, 3, 4)
	change.Epoch = one
	n.hears(change)
	n.expects("send n3 ROSTER_ACK verdict=not-voter version=17")
}

// Nor for one that it takes for its leader again because another hears that.
func TestMended19_NoWordForALeaderOnceMore(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.follows(3, 1)
	n.waits(500 * time.Millisecond)
	n.forgets()
	n.hearsAndForgets(n.actor(2).claims(2))
	n.node.becomeElecting(BetterSilent)
	n.hearsAndForgets(n.actor(2).replies(wire.Election, wire.Frame{Kind: wire.Answer, Verdict: wire.LeaderAlive, Epoch: n.actor(3).epoch(1)}))
	n.is(Follow)
	n.hears(n.actor(3).roster(wire.Formed, 16, 1, 2, 3))
	n.expects("send n3 ROSTER_ACK verdict=not-voter version=1")
}

// told is a's word that there is a newer roster, which nobody has asked it for.
func (a *actor) told(version uint32, ids ...int) wire.Frame {
	f := a.roster(wire.Formed, version, ids...)
	f.Flags, f.Epoch = 0, wire.Epoch{}
	return f
}

// tells is the same as its answer to the latest request of that kind.
func (a *actor) tells(question wire.Kind, version uint32, ids ...int) wire.Frame {
	return a.replies(question, a.told(version, ids...))
}

// isTold lets a voter that was asked tell of a newer roster, which the node keeps in mind.
func (s *story) isTold(number int, version uint32, ids ...int) {
	s.t.Helper()
	s.hears(s.actor(number).tells(wire.Canvass, version, ids...))
	s.expects()
}

// answersStale ends the question: the node's roster is old, these voters say.
func (s *story) answersStale(numbers ...int) {
	s.t.Helper()
	for _, number := range numbers {
		s.hears(s.actor(number).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Stale}))
	}
}

// The leader's host was lost between two sends of a change: the witness alone had
// it, granted nobody with an older roster, and told nobody what it knew.
func TestMended20_OnlyTheWitnessKnows(t *testing.T) {
	w := newWorld(t, 4, Config{MinAcks: AutoMinAcks, Expect: 4})
	w.host(1).part = Witness
	for _, h := range w.hosts {
		w.boot(h)
	}
	w.runFor(6 * time.Second)
	leader := w.leaders()[0]
	for _, h := range w.hosts[1:3] {
		w.holds = append(w.holds, hold{wire.Roster, leader.number, h.number})
	}
	w.step(leader, Command{Verb: Forget, Force: true, To: w.host(2).id(), Token: 7}) // first it confirms the roster as it is
	w.runFor(2 * time.Millisecond)
	w.kill(leader)
	if w.host(1).disk.Roster.Version != 16 || w.host(2).disk.Roster.Version != 1 || w.host(3).disk.Roster.Version != 1 {
		t.Fatal("not the witness alone has the newer roster")
	}
	w.runFor(10 * time.Second)
	if len(w.leaders()) != 1 {
		t.Error("three of four voters are there, and nobody leads")
	}
}

// A voter that is asked by one with an older roster says so, and sends its own.
func TestMended20_StaleBringsTheRoster(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	question := n.actor(3).canvasses()
	n.node.saved.Roster.Version = 17
	n.hears(question)
	n.expects("send n3 ROSTER version=17 phase=formed voters=n1,n2,n3", "send n3 ANSWER verdict=stale")
	n.fails = func(Saved) bool { return true }
	n.hearsAndForgets(n.actor(2).heartbeat(1))
	n.waits(2 * time.Second)
	n.forgets()
	question.Seq += 100
	n.hears(question)
	n.expects("send n3 ANSWER verdict=stale flags=draining") // what it has in mind may not be on its disk
}

// A claimant takes the newest roster that voters tell it of, and asks again: it has a
// majority by that, or stands no more.
func TestMended20_AClaimantTakesTheNewerRoster(t *testing.T) {
	asksAgain := []string{"save roster=17/3", "elect → stagger cause=no-quorum", "stagger → elect",
		"send n1 CANVASS roster=17 flags=ack-req", "send n2 CANVASS roster=17"}
	t.Run("and is in it", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.canvassed()
		n.isTold(1, 17, 1, 2, 3)
		n.answersStale(1)
		n.expects() // the other may know a newer one
		n.answersStale(2)
		n.expects(asksAgain...)
		if !n.disk.Roster.Formed {
			t.Error("not as one that holds")
		}
	})
	t.Run("and is not", func(t *testing.T) {
		n := voterOf(t, 4, Saved{}, 1, 2, 3)
		n.canvassed()
		n.isTold(1, 17, 1, 2, 3)
		n.answersStale(1, 2, 3)
		n.expects("save roster=17/3", "elect → observe cause=no-quorum")
		n.waits(10 * time.Second)
		n.expects()
	})
	for _, newer := range []int{1, 2} {
		t.Run("and is in the newer of two", func(t *testing.T) {
			n := voterOf(t, 3, Saved{}, 1, 2)
			n.canvassed()
			for number := 1; number <= 2; number++ {
				if number == newer {
					n.isTold(number, 17, 1, 2, 3)
				} else {
					n.isTold(number, 16, 1, 2)
				}
			}
			n.answersStale(1, 2)
			n.expects(asksAgain...)
		})
	}
	t.Run("whatever binds those that have an older one", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.canvassed()
		n.isTold(1, 17, 1, 2, 3)
		n.answersStale(1)
		n.hears(n.actor(2).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Leased, ETA: 3000}))
		n.expects(asksAgain...)
	})
	t.Run("unless enough would grant without it", func(t *testing.T) {
		n := voterOf(t, 5, Saved{}, 1, 2, 3, 4)
		n.canvassed()
		n.isTold(1, 17, 1, 2, 3, 5)
		for _, number := range []int{2, 3} {
			n.hears(n.actor(number).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
		}
		n.forgets()
		n.is(Claiming)
		if got := n.disk.Roster.Version; got != 1 {
			t.Errorf("claims with roster %d on disk", got)
		}
	})
}

// The past, and strangers, are never news.
func TestMended20_AToldRosterIsNotTaken(t *testing.T) {
	refuses := func(t *testing.T, n *story, f wire.Frame) {
		t.Helper()
		n.hears(f)
		n.expects("ignored roster-not-taken")
		n.answersStale(1, 2)
		n.forgets()
		if n.disk.Roster.Version >= f.RosterVersion && n.disk.Roster.Version != 17 {
			t.Errorf("took roster %d", n.disk.Roster.Version)
		}
	}
	t.Run("older", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.node.saved.Roster.Version = 17
		n.canvassed()
		refuses(t, n, n.actor(2).tells(wire.Canvass, 16, 1, 2, 3))
	})
	t.Run("of strangers", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.canvassed()
		refuses(t, n, n.actor(2).tells(wire.Canvass, 17, 4, 5, 6))
	})
	t.Run("without one that has formed", func(t *testing.T) {
		n := storyOf(t, 3, Config{Expect: 3}, 1, 2)
		n.canvassed()
		n.hears(n.actor(2).tells(wire.Roster, 17, 1, 2, 3))
		n.expects("ignored roster-not-taken")
	})
}

// Somebody on the network told two voters of rosters, in others' names, while nobody had
// asked: one without the first, one without the second. Each then held the other for the
// only one that may lead, so neither ever stood, and nobody asked (sim, seed 9400005090).
// Another named a dead voter and an observer, whose grants no leader counts (9300022938).
func TestMended33_NobodyBringsARosterUnasked(t *testing.T) {
	unasked := func(t *testing.T, n *story, f wire.Frame) {
		t.Helper()
		was := n.disk.Roster.Version
		n.hears(f)
		n.expects("ignored late-reply")
		if n.disk.Roster.Version != was {
			t.Errorf("took roster %d", n.disk.Roster.Version)
		}
	}
	t.Run("to one that starts", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		unasked(t, n, n.actor(1).told(17, 1, 2))
		n.canvassed() // and it stands
	})
	t.Run("to one that asks, in another round", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.canvassed()
		f := n.actor(1).tells(wire.Canvass, 17, 1, 2)
		f.Round++
		unasked(t, n, f)
	})
	t.Run("to one that asked, and was answered", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.canvassed()
		n.answersStale(1)
		n.forgets()
		unasked(t, n, n.actor(1).tells(wire.Canvass, 17, 1, 2))
	})
	t.Run("to a claimant", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.claimed(1)
		unasked(t, n, n.actor(2).tells(wire.Canvass, 17, 1, 2, 3))
	})
	t.Run("to a leader, stopping too", func(t *testing.T) {
		n := voterOf(t, 3, Saved{}, 1, 2)
		n.leadsVoters(1)
		unasked(t, n, n.actor(2).told(17, 1, 2, 3))
		n.happens(LinkChanged{Up: false})
		n.forgets()
		n.is(Stopping)
		unasked(t, n, n.actor(2).told(17, 1, 2, 3))
	})
	t.Run("to a follower", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		n.follows(3, 1)
		unasked(t, n, n.actor(2).told(17, 1, 2, 3))
	})
	t.Run("to one whose own has not formed", func(t *testing.T) {
		accepted := Saved{Incarnation: 1, Roster: Roster{Version: 1, IDs: []wire.ID{hostID(1), hostID(2), hostID(3)}}}
		n := storyFrom(t, 3, Config{Expect: 3}, accepted, 1)
		n.forgets()
		unasked(t, n, n.actor(1).told(1, 1, 2, 3))
	})
}

// The first roster had formed on one host when another of its voters lost its disk. The
// others missed the word, and asked for ever for all of the voters that it names, while
// the one that knew gave way to them (sim, seed 3100013514).
func TestMended21_WhoProposesWhatHasFormedIsTold(t *testing.T) {
	t.Run("by a voter that knows", func(t *testing.T) {
		n := voterOf(t, 1, Saved{}, 2, 3)
		n.hears(n.actor(3).roster(wire.Proposed, 1, 1, 2, 3))
		n.expects("send n3 ROSTER version=1 phase=formed voters=n1,n2,n3", "send n3 ROSTER_ACK verdict=accept")
	})
	t.Run("and then claims", func(t *testing.T) {
		accepted := Saved{Incarnation: 1, Roster: Roster{Version: 1, IDs: []wire.ID{hostID(1), hostID(2), hostID(3)}}}
		n := storyFrom(t, 3, Config{Expect: 3}, accepted, 1)
		n.forgets()
		n.canvassed() // it proposes, and n2 is gone for good
		n.hears(n.actor(1).tells(wire.Roster, 1, 1, 2, 3))
		n.expects("save roster=1/3", "send n1 ROSTER phase=formed", "send n1 CANVASS")
	})
}

// Somebody sent a follower a roster in its leader's name, without that leader. It wrote it
// down, and refused the leader, which has an older one, from then on (sim --attack forger,
// seed 777002191).
func TestMended33_ALeaderIsInItsRoster(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3, 4)
	n.follows(4, 1)
	n.hears(n.actor(4).roster(wire.Formed, 17, 1, 2, 3))
	n.expects("send n4 ROSTER_ACK verdict=not-voter version=1")
	n.hears(n.actor(4).heartbeat(1))
	n.expects()
	n.is(Follow)
	n.hears(n.actor(4).roster(wire.Formed, 17, 1, 2, 4))
	n.expects("save roster=17/3", "send n4 ROSTER_ACK verdict=accept version=17")
}
