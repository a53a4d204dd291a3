package election

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// challenge is the ELECTION that a starter sends.
func (n *Node) challenge() wire.Frame {
	return wire.Frame{Kind: wire.Election, Reason: n.contest.reason, Epoch: n.epoch,
		FailedCounter: n.abandonedEpoch.Counter, HeartbeatAge: n.heartbeatAge()}
}

// onElection answers a challenge. Whoever knows a living leader says so (R7:
// one badly connected node must not depose it); who cannot lead says so, and is
// not waited for (R11); the rest is the algorithm's.
func (n *Node) onElection(p *peer, f *wire.Frame) {
	switch {
	case n.state == Lead && f.Reason == wire.Preempt:
		n.onPreemptRequest(p, f)
	case n.protectsLeader(p, f):
	case n.state == Stopping || !n.isElectable() || n.canvassedInVain() || n.backsOff():
		n.answer(p, f, wire.Ineligible, 0)
	case n.isOutrankedBy(p):
		n.answer(p, f, wire.Ineligible, 0)
		if f.Reason != wire.Preempt {
			n.strategy.onBetterStarter(n, p)
		}
	case n.state == Start:
		n.onElectionWhileSettling(p, f)
	default:
		n.strategy.onElection(n, p, f)
	}
}

// protectsLeader answers who would stand, and reports whether it did, if there is a
// leader. Whose epoch the other has given up is no matter: it may be of a leader that
// the other alone does not hear.
func (n *Node) protectsLeader(p *peer, f *wire.Frame) bool {
	switch {
	case n.state == Lead:
		n.showLeadership(p, f)
	case n.leaderIsFresh() && !n.isLeadersOwn(p, f):
		n.answer(p, f, wire.LeaderAlive, 0)
	case n.state == Stopping && n.reign.ending.planned:
		n.answer(p, f, wire.LeaderAlive, 0)
	default:
		return false
	}
	return true
}

// onElectionWhileSettling: where nobody led yet, a better node that is still
// listening is worth waiting for; where a leader died it is not.
func (n *Node) onElectionWhileSettling(p *peer, f *wire.Frame) {
	if f.Reason == wire.LeaderFailed || f.Reason == wire.Transfer {
		n.answer(p, f, wire.Ineligible, 0)
		return
	}
	n.answer(p, f, wire.OK, n.settleEnd.Sub(n.now))
}

// isLeadersOwn: the leader itself asks, in the epoch that it leads in or knowing a
// later one. So it lets go of it, to claim another (M12), and nobody need protect it.
func (n *Node) isLeadersOwn(p *peer, f *wire.Frame) bool {
	return p.ID == n.epoch.Owner && f.Epoch.Compare(n.epoch) >= 0
}

func (n *Node) answer(p *peer, f *wire.Frame, v wire.Verdict, eta time.Duration) {
	n.reply(p, f, wire.Frame{Kind: wire.Answer, Verdict: v, ETA: millis(eta), HeartbeatAge: n.heartbeatAge()})
}

// onAnswer takes the reply to our ELECTION or CANVASS, or the one to our QUERY that says that
// its sender will not lead.
func (n *Node) onAnswer(p *peer, f *wire.Frame) {
	if n.exchanges.end(p.ID, wire.Query, f.Round) { // it has canvassed in vain (M36)
		n.onQuerySilent(p)
		return
	}
	isVoters := n.exchanges.end(p.ID, wire.Canvass, f.Round)
	inTime := isVoters || n.answered(p, wire.Election, f)
	if !inTime {
		n.sampleLate(p, f)
	}
	if !inTime && f.Verdict == wire.LeaderAlive && (n.state == Stagger || n.state == Elect) && !n.contest.certain {
		n.onLeaderAlive(f) // late, as after a cut: but somebody hears a leader
		return
	}
	if !inTime || (n.state != Elect && n.state != Wait) {
		return
	}
	n.sampleEcho(p, f)
	if isVoters {
		n.onVoterAnswer(f)
		return
	}
	switch f.Verdict {
	case wire.OK:
		n.strategy.onOK(n, p, f)
	case wire.LeaderAlive:
		n.onLeaderAlive(f)
		if n.state == Elect && n.contest.won == "" && !n.exchanges.awaits(wire.Election) {
			n.retry(PeersHearLeader) // a leader that we know nothing of
		}
	default:
		p.silent = true
		n.onElectionSilent()
	}
}

// onLeaderAlive abandons the round: somebody hears a leader. If it is the one
// that we doubt, we look again soon; our own last heartbeat stays as it was.
func (n *Node) onLeaderAlive(f *wire.Frame) {
	if f.Epoch == n.epoch && f.Epoch == n.abandonedEpoch {
		n.abandonedEpoch = wire.Epoch{}
		n.resumeFollowing(PeersHearLeader)
		return
	}
	n.toldOf(f.Epoch)
}

// onElectionSilent: one more of those we challenged will not answer. When
// nobody is left to wait for, the algorithm decides.
func (n *Node) onElectionSilent() {
	switch {
	case n.state != Elect || n.exchanges.awaits(wire.Election):
	case n.contest.won == "":
		n.strategy.onDeadline(n)
	}
}

// onWaitTimeout: the better node has not announced itself in the time that it
// asked for. It is asked what keeps it, a few times, and then done without.
func (n *Node) onWaitTimeout() {
	helper := n.peer(n.contest.helper)
	if helper == nil || n.contest.extensions == maxExtensions {
		if helper != nil {
			helper.silent = true
		}
		n.strategy.onHelperLost(n)
		return
	}
	n.contest.extensions++
	n.ask(helper, wire.Frame{Kind: wire.Query, Epoch: n.epoch}, 0)
	n.timers.arm(stateTimer, n.now.Add(n.contest.patience))
}
