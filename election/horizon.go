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
	strange  strange   // what those that are new have added
}

// strange is what all that are new together have added to a counter since the minute began. They may be one thief with many ids.
type strange struct {
	since time.Time
	added uint64
}

// strangeFor is how long they have one smallJump for, together.
const strangeFor = time.Minute

// left is how much they may still add.
func (s *strange) left(now time.Time) uint64 {
	if s.since.IsZero() || now.Sub(s.since) >= strangeFor {
		return smallJump
	}
	return smallJump - min(s.added, smallJump)
}

func (s *strange) add(n uint64, now time.Time) {
	if s.since.IsZero() || now.Sub(s.since) >= strangeFor {
		*s = strange{since: now}
	}
	s.added += n
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

// source is who says a counter, to a node that isEstablished and so knows its cluster's, or is not.
type source struct{ isEstablished, isNew bool }

// isStrange: all such together are believed little. A node that does not know its cluster's counter has to believe somebody.
func (s source) isStrange() bool { return s.isEstablished && s.isNew }

// isBeyond: the counter is further above known than is believed now.
func (h *horizon) isBeyond(counter, known uint64, by source, now time.Time) bool {
	if !by.isEstablished {
		known = max(known, h.vouched)
	}
	switch {
	case counter <= known:
		return false
	case by.isStrange():
		return counter-known > h.strange.left(now)
	case counter-known <= smallJump:
		return false
	case !by.isEstablished: // what it takes from one frame, a running node takes from it
		return counter-known > onceJump || now.Before(h.nextJump)
	case counter-known <= onceJump:
		return now.Before(h.nextJump)
	}
	goesOn := !h.far.since.IsZero() && now.Sub(h.far.since) >= jumpAsFrom && counter >= h.far.counter && counter-h.far.counter <= smallJump
	return counter-known > maxJump || !goesOn || now.Before(h.nextJump)
}

// noteRise is told after each step from where to where the counter has come in it, and by whom.
func (h *horizon) noteRise(before, counter uint64, by source, now time.Time) {
	switch {
	case counter <= before:
	case by.isStrange():
		h.strange.add(counter-before, now)
	case counter-before > smallJump:
		h.nextJump, h.far = now.Add(jumpPause), far{}
	}
}

// noteFar is told of each counter beyond it in a member's frame. It is believed once a
// second member says as much, or the first still does after a while in which nobody
// brought this node a nearer one.
func (h *horizon) noteFar(id wire.ID, counter uint64, by source, now time.Time) {
	if counter > wire.MaxCounter || by.isStrange() {
		return
	}
	was, this := h.far, far{counter, id, now}
	if by.isEstablished {
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
	return n.horizon.isBeyond(e.Counter, n.saved.MaxCounter, n.source(), n.now)
}

// isOfNew: the event is what a host that is new says, or what gossip does, which does not tell who has said it.
func isOfNew(ev Event) bool {
	switch e := ev.(type) {
	case Received:
		return e.IsNew
	case LeaderReported:
		return true
	}
	return false
}

// source is who says what this step is about.
func (n *Node) source() source { return source{n.isEstablished(), n.isOfNew} }
