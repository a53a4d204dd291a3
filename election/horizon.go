package election

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// horizon is how far above what a node knows a counter may be that it believes (R3): a
// value with rules of its own, which are asked with what is known and the time.
type horizon struct {
	nextJump time.Time // when the counter may jump again
	far      far       // what a member says that is too far
	vouched  uint64    // what members agree on, to a node that does not know its cluster's counter
}

// far is a counter far above ours that was said to a node which does not know its
// cluster's yet. A new host has to believe the first that it hears: but not one frame.
type far struct {
	counter uint64
	by      wire.ID
	since   time.Time
}

// farPatience is for how long nobody may contradict the only one that says so: other
// members are heard within that. It is less than a node asks around before it stands.
const farPatience = 300 * time.Millisecond

// How far a counter may be ahead (R3). What one node was made to believe at once is
// half of what the others believe when they hear of it from that node: so it is not
// shut out by them.
const (
	smallJump  = 1024             // always: leaders that a node has missed
	onceJump   = maxJump / 2      // once in jumpPause
	jumpPause  = 10 * time.Second // arbitrary
	jumpAsFrom = time.Second      // for how long somebody must go on saying more, up to maxJump
)

// isBeyond: the counter is further above known than is believed now. A node that
// isEstablished knows its cluster's.
func (h *horizon) isBeyond(counter, known uint64, isEstablished bool, now time.Time) bool {
	if !isEstablished {
		known = max(known, h.vouched)
	}
	switch {
	case counter <= known || counter-known <= smallJump:
		return false
	case !isEstablished: // what it takes from one frame, a running node takes from it
		return counter-known > onceJump || now.Before(h.nextJump)
	case counter-known <= onceJump:
		return now.Before(h.nextJump)
	}
	goesOn := !h.far.since.IsZero() && now.Sub(h.far.since) >= jumpAsFrom && counter >= h.far.counter && counter-h.far.counter <= smallJump
	return counter-known > maxJump || !goesOn || now.Before(h.nextJump)
}

// noteJump is told after each step from where to where the counter has come in it.
func (h *horizon) noteJump(before, counter uint64, now time.Time) {
	if counter > before && counter-before > smallJump {
		h.nextJump, h.far = now.Add(jumpPause), far{}
	}
}

// noteFar is told of each counter beyond it in a member's frame. It is believed once a
// second member says as much, or the first still does after a while in which nobody
// brought this node a nearer one.
func (h *horizon) noteFar(id wire.ID, counter uint64, isEstablished bool, now time.Time) {
	if counter > wire.MaxCounter {
		return
	}
	was, this := h.far, far{counter, id, now}
	if isEstablished {
		if was.since.IsZero() || counter < was.counter || counter-was.counter > smallJump || now.Sub(was.since) > 2*jumpAsFrom {
			h.far = this
		}
		return
	}
	isSame := was.counter <= counter && counter-was.counter <= maxJump || counter < was.counter && was.counter-counter <= maxJump
	switch {
	case was.since.IsZero() || !isSame:
		h.far = this
	case was.by != id || now.Sub(was.since) >= farPatience:
		h.vouched = min(was.counter, counter)
	}
}

// isFar: e's counter is further above ours than this node believes now.
func (n *Node) isFar(e wire.Epoch) bool {
	return n.horizon.isBeyond(e.Counter, n.saved.MaxCounter, n.isEstablished(), n.now)
}
