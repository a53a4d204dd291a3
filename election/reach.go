package election

import (
	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// Links may be cut between some pairs of voters for good while all others are well. The
// best voter that is alive for everybody may then be one that a majority does not reach,
// and that can never be granted the lead. Nobody must wait for it, or give way to it (M36).

// canvassedInVain: this voter has asked the others, and too few answered. A worse starter
// may reach those that it does not, and must not wait for it.
func (n *Node) canvassedInVain() bool { return n.isQuorum() && n.contest.isolated }

// reachFor is for how many heartbeat intervals a sign of life says that its sender is reached.
const reachFor = 4

// reachesMajority: a majority of the voters, this one included, was heard a moment ago. The
// others are asked for a sign of life: followers say nothing to each other, so who hears its
// leader need not hear those that would have to grant it the lead after that one.
func (n *Node) reachesMajority() bool {
	if !n.isQuorum() {
		return true
	}
	heard := 1
	for _, p := range n.otherVoters() {
		if n.heardWithin(p, reachFor*n.cfg.Heartbeat) {
			heard++
			continue
		}
		n.probe(p, wire.AskOpinion)
	}
	return heard >= quorum.Size(len(n.saved.Roster.IDs))
}
