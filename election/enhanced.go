package election

import (
	"slices"

	"github.com/bully-agent/bully-agent/wire"
)

// enhanced is Murshed and Allen's Enhanced Bully (protocol 3.3): a starter asks
// only the candidate set, the better half of the group; whoever is asked starts
// no election of its own, and the starter names the best that answered. The
// paper's tie-breaker between concurrent starters is the rank's stagger here.
type enhanced struct{ nominator }

// start asks the better members of the candidate set, which for a node outside
// it are all; if there are none, the better nodes outside.
func (enhanced) start(n *Node) {
	better := n.better()
	if len(better) == 0 {
		n.claim(n.cause)
		return
	}
	set := n.candidateSet()
	asked := slices.DeleteFunc(slices.Clone(better), func(p *peer) bool { return !slices.Contains(set, p.ID) })
	if len(asked) == 0 {
		asked = better
	}
	n.challengeAll(asked)
}

// onElection: this node is there to be named.
func (enhanced) onElection(n *Node, p *peer, f *wire.Frame) { n.volunteer(p, f) }

// onDeadline names the best that answered. If none did, a node outside the
// candidate set goes on to the better ones outside: all others are silent.
func (enhanced) onDeadline(n *Node) {
	if best := n.bestVolunteer(); best != nil {
		n.nominate(best, 0)
		return
	}
	if rest := n.better(); len(rest) > 0 {
		n.challengeAll(rest)
		return
	}
	n.claim(NoAnswer)
}

// onJoin asks the better members of the candidate set, and the best other member
// in any case: it is the likely leader, and a joiner that outranks everybody
// would else ask nobody and never learn of it.
func (enhanced) onJoin(n *Node) {
	set := n.candidateSet()
	for i, p := range n.living() {
		if i == 0 || (n.isOutrankedBy(p) && slices.Contains(set, p.ID)) {
			n.ask(p, wire.Frame{Kind: wire.Query}, 0)
		}
	}
}

func (enhanced) onNobodyLeads(*Node) {}

// candidateSet gives the best half, rounded up, of those that can lead, this node
// and the leader just lost included, and of the roster alone where there is one;
// at most as many as configured. Everybody derives it from its own view: other
// views cost messages, never safety.
func (n *Node) candidateSet() []wire.ID {
	view := append(n.living(), &peer{Member: Member{ID: n.cfg.ID, Priority: n.cfg.Priority}})
	if p := n.peer(n.lostLeader.id); p != nil && p.isElectable() && !n.abandonedEpoch.IsZero() {
		view = append(view, p)
	}
	slices.SortFunc(view, n.byRank)
	size := (len(view) + 1) / 2
	if n.cfg.CandidateSet > 0 {
		size = min(size, n.cfg.CandidateSet)
	}
	set := make([]wire.ID, 0, size)
	for _, p := range view[:size] {
		set = append(set, p.ID)
	}
	return set
}
