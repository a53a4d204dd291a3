package election

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// classic is Garcia-Molina's Bully as the textbooks have it (protocol 3.2): ask
// everybody better; if one answers, leave the field to it; if none does, lead.
type classic struct{}

// start asks the better nodes in waves of 1, 2, 4, …, the best first: if it
// lives, the others need not be asked.
func (classic) start(n *Node) {
	better := n.better()
	if len(better) == 0 {
		n.claim(n.cause)
		return
	}
	var delay time.Duration
	for wave := 1; len(better) > 0; wave *= 2 {
		size := min(wave, len(better))
		for _, p := range better[:size] {
			n.ask(p, n.challenge(), delay)
		}
		delay += n.slowest(better[:size])
		better = better[size:]
	}
}

// onElection answers OK, and stands at once unless it does already (R6: one
// round at a time. Without that guard a synchronous run of n nodes sends
// 2^(n−1)−1 ELECTIONs, CE9).
func (classic) onElection(n *Node, p *peer, f *wire.Frame) {
	n.answer(p, f, wire.OK, n.expectedWait())
	n.stand(p)
}

// stand: p's challenge is as good as a detection of our own.
func (n *Node) stand(p *peer) {
	switch n.state {
	case Follow: // the leader is not fresh: only told of, or just falling silent
		n.becomeSuspicious(Challenged)
		n.contest.prompted = true
	case Suspect:
		n.contest.prompted = true
	case Stagger:
		if !n.contest.isolated && n.contest.backoff == 0 {
			n.becomeElecting(Challenged)
		}
	case Claiming:
		n.ask(p, n.announcement(wire.Claim), 0)
	}
}

func (classic) onBetterStarter(*Node, *peer) {}

// onOK leaves the field to p.
func (classic) onOK(n *Node, p *peer, f *wire.Frame) {
	n.becomeWaiting(p, n.waitOf(f.ETA))
}

// onDeadline: nobody better answered.
func (classic) onDeadline(n *Node) {
	n.claim(NoAnswer)
}

func (classic) onHelperLost(n *Node) { n.becomeElecting(BetterSilent) }

func (classic) onNominate(n *Node, _ *peer, _ *wire.Frame) { n.count("kind-without-meaning") }

// onJoin asks some of the best: one of them is the likely leader, and any
// member knows it.
func (classic) onJoin(n *Node) {
	others := n.living()
	for _, p := range others[:min(probeCount, len(others))] {
		n.ask(p, wire.Frame{Kind: wire.Query}, 0)
	}
}

func (classic) onNobodyLeads(*Node) {}

// expectedWait is what this node tells a challenger: how long until it should
// have announced itself.
func (n *Node) expectedWait() time.Duration {
	var asking time.Duration
	if better := n.better(); len(better) > 0 {
		asking = 7 * n.slowest(better) // RTO·(1+2+4), protocol 2.5
	}
	release := n.contest.release
	if n.state == Suspect {
		release = n.takeoverEnd()
	}
	return max(release.Sub(n.now), 0) + asking + n.contest.backoff
}
