package election

import (
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Two agents with one id are two copies of one state directory: a cloned
// machine, a restored backup. They would both believe that an epoch is theirs,
// so one of them must not take part (R2). Which one must come out the same on
// both sides: the one that has just started, or else the one with the larger
// (incarnation, nonce).
//
// Whoever can send to the port can play a namesake. So nobody ends on its word: who
// must not take part stands aside, and looks again whether the other is still there.
// Only an agent that has just started, on a network where a key proves that the other
// one is a host of this cluster, ends: its state directory is a copy.

// lookAgain is how long an agent stands aside before it asks its namesake again.
// Shorter brings it back sooner, and costs a datagram each time. Arbitrary.
const lookAgain = 5 * time.Second

// maxLead is how many lives a copy of our state directory can be ahead of us: each
// start adds one. What says more is no copy, and would have us write down, and use
// up, whatever number it likes. Arbitrary.
const maxLead = 1000

// onNamesake takes word of a member with our own id. It may be our former life,
// which the failure detector has not given up yet: only an answer proves that
// somebody is there. While this node stands aside for one, no word of another takes its place: that one may be a life that
// has ended, and its silence would be taken for the end of the one that is there.
func (n *Node) onNamesake(m Member) {
	if n.refused || m.Nonce == n.cfg.Nonce || m.Status != Alive || !n.mayBeCopy(m.Incarnation) {
		return
	}
	isAsked := n.namesake != nil && n.namesake.Nonce == m.Nonce &&
		slices.ContainsFunc(n.exchanges, func(x *exchange) bool { return x.to == m.ID })
	if !isAsked { // or a second word of it would cancel the question
		n.meetNamesake(m)
	}
}

// onNamesakeFrame takes a frame that bears our id. Our own come back only if an
// address is wrong, and then mean nothing.
func (n *Node) onNamesakeFrame(from netip.AddrPort, f *wire.Frame) {
	if f.Nonce == n.cfg.Nonce || f.Cluster != n.cfg.Cluster {
		n.count("own-frame")
		return
	}
	if !n.mayBeCopy(f.Incarnation) {
		return
	}
	if n.namesake == nil || n.namesake.Nonce != f.Nonce {
		if n.refused || n.now.Sub(n.metAt) < n.cfg.Heartbeat && !n.metAt.IsZero() {
			n.count("id-conflict") // one at a time: each costs a question
			return
		}
		n.meetNamesake(Member{ID: f.Sender, Addr: from, Nonce: f.Nonce, Incarnation: f.Incarnation, Status: Alive})
	}
	switch {
	case f.Kind == wire.Probe && f.Purpose == wire.AskIdentity:
		n.onProbe(n.namesake, f)
	case f.Kind == wire.ProbeAck && n.answered(n.namesake, wire.Probe, f):
		n.resolveConflict(from, f)
	default:
		n.count("id-conflict")
	}
}

// meetNamesake asks who is there. Both sides judge by what they are now, whatever
// becomes of them until both have answered.
func (n *Node) meetNamesake(m Member) {
	n.namesake, n.stood, n.metAt = &peer{Member: m}, n.state.standing(), n.now
	n.probe(n.namesake, wire.AskIdentity)
}

// resolveConflict decides who stays. The survivor takes an incarnation above
// the other's, so that members who heard the other hear it again
// (M13).
func (n *Node) resolveConflict(from netip.AddrPort, f *wire.Frame) {
	theirsStarts, oursStarts := f.Standing == wire.Starting, n.stood == wire.Starting
	refuse := n.hasLargerLife(f)
	if theirsStarts != oursStarts {
		refuse = oursStarts
	}
	if n.refused { // it is still there
		n.timers.arm(asideTimer, n.now.Add(lookAgain))
		return
	}
	isFinal := refuse && oursStarts && !n.cfg.Forgeable
	n.emit(Conflict{Other: from, Incarnation: f.Incarnation, Nonce: f.Nonce, Refuse: refuse, Final: isFinal})
	if !refuse {
		if f.Incarnation >= n.saved.Incarnation {
			n.saved.Incarnation = f.Incarnation + 1
			n.save()
		}
		return
	}
	n.refused = true
	n.timers.arm(asideTimer, n.now.Add(lookAgain))
	switch n.state {
	case Lead:
		n.becomeStopping(SameID, ending{})
	case Stopping:
	default:
		n.leaderKnown = false
		n.becomeObserver(SameID)
	}
}

// mayBeCopy: a copy of our state directory can have come to that life.
func (n *Node) mayBeCopy(incarnation uint32) bool {
	if int64(incarnation)-int64(n.born) <= maxLead {
		return true
	}
	n.count("incarnation-jump")
	return false
}

// lookForNamesake asks whether the one for which we stand aside is still there.
func (n *Node) lookForNamesake() {
	if n.refused && n.namesake != nil {
		n.probe(n.namesake, wire.AskIdentity)
	}
}

// onNamesakeGone: nobody else has our id any more. This node listens before it stands,
// and where something else keeps it from that no transition says so.
func (n *Node) onNamesakeGone() {
	n.namesake = nil
	if !n.refused {
		return
	}
	n.refused = false
	n.count("namesake-gone")
	n.timers.disarm(asideTimer)
	n.resumeStanding(OnlyOne, n.cfg.Settle)
}

func (n *Node) hasLargerLife(f *wire.Frame) bool {
	if n.born != f.Incarnation {
		return n.born > f.Incarnation
	}
	return n.cfg.Nonce > f.Nonce
}
