package election

import (
	"net/netip"

	"github.com/bully-agent/bully-agent/wire"
)

// maxJump bounds how far an epoch counter may run ahead of what a node of a
// running cluster knows (protocol 2.4): a forged or corrupted frame must not use
// up the counter.
const maxJump = 1 << 20

// onReceived validates a frame (R1–R3) and hands it to its kind. The port has proved that it is from the life that it names,
// for this one, and none that it has handed over before (S4, S11).
func (n *Node) onReceived(from netip.AddrPort, f *wire.Frame) {
	p := n.peer(f.Sender)
	if why := n.refusal(f); why != "" {
		n.count(why)
		if why == "counter-jump" && f.Nonce == p.Nonce { // another life may be anybody's
			n.horizon.noteFar(p.ID, f.Epoch.Counter, n.source(), n.now)
		}
		return
	}
	n.meetLife(p, from, f)
	n.hear(p, from, f)
	n.onFrame(p, f)
	n.notePledge(f)
}

// Admit says why a frame that Step does not take, about jobs or clients, means nothing here, or "". The rules are those
// of the election's own frames. A life begins with one of these, or by gossip: one that is not met yet is refused, and
// what was said is said again.
func (n *Node) Admit(f *wire.Frame) (why string) {
	if why := n.refusal(f); why != "" {
		return why
	}
	if f.Nonce != n.peer(f.Sender).Nonce {
		return "unmet-life"
	}
	return ""
}

// refusal says why a frame means nothing here (R1–R3), or "". It changes nothing.
func (n *Node) refusal(f *wire.Frame) string {
	p := n.peer(f.Sender)
	switch {
	case f.Cluster != n.cfg.Cluster:
		return "other-cluster"
	case p == nil || p.Status == Left || f.Sender == n.cfg.ID:
		return "unknown-sender"
	case !n.mayBeHeard(f):
		return "not-listed"
	case f.Algo != n.cfg.algo():
		return "other-mode"
	case f.ConfigHash != n.hash:
		return "config-mismatch" // its lease, policy or stop budget would break our promises (M5)
	case f.Epoch.Counter > wire.MaxCounter:
		return "counter-out-of-range"
	case f.Nonce == p.Nonce && p.died:
		return "after-its-will"
	case f.Nonce != p.Nonce && f.Incarnation <= p.Incarnation: // of two lives with one number the port says which is there
		return "old-incarnation"
	case n.isFar(f.Epoch):
		return "counter-jump"
	}
	return ""
}

// isEstablished: this node knows its cluster's counter, since it has followed or led, in
// this life or one before, or granted. Who has not may have missed all others.
func (n *Node) isEstablished() bool {
	hasGranted := !n.saved.Vote.IsZero() && n.saved.Vote.Owner != n.cfg.ID
	return hasGranted || !n.epoch.IsZero() || !n.saved.Accepted.IsZero()
}

// meetLife begins a new life of the sender's, if the frame is of one.
func (n *Node) meetLife(p *peer, from netip.AddrPort, f *wire.Frame) {
	if f.Nonce == p.Nonce {
		return
	}
	m := p.Member
	m.Incarnation, m.Nonce, m.Addr, m.Status = f.Incarnation, f.Nonce, from, Alive
	n.startNewLife(p, m)
	p.unseen = true
}

// hear takes what every frame's header tells of its sender.
func (n *Node) hear(p *peer, from netip.AddrPort, f *wire.Frame) {
	if from != p.Addr {
		n.count("address-mismatch")
	}
	p.heard, p.silent = n.now, false
	n.countAgain(p)
	n.forgiveOverrule(p)
	p.Priority = f.Priority
	p.Draining = f.Flags&wire.Draining != 0
}

func (n *Node) onFrame(p *peer, f *wire.Frame) {
	switch f.Kind {
	case wire.Election:
		n.onElection(p, f)
	case wire.Canvass:
		n.onCanvass(p, f)
	case wire.Answer:
		n.onAnswer(p, f)
	case wire.Coordinator:
		n.onCoordinator(p, f)
	case wire.CoordAck:
		n.onCoordAck(p, f)
	case wire.Query:
		n.onQuery(p, f)
	case wire.Cid:
		n.onCid(p, f)
	case wire.Heartbeat:
		n.onHeartbeat(p, f)
	case wire.HeartAck:
		n.onHeartAck(p, f)
	case wire.Nominate:
		n.strategy.onNominate(n, p, f)
	case wire.Resign:
		n.onResign(p, f)
	case wire.ResignAck:
		if n.answered(p, wire.Resign, f) {
			n.onResignDone()
		}
	case wire.Probe:
		n.onProbe(p, f)
	case wire.ProbeAck:
		n.onProbeAck(p, f)
	case wire.Prepare:
		n.onPrepare(p, f)
	case wire.Ready:
		n.onReady(p, f)
	case wire.Roster:
		n.onRoster(p, f)
	case wire.RosterAck:
		n.onRosterAck(p, f)
	case wire.Leave:
		n.onLeave(p)
	default:
		n.count("kind-without-meaning")
	}
}

// raiseCounter obeys R3: a counter once seen is never made again. Saturated
// counters were refused before.
func (n *Node) raiseCounter(c uint64) { n.saved.MaxCounter = max(n.saved.MaxCounter, c) }
