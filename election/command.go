package election

import (
	"cmp"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// onCommand does what an operator or the agent asks.
func (n *Node) onCommand(c Command) {
	switch c.Verb {
	case Leave:
		n.onLeaveCommand(c.Token)
	case Reprioritise:
		n.cfg.Priority = c.Priority
		if leader := n.peer(n.epoch.Owner); n.state == Follow && leader != nil {
			n.armPreemption(leader)
		}
		n.emit(Reply{Token: c.Token})
	case StepDown, HandOver:
		n.onHandOverCommand(c)
	case Maintain:
		n.onMaintainCommand(c)
	case Forget:
		n.onForgetCommand(c)
	case Abdicate:
		if n.state == Lead {
			n.becomeStopping(c.cause(), ending{})
		}
		n.emit(Reply{Token: c.Token})
	case Stand:
		n.timers.disarm(holdTimer)
		n.resumeStanding(HoldEnded, 0)
		n.emit(Reply{Token: c.Token})
	default:
		panic("BUG: unknown command " + c.String())
	}
}

func (c Command) cause() Cause { return cmp.Or(c.Cause, SteppedDown) }

// onLeaveCommand goes cleanly: a leader hands over first, a claimant withdraws,
// the others just say so. The Reply comes when everything is done.
func (n *Node) onLeaveCommand(token uint64) {
	if n.leaving {
		n.emit(Reply{Token: token})
		return
	}
	n.leaving, n.leaveToken = true, token
	switch n.state {
	case Lead:
		if n.reign.transfer.to.IsZero() {
			n.prepare(Stopped)
		}
	case Stopping:
	case Claiming:
		n.withdraw(Stopped)
		n.finishLeave()
	default:
		if !n.linger() {
			n.finishLeave()
		}
	}
}

const (
	// lingerLook bounds the moment in which a follower that is to go looks whether
	// its leader goes too: whoever stops all hosts stops one after the other.
	lingerLook = 500 * time.Millisecond
	// lingerMost is longer than a lose hook usually has, and shorter than what
	// service managers wait for an end. Arbitrary.
	lingerMost = time.Minute
)

// linger keeps a voter for a moment that is asked to go. Its acknowledgements are
// the lease under which a leader that is stopped at the same time runs its lose
// hook; gone at once, it would have that cut short.
func (n *Node) linger() bool {
	if !n.isQuorum() || n.state != Follow || !n.leaderIsFresh() || !n.saved.Roster.Has(n.cfg.ID) {
		return false
	}
	n.timers.arm(lingerTimer, n.now.Add(min(2*n.cfg.Heartbeat, lingerLook)))
	n.lingerEnd = n.now.Add(lingerMost)
	return true
}

// lingerOn: the leader's heartbeat says that it is about to let go, so who goes
// stays until it has resigned or falls silent.
func (n *Node) lingerOn(leader *peer) {
	if n.timers.isArmed(lingerTimer) && leader.Draining {
		n.timers.arm(lingerTimer, earlier(n.lingerEnd, n.now.Add(n.suspectTimeout())))
	}
}

// onResignDone: RESIGN was acknowledged by one more, or given up on. A node
// that leaves goes when nobody is left to tell.
func (n *Node) onResignDone() {
	if n.leaving && n.state == Stopping && n.reign.epoch.IsZero() && !n.exchanges.awaits(wire.Resign) {
		n.finishLeave()
	}
}

// finishLeave says goodbye. memberlist cannot tell a member that left from one
// that died, so we say it ourselves.
func (n *Node) finishLeave() {
	for _, p := range n.heartbeatAudience() {
		n.sendTo(p, wire.Frame{Kind: wire.Leave})
	}
	n.leaderKnown = false
	n.timers.disarm(lingerTimer)
	n.becomeObserver(Stopped)
	n.emit(Reply{Token: n.leaveToken})
}

// onSaveFailed: without a disk there is no new epoch. The node gives up what it
// has or wants, and goes on following.
func (n *Node) onSaveFailed(e SaveFailed) {
	n.diskFailed, n.unsaved = true, true
	n.withdrawRoster()
	switch n.state {
	case Claiming, Lead:
		n.onClaimNotSaved(e)
	case Stagger, Elect, Wait:
		n.becomeObserver(DiskFailed)
	}
	if n.enteredAt == e.Step { // the Transition was dropped with what failed
		n.showTransition(n.state)
	}
}

// afterSave gives what a step's last Save kept from being carried out and no disk
// has to do with: nobody would say it again. What a frame said is repeated, or
// nobody may hear it.
func afterSave(step []Effect) (kept []Effect) {
	for i := len(step) - 1; i >= 0; i-- {
		switch step[i].(type) {
		case Save:
			slices.Reverse(kept)
			return kept
		case Reply, Tether, Will, Departed:
			kept = append(kept, step[i])
		}
	}
	return nil
}

// onClaimNotSaved tells which of a leadership's saves it was.
func (n *Node) onClaimNotSaved(e SaveFailed) {
	switch {
	case n.reign.mintedAt == e.Step && e.State.Promoted != n.reign.epoch:
		n.epoch, n.leaderKnown = n.reign.prior, false // the new epoch never left this node
		n.promise.Release(n.reign.epoch)
		n.saved.Promoted, n.saved.Vote, n.saved.Accepted = wire.Epoch{}, n.reign.priorVote, n.reign.accepted
		n.endReign()
		n.becomeObserver(DiskFailed)
	case n.state == Claiming:
		n.withdraw(DiskFailed)
	default:
		n.becomeStopping(DiskFailed, ending{})
	}
}

// onSaveRecovered: the node may stand again, and what was not saved is.
func (n *Node) onSaveRecovered() {
	n.diskFailed = false
	n.save()
	n.resumeStanding(DiskRecovered, 0)
}
