package election

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Links may be cut between some pairs of hosts for good while all others are well. The
// best one that is alive for everybody may then be one that reaches too few of those whose
// word a leader needs. Nobody must wait for it, or give way to it (M36).

// canvassedInVain: this voter has asked the others, and too few answered. A worse starter
// may reach those that it does not, and must not wait for it.
func (n *Node) canvassedInVain() bool { return n.isQuorum() && n.contest.isolated }

// reachFor is for how many heartbeat intervals a sign of life says that its sender is reached.
const reachFor = 4

// readying is the hand-over that a leader has asked this node to get ready for.
type readying struct {
	epoch wire.Epoch // the leader's
	round uint32     // of its PREPARE
	at    time.Time  // when the first copy came
}

// notePrepare takes a copy of PREPARE.
func (n *Node) notePrepare(f *wire.Frame) {
	if p := &n.readying; p.epoch != f.Epoch || p.round != f.Round {
		*p = readying{f.Epoch, f.Round, n.now}
	}
}

// isReached: it was heard a moment ago, or since the leader asked this node to get ready. On
// a long path the answer to what that set off is old when the next copy of PREPARE comes (M40).
func (n *Node) isReached(p *peer) bool {
	return n.heardWithin(p, max(reachFor*n.cfg.Heartbeat, n.now.Sub(n.readying.at)))
}

// reachesEnough: as many as a leader needs are reached, a majority of the voters or
// min_acks members, and min_members are there. While they are too few the others are asked for a
// sign of life: followers say nothing to each other, so who hears its leader need not hear those on
// whom its own lease would depend, and whoever led before and was given up is gone for it still.
func (n *Node) reachesEnough() bool {
	if n.presentCount() < n.cfg.MinMembers {
		for _, p := range n.peers {
			if n.isGone(p) && p.isElectable() {
				n.probe(p, wire.AskOpinion)
			}
		}
		return false
	}
	need := n.needAcks()
	var unheard []*peer
	for _, p := range n.presumedVoters() {
		switch {
		case !p.mayAcknowledge():
		case n.isReached(p) && !n.isGone(p):
			need--
		default:
			unheard = append(unheard, p)
		}
	}
	if need <= 0 {
		return true
	}
	for _, p := range unheard {
		n.probe(p, wire.AskOpinion)
	}
	return false
}

// In available mode two hosts that do not hear each other, and a third that hears both, would
// depose each other in turn: the third follows the higher epoch, and tells the other's leader
// of it, which then finds that it cannot hear the new one.

// overruled is a leadership that ended on a third member's word: another leads, which this
// node has not heard since.
type overruled struct {
	by    wire.ID
	until time.Time
}

// backOffFor is for how long who was overruled leaves the lead to others: so long that two
// hosts move it a few times an hour at most. Arbitrary.
const backOffFor = 30 * time.Minute

// overruleBy has this node back off, if it does not hear that leader.
func (n *Node) overruleBy(id wire.ID) {
	if !n.isQuorum() {
		n.overruled = overruled{by: id, until: n.now.Add(backOffFor)}
	}
}

// backsOff: this node was overruled. It follows whomever one other member hears, though it
// does not itself; it asks for no turn, and nobody waits for it. Where nobody hears a leader
// it stands like anybody.
func (n *Node) backsOff() bool { return n.now.Before(n.overruled.until) }

// forgiveOverrule: the link to the one that overruled this node works, or it is gone.
func (n *Node) forgiveOverrule(p *peer) {
	if p.ID == n.overruled.by {
		n.overruled = overruled{}
		n.timers.disarm(preemptTimer) // the next heartbeat arms it anew
	}
}
