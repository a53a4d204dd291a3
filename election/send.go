package election

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// sendTo emits one transmission of f to p.
func (n *Node) sendTo(p *peer, f wire.Frame) { n.emit(n.address(p, f)) }

// address completes the header of f for one transmission to p, which takes a number
// that no other will have.
func (n *Node) address(p *peer, f wire.Frame) Send {
	p.seq++
	p.sent[p.seq%uint32(len(p.sent))] = sentAt{p.seq, n.now, spanOf(f.Lease)}
	n.Stamp(&f)
	f.Seq = p.seq
	if n.isDraining() {
		f.Flags |= wire.Draining
	}
	return Send{To: p.Addr, Frame: f}
}

// isDraining: nobody need ask, name or wait for this node. A leader that only a bar of
// the agent's holds back may go on for long, if nobody relieves it: who stops then
// waits for no end of its leadership (lingerOn).
func (n *Node) isDraining() bool {
	if n.state == Lead {
		return n.bars()&^n.told != 0
	}
	return !n.isElectable()
}

// Stamp says in a frame who sends it, as Admit at the other end wants it. It is asked for frames about jobs too.
func (n *Node) Stamp(f *wire.Frame) {
	f.Algo, f.Cluster, f.ConfigHash = n.cfg.algo(), n.cfg.Cluster, n.hash
	f.Sender, f.Incarnation, f.Nonce, f.Priority = n.cfg.ID, n.saved.Incarnation, n.cfg.Nonce, n.cfg.Priority
}

// reply answers request: it echoes the round, so that the asker knows which
// question is answered, and the seq, so that it knows which transmission.
func (n *Node) reply(p *peer, request *wire.Frame, f wire.Frame) {
	f.Round, f.EchoSeq, f.Attempt = request.Round, request.Seq, request.Attempt
	if f.Epoch.IsZero() {
		f.Epoch = n.epoch
	}
	if n.leaderIsFresh() && f.Epoch == n.epoch {
		f.Flags |= wire.Fresh
	}
	n.sendTo(p, f)
}

// millis puts a span on the wire: whole milliseconds, saturating.
func millis(d time.Duration) uint32 {
	return uint32(min(max(d.Milliseconds(), 0), int64(wire.AgeUnknown)))
}

// heartbeatAge is how long ago this node heard its leader, as the wire says it.
func (n *Node) heartbeatAge() uint32 {
	switch {
	case n.state == Lead:
		return 0
	case n.lastFromLeader.IsZero():
		return wire.AgeUnknown
	}
	return millis(n.now.Sub(n.lastFromLeader))
}
