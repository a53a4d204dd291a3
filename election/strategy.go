package election

import "github.com/bully-agent/bully-agent/wire"

// strategy is what the algorithms of the literature differ in: whom a starter
// asks, what an ELECTION sets off, and who announces the winner. Epochs,
// acknowledgements, leases and hand-over are common. A strategy has no state of
// its own; it calls the Node's becomeX, ask, answer and claim.
type strategy interface {
	// start is called when the node enters Elect.
	start(n *Node)
	// onElection is called for a challenge by p, which this node outranks,
	// when no living leader is known.
	onElection(n *Node, p *peer, f *wire.Frame)
	// onBetterStarter is called for a challenge by p, which outranks this node
	// and has been told that it need not wait for it.
	onBetterStarter(n *Node, p *peer)
	// onOK is called in Elect and Wait for the OK of p, which was challenged.
	onOK(n *Node, p *peer, f *wire.Frame)
	// onDeadline is called in Elect when nobody asked is left to wait for.
	onDeadline(n *Node)
	// onHelperLost is called in Wait: the node waited for has not announced
	// itself, and counts as silent in this round.
	onHelperLost(n *Node)
	// onNominate is called when p names this node the winner of its round.
	onNominate(n *Node, p *peer, f *wire.Frame)
	// onJoin is called once in Start, when gossip brought no leader: it asks.
	onJoin(n *Node)
	// onNobodyLeads is called in Start when nobody asked by onJoin knew a leader.
	onNobodyLeads(n *Node)
}

// strategyOf gives the algorithm's strategy, nil if there is none.
func strategyOf(a Algorithm) strategy {
	switch a {
	case Classic:
		return classic{}
	case Enhanced:
		return enhanced{}
	case Smallest:
		return smallest{}
	}
	return nil
}
