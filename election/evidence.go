package election

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// A host's kernel tells at once what heartbeats take several intervals to show:
// that a process has ended (E1, E7 of protocol 6.4), and that a cable was pulled.
// It says nothing about a host that is off or cut off.

// keepTether asks for a stream to the leader that this node follows. Frames of
// the leader keep coming meanwhile; the stream carries nothing but its own end.
func (n *Node) keepTether() {
	want := n.wantedTether()
	if want == n.tether {
		return
	}
	n.tether = want
	n.emit(want)
}

func (n *Node) wantedTether() Tether {
	if !n.leaderKnown || (n.state != Follow && n.state != Suspect) || !n.isElectable() {
		return Tether{}
	}
	leader := n.peer(n.epoch.Owner)
	switch {
	case leader == nil:
		return Tether{}
	case len(n.peers) > fastFanOut && n.tether.ID != leader.ID && n.rank() > candidatesFew:
		return Tether{} // a leader of a large group is spared a stream from each member
	}
	return Tether{ID: leader.ID, Nonce: leader.Nonce, Addr: leader.Addr}
}

// onTetherLost takes E1: the leader's process has ended. One probe confirms it:
// left unanswered for its timeout, or refused by the host (E7).
func (n *Node) onTetherLost(e TetherLost) {
	if !n.isOfLeader(e.ID, e.Nonce) {
		n.count("old-tether")
		return
	}
	if n.state == Follow {
		n.becomeSuspicious(ProcessGone)
	}
	n.contest.processGone = true
	n.timers.arm(stateTimer, n.now.Add(n.rto(n.peer(e.ID))))
}

// onRefused takes E7, which counts only together with E1: a host answers so for
// a restarting agent too.
func (n *Node) onRefused(e Refused) {
	if !n.isOfLeader(e.ID, e.Nonce) || n.state != Suspect || !n.contest.processGone {
		n.count("old-tether")
		return
	}
	n.confirmLoss()
}

// releaseAfterDeath is when others may take over from a leader whose process has
// ended: at once, for its hooks' children are nobody's here; in quorum mode not
// before its lease, since a middlebox may have forged the end of the stream. A leader
// that asked for it, as all do where takeover_delay is set, has something to end
// first: its will says when that is done, or the lease and the delay are waited out.
func (n *Node) releaseAfterDeath() time.Time {
	if n.isQuorum() || n.waits || n.cfg.TakeoverDelay > 0 {
		return n.takeoverEnd()
	}
	return n.now
}

// isOfLeader: the report is about the life of the leader that we follow.
func (n *Node) isOfLeader(id wire.ID, nonce uint32) bool {
	leader := n.peer(id)
	return leader != nil && n.leaderKnown && n.epoch.Owner == id && leader.Nonce == nonce &&
		(n.state == Follow || n.state == Suspect)
}

// onLinkChanged: a host that knows that it is cut off is part of no network. It cannot be heard, so a leader need not
// wait for missing acknowledgements, and nobody needs it to lead: whoever is reachable does. Where nobody else was ever
// known it leads on, and once the link is back it lets go and listens as at a start: others may have a leader.
func (n *Node) onLinkChanged(e LinkChanged) {
	wasDown, wasUnlinked := n.linkDown, n.unlinked
	n.linkDown = !e.Up && n.knowsOthers()
	n.unlinked = !e.Up && !n.linkDown
	switch {
	case wasUnlinked && e.Up && n.state == Lead:
		n.becomeStopping(LinkBack, ending{listen: n.cfg.Settle})
	case wasUnlinked && e.Up && n.isStanding():
		n.becomeStaggering(LinkBack, n.cfg.Settle)
	case n.linkDown == wasDown:
	case n.linkDown && n.state == Lead:
		n.becomeStopping(LinkLost, ending{by: n.releaseEnd()})
	case n.linkDown && n.isStanding():
		n.becomeObserver(LinkLost)
	case !n.linkDown:
		n.resumeStanding(LinkBack, n.listenWhenBack())
	}
}

// listenWhenBack is how long a host whose link is back listens: somebody else may lead by now. It takes longer to be heard
// where the failure detector has given everybody up, and speaks to nobody any more.
func (n *Node) listenWhenBack() time.Duration {
	if n.livingCount() == 0 {
		return n.cfg.Settle
	}
	return n.cfg.Lease
}

// knowsOthers: somebody else belongs to this cluster, present or not, by what this life, an earlier one or the
// configuration knows.
func (n *Node) knowsOthers() bool {
	owner := n.saved.Accepted.Owner
	return n.cfg.KnowsOthers || len(n.peers) > 0 || !owner.IsZero() && owner != n.cfg.ID ||
		slices.ContainsFunc(n.saved.Roster.IDs, func(id wire.ID) bool { return id != n.cfg.ID })
}

// isStanding: this node stands for election now.
func (n *Node) isStanding() bool { return n.state.Role() == RoleCandidate }

// resumeStanding: what kept this node from standing has gone. It listens for a
// while first.
func (n *Node) resumeStanding(cause Cause, listen time.Duration) {
	if n.state != Observe || !n.isElectable() {
		return
	}
	n.contest = contest{began: n.now.Add(-n.cfg.Lease), release: later(n.now, n.contest.release), reason: wire.NoLeader}
	n.becomeStaggering(cause, listen)
}
