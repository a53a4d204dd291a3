package election

// Unfit is why a node leaves another member out when it looks who could lead.
type Unfit uint8

// The reasons, in the order in which people are told of one: what says most comes first.
const (
	Fit           Unfit = iota
	UnfitLeft           // it has left
	UnfitPart           // it is a witness or an observer
	UnfitListed         // this host's list does not have it
	UnfitRoster         // quorum mode: it is no voter of the roster
	UnfitSilent         // it is not heard, and the failure detector has given it up
	UnfitLost           // it led, and was given up
	UnfitDraining       // it says that it cannot lead now; why, it alone knows
	unfitCount
)

var unfitWords = [unfitCount]string{Fit: "fit", UnfitLeft: "left", UnfitPart: "part", UnfitListed: "not-listed", UnfitRoster: "roster", UnfitSilent: "silent",
	UnfitLost: "lost", UnfitDraining: "draining"}

// String gives the reason's word.
func (u Unfit) String() string { return unfitWords[u] }

// unfit is what the member's own words say.
func (p *peer) unfit() Unfit {
	switch {
	case p.Status == Left:
		return UnfitLeft
	case p.Part != Voter:
		return UnfitPart
	case p.Draining:
		return UnfitDraining
	}
	return Fit
}

// unfit adds what this node knows of it. What decides and what people are told is
// this one list.
func (n *Node) unfit(p *peer) Unfit {
	switch own := p.unfit(); {
	case own == UnfitLeft || own == UnfitPart:
		return own
	case !n.hosts.has(p.ID):
		return UnfitListed
	case !n.isVoter(p.ID):
		return UnfitRoster
	case !n.presumedAlive(p):
		return UnfitSilent
	case n.isGone(p):
		return UnfitLost
	default:
		return own
	}
}
