package election

// onStandAside: whoever runs this node has found something that speaks against it, on
// the word of members that have proved nothing. So it ends no leadership, and is
// taken back as soon as the word is.
func (n *Node) onStandAside(e StandAside) {
	was := n.aside
	n.aside = e.On
	switch {
	case n.aside == was:
	case n.aside && n.isStanding():
		n.becomeObserver(StoodAside)
	case !n.aside:
		n.resumeStanding(StandsAgain, n.cfg.Lease) // somebody else may lead by now
	}
}
