package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Quorum mode, one host of three dead, the other two stopped together: the leader
// must have the follower's acknowledgements until its lose hook has ended. The
// follower was gone at once, and a hook of three seconds was cut after 0.29.
func TestStoppedTogether(t *testing.T) {
	for _, leaderFirst := range []bool{true, false} {
		w := newWorld(t, 3, Config{Expect: 3})
		w.lose = 3 * time.Second
		for _, h := range w.hosts {
			w.boot(h)
		}
		w.runFor(4 * time.Second)
		w.kill(w.host(1))
		w.runFor(10 * time.Second)
		first, second := w.host(2), w.host(3)
		if leaderFirst {
			first, second = second, first
		}
		w.step(first, Command{Verb: Leave, Token: 1})
		w.runFor(20 * time.Millisecond)
		w.step(second, Command{Verb: Leave, Token: 2})
		w.runFor(2900 * time.Millisecond)
		if leader := w.host(3); leader.node.state != Stopping || !leader.node.reign.ending.planned {
			t.Errorf("leader first %t: the leader is in %s, and its end goes on as planned: %t", leaderFirst, leader.node.state, leader.node.reign.ending.planned)
		}
		w.runFor(time.Second)
		for _, h := range w.hosts[1:] {
			if h.node.state != Observe || !h.losing.IsZero() {
				t.Errorf("leader first %t: n%d is still in %s", leaderFirst, h.number, h.node.state)
			}
		}
	}
}

// A follower that is stopped alone does not wait for a leader that goes on, nor for
// one that lets go and never ends, and least of all for one that fell silent.
func TestAVoterDoesNotLingerForEver(t *testing.T) {
	goes := func(n *story) time.Duration {
		asked := n.now
		for n.node.state != Observe {
			if n.now.Sub(asked) > 2*time.Minute {
				t.Fatal("lingers for ever")
			}
			n.waits(10 * time.Millisecond)
			n.forgets()
		}
		return n.now.Sub(asked)
	}
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.follows(3, 1)
	n.happens(Command{Verb: Leave, Token: 1})
	n.forgets()
	n.hears(n.actor(3).heartbeat(1))
	n.forgets()
	if took := goes(n); took > 110*time.Millisecond {
		t.Errorf("went after %v, though the leader goes on", took)
	}
	n = voterOf(t, 1, Saved{}, 2, 3)
	n.follows(3, 1)
	n.happens(Command{Verb: Leave, Token: 1})
	n.forgets()
	lets := n.actor(3).heartbeat(1)
	lets.Flags |= wire.Draining
	n.hears(lets)
	n.forgets()
	if took := goes(n); took < 110*time.Millisecond || took > time.Second {
		t.Errorf("went %v after the leader that lets go fell silent", took)
	}
	n = voterOf(t, 1, Saved{}, 2, 3)
	n.follows(3, 1)
	n.happens(Command{Verb: Leave, Token: 1})
	asked := n.now
	for n.forgets(); n.node.state != Observe && n.now.Sub(asked) < 2*time.Minute; n.forgets() {
		lets := n.actor(3).heartbeat(1)
		lets.Flags |= wire.Draining
		n.hears(lets)
		n.forgets()
		n.waits(50 * time.Millisecond)
	}
	if took := n.now.Sub(asked); took < lingerMost-100*time.Millisecond || took > lingerMost+100*time.Millisecond {
		t.Errorf("went after %v, while the leader never ends", took)
	}
}
