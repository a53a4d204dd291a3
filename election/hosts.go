package election

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// Parting is for how long a leader that this host's list has lost is still followed, so that it can hand over, and how soon a
// leader that others have lost lets go where its lease would not end. Arbitrary: a hand-over takes two round trips and a
// lose hook.
const Parting = 500 * time.Millisecond

// hosts is this host's list as the election goes by it (S20). Its zero value is none: whoever the port lets in is a member.
type hosts struct {
	ids    []wire.ID // sorted
	digest uint64
}

// has reports whether a host may be a member.
func (h hosts) has(id wire.ID) bool {
	if len(h.ids) == 0 {
		return true
	}
	_, found := slices.BinarySearchFunc(h.ids, id, wire.ID.Compare)
	return found
}

// names reports whether there is a list, and it has the host.
func (h hosts) names(id wire.ID) bool { return len(h.ids) > 0 && h.has(id) }

// isOut: the list does not have the member, and it is no leader that hands over. Nothing of it counts.
func (n *Node) isOut(id wire.ID) bool {
	return !n.hosts.has(id) && !n.isParting(id)
}

// isParting: the member leads, the list has lost it, and its time to hand over has not ended.
func (n *Node) isParting(id wire.ID) bool {
	return n.timers.isArmed(partTimer) && n.leaderKnown && n.epoch.Owner == id && id != n.cfg.ID
}

// mayBeHeard: of a leader that parts no more is taken than what its present leadership needs to end in order. It gets no vote, and
// begins nothing.
func (n *Node) mayBeHeard(f *wire.Frame) bool {
	switch {
	case n.hosts.has(f.Sender):
		return true
	case !n.isParting(f.Sender) || f.Epoch != n.epoch:
		return false
	}
	return f.Kind == wire.Heartbeat || f.Kind == wire.Prepare || f.Kind == wire.Resign || f.Kind == wire.ProbeAck || f.Kind == wire.Coordinator
}

// onHostsChanged takes another list. A member that it does not have stands no more, and gets no vote. A leader is followed for a
// moment yet. Whoever was asked something need not be waited for.
func (n *Node) onHostsChanged(e HostsChanged) {
	n.hosts = hosts{e.IDs, e.Digest}
	isLost := n.leaderKnown && !n.hosts.has(n.epoch.Owner) && (n.state == Follow || n.state == Suspect)
	switch {
	case isLost && !n.timers.isArmed(partTimer):
		n.timers.arm(partTimer, n.now.Add(Parting))
	case !isLost && n.state != Lead:
		n.timers.disarm(partTimer)
	}
	for _, p := range slices.Clone(n.peers) {
		if n.isOut(p.ID) {
			n.giveUpOn(p, func(wire.Kind) bool { return true })
		}
	}
	n.onViewChanged()
}

// endParting: a leader that was left out has had its time. Its followers wait for its lease, as after any other end: nobody claims
// sooner. The leader itself lets go where its lease would not end.
func (n *Node) endParting() {
	n.letsGo()
	if n.leaderKnown && !n.hosts.has(n.epoch.Owner) && (n.state == Follow || n.state == Suspect) {
		n.loseLeader(NotListed, n.takeoverEnd())
	}
}

// letsGo ends the leadership of a leader that others have lost, and reports whether it has. Its time to hand over has ended, and its
// lease would never end. A leader that needs nobody's acknowledgement, or nobody's any more, has such a lease. In available mode one has it
// too that is acknowledged only by hosts which cannot lead: none of them takes over, and the others have another leader.
func (n *Node) letsGo() bool {
	if n.state != Lead || !n.told.Has(BarListed) || n.timers.isArmed(partTimer) {
		return false
	}
	if n.needAcks() > 0 && (n.isQuorum() || n.livingCount() > 0) {
		return false
	}
	n.becomeStopping(NotListed, ending{by: n.releaseEnd()})
	return true
}

// listsAgree: no voter that is here could leave out whom this leader lets in. One without a list leaves out nobody.
func (n *Node) listsAgree() bool {
	return !slices.ContainsFunc(n.peers, func(p *peer) bool {
		return n.saved.Roster.Has(p.ID) && n.presumedAlive(p) && p.List != 0 && p.List != n.hosts.digest
	})
}

// forgetUnlisted takes a voter out of the roster that the lists of a majority do not have (S20). This leader knows of the others'
// that they are the same as its own. Of several each has its turn.
func (n *Node) forgetUnlisted() {
	r := n.saved.Roster
	i := slices.IndexFunc(r.IDs, func(id wire.ID) bool { return !n.hosts.has(id) && id != n.cfg.ID })
	if i < 0 || !n.isQuorum() || n.likeMinded() < quorum.Size(len(r.IDs)) {
		return
	}
	if ids := r.Without(r.IDs[i]); n.mayForget(Command{To: r.IDs[i], Force: true}) == nil && n.isSecureWith(ids) {
		n.changeRoster(ids, 0)
	}
}

// likeMinded counts the voters that are here with this leader's list, itself included.
func (n *Node) likeMinded() int {
	return 1 + n.howMany(func(p *peer) bool {
		return n.saved.Roster.Has(p.ID) && n.presumedAlive(p) && p.List == n.hosts.digest
	})
}
