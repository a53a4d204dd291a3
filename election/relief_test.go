package election

import (
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// yields are the bars for which a leader hands over, and the causes.
var yields = map[Bar]Cause{BarCheck: CheckFailed, BarMaintenance: Maintenance}

func (s *story) barred(b Bar)   { s.t.Helper(); s.happens(Barred{Bar: b, On: true}) }
func (s *story) unbarred(b Bar) { s.t.Helper(); s.happens(Barred{Bar: b}) }

// prepares counts what was sent to get somebody ready.
func (s *story) prepares() int {
	count := 0
	for _, sent := range s.sent {
		if sent.Frame.Kind == wire.Prepare {
			count++
		}
	}
	return count
}

// acknowledges lets time pass in which host number, in its own words draining or not,
// acknowledges the leader's heartbeats.
func (s *story) acknowledges(number int, d time.Duration, flags wire.Flags) {
	s.t.Helper()
	for end := s.now.Add(d); s.now.Before(end); {
		s.forgets()
		s.waits(s.node.cfg.Heartbeat)
		s.forgets()
		s.hears(s.actor(number).replies(wire.Heartbeat, wire.Frame{Kind: wire.HeartAck, Epoch: s.node.epoch, Flags: flags}))
	}
}

// M32: a leader that a bar holds back hands over cleanly, and may stand again as soon
// as the bar has gone: there is no hold-down.
func TestM32_ABarredLeaderHandsOver(t *testing.T) {
	for bar, cause := range yields {
		t.Run(bar.String(), func(t *testing.T) {
			n := leading(t)
			n.barred(bar)
			n.expects("send n2 PREPARE")
			n.barred(bar) // said twice
			n.expects()
			n.hears(n.actor(2).ready(true))
			n.expects("lead → stopping cause="+string(cause), "stop hook", "lose hook cause="+string(cause))
			n.loseHookEnds()
			n.expects("send n1 RESIGN successor=n2", "send n2 RESIGN successor=n2", "stopping → observe", "save promoted=none")
			n.hears(n.actor(2).heartbeat(2))
			n.expects("observe → follow leader=n2")
			n.unbarred(bar)
			if s := n.node.Status(); s.Bars != 0 || !s.Held.IsZero() {
				t.Errorf("bars are %q, held until %v", s.Bars, s.Held)
			}
		})
	}
}

// M32: what an operator wants names the cause, whatever a check says besides.
func TestM32_MaintenanceComesFirst(t *testing.T) {
	n := leading(t)
	n.hears(n.actor(1).replies(wire.Heartbeat, wire.Frame{Kind: wire.HeartAck, Epoch: n.node.epoch, Flags: wire.Draining}))
	n.hears(n.actor(2).replies(wire.Heartbeat, wire.Frame{Kind: wire.HeartAck, Epoch: n.node.epoch, Flags: wire.Draining}))
	n.barred(BarCheck)
	n.barred(BarMaintenance)
	n.expects()
	n.acknowledges(2, 200*time.Millisecond, 0)
	n.forgets()
	n.hears(n.actor(2).ready(true))
	n.expects("lead → stopping cause=maintenance", "stop hook", "lose hook")
}

// M32: where nobody else may lead the leader stays, and asks nobody. As soon as
// somebody may, it hands over.
func TestM32_ALeaderStaysWhereNobodyElseMayLead(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1)
	n.leads(1)
	n.acknowledges(1, 100*time.Millisecond, wire.Draining)
	n.barred(BarCheck)
	n.expects()
	n.acknowledges(1, time.Minute, wire.Draining)
	n.forgets()
	n.is(Lead)
	if n.prepares() > 0 {
		t.Errorf("%d PREPAREs to one that cannot lead", n.prepares())
	}
	n.acknowledges(1, 150*time.Millisecond, 0)
	n.forgets()
	n.hears(n.actor(1).ready(true))
	n.expects("lead → stopping cause=check-failed", "stop hook", "lose hook")
}

// M32: nobody is asked over and over who does not get ready, and nobody is forgotten.
func TestM32_NoStormOfPrepares(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1)
	n.leads(1)
	n.barred(BarCheck)
	for range 60 {
		n.forgets()
		if n.node.reign.transfer.to == hostID(1) {
			n.hears(n.actor(1).ready(false))
		}
		n.acknowledges(1, time.Second, 0)
	}
	n.forgets()
	n.is(Lead)
	if got := n.prepares(); got < 10 || got > 3*20 {
		t.Errorf("%d PREPAREs in a minute", got)
	}
}

// M32: the bar goes before anything of the leadership has ended: the leader stays. The
// answer to what it asked comes too late.
func TestM32_ABarThatGoesInTime(t *testing.T) {
	n := leading(t)
	n.barred(BarCheck)
	n.expects("send n2 PREPARE")
	late := n.actor(2).ready(true)
	n.unbarred(BarCheck)
	n.expects()
	n.hears(late)
	n.expects("ignored late-reply")
	n.is(Lead)
	n.barred(BarCheck) // and it may come again
	n.expects("send n2 PREPARE")
}

// M32: of two bars one goes, and the other still holds the leader back.
func TestM32_OneOfTwoBarsGoes(t *testing.T) {
	n := leading(t)
	n.barred(BarCheck)
	n.forgets()
	n.barred(BarMaintenance)
	n.unbarred(BarCheck)
	n.hears(n.actor(2).ready(true))
	n.expects("lead → stopping", "stop hook", "lose hook")
}

// M32: what an operator asked for, or a stop, does not end with a bar.
func TestM32_ABarThatGoesEndsNothingElse(t *testing.T) {
	t.Run("hand-over", func(t *testing.T) {
		n := leading(t)
		n.happens(Command{Verb: HandOver, To: hostID(1), Token: 4})
		n.expects("send n1 PREPARE")
		n.barred(BarCheck)
		n.unbarred(BarCheck)
		n.hears(n.actor(1).ready(true))
		n.expects("lead → stopping cause=stepped-down", "stop hook", "lose hook")
	})
	t.Run("stop", func(t *testing.T) {
		n := leading(t)
		n.barred(BarCheck)
		n.expects("send n2 PREPARE")
		n.happens(Command{Verb: Leave, Token: 9})
		n.unbarred(BarCheck)
		n.hears(n.actor(2).ready(true))
		n.expects("lead → stopping", "stop hook", "lose hook")
	})
}

// Maintenance that is taken back does not end a stop that has come meanwhile.
func TestMaintenanceTakenBackOfOneThatStops(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: Maintain, Token: 4})
	n.expects("send n2 PREPARE")
	n.happens(Command{Verb: Leave, Token: 9})
	n.unbarred(BarMaintenance)
	n.hears(n.actor(2).ready(true))
	n.expects("lead → stopping cause=stopped", "stop hook", "lose hook")
	if got := n.node.Status().Bars; got.Has(BarMaintenance) {
		t.Errorf("bars are %q", got)
	}
	n.forgets()
}

// M32: a barred host follows, votes and answers, but is nobody's successor or rival.
func TestM32_ABarredFollower(t *testing.T) {
	for bar := range yields {
		t.Run(bar.String(), func(t *testing.T) {
			n := storyOf(t, 2, Config{}, 1, 3)
			n.follows(3, 1)
			n.barred(bar)
			n.hears(n.actor(3).says(wire.Frame{Kind: wire.Prepare, Flags: wire.AckReq, Epoch: n.node.epoch}))
			n.expects("send n3 READY ready=false flags=draining,fresh")
			resigned := n.actor(3).resigns(1)
			resigned.Successor = hostID(2)
			n.hears(resigned)
			n.expects("send n3 RESIGN_ACK", "follow → observe cause=leader-resigned")
			n.hears(n.actor(1).election(n.actor(3).epoch(1)))
			n.expects("send n1 ANSWER verdict=ineligible")
			n.waits(10 * time.Second)
			n.forgets()
			n.is(Observe)
			n.unbarred(bar)
			n.expects("observe → stagger cause=" + string(barTable[bar].goes))
		})
	}
}

// M32: a claim is taken back, and whoever granted it is told so.
func TestM32_ABarredClaimantWithdraws(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.canvassed()
	n.hearsAndForgets(n.actor(1).replies(wire.Canvass, wire.Frame{Kind: wire.Answer, Verdict: wire.Yes}))
	n.is(Claiming)
	n.barred(BarCheck)
	n.expects("send n1 RESIGN reason=abandoned", "send n2 RESIGN reason=abandoned", "claim → observe cause=check-failed")
}

// M32: a bar that comes while a leader stops changes nothing, and it does not stand
// afterwards.
func TestM32_ABarWhileStopping(t *testing.T) {
	n := leading(t)
	n.happens(Command{Verb: HandOver, To: hostID(1), Token: 4})
	n.forgets()
	n.hears(n.actor(1).ready(true))
	n.forgets()
	n.barred(BarCheck)
	n.expects()
	n.loseHookEnds()
	n.expects("send n1 RESIGN", "send n2 RESIGN", "stopping → observe", "save promoted=none")
}

// A barred leader that nobody relieves may go on for long: who is stopped meanwhile
// waits for no end of its leadership, so it does not say that it is draining.
func TestM32_ABarredLeaderIsNotDraining(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1)
	n.leads(1)
	n.acknowledges(1, 100*time.Millisecond, wire.Draining)
	n.barred(BarCheck)
	n.acknowledges(1, 200*time.Millisecond, wire.Draining)
	n.forgets()
	last := slices.IndexFunc(n.sent, func(s Send) bool { return s.Frame.Flags&wire.Draining != 0 })
	if last >= 0 {
		t.Errorf("says %v", &n.sent[last].Frame)
	}
}

// Maintenance as an operator asks for it: a leader has handed over when it is told ok,
// and is barred from the moment at which its leadership began to end.
func TestMaintain(t *testing.T) {
	t.Run("a leader hands over", func(t *testing.T) {
		n := leading(t)
		n.happens(Command{Verb: Maintain, Token: 4})
		n.expects("send n2 PREPARE")
		if n.node.Status().Bars != 0 {
			t.Error("barred before anybody was ready")
		}
		n.hears(n.actor(2).ready(true))
		n.expects("lead → stopping cause=maintenance", "stop hook", "lose hook cause=maintenance")
		n.loseHookEnds()
		n.expects("send n1 RESIGN successor=n2", "send n2 RESIGN successor=n2", "stopping → observe", "save promoted=none")
		n.hears(n.actor(2).heartbeat(2))
		n.expects("observe → follow leader=n2", "reply ok")
	})
	t.Run("nobody is ready", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1)
		n.leads(1)
		n.happens(Command{Verb: Maintain, Token: 4})
		n.forgets()
		n.hears(n.actor(1).ready(false))
		n.expects("reply " + ErrNobodyReady.Error())
		n.is(Lead)
		if n.node.Status().Bars != 0 {
			t.Error("barred though it was refused")
		}
	})
	t.Run("forced", func(t *testing.T) {
		n := storyOf(t, 3, Config{}, 1)
		n.leads(1)
		n.happens(Command{Verb: Maintain, Force: true, Token: 4})
		n.forgets()
		n.hears(n.actor(1).ready(false))
		n.expects("lead → stopping cause=maintenance", "stop hook", "lose hook")
		n.loseHookEnds()
		n.expects("send n1 RESIGN", "stopping → observe", "reply ok", "save promoted=none")
	})
	t.Run("a follower", func(t *testing.T) {
		n := storyOf(t, 2, Config{}, 1, 3)
		n.follows(3, 1)
		n.happens(Command{Verb: Maintain, Token: 4})
		n.expects("reply ok")
		if got := n.node.Status().Bars; got != Bars(0).with(BarMaintenance, true) {
			t.Errorf("bars are %q", got)
		}
	})
	t.Run("one change at a time", func(t *testing.T) {
		n := leading(t)
		n.happens(Command{Verb: HandOver, To: hostID(1), Token: 4})
		n.forgets()
		n.happens(Command{Verb: Maintain, Token: 5})
		n.expects("reply " + ErrBusy.Error())
	})
	t.Run("taken back", func(t *testing.T) {
		n := leading(t)
		n.happens(Command{Verb: Maintain, Token: 4})
		n.forgets()
		n.unbarred(BarMaintenance)
		n.expects("reply " + ErrTakenBack.Error())
		n.hears(n.actor(2).ready(true))
		n.expects("ignored late-reply")
		n.is(Lead)
	})
}
