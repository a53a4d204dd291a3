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
	n.expects("start → follow leader=n1", "tether to n1")
	n.hears(n.actor(3).heartbeat(2))
	n.expects("follow → follow leader=n3", "tether to n3")
	n.hears(n.actor(3).resigns(2))
	n.expects("send n3 RESIGN_ACK", "follow → stagger", "tether to n0")
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
