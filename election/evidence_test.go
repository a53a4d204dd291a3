package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

func tetherTo(a *actor) TetherLost { return TetherLost{ID: hostID(a.number), Nonce: a.nonce} }
func refusedBy(a *actor) Refused   { return Refused{ID: hostID(a.number), Nonce: a.nonce} }

// Whoever follows keeps a stream to its leader, and to nobody else.
func TestATetherToTheLeader(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.showsTethers = true
	n.hears(n.actor(1).heartbeat(1))
	n.expects("start → follow leader=n1", "liveness stream to n1")
	n.hears(n.actor(3).heartbeat(2))
	n.expects("follow → follow leader=n3", "liveness stream to n3")
	n.hears(n.actor(3).resigns(2))
	n.expects("send n3 RESIGN_ACK", "follow → stagger", "liveness stream to n0")
}

// E1 and E7: the end of the leader's process is confirmed by one probe.
func TestE1E7_ProcessGone(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		n.happens(tetherTo(n.actor(3)))
		n.expects("follow → suspect cause=process-gone", "send n1 PROBE purpose=opinion", "send n3 PROBE purpose=leader")
		n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Standing: wire.Following}))
		n.expects()
		n.happens(refusedBy(n.actor(3)))
		n.expects("suspect → stagger cause=process-gone", "stagger → elect", "save counter=2", "elect → claim epoch=2/n2", "send n1 COORDINATOR")
	})
	t.Run("one probe lost", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		n.happens(tetherTo(n.actor(3)))
		n.forgets()
		n.waits(15 * time.Millisecond)
		n.forgets()
		if n.node.state != Stagger && n.node.state != Elect {
			t.Errorf("%s 15 ms after the leader's process ended", n.node.state)
		}
	})
	t.Run("it answers after all", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		n.happens(tetherTo(n.actor(3)))
		n.forgets()
		n.hears(n.actor(3).heartbeat(1))
		n.expects("suspect → follow")
		n.happens(refusedBy(n.actor(3)))
		n.expects("ignored old-tether")
	})
	t.Run("refused alone means nothing", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		n.happens(refusedBy(n.actor(3)))
		n.expects("ignored old-tether")
	})
	t.Run("an earlier life's, or another's", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		n.happens(TetherLost{ID: hostID(3), Nonce: 1})
		n.expects("ignored old-tether")
		n.happens(tetherTo(n.actor(1)))
		n.expects("ignored old-tether")
	})
	t.Run("in quorum mode the lease is waited out", func(t *testing.T) {
		n := voterOf(t, 2, Saved{}, 1, 3)
		n.follows(3, 1)
		n.happens(tetherTo(n.actor(3)))
		n.forgets()
		n.happens(refusedBy(n.actor(3)))
		n.expects("suspect → stagger cause=process-gone")
		n.waits(350 * time.Millisecond)
		n.expects()
		n.is(Stagger)
	})
}

// A leader without a link is isolated at once, and stands again when it is back.
func TestOwnLinkLost(t *testing.T) {
	t.Run("a leader steps down", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1, 2)
		n.leads(1)
		n.happens(LinkChanged{Up: false})
		n.expects("lead → stopping cause=link-lost", "stop hook", "lose hook cause=link-lost")
		n.happens(HookEnded{Hook: Lose, Epoch: n.node.reign.epoch, OK: true})
		n.forgets()
		n.is(Observe)
		n.happens(LinkChanged{Up: true})
		n.expects("observe → stagger cause=link-back")
		n.hears(n.actor(2).heartbeat(2))
		n.expects("stagger → follow leader=n2")
	})
	t.Run("alone it has nobody to lose", func(t *testing.T) {
		n := storyOf(t, 3, Config{})
		n.waits(3 * time.Second)
		n.forgets()
		n.is(Lead)
		n.happens(LinkChanged{Up: false})
		n.expects()
	})
	t.Run("a follower stands for nothing meanwhile", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		n.happens(LinkChanged{Up: false})
		n.expects()
		n.waits(time.Second)
		n.forgets()
		n.is(Observe)
	})
}

// Who knows that it is cut off is part of no network: neither the host of a pair whose cable is pulled nor both, when the
// switch between them is switched off, leads for itself, however long that lasts and though the failure detector gives the
// other up. Each led then, and had the address beside whoever led on the network. Who never lost its link leads on, and is
// not disturbed by one that comes back.
func TestWhoIsCutOffLeadsNobody(t *testing.T) {
	for _, both := range []bool{true, false} {
		w := newWorld(t, 2, Config{MinAcks: AutoMinAcks, Preempt: PreemptNever})
		for _, h := range w.hosts {
			w.boot(h)
		}
		w.runFor(5 * time.Second)
		a, b := w.host(1), w.host(2)
		cut := func(is bool) { w.cuts[[2]int{1, 2}], w.cuts[[2]int{2, 1}] = is, is }
		cut(true)
		w.step(b, LinkChanged{Up: false}) // the leader
		if both {
			w.step(a, LinkChanged{Up: false})
		}
		w.runFor(6 * time.Second)
		w.step(a, MemberChanged{b.member(Dead)})
		w.step(b, MemberChanged{a.member(Dead)})
		w.runFor(time.Minute)
		if got := w.leaders(); both && len(got) != 0 || !both && (len(got) != 1 || got[0] != a) {
			t.Fatalf("both %t: %d lead, want only those with a link\n%s", both, len(got), tail(w.trace.String(), 20))
		}
		before := len(w.ascents)
		cut(false)
		w.step(b, LinkChanged{Up: true})
		w.runFor(30 * time.Millisecond)
		if both {
			w.step(a, LinkChanged{Up: true})
		}
		w.runFor(time.Second)
		w.step(a, MemberChanged{b.member(Alive)})
		w.step(b, MemberChanged{a.member(Alive)})
		w.runFor(5 * time.Second)
		if !w.agreed() {
			t.Errorf("both %t: no agreement after the heal:\n%s", both, tail(w.trace.String(), 20))
		}
		if gone := len(w.ascents) - before; both && gone != 1 {
			t.Errorf("%d leaderships after the switch was on again\n%s", gone, tail(w.trace.String(), 20))
		} else if !both && w.leaders()[0] != a {
			t.Errorf("n1 led all the time and was deposed:\n%s", tail(w.trace.String(), 20))
		}
	}
}

// A host that starts without a link leads only if it knows of nobody else: neither from an earlier life nor from its
// configuration. Once the link is there it lets go of such a leadership, and listens.
func TestStartedWithoutALink(t *testing.T) {
	roster := func(ids ...int) (r Roster) {
		r.Version = 1
		for _, i := range ids {
			r.IDs = append(r.IDs, hostID(i))
		}
		return r
	}
	for name, tc := range map[string]struct {
		cfg   Config
		saved Saved
		want  State
	}{
		"nobody was ever known":                  {want: Lead},
		"it led before":                          {saved: Saved{Accepted: wire.Epoch{Counter: 3, Owner: hostID(3)}, MaxCounter: 3}, want: Lead},
		"it followed another before":             {saved: Saved{Accepted: wire.Epoch{Counter: 3, Owner: hostID(2)}, MaxCounter: 3}, want: Observe},
		"hosts to join are configured":           {cfg: Config{KnowsOthers: true}, want: Observe},
		"others were voters, in quorum mode yet": {saved: Saved{Roster: roster(1, 2, 3)}, want: Observe},
	} {
		t.Run(name, func(t *testing.T) {
			n := storyFrom(t, 3, tc.cfg, tc.saved)
			n.forgets()
			n.happens(LinkChanged{Up: false})
			n.forgets()
			n.waits(10 * time.Second)
			n.forgets()
			n.is(tc.want)
			n.happens(LinkChanged{Up: true})
			if tc.want == Lead {
				n.expects("lead → stopping cause=link-back", "stop hook", "lose hook cause=link-back")
				return
			}
			n.expects("observe → stagger cause=link-back")
		})
	}
}

// E4: an opinion counts only if it is newer than this node's own by half a heartbeat.
// When the leader falls silent all heard it last at about the same time, and would
// otherwise reassure each other.
func TestAnOpinionNeedsAMargin(t *testing.T) {
	for _, tc := range []struct {
		newer time.Duration
		want  State
	}{{0, Stagger}, {10 * time.Millisecond, Stagger}, {24 * time.Millisecond, Stagger}, {25 * time.Millisecond, Follow}, {60 * time.Millisecond, Follow}} {
		n := storyOf(t, 2, Config{}, 1, 3, 4)
		n.follows(4, 1)
		for n.node.state == Follow {
			n.waits(time.Millisecond)
			n.forgets()
		}
		n.is(Suspect)
		for _, other := range []int{1, 3} {
			age := uint32((n.now.Sub(n.node.lastFromLeader) - tc.newer).Milliseconds())
			n.hears(n.actor(other).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, HeartbeatAge: age, Epoch: n.actor(4).epoch(1), Standing: wire.Following}))
			n.forgets()
		}
		for n.node.state == Suspect {
			n.waits(time.Millisecond)
			n.forgets()
		}
		if n.node.state != tc.want {
			t.Errorf("opinions %v newer than its own: %s, want %s", tc.newer, n.node.state, tc.want)
		}
	}
}

// Who sets takeover_delay has a lose hook that needs it: the guard of a killed agent
// runs that hook, and others wait, however certain the death is.
func TestTakeoverDelayAfterADeath(t *testing.T) {
	n := storyOf(t, 2, Config{TakeoverDelay: 5 * time.Second}, 1, 3)
	n.follows(3, 1)
	heard := n.now
	n.happens(tetherTo(n.actor(3)))
	n.forgets()
	n.happens(refusedBy(n.actor(3)))
	n.expects("suspect → stagger cause=process-gone")
	for n.node.state != Claiming && n.now.Sub(heard) < 10*time.Second {
		n.waits(10 * time.Millisecond)
		n.forgets()
		n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
	}
	n.is(Claiming)
	if waited := n.now.Sub(heard); waited < 5408*time.Millisecond || waited > 6*time.Second {
		t.Errorf("claims %v after the last heartbeat, want the lease and the delay", waited)
	}
	t.Run("unless it resigned", func(t *testing.T) {
		n := storyOf(t, 2, Config{TakeoverDelay: 5 * time.Second}, 1, 3)
		n.follows(3, 1)
		n.hears(n.actor(3).says(wire.Frame{Kind: wire.Resign, Flags: wire.AckReq, Epoch: n.actor(3).epoch(1), Successor: hostID(2)}))
		n.expects("send n3 RESIGN_ACK", "follow → elect cause=handed-over", "save", "elect → claim", "send n1 COORDINATOR", "send n3 COORDINATOR")
	})
}
