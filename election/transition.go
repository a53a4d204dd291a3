package election

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// enter changes the state: it disarms the timers of the old one, and reports.
// Only the becomeX methods call it.
func (n *Node) enter(to State, cause Cause) {
	from := n.state
	if from == Claiming && to != Lead && !n.reign.promoted.IsZero() {
		n.unpromote()
	}
	n.state, n.since, n.cause, n.enteredAt = to, n.now, cause, n.steps
	n.timers.end(ofState)
	n.showTransition(from)
	n.settleHandOver(to)
}

// showTransition reports the present state as entered from another.
func (n *Node) showTransition(from State) {
	t := Transition{From: from, To: n.state, Role: n.role(), Epoch: n.epoch, Cause: n.cause}
	if n.leaderKnown {
		t.Leader = n.epoch.Owner
	}
	n.emit(t)
}

// role is what users see: an observer stays one whatever it follows.
func (n *Node) role() Role {
	if n.cfg.Part != Voter && n.state.Role() != RoleLeader {
		return RoleObserver
	}
	return n.state.Role()
}

// becomeFollower follows the epoch's owner; the caller arms the suspicion.
func (n *Node) becomeFollower(cause Cause) {
	n.cancelRound()
	n.contest, n.opinions = contest{}, opinions{}
	for _, p := range n.peers {
		p.silent = false
	}
	n.forgiveNextLife()
	n.enter(Follow, cause)
}

// becomeSuspicious doubts a silent leader: it is probed, and others are asked.
func (n *Node) becomeSuspicious(cause Cause) {
	n.contest = contest{began: n.now, backoff: n.contest.backoff}
	n.opinions = opinions{}
	n.enter(Suspect, cause)
	n.askOpinions()
	if leader := n.peer(n.epoch.Owner); leader != nil {
		n.probe(leader, wire.AskLeader)
		return
	}
	n.timers.arm(stateTimer, n.now.Add(n.roundTrip())) // known by hearsay only: others must vouch for it
}

// giveUp says that the owner of e leads no more, as far as this node knows.
func (n *Node) giveUp(e wire.Epoch) {
	n.abandonedEpoch, n.lostLeader, n.leaderKnown = e, life{id: e.Owner}, false
	if p := n.peer(e.Owner); p != nil {
		n.lostLeader.nonce, p.givenUpAt = p.Nonce, n.now
	}
}

// giveUpDoubted: another claims while this node still asks after its leader. That answers the doubt.
func (n *Node) giveUpDoubted() {
	if p := n.peer(n.epoch.Owner); p != nil && n.state == Suspect {
		p.givenUpAt = n.now
	}
}

// loseLeader gives the leader up. Nobody claims before release.
func (n *Node) loseLeader(cause Cause, release time.Time) {
	n.giveUp(n.epoch)
	if p := n.peer(n.epoch.Owner); p != nil {
		p.lost.add(n.epoch, n.now)
		if cause == ProcessGone {
			p.goneAt = n.now
		}
	}
	began := n.contest.began
	if began.IsZero() {
		began = n.now.Add(-n.cfg.Lease) // no doubt came before: whoever was heard lately counts as heard
	}
	n.contest = contest{began: began, release: release, reason: wire.LeaderFailed,
		prompted: n.contest.prompted, backoff: n.contest.backoff, certain: cause != LeaderFailed}
	n.becomeStaggering(cause, 0)
}

// becomeStaggering waits this node's turn: its rank's share, so that usually
// only the best stands, after what base and an earlier failure add.
func (n *Node) becomeStaggering(cause Cause, base time.Duration) {
	n.cancelRound()
	if !n.isElectable() {
		n.becomeObserver(cause)
		return
	}
	if n.contest.cause == "" {
		n.contest.cause = cause
	}
	n.enter(Stagger, cause)
	from := later(n.now, n.contest.release)
	if n.epoch.IsZero() { // a first election; who heard of a leader need not wait for others to start
		from = later(from, n.settleEnd)
	}
	turn := from.Add(base + n.contest.backoff)
	if !n.contest.prompted {
		turn = turn.Add(n.stagger(n.rank()))
	}
	n.timers.arm(stateTimer, turn)
}

// becomeObserver knows no leader and stands for nothing, until one is heard. It remembers
// until when the last one may lead: what keeps it from standing may go before.
func (n *Node) becomeObserver(cause Cause) {
	n.cancelRound()
	n.contest = contest{release: n.contest.release}
	n.enter(Observe, cause)
}

// becomeElecting challenges those who outrank this node, as the algorithm has it.
func (n *Node) becomeElecting(cause Cause) {
	n.cancelRound()
	n.contest.helper, n.contest.won, n.contest.volunteers = wire.ID{}, "", nil
	n.contest.canvass = nil
	n.enter(Elect, cause)
	n.strategy.start(n)
}

// becomeWaiting leaves the field to p, which answered, for as long as it says
// that it needs (T_coord).
func (n *Node) becomeWaiting(p *peer, eta time.Duration) {
	n.cancelRound()
	n.contest.helper, n.contest.extensions = p.ID, 0
	n.enter(Wait, AwaitingBetter)
	n.allow(p, eta)
}

// allow gives p, whom we wait for, the time that it says it needs.
func (n *Node) allow(p *peer, eta time.Duration) {
	n.contest.patience = eta + 2*n.rto(p) + syncAllowance
	n.timers.arm(stateTimer, n.now.Add(n.contest.patience))
}

// becomeClaimant mints the next epoch, has it written to disk, and announces it
// to everybody.
func (n *Node) becomeClaimant(cause Cause) {
	if n.saved.MaxCounter >= wire.MaxCounter {
		n.count("counter-exhausted")
		n.becomeObserver(DiskFailed)
		return
	}
	n.cancelRound()
	priorVote := n.saved.Vote
	n.saved.MaxCounter++
	n.saved.Promoted = wire.Epoch{} // of a claim that this one replaces
	if n.isQuorum() {
		n.voteForSelf()
	}
	n.save()
	prior := n.epoch
	n.epoch, n.leaderKnown = wire.Epoch{Counter: n.saved.MaxCounter, Owner: n.cfg.ID}, false
	n.reign = newReign(n.epoch, prior, n.cfg.ShortestLease())
	n.reign.commitment = n.commitment
	n.reign.priorVote, n.reign.accepted = priorVote, n.saved.Accepted
	n.reign.mintedAt = n.steps
	n.contest.isolated, n.contest.canvass = false, nil
	for _, p := range n.peers {
		p.waits = waits{}
	}
	n.enter(Claiming, cause)
	n.announceClaim()
	n.checkClaim()
}

// becomeLeader takes the leadership that was claimed, once enough acknowledged
// it (M11).
func (n *Node) becomeLeader() {
	cause := n.contest.cause
	n.cancelRound()
	n.contest, n.abandonedEpoch, n.leaderKnown = contest{}, wire.Epoch{}, true
	n.lastFromLeader = time.Time{}
	n.reign.fullUntil = n.now.Add(fullBeats * n.cfg.Heartbeat)
	n.reign.need = n.needAcks() // these have acknowledged: nothing to forgive
	n.enter(Lead, cause)
	n.beat()
	n.renewDeadline()
	n.emit(StartHook{Hook: Become, Epoch: n.epoch, Cause: cause})
}

// becomeStopping ends the leadership: the lose hook runs now, and the state
// lasts until it has ended. A planned end goes on renewing the lease meanwhile,
// so that nobody takes over before.
func (n *Node) becomeStopping(cause Cause, end ending) {
	n.cancelRound()
	if n.isQuorum() && !end.planned && end.by.IsZero() {
		end.by = n.releaseEnd() // whatever the cause, the voters are free then
	}
	n.reign.ending = end
	n.timers.disarm(stepDownTimer)
	if !end.planned {
		n.timers.disarm(beatTimer)
		n.timers.disarm(repeatTimer)
	}
	n.flaps.add(n.reign.epoch, n.now)
	if token := n.reign.transfer.token; token != 0 {
		n.owedReply, n.reign.transfer.token = token, 0
	}
	n.enter(Stopping, cause)
	n.reign.leaseShown = time.Time{}
	n.emit(LeaseUntil{})
	n.emit(StopHook{Epoch: n.reign.epoch})
	n.emit(StartHook{Hook: Lose, Epoch: n.reign.epoch, Cause: cause, By: end.by})
}

// onStateTimeout: the present state has waited long enough.
func (n *Node) onStateTimeout() {
	switch n.state {
	case Start:
		n.onSettled()
	case Suspect:
		n.confirmLoss()
	case Stagger:
		n.becomeElecting(n.cause)
	case Elect:
		n.claim(n.contest.won)
	case Wait:
		n.onWaitTimeout()
	case Claiming:
		n.onClaimDue()
	}
}

// onJoinEnded: who is there is known by now, so this node waits for the rest of its settle time only. If it was frozen, it
// listens for as long as R12 says.
func (n *Node) onJoinEnded() {
	if !n.now.Before(n.settleEnd) {
		return
	}
	wait := n.joinWait
	n.settleEnd, n.joinWait = n.settleEnd.Add(-wait), 0
	isFirst := n.state == Start || n.state == Stagger && n.epoch.IsZero()
	if isFirst && n.timers.isArmed(stateTimer) {
		n.timers.arm(stateTimer, later(n.timers[stateTimer].Add(-wait), n.thawedAt.Add(n.suspectTimeout()/2)))
	}
}

// onSettled: this node has listened long enough for a leader.
func (n *Node) onSettled() {
	n.contest.reason, n.contest.cause = wire.Boot, Boot
	n.contest.began = n.now.Add(-n.cfg.Settle)
	n.becomeStaggering(Boot, 0)
}
