package election

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// smallest is the algorithm of Kabashi, Zeqiri and Zabeli (protocol 3.4): the
// lowest rank leads. The second minimum, the best in its own view without the
// failed leader, claims without an ELECTION; anybody else asks all, and the
// second minimum, once asked, claims too.
type smallest struct{ nominator }

// start asks all, unless this is the second minimum: it has made sure that the
// leader failed, so it claims. Those worse than the starter keep silent in the
// paper; here they answer INELIGIBLE (R11), since silence is not told from loss
// and the question would be repeated.
func (smallest) start(n *Node) {
	if len(n.better()) == 0 {
		n.claim(n.cause)
		return
	}
	for _, p := range n.living() {
		if !p.silent {
			n.ask(p, n.challenge(), 0)
		}
	}
}

// onElection: the second minimum claims at once if nothing stands in the way, and
// its announcement is the answer, except to voters that may not grant it yet;
// anybody else volunteers.
func (smallest) onElection(n *Node, p *peer, f *wire.Frame) {
	if !n.isSecondMinimum() {
		n.volunteer(p, f)
		return
	}
	n.stand(p)
	if n.cfg.Expect > 0 || (n.state != Claiming && n.state != Lead) {
		n.answer(p, f, wire.OK, max(n.expectedWait(), time.Millisecond))
	}
}

// isSecondMinimum: nobody here outranks this node, except perhaps the leader that
// it does not hear.
func (n *Node) isSecondMinimum() bool {
	doubts := n.state == Follow || n.state == Suspect
	return !slices.ContainsFunc(n.better(), func(p *peer) bool { return !doubts || p.ID != n.epoch.Owner })
}

// onDeadline names the best that answered; if none did, this node is the best.
func (smallest) onDeadline(n *Node) {
	if best := n.bestVolunteer(); best != nil {
		n.nominate(best, 0)
		return
	}
	n.claim(NoAnswer)
}

// onJoin asks the best few, any of which knows the leader (the paper asks all).
// The known minimum asks all, since it will claim on the strength of the answers.
func (smallest) onJoin(n *Node) {
	for i, p := range n.living() {
		if i < candidatesFew || n.isKnownMinimum() {
			n.ask(p, wire.Frame{Kind: wire.Query}, 0)
		}
	}
}

// onNobodyLeads: nobody can come that outranks the known minimum, so it need not
// listen any longer. (In the paper it announces itself without asking, and so
// deposes a leader that it does not know.)
func (smallest) onNobodyLeads(n *Node) {
	if n.isKnownMinimum() {
		n.settleEnd = n.now
		n.onSettled()
	}
}

// isKnownMinimum: this node has the smallest priority that may exist, and no
// equal of a smaller id is here.
func (n *Node) isKnownMinimum() bool {
	return n.cfg.KnownMinimum != 0 && n.cfg.Priority == n.cfg.KnownMinimum && n.rank() == 0
}
