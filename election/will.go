package election

import (
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// A leader whose process is killed cannot resign, and its voters stay bound for what
// is left of its lease. What runs its commands outlives it, and knows when nothing of
// the leadership is left. So a leader's frames announce a will: the hash of a secret
// that its keeper alone knows, and says then to the leader's heirs (M24, M25).

// leaveWill tells the agent whom the keeper is to tell of a death, where that is no
// longer whom it was told last. It is looked at with each heartbeat, the first one before
// the become hook starts.
func (n *Node) leaveWill() {
	if n.reign.commitment.IsZero() { // the keeper has come since the claim
		n.reign.commitment = n.commitment
	}
	heirs := n.heirs()
	if slices.Equal(heirs, n.reign.heirs) {
		return
	}
	n.reign.heirs = heirs
	n.emit(Will{Epoch: n.reign.epoch, To: heirs})
}

// withdrawWill: the leadership ended cleanly, and who is to know is told by RESIGN.
func (n *Node) withdrawWill() {
	if len(n.reign.heirs) > 0 {
		n.reign.heirs = nil
		n.emit(Will{Epoch: n.reign.epoch})
	}
}

// willHash is what this leader's frames announce. It is the same in all of an epoch, since
// a receiver takes the first alone: also once another keeper has come, which does not
// know the secret.
func (n *Node) willHash() wire.WillHash {
	if n.reign.commitment.IsZero() {
		return wire.WillHash{}
	}
	return n.reign.commitment.Hash(n.cfg.Cluster, n.reign.epoch, n.saved.Incarnation, n.cfg.Nonce)
}

// heirs are whom a death frees. In quorum mode these are the voters, heard or not,
// and while the roster changes those of both. In available mode nobody is bound, and
// who would take over need only know where it was asked to wait.
func (n *Node) heirs() []netip.AddrPort {
	if n.reign.commitment.IsZero() {
		return nil
	}
	var out []netip.AddrPort
	for _, p := range n.heirsAmong() {
		if p.Status != Left && p.Addr.IsValid() {
			out = append(out, p.Addr)
		}
	}
	return out
}

func (n *Node) heirsAmong() []*peer {
	if !n.isQuorum() {
		if !n.asksToWait() {
			return nil
		}
		some := n.heartbeatAudience()
		if len(some) > fastFanOut {
			some = n.closeFollowers()
		}
		return slices.DeleteFunc(some, func(p *peer) bool { return p.Part != Voter })
	}
	var before []wire.ID
	if c := n.changing(); c != nil {
		before = c.Was()
	}
	return n.those(func(p *peer) bool { return n.isVoter(p.ID) || slices.Contains(before, p.ID) })
}

// asksToWait: whoever follows this leader shall not take over as soon as its process
// dies (M26). In quorum mode the voters' promises see to that.
func (n *Node) asksToWait() bool {
	return !n.isQuorum() && (n.hasHolders || n.cfg.TakeoverDelay > 0)
}

// waitFlag is what asksToWait adds to a COORDINATOR or HEARTBEAT.
func (n *Node) waitFlag() wire.Flags {
	if n.asksToWait() {
		return wire.Wait
	}
	return 0
}

// onHoldersChanged: a leader says so at once, for it may die before its next heartbeat.
func (n *Node) onHoldersChanged(e HoldersChanged) {
	was := n.asksToWait()
	n.hasHolders = e.Some
	if n.timers.isArmed(beatTimer) && n.asksToWait() != was {
		n.timers.arm(beatTimer, n.now)
	}
}

// onWillHeard takes what a leader left for the case of its death. It ends the life that
// announced it, and all that still comes of that life is late.
func (n *Node) onWillHeard(e WillHeard) {
	w, isKnown := n.pledges.find(e.Commitment)
	switch p := n.peer(w.epoch.Owner); {
	case !isKnown:
		n.count("unknown-will")
	case p == nil || p.Nonce != w.nonce:
		n.count("unknown-life") // it has another by now
	default:
		n.endLife(p, w.epoch)
	}
}

// endLife: p's process is dead, by its will, and so is its leadership of e.
func (n *Node) endLife(p *peer, e wire.Epoch) {
	p.died, p.heard, p.Draining = true, time.Time{}, true
	p.givenUpAt = n.now
	if p.Status == Alive {
		p.endedAt = n.now
	}
	p.resigned = max(p.resigned, e.Counter)
	n.pledges.forget(p.ID)
	n.inherit(p, e)
	n.giveUpOn(p, func(wire.Kind) bool { return true })
	n.onViewChanged()
}

// inherit ends what this node owed the dead leader of e: its promise, and the wait for
// the lease's end.
func (n *Node) inherit(p *peer, e wire.Epoch) {
	wasGranted := n.promise.Epoch == e
	n.promise.Release(e)
	if n.timers.isArmed(lingerTimer) && e == n.epoch {
		n.timers.arm(lingerTimer, n.now)
	}
	isFollowed, wasGivenUp := e == n.epoch && n.leaderKnown, e == n.abandonedEpoch
	switch {
	case n.state == Stopping || n.leaving:
	case isFollowed:
		n.loseLeader(ProcessGone, n.now)
		n.contest.willed, n.abandonedEpoch = true, wire.Epoch{} // the tombstone says it
	case wasGranted && n.state == Wait && n.contest.helper == p.ID: // it led, and was not heard here
		n.contest.release, n.contest.willed = n.now, true
		n.becomeElecting(ProcessGone)
	case wasGivenUp && (n.state == Stagger || n.state == Elect):
		n.lostLeader, n.abandonedEpoch = life{p.ID, p.Nonce}, wire.Epoch{}
		n.contest.release, n.contest.certain, n.contest.willed, n.contest.backoff = n.now, true, true, 0
		n.becomeStaggering(ProcessGone, 0)
	case wasGivenUp && n.state == Wait: // for one that was granted a newer epoch, or is told so, too
		n.lostLeader = life{p.ID, p.Nonce}
		n.contest.release, n.contest.certain = n.now, true
	}
}
