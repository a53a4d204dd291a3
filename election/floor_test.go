package election

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// Epochs rise over restarts and power cuts too (I6): what a node accepted is on its
// disk before anything shows it, and no later life follows less.

// A restarted follower compared with an empty memory, and let itself be led by the
// past.
func TestMended23_NoLaterLifeFollowsLess(t *testing.T) {
	accepted := wire.Epoch{Counter: 7, Owner: hostID(3)}
	for _, tc := range []struct {
		name   string
		saved  Saved
		frame  func(n *story) wire.Frame
		wanted []string
	}{
		{"a lower counter", Saved{MaxCounter: 9, Accepted: accepted}, func(n *story) wire.Frame { return n.actor(4).coordinator(6) },
			[]string{"send n4 COORD_ACK verdict=stale epoch=7/n3"}},
		{"an equal counter of a lower owner", Saved{MaxCounter: 7, Accepted: accepted}, func(n *story) wire.Frame { return n.actor(1).heartbeat(7) },
			[]string{"send n1 COORD_ACK verdict=stale epoch=7/n3"}},
		{"the same epoch", Saved{MaxCounter: 9, Accepted: accepted}, func(n *story) wire.Frame { return n.actor(3).heartbeat(7) },
			[]string{"start → follow leader=n3 epoch=7/n3"}},
		{"an equal counter of a higher owner", Saved{MaxCounter: 7, Accepted: accepted}, func(n *story) wire.Frame { return n.actor(4).heartbeat(7) },
			[]string{"send n4 COORD_ACK verdict=stale"}}, // a resource has had it from another owner
		{"a state file that knows the counter alone", Saved{MaxCounter: 9}, func(n *story) wire.Frame { return n.actor(3).coordinator(8) },
			[]string{"send n3 COORD_ACK verdict=stale epoch=9/n0"}},
		{"its counter again", Saved{MaxCounter: 9}, func(n *story) wire.Frame { return n.actor(3).heartbeat(9) },
			[]string{"save", "start → follow leader=n3 epoch=9/n3"}},
		{"hearsay", Saved{MaxCounter: 7, Accepted: accepted}, func(n *story) wire.Frame {
			return n.actor(4).says(wire.Frame{Kind: wire.Probe, Flags: wire.AckReq})
		}, []string{"send n4 PROBE_ACK"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := storyFrom(t, 2, Config{}, tc.saved, 1, 3, 4)
			n.happens(LeaderReported{n.actor(1).epoch(6)})
			n.expects()
			n.hears(tc.frame(n))
			n.expectsSome(tc.wanted...)
		})
	}
}

// A voter that follows whom it granted writes that down no second time. Its next life compared with the counter alone, and
// followed what was below, once the cluster was in available mode.
func TestMended23_NoLaterLifeFollowsLessThanItGranted(t *testing.T) {
	voted := wire.Epoch{Counter: 7, Owner: hostID(3)}
	lives := Saved{MaxCounter: 7, Accepted: wire.Epoch{Counter: 5, Owner: hostID(4)}, Vote: voted, LongestPromise: 400 * time.Millisecond}
	for _, tc := range []struct {
		name   string
		life   func(t *testing.T, saved Saved) *story
		frame  func(n *story) wire.Frame
		wanted []string
	}{
		{"a lower counter", inQuorumMode, func(n *story) wire.Frame { return n.actor(4).heartbeat(6) },
			[]string{"send n4 COORD_ACK verdict=stale epoch=7/n3"}},
		{"whom it granted", inQuorumMode, func(n *story) wire.Frame { return n.actor(3).heartbeat(7) },
			[]string{"start → follow leader=n3 epoch=7/n3"}},
		{"the next counter", inQuorumMode, func(n *story) wire.Frame { return n.actor(1).heartbeat(8) },
			[]string{"save", "start → follow leader=n1 epoch=8/n1"}},
		{"in available mode a lower counter", inAvailableMode, func(n *story) wire.Frame { return n.actor(4).heartbeat(6) },
			[]string{"send n4 COORD_ACK verdict=stale epoch=7/n3"}},
		{"in available mode a lower owner", inAvailableMode, func(n *story) wire.Frame { return n.actor(1).heartbeat(7) },
			[]string{"send n1 COORD_ACK verdict=stale epoch=7/n3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := tc.life(t, lives)
			n.hears(tc.frame(n))
			n.expectsSome(tc.wanted...)
		})
	}
	t.Run("hearsay in available mode", func(t *testing.T) {
		n := inAvailableMode(t, lives)
		n.happens(LeaderReported{n.actor(1).epoch(7)})
		n.expects()
	})
	t.Run("what it claimed itself it never led in", func(t *testing.T) {
		lost := lives
		lost.Vote.Owner = hostID(2)
		n := inAvailableMode(t, lost)
		n.hears(n.actor(1).heartbeat(7))
		n.expects("save", "start → follow leader=n1 epoch=7/n1")
	})
	t.Run("whom it followed against its vote", func(t *testing.T) {
		lost := lives
		lost.Accepted = wire.Epoch{Counter: 7, Owner: hostID(1)}
		n := inQuorumMode(t, lost)
		n.hears(n.actor(3).heartbeat(7))
		n.expects("send n3 COORD_ACK verdict=stale epoch=7/ffffffff")
		n.hears(n.actor(1).heartbeat(7))
		n.expects("start → follow leader=n1 epoch=7/n1")
	})
}

// Two claimed one counter, a voter granted it to the loser, and has been started again since. The
// winner is well and leads: it is followed as it was without a restart (M22). It was refused, and
// ran its lose and become hooks to lead in a higher epoch.
func TestMended23_AVoteForTheLoserDeposesNobody(t *testing.T) {
	voted := Saved{MaxCounter: 7, Accepted: wire.Epoch{Counter: 5, Owner: hostID(4)}, LongestPromise: 400 * time.Millisecond}
	for winner, loser := range map[int]int{1: 3, 4: 3} { // whatever their order
		t.Run(fmt.Sprintf("n%d won, n%d lost", winner, loser), func(t *testing.T) {
			saved := voted
			saved.Vote = wire.Epoch{Counter: 7, Owner: hostID(loser)}
			n := inQuorumMode(t, saved)
			n.hears(n.actor(winner).heartbeat(7))
			n.expects("save", fmt.Sprintf("start → follow leader=n%[1]d epoch=7/n%[1]d", winner))
			n.hears(n.actor(loser).heartbeat(7)) // from now on that is used up
			n.expects(fmt.Sprintf("send n%d COORD_ACK verdict=stale", loser))
		})
	}
}

func inQuorumMode(t *testing.T, saved Saved) *story { return voterOf(t, 2, saved, 1, 3, 4) }

func inAvailableMode(t *testing.T, saved Saved) *story {
	return storyFrom(t, 2, Config{}, saved, 1, 3, 4)
}

// Only whoever follows the one that it granted has that on its disk already. The winner
// of a duel that the vote was against was in memory alone.
func TestMended23_TheWinnerOfADuelIsSaved(t *testing.T) {
	for _, tc := range []struct {
		name   string
		winner int
		saved  bool
	}{{"whom it granted", 3, false}, {"the other", 1, true}} {
		t.Run(tc.name, func(t *testing.T) {
			n := voterOf(t, 2, Saved{MaxCounter: 6}, 1, 3)
			n.hears(n.actor(3).claims(7))
			n.forgets()
			n.hears(n.actor(tc.winner).heartbeat(7))
			n.forgets()
			n.is(Follow)
			if isSaved := n.disk.Accepted == n.actor(tc.winner).epoch(7); isSaved != tc.saved {
				t.Errorf("follows %v with %v on disk as accepted, %v as granted", n.node.epoch, n.disk.Accepted, n.disk.Vote)
			}
		})
	}
}

// The acknowledgement is what a leader leads by: were it sent first, a power cut
// could leave the epoch on nobody's disk but the leader's.
func TestMended23_AcceptedIsSavedBeforeItIsShown(t *testing.T) {
	for _, tc := range []struct {
		name    string
		happens func(n *story)
		shown   []string
	}{
		{"announced", func(n *story) { n.hears(n.actor(3).coordinator(7)) },
			[]string{"save counter=7", "start → follow leader=n3 epoch=7/n3", "send n3 COORD_ACK verdict=accept"}},
		{"told", func(n *story) { n.happens(LeaderReported{n.actor(3).epoch(7)}) },
			[]string{"save counter=7", "start → follow leader=n3 epoch=7/n3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := storyOf(t, 2, Config{}, 1, 3)
			tc.happens(n)
			n.expects(tc.shown...)
			if n.disk.Accepted != n.actor(3).epoch(7) {
				t.Errorf("%v is on disk as accepted", n.disk.Accepted)
			}
			n.hears(n.actor(3).heartbeat(7)) // and once only
			n.expects()
		})
	}
	t.Run("by a leader that is superseded", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.leads(1)
		n.hears(n.actor(3).heartbeat(7))
		n.expects("lead → stopping cause=superseded", "stop hook", "lose hook", "save counter=7")
		if n.disk.Accepted != n.actor(3).epoch(7) {
			t.Errorf("%v is on disk as accepted", n.disk.Accepted)
		}
	})
	t.Run("one's own, with the promotion", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.leads(1)
		if n.disk.Accepted != n.node.epoch {
			t.Errorf("leads in %v with %v on disk", n.node.epoch, n.disk.Accepted)
		}
	})
}

// A node that cannot save goes on following, and acknowledges: it can see whether
// its leader lives. What it learnt meanwhile is saved when the disk is well.
func TestMended23_AFullDiskGoesOnFollowing(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.fails = func(Saved) bool { return true }
	n.hears(n.actor(3).coordinator(7))
	n.expects("follow → follow leader=n3 epoch=7/n3") // what followed the save was dropped, and SaveFailed says it
	n.hears(n.actor(3).coordinator(7))
	n.expects("send n3 COORD_ACK verdict=accept flags=draining,fresh")
	n.hears(n.actor(1).coordinator(6))
	n.expects("send n1 COORD_ACK verdict=stale epoch=7/n3")
	n.happens(SaveRecovered{})
	n.expects("save counter=7")
	if n.disk.Accepted != n.actor(3).epoch(7) {
		t.Errorf("%v is on disk as accepted", n.disk.Accepted)
	}
}

// An epoch of our own that never reached the disk was never accepted.
func TestMended23_AnUnsavedClaimIsNotAccepted(t *testing.T) {
	n := storyOf(t, 2, Config{})
	n.fails = func(s Saved) bool { return s.MaxCounter == 1 }
	n.waits(2 * time.Second)
	n.forgets()
	n.is(Observe)
	if !n.node.saved.Accepted.IsZero() {
		t.Errorf("accepted %v, which is on no disk", n.node.saved.Accepted)
	}
}

// After a power cut two of three hosts went on below what the third had led in, and
// the third, back at last, followed them: a resource that compares epochs refused
// the leader that all followed.
func TestMended23_PowerCut(t *testing.T) {
	for _, forgets := range []bool{false, true} { // the followers' disks took no writes: the last leader's alone knows
		w := newWorld(t, 3, Config{MinAcks: AutoMinAcks, Preempt: PreemptNever})
		for _, h := range w.hosts {
			w.boot(h)
		}
		w.runFor(4 * time.Second)
		for range 4 { // so that the last to lead has the largest id
			h := w.leaders()[0]
			w.die(h)
			w.runFor(200 * time.Millisecond)
			w.boot(h)
			w.runFor(5 * time.Second)
		}
		last := w.leaders()[0]
		highest := last.node.epoch
		for _, h := range w.hosts {
			w.kill(h)
			h.led, h.disk.Promoted = wire.Epoch{}, wire.Epoch{}
			if h != last && forgets {
				h.disk.MaxCounter, h.disk.Accepted, h.accepted = highest.Counter-1, wire.Epoch{}, wire.Epoch{}
			}
		}
		for _, h := range w.hosts {
			if h != last {
				w.boot(h)
			}
		}
		w.runFor(10 * time.Second)
		if l := w.leaders()[0]; !forgets && l.node.epoch.Compare(highest) < 0 {
			t.Errorf("leads in %v after %v, which it had acknowledged", l.node.epoch, highest)
		}
		w.boot(last)
		w.runFor(10 * time.Second)
		if l := w.leaders()[0]; !w.agreed() || l.node.epoch.Compare(highest) <= 0 {
			t.Errorf("forgets=%t: n%d leads in %v after %v", forgets, l.number, l.node.epoch, highest)
		}
	}
}

// Two disks that are slow, and no acknowledgement for a while, are no reason to use
// up epochs.
func TestSlowDisks(t *testing.T) {
	w := newWorld(t, 3, Config{MinAcks: AutoMinAcks})
	for _, h := range w.hosts {
		h.sync = 100 * time.Millisecond
		w.boot(h)
	}
	w.runFor(20 * time.Second)
	if !w.agreed() || len(w.ascents) != 1 {
		t.Errorf("%d leaderships in 20 s of calm:\n%s", len(w.ascents), tail(w.trace.String(), 30))
	}
}

// Two claimed one counter, and the majority chose the one with the smaller id. The
// other refused it by the order of owners, and the winner had to claim anew.
func TestMended22_TheLoserOfADuel(t *testing.T) {
	n := voterOf(t, 3, Saved{MaxCounter: 6}, 1, 2)
	n.claimed(1)
	n.forgets()
	n.hears(n.actor(1).claims(7))
	n.forgets() // refused: its vote is its own
	n.is(Claiming)
	n.hears(n.actor(1).heartbeat(7))
	n.expects("claim → follow leader=n1 epoch=7/n1 cause=heard-leader")
	n.hears(n.actor(1).heartbeat(6)) // below it nothing changes
	n.expects("send n1 COORD_ACK verdict=stale epoch=7/n1")
}

// Two claimed one counter, and a voter has granted it to the one with the smaller id.
// It will never grant the other's claim, which was repeated all the same until its tries
// were used up: five promises long nobody led. As long as another may grant it goes on.
func TestMended22_ADuelThatCannotBeWon(t *testing.T) {
	refused := func(t *testing.T) *story {
		n := voterOf(t, 3, Saved{MaxCounter: 6}, 1, 2)
		n.claimed(1, 2)
		n.hears(n.actor(1).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Epoch: n.actor(1).epoch(7)}))
		n.is(Claiming)
		return n
	}
	t.Run("another grants it", func(t *testing.T) {
		n := refused(t)
		n.grants(2)
		n.forgets()
		n.is(Lead)
	})
	t.Run("another does not answer", func(t *testing.T) {
		n := refused(t)
		n.waits(time.Second)
		n.expectsSome("send n2 COORDINATOR phase=claim flags=ack-req,retx", "send n2 COORDINATOR phase=claim flags=ack-req,retx",
			"send n2 COORDINATOR phase=claim flags=ack-req,retx", "send n1 RESIGN reason=abandoned epoch=7/n3",
			"send n2 RESIGN reason=abandoned epoch=7/n3", "claim → stagger cause=claim-stale", "stagger → elect cause=claim-stale")
		n.forgets()
	})
	t.Run("all have refused it", func(t *testing.T) {
		n := refused(t)
		n.hears(n.actor(2).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Epoch: n.actor(1).epoch(7)}))
		n.expects("send n1 RESIGN reason=abandoned epoch=7/n3", "send n2 RESIGN reason=abandoned epoch=7/n3", "claim → stagger cause=claim-stale")
	})
}

// Voters that are bound to a lost leader for longer than its lease all wait for that, and
// then stand in their turns. They stood before, the worse one took the better one for
// silent, and when the promises ended both claimed at once.
func TestMended27_TurnsAfterThePromise(t *testing.T) {
	tests := map[string]func(w *world){
		"the leader knew its disk to be slow": func(w *world) {
			for _, h := range w.hosts[:2] {
				h.node.bind(h.node.epoch, w.cfg.Lease+200*time.Millisecond)
			}
			w.kill(w.host(3))
		},
		"the leader has restarted": func(w *world) {
			w.kill(w.host(3))
			w.runFor(100 * time.Millisecond)
			w.boot(w.host(3))
		},
		"the leader has restarted, and was doubted before": func(w *world) {
			w.kill(w.host(3))
			w.runFor(200 * time.Millisecond)
			w.boot(w.host(3))
		},
	}
	for name, lose := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, Config{Expect: 3, Lease: 400 * time.Millisecond})
			for _, h := range w.hosts {
				w.boot(h)
			}
			w.runFor(3 * time.Second)
			for _, h := range w.hosts[:2] {
				h.sync = 9 * time.Millisecond
			}
			w.trace.Reset()
			lose(w)
			w.runFor(time.Second)
			next := w.ascents[1:]
			if len(next) != 1 || next[0].Leader != hostID(2) || strings.Contains(w.trace.String(), string(BetterSilent)) {
				t.Errorf("n2 did not lead in its turn:\n%s", w.trace.String())
			}
		})
	}
}

// The disk fails as the host that stepped down follows the next leader: the operator
// is answered all the same. The stream to the leader is of no use to a host that
// cannot take over.
func TestAFailedSaveTakesNoAnswerAlong(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: HandOver, To: hostID(1), Token: 4})
	n.forgets()
	n.hears(n.actor(1).ready(true))
	n.forgets()
	n.loseHookEnds()
	n.forgets()
	n.showsTethers = true
	n.fails = func(s Saved) bool { return s.Accepted.Owner == hostID(1) }
	n.hears(n.actor(1).heartbeat(2))
	n.expects("reply ok", "liveness stream to n1", "follow → follow leader=n1", "liveness stream to n0")
}

// A counter that is used up is refused in nobody's name: even from a host that hears a
// leader of its own, that is no leader to follow, but a reason to claim anew.
func TestNobodyIsFollowedForAUsedCounter(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(2)
	refusal := n.actor(2).says(wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Flags: wire.Fresh, Epoch: quorum.AboveAll(n.node.epoch.Counter)})
	n.hears(refusal)
	n.expects("lead → stopping cause=re-minted", "stop hook", "lose hook cause=re-minted")
}

// A host that stands again, since its hold-down has ended, waits for the lease of a leader
// that fell silent before, like anybody. It led beside the old one, which had not let go.
func TestMended27_TheHoldDownEndsWithinALease(t *testing.T) {
	w := newWorld(t, 3, Config{Lease: 400 * time.Millisecond, Preempt: PreemptNever})
	for _, h := range w.hosts {
		w.boot(h)
	}
	w.runFor(3 * time.Second)
	w.step(w.host(3), Command{Verb: StepDown, For: time.Second, Token: 1})
	w.runFor(700 * time.Millisecond)
	if len(w.ascents) != 2 || w.ascents[1].Leader != hostID(2) {
		t.Fatalf("n2 does not lead: %v", w.ascents)
	}
	w.kill(w.host(2))
	for silent := w.now; len(w.ascents) == 2 && w.now.Sub(silent) < 2*time.Second; {
		w.runFor(time.Millisecond)
		if gap := w.now.Sub(silent); len(w.ascents) > 2 && gap < 200*time.Millisecond {
			t.Errorf("%v leads %v after the last sign of life:\n%s", w.ascents[2].Leader.Short(), gap, w.trace.String())
		}
	}
}
