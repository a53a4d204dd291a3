package election

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// sendTo completes the header and emits one transmission of f to p.
func (n *Node) sendTo(p *peer, f wire.Frame) {
	p.seq++
	p.sent[p.seq%uint32(len(p.sent))] = sentAt{p.seq, n.now, spanOf(f.Lease)}
	f.Algo = n.cfg.algo()
	f.Cluster, f.ConfigHash = n.cfg.Cluster, n.hash
	f.Sender, f.Incarnation, f.Nonce = n.cfg.ID, n.saved.Incarnation, n.cfg.Nonce
	if p == n.namesake {
		f.Incarnation = n.born // both sides must compare the same lives
	}
	f.Priority = n.cfg.Priority
	f.Seq = p.seq
	if !n.isElectable() {
		f.Flags |= wire.Draining
	}
	n.emit(Send{To: p.Addr, Frame: f})
}

// reply answers request: it echoes the round, so that the asker knows which
// question is answered, and the seq, so that it knows which transmission.
func (n *Node) reply(p *peer, request *wire.Frame, f wire.Frame) {
	f.Round, f.EchoSeq, f.Attempt = request.Round, request.Seq, request.Attempt
	if f.Epoch.IsZero() {
		f.Epoch = n.cur
	}
	if n.leaderIsFresh() && f.Epoch == n.cur {
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
	case n.lhb.IsZero():
		return wire.AgeUnknown
	}
	return millis(n.now.Sub(n.lhb))
}
