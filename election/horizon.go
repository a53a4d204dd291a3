package election

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

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

// isFar: e's counter is further above ours than this node believes now.
func (n *Node) isFar(e wire.Epoch) bool {
	known := n.saved.MaxCounter
	isKnown := n.isEstablished()
	if !isKnown {
		known = max(known, n.vouchedCounter)
	}
	switch {
	case e.Counter <= known || e.Counter-known <= smallJump:
		return false
	case !isKnown: // what it takes from one frame, a running node takes from it
		return e.Counter-known > onceJump || n.now.Before(n.nextJump)
	case e.Counter-known <= onceJump:
		return n.now.Before(n.nextJump)
	}
	goesOn := !n.far.since.IsZero() && n.now.Sub(n.far.since) >= jumpAsFrom && e.Counter >= n.far.counter && e.Counter-n.far.counter <= smallJump
	return e.Counter-known > maxJump || !goesOn || n.now.Before(n.nextJump)
}

// noteJump is told after each step what was known before it.
func (n *Node) noteJump(before uint64) {
	if n.saved.MaxCounter > before && n.saved.MaxCounter-before > smallJump {
		n.nextJump, n.far = n.now.Add(jumpPause), far{}
	}
}

// noteFar is told of each far counter in a member's frame. It is believed once a
// second member says as much, or the first still does after a while in which nobody
// brought this node a nearer one.
func (n *Node) noteFar(id wire.ID, counter uint64) {
	if counter > wire.MaxCounter {
		return
	}
	if n.isEstablished() {
		if was := n.far; was.since.IsZero() || counter < was.counter || counter-was.counter > smallJump || n.now.Sub(was.since) > 2*jumpAsFrom {
			n.far = far{counter, id, n.now}
		}
		return
	}
	isSame := n.far.counter <= counter && counter-n.far.counter <= maxJump || counter < n.far.counter && n.far.counter-counter <= maxJump
	switch was := n.far; {
	case was.since.IsZero() || !isSame:
		n.far = far{counter, id, n.now}
	case was.by != id || n.now.Sub(was.since) >= farPatience:
		n.vouchedCounter = min(was.counter, counter)
	}
}
