package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// A group goes from available to quorum mode with its disks. Only one of them has
// the last epoch: the others were cut off, or are new. Whoever asks them first mints
// the same counter, which in quorum mode is a token by itself.

func TestMended23_ACounterOfAvailableModeIsUsedUp(t *testing.T) {
	for _, tc := range []struct {
		name  string
		saved Saved
		frame func(n *story) wire.Frame
		want  []string
	}{
		{"a claim of a higher owner", Saved{MaxCounter: 5, Accepted: wire.Epoch{Counter: 5, Owner: hostID(1)}},
			func(n *story) wire.Frame { return n.actor(3).claims(5) }, []string{"send n3 COORD_ACK verdict=stale epoch=5/ffffffff"}},
		{"a claim of a lower owner", Saved{MaxCounter: 5, Accepted: wire.Epoch{Counter: 5, Owner: hostID(3)}},
			func(n *story) wire.Frame { return n.actor(1).claims(5) }, []string{"send n1 COORD_ACK verdict=stale epoch=5/ffffffff"}},
		{"its own counter", Saved{MaxCounter: 5, Accepted: wire.Epoch{Counter: 5, Owner: hostID(2)}},
			func(n *story) wire.Frame { return n.actor(3).claims(5) }, []string{"send n3 COORD_ACK verdict=stale epoch=5/ffffffff"}},
		{"a leader with a higher id", Saved{MaxCounter: 5, Accepted: wire.Epoch{Counter: 5, Owner: hostID(1)}},
			func(n *story) wire.Frame { return n.actor(3).heartbeat(5) }, []string{"send n3 COORD_ACK verdict=stale epoch=5/ffffffff"}},
		{"a leader with a lower id", Saved{MaxCounter: 5, Accepted: wire.Epoch{Counter: 5, Owner: hostID(3)}},
			func(n *story) wire.Frame { return n.actor(1).heartbeat(5) }, []string{"send n1 COORD_ACK verdict=stale epoch=5/n3"}},
		{"the next counter", Saved{MaxCounter: 5, Accepted: wire.Epoch{Counter: 5, Owner: hostID(1)}},
			func(n *story) wire.Frame { return n.actor(3).claims(6) }, []string{"save", "start → wait", "send n3 COORD_ACK verdict=accept epoch=6/n3"}},
		{"the same epoch", Saved{MaxCounter: 5, Accepted: wire.Epoch{Counter: 5, Owner: hostID(3)}},
			func(n *story) wire.Frame { return n.actor(3).claims(5) }, []string{"save", "start → wait", "send n3 COORD_ACK verdict=accept epoch=5/n3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := voterOf(t, 2, tc.saved, 1, 3)
			n.happens(LeaderReported{n.actor(3).epoch(4)})
			n.expects()
			n.hears(tc.frame(n))
			n.expects(tc.want...)
		})
	}
	t.Run("hearsay", func(t *testing.T) {
		n := voterOf(t, 2, Saved{MaxCounter: 5, Accepted: wire.Epoch{Counter: 5, Owner: hostID(1)}}, 1, 3)
		n.happens(LeaderReported{n.actor(3).epoch(5)})
		n.expects()
	})
	t.Run("the refused claimant claims above it", func(t *testing.T) {
		n := voterOf(t, 3, Saved{MaxCounter: 4}, 1, 2)
		n.claimed(1)
		n.hears(n.actor(2).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Epoch: quorum.AboveAll(5)}))
		n.expects("send n1 RESIGN epoch=5/n3", "send n2 RESIGN epoch=5/n3", "claim → stagger cause=claim-stale")
	})
}

// The fresh voters are a majority and know nothing; the one that does has them count
// on from what it knows.
func TestMended23_FromAvailableToQuorumMode(t *testing.T) {
	for _, old := range []int{1, 2, 3} {
		w := newWorld(t, 3, Config{MinAcks: AutoMinAcks})
		w.boot(w.host(old))
		w.runFor(5 * time.Second)
		used := w.host(old).node.epoch
		w.step(w.host(old), Command{Verb: Leave, Token: 1})
		w.runFor(time.Second)
		w.kill(w.host(old))

		w.cfg.Expect = 3
		for _, h := range w.hosts {
			if h.number != old { // what it would say comes too late
				w.holds = append(w.holds, hold{wire.Answer, old, h.number})
			}
			w.boot(h)
		}
		w.runFor(20 * time.Second)
		last := w.ascents[len(w.ascents)-1].Epoch
		if !w.agreed() || last.Counter <= used.Counter {
			t.Errorf("n%d led in %v; in quorum mode %v is the last\n%s", old, used, last, tail(w.trace.String(), 30))
		}
		for e, h := range w.owners {
			if h.number != old && w.host(old).disk.Accepted == e && e.Counter == used.Counter {
				t.Errorf("n%d accepted %v after %v", old, e, used)
			}
		}
		w.runFor(10 * time.Second)
		if again := w.ascents[len(w.ascents)-1].Epoch; again != last {
			t.Errorf("n%d: %v follows %v without a cause", old, again, last)
		}
	}
}
