package election

import (
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/wire"
)

// The lease follows the round trip (M39): a heartbeat asks for five eighths of the
// configured lease where round trips are a LAN's, and for more, up to all of it, where
// they are longer. Each acknowledgement is worth what that heartbeat asked for. So a host
// that is cut off is replaced sooner, and bad weather deposes nobody. Among hosts that are
// far apart claims and heartbeats ask for up to twice the lease (M40).

// ShortestLease is the least that a heartbeat asks for: five eighths of the lease, but no
// less than five heartbeats, nor than three beside the stop budget, or the loss of a single
// one would depose a leader; and never more than the lease.
func (c Config) ShortestLease() time.Duration {
	return min(c.Lease, max(5*c.Lease/8, 5*c.Heartbeat, c.StopBudget+3*c.Heartbeat))
}

// LongestLease is the most that claims and heartbeats ask for where round trips are long.
// It bounds what a follower can be made to wait and a restarted voter keeps silent.
func (c Config) LongestLease() time.Duration { return 2 * c.Lease }

// fallTime is in what time what is asked for falls from the whole lease to the shortest.
// It rises at once: weather that comes in gusts would depose a leader with each.
const fallTime = 10 * time.Second

// fullBeats is for how many heartbeats a new leader asks for the whole lease: until their
// acknowledgements have come it may know round trips from long ago alone. Arbitrary.
const fullBeats = 2

// chooseLength sets what the next heartbeats ask for. A new leader's begins to fall sooner
// than after a gust, by half a heartbeat interval with each. It never falls by a whole one:
// who missed the last heartbeat, and hears this one, then waits beyond what the leader
// counts for the last.
func (n *Node) chooseLength() {
	r, shortest := &n.reign, n.cfg.ShortestLease()
	if n.now.Before(r.fullUntil) {
		r.length = max(r.length, n.claimLength())
		return
	}
	fall := time.Duration(float64(n.cfg.Lease-shortest) * float64(n.cfg.Heartbeat) / float64(fallTime))
	if !r.fullUntil.IsZero() || r.length > n.cfg.Lease { // beyond that no gust asked for it
		fall = n.cfg.Heartbeat / 2
	}
	needed := n.lengthFor(shortest)
	r.length = max(needed, r.length-fall)
	if r.length == needed {
		r.fullUntil = time.Time{}
	}
}

// lengthFor is the shortest lease and four times as much as the RTO of the slowest follower
// whose acknowledgement is the lease is longer than a LAN's, up to the lease. Two cover the
// round trip, and two that the fewer repetitions fit between two heartbeats, the longer it
// is. It is more than the lease only where the round trip itself, and not a gust, needs it:
// twice as much as that is longer.
func (n *Node) lengthFor(shortest time.Duration) time.Duration {
	usual, far := time.Duration(0), time.Duration(0)
	for _, p := range n.lenders() {
		usual = max(usual, n.rto(p)-rtoFloor)
		far = max(far, p.rtt.smooth-rtoFloor)
	}
	return max(min(n.cfg.Lease, shortest+4*usual), min(n.cfg.LongestLease(), shortest+2*far))
}

// claimLength is what a claim asks for, its own disks left out, and a new leader's first
// heartbeats: the lease, or as much as the claim's round trip and that of the first heartbeat
// take, a heartbeat's interval and stepping down. Followers are silent among themselves, so
// the slowest of all that may acknowledge counts, whenever it was heard.
func (n *Node) claimLength() time.Duration {
	var trip time.Duration
	for _, p := range n.peers {
		if n.isVoter(p.ID) && p.mayAcknowledge() && n.presumedAlive(p) && !n.isGone(p) {
			trip = max(trip, p.rtt.longestEver())
		}
	}
	return max(n.cfg.Lease, min(n.cfg.LongestLease(), 2*trip+n.cfg.Heartbeat+n.cfg.StopBudget))
}

// askedFor is for how long a frame of the leader's asks to be followed. Only a heartbeat
// can ask for less than the lease; no member asks for less than the shortest.
func (n *Node) askedFor(f *wire.Frame) time.Duration {
	least := n.cfg.Lease
	if f.Kind == wire.Heartbeat {
		least = n.cfg.ShortestLease()
	}
	return min(max(spanOf(f.Lease), least), n.cfg.LongestLease())
}

// heardOwner: the epoch's owner was heard itself, and may act for that long. What it
// asked for before is never shortened: it may count on that.
func (n *Node) heardOwner(asked time.Duration) {
	n.lastFromLeader, n.ownerAsks = n.now, asked
	n.ownerActs = later(n.ownerActs, n.now.Add(lease.WaitLength(asked)))
}

// In available mode nobody owes the leader a promise: another waits from its own last
// heartbeat, for what that one asked. So a leader counts an acknowledgement for no longer
// than each of the others waits that may take over. Let p have acknowledged k, the claim or
// a heartbeat. Whatever it heard last, it waits for what k or one after k asks, and it never
// waits for less than before. So p.waits, the least that was asked of it from k on, is a
// bound, and the lease counts for the least of all p.waits. A rise counts once all have
// acknowledged it. In quorum mode voters are bound by what each acknowledged itself.

// waits is the least for which a follower waits when its leader falls silent, as far as
// the leader knows. The zero value is as much as a claim asks for: it has heard nothing yet,
// and who is told of a leader waits as long as it would ask for itself.
type waits struct {
	least time.Duration
	acked uint32 // newest heartbeat that it acknowledged
	any   bool   // it has acknowledged one
}

// ask notes that a heartbeat is sent that asks for that much.
func (w *waits) ask(length time.Duration) {
	if w.least == 0 || length < w.least {
		w.least = length
	}
}

// noteWaits takes p's acknowledgement of what was sent to it as seq.
func (p *peer) noteWaits(seq uint32) {
	w := &p.waits
	if w.any && int32(seq-w.acked) < 0 {
		return // it has acknowledged a newer one
	}
	*w = waits{acked: seq, any: true}
	for s := seq; int32(p.seq-s) >= 0; s++ {
		if sent := p.sent[s%uint32(len(p.sent))]; sent.seq == s && sent.worth > 0 {
			w.ask(sent.worth)
		}
	}
}

// counts is what an acknowledgement is worth to this leader that asked for that much.
func (n *Node) counts(asked time.Duration) time.Duration {
	if n.isQuorum() {
		return asked
	}
	for _, p := range n.peers {
		if p.waits.least > 0 && p.mayAcknowledge() && n.presumedAlive(p) && !n.isGone(p) {
			asked = min(asked, p.waits.least)
		}
	}
	return asked
}
