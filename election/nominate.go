package election

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// nominator is what Enhanced and Smallest have in common: who is challenged
// volunteers and starts nothing, and the starter names the best that volunteered.
// In the papers the starter announces the winner in its stead; but the winner may
// have died since, and has made no epoch (R9). NOMINATE costs one message more.
type nominator struct{}

// onOK: with an ETA p stands itself and this round has ended, since of two
// concurrent starters the better one's round survives. Without one p is there to
// be named; the best is named as soon as no better node may still answer. Who
// answers later is next in line.
func (nominator) onOK(n *Node, p *peer, f *wire.Frame) {
	if f.ETA > 0 && n.state == Elect {
		n.becomeWaiting(p, n.waitOf(f.ETA))
		return
	}
	n.contest.volunteers = append(n.contest.volunteers, p.ID)
	best := n.bestVolunteer()
	switch {
	case n.state == Wait:
	case best == nil: // p outranks us in its own eyes only
		p.silent = true
		n.onElectionSilent()
	case !n.awaitsBetterThan(best):
		n.nominate(best, 0)
	}
}

// onHelperLost names the next best; without one the round starts again. Who let the
// nomination pass may go on talking, so silence alone does not strike it off.
func (nominator) onHelperLost(n *Node) {
	lost := n.contest.helper
	n.contest.volunteers = slices.DeleteFunc(n.contest.volunteers, func(id wire.ID) bool { return id == lost })
	if next := n.bestVolunteer(); next != nil {
		n.nominate(next, 0)
		return
	}
	n.becomeElecting(BetterSilent)
}

// onBetterStarter leaves the field to a better starter. Once in a contest: one
// that is heard but does not hear must not keep the others waiting.
func (nominator) onBetterStarter(n *Node, p *peer) {
	switch {
	case n.contest.yielded:
	case n.state == Stagger:
		n.yield()
	case n.state == Elect && n.contest.won == "":
		n.contest.yielded = true
		n.becomeWaiting(p, n.roundLength())
	}
}

// onNominate: a starter found this node the best that answers. The reply is the
// announcement; if that has to wait, be it for a better node in Wait, a CID says
// for how long.
func (nominator) onNominate(n *Node, p *peer, f *wire.Frame) {
	switch {
	case n.leaderIsFresh():
		n.onQuery(p, f)
		return
	case !n.isElectable() || n.state == Stopping || n.state == Observe || n.canvassedInVain():
		n.count("nomination-declined") // the starter goes on to the next best
		return
	case n.state == Follow || n.state == Suspect || n.state == Claiming:
		n.stand(p)
	case n.state == Stagger || (n.state == Elect && n.contest.won == ""):
		n.takeNomination(f)
	}
	if n.state != Claiming && n.state != Lead {
		n.reply(p, f, wire.Frame{Kind: wire.Cid, HeartbeatAge: n.heartbeatAge(), Remain: millis(n.expectedWait())})
	}
}

// takeNomination claims, unless this node heard in this round of a better one
// that the starter does not hear (M15). It is passed on once, or it might circle.
func (n *Node) takeNomination(f *wire.Frame) {
	if p := n.heardBetter(); p != nil && f.Flags&wire.Hop == 0 {
		n.nominate(p, wire.Hop)
		return
	}
	n.cancelRound()
	n.claim(Nominated)
}

// nominate names p the winner, and waits for its announcement. Those asked that
// have not answered may still do so.
func (n *Node) nominate(p *peer, how wire.Flags) {
	asked := slices.Clone(n.exchanges)
	n.becomeWaiting(p, 7*n.rto(p)) // NOMINATE is sent three times
	for _, x := range asked {
		if x.frame.Kind == wire.Election {
			n.exchanges = append(n.exchanges, x)
		}
	}
	n.ask(p, wire.Frame{Kind: wire.Nominate, Reason: n.contest.reason, Epoch: n.epoch, Flags: how}, 0)
}

// volunteer answers OK and starts no election: that is the saving over classic. A
// node with a round of its own says by an ETA that it goes on with it; one that
// offers itself gives the starter the time to name somebody.
func (n *Node) volunteer(p *peer, f *wire.Frame) {
	switch n.state {
	case Elect, Wait, Claiming:
		n.answer(p, f, wire.OK, max(n.expectedWait(), time.Millisecond))
	default:
		n.answer(p, f, wire.OK, 0)
	}
	switch n.state {
	case Claiming:
		n.ask(p, n.announcement(wire.Claim), 0)
	case Follow: // the leader is not fresh
		n.becomeSuspicious(Challenged)
	case Stagger:
		n.yield()
	}
}

// yield puts off our own turn by the length of another's round, once.
func (n *Node) yield() {
	if n.contest.yielded {
		return
	}
	n.contest.yielded = true
	n.timers.arm(stateTimer, later(n.timers[stateTimer], n.now.Add(n.roundLength()+n.stagger(n.rank()))))
}

// roundLength is T_coord for somebody else's round: until it has given up on the
// silent, and its NOMINATE has arrived.
func (n *Node) roundLength() time.Duration { return 3*n.roundTrip() + syncAllowance }

// bestVolunteer is the best that volunteered in this round and has not been found
// silent since.
func (n *Node) bestVolunteer() *peer {
	return firstOf(n.better(), func(p *peer) bool { return slices.Contains(n.contest.volunteers, p.ID) })
}

// heardBetter is the best of those that outrank this node and were heard in this
// round, or nil.
func (n *Node) heardBetter() *peer {
	return firstOf(n.better(), func(p *peer) bool { return !p.heard.IsZero() && !p.heard.Before(n.contest.began) })
}

func firstOf(peers []*peer, which func(*peer) bool) *peer {
	if i := slices.IndexFunc(peers, which); i >= 0 {
		return peers[i]
	}
	return nil
}

// awaitsBetterThan: somebody who outranks p may still answer our ELECTION.
func (n *Node) awaitsBetterThan(p *peer) bool {
	return slices.ContainsFunc(n.exchanges, func(x *exchange) bool {
		q := n.peer(x.to)
		return x.frame.Kind == wire.Election && q != nil && n.cfg.outranks(q.Priority, q.ID, p.Priority, p.ID)
	})
}

// challengeAll sends ELECTION to these at once.
func (n *Node) challengeAll(peers []*peer) {
	for _, p := range peers {
		n.ask(p, n.challenge(), 0)
	}
}
