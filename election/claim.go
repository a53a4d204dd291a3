package election

import (
	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// claim is called by whoever found that nobody better is there, and why. It
// waits for the old leader's lease, makes sure that somebody hears us, and
// announces.
func (n *Node) claim(cause Cause) {
	if n.state != Elect { // named as successor, or claiming anew
		n.enter(Elect, n.contest.cause)
	}
	n.contest.won = cause
	switch h, until := n.hurdle(); h {
	case HurdleLease:
		n.timers.arm(stateTimer, until)
	case HurdleMute, HurdlePromise:
		n.timers.arm(stateTimer, until)
		n.contest.isNamed = false
	case HurdleMembers:
		n.retry(TooFewMembers)
	case HurdleRoster:
		n.formRoster()
	case HurdleVoters:
		n.canvassVoters()
	case HurdleSilence:
		n.lookForOthers()
	default:
		n.becomeClaimant(cause)
	}
}

// wasCutOff: this node has lost a lease or found nobody, so another may lead by
// now. That it hears somebody again does not say that nobody does: it asks.
func (n *Node) wasCutOff() bool { return n.contest.isolated || n.contest.cause == LeaseExpired }

// lookForOthers is for a claimant that has heard too few others of late. A
// leader that nobody hears would use up epochs and move everybody for nothing
// (M11); so it asks for a sign of life first, and without any
// waits longer each time.
func (n *Node) lookForOthers() {
	if !n.contest.probed {
		n.contest.probed = true
		n.probeSome(n.acknowledgers(), max(probeCount, n.needAcks()))
		n.timers.arm(stateTimer, n.now.Add(n.roundTrip()))
		return
	}
	n.contest.isolated = true
	n.retry(Isolated)
}

// heardCount is how many others that may acknowledge were heard since the doubt
// began.
func (n *Node) heardCount() int {
	return n.howMany(func(p *peer) bool {
		return p.mayAcknowledge() && !p.heard.IsZero() && !p.heard.Before(n.contest.began) && !n.isGone(p)
	})
}

// announcement is the COORDINATOR of our epoch.
func (n *Node) announcement(phase wire.Phase) wire.Frame {
	f := wire.Frame{Kind: wire.Coordinator, Flags: n.waitFlag(), Phase: phase, Epoch: n.epoch, Lease: millis(n.cfg.Lease),
		RosterVersion: n.saved.Roster.Version, Will: n.willHash()}
	if phase == wire.Claim {
		f.Lease = millis(n.reign.grant)
	}
	if phase == wire.InForce {
		f.Flags |= wire.Active
	}
	return f
}

// audience is who hears of a claim: everybody presumed alive, in any part,
// except the leader believed dead; should it live, our heartbeat tells it.
func (n *Node) audience() []*peer {
	return n.those(func(p *peer) bool { return n.presumedAlive(p) && !n.isGone(p) })
}

// onCoordAck takes a follower's word on our COORDINATOR or HEARTBEAT.
func (n *Node) onCoordAck(p *peer, f *wire.Frame) {
	switch {
	case f.AckVerdict == wire.AckStale && n.hasGrantedThis(f):
		n.onDuel(p, f)
	case f.AckVerdict == wire.AckStale:
		n.onStale(f)
	case f.AckVerdict == wire.AckLeased || f.AckVerdict == wire.AckHold:
		n.onRefusedClaim(f)
	case f.AckVerdict == wire.NotVoter:
		n.count("not-a-voter")
		n.answered(p, wire.Coordinator, f)
		n.onClaimsAnswered()
	case f.AckVerdict == wire.Accept && f.Epoch == n.reign.epoch && (n.state == Claiming || n.state == Lead):
		n.answered(p, wire.Coordinator, f)
		n.onAcknowledged(p, f.EchoSeq)
		n.checkClaim()
		n.onClaimsAnswered()
	case f.AckVerdict == wire.Accept: // of a claim or leadership that is over
		n.sampleLate(p, f)
	}
}

// checkClaim: once enough have acknowledged the claim, what an unclean restart
// must clean up after goes to disk. The disk may take longer than the lease, so
// the node leads only with its next step, which looks at the clock first.
func (n *Node) checkClaim() {
	if n.state != Claiming || !n.isAcknowledged() {
		return
	}
	n.timers.arm(stateTimer, n.now)
	if !n.reign.promoted.IsZero() {
		return // on disk already, and acknowledged again since
	}
	n.reign.promoted, n.reign.promotedAt = n.epoch, n.steps
	n.saved.Accepted = n.epoch
	n.saved.Promoted = n.epoch
	n.save()
}

// isAcknowledged: enough have acknowledged the claim, and their word holds for
// longer than stepping down takes.
func (n *Node) isAcknowledged() bool {
	need := n.needAcks()
	switch {
	case n.isQuorum():
		return n.now.Before(n.quorumEnd().Add(-n.cfg.StopBudget))
	case need == 0:
		return true
	}
	return n.now.Before(n.reign.lease.End(need).Add(-n.cfg.StopBudget))
}

// onPromoted: the promotion is on disk. If that took so long that too few
// acknowledgements are left, the claim is repeated: the others have it on disk too.
func (n *Node) onPromoted() {
	switch {
	case n.reign.promotedAt == n.steps: // not yet: the save is an effect of this step
		n.timers.arm(stateTimer, n.now)
	case n.isAcknowledged():
		n.becomeLeader()
	default:
		n.repeatClaim()
	}
}

// unpromote: a claim that was about to lead comes to nothing.
func (n *Node) unpromote() {
	n.reign.promoted = wire.Epoch{}
	n.saved.Promoted = wire.Epoch{}
	n.save()
}

// withdraw gives up a claim that came to nothing; its epoch is never used.
func (n *Node) withdraw(cause Cause) {
	n.abandonClaim()
	n.retry(cause)
}

// hasGrantedThis: a voter refuses our claim since it has granted the counter to another,
// itself perhaps, by whose id that epoch is the lower one.
func (n *Node) hasGrantedThis(f *wire.Frame) bool {
	return n.isQuorum() && n.state == Claiming && f.Epoch.Counter == n.epoch.Counter && f.Epoch.Compare(n.epoch) < 0
}

// onDuel: that voter will never grant this claim, so it is not asked again. The others
// may still, and then the claim is won (M22).
func (n *Node) onDuel(p *peer, f *wire.Frame) {
	if n.answered(p, wire.Coordinator, f) {
		n.reign.hasRival = true
		n.onClaimsAnswered()
	}
}

// onStale obeys R5: somebody knows a higher epoch. If its leader is fresh there
// we follow it; if nobody leads it, we need an epoch above it.
func (n *Node) onStale(f *wire.Frame) {
	if f.Epoch.Compare(n.epoch) <= 0 || (n.state != Claiming && n.state != Lead) {
		return
	}
	if !n.mayWrite() {
		return // each makes us mint another epoch, or follow one
	}
	isFresh := f.Flags&wire.Fresh != 0 && f.Epoch.Owner != n.cfg.ID && f.Epoch.Owner != quorum.LastID // nobody learns from others that it leads
	n.raiseCounter(f.Epoch.Counter)
	switch {
	case n.state == Lead && isFresh:
		n.onSuperseded(f.Epoch)
		n.overruleBy(f.Epoch.Owner)
	case n.state == Lead && n.isQuorum() && f.Round != 0: // on the claim, which was granted; heartbeats have no round
		n.count("late-reply")
	case n.state == Lead:
		n.becomeStopping(ReMinted, ending{reclaim: true, planned: n.isQuorum()}) // there its voters stay bound to it
	case isFresh:
		n.retry(ClaimStale)
		n.toldOf(f.Epoch)
	case n.isQuorum() && !n.contest.isNamed: // the voters are asked again before another counter is used up
		n.abandonClaim()
		n.retry(ClaimStale)
	default: // a named successor too: whoever named it would be the next to stand
		n.becomeClaimant(ClaimStale)
	}
}
