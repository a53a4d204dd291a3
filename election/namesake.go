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

// maxNamesakes is how many others with our id may wait for being asked: twice the lives of one id that
// membership believes alive at once.
const maxNamesakes = 16

// askingFor is for how much longer than Settle a node listens that still asks for others with its id: maxNamesakes that
// have ended are asked in 4.8 s. It is a bound: whoever makes namesakes up keeps nobody from leading for ever.
const askingFor = 5 * time.Second

// bearer is another agent that bears our id, and what we were when we first heard of it: both sides judge by that, whatever
// becomes of them until both have answered.
type bearer struct {
	Member
	stood wire.Standing
}

// onNamesake takes word of a member with our own id. It may be our former life,
// which the failure detector has not given up yet: only an answer proves that
// somebody is there.
func (n *Node) onNamesake(m Member) {
	switch {
	case m.Nonce == n.cfg.Nonce:
	case m.Status != Alive:
		n.unasked = slices.DeleteFunc(n.unasked, func(s bearer) bool { return s.Nonce == m.Nonce })
	case n.mayBeCopy(m.Incarnation):
		if n.hearOfNamesake(m) && !n.refused { // one that speaks meanwhile is asked before those that have ended
			n.sendTo(&peer{Member: m}, wire.Frame{Kind: wire.Probe, Purpose: wire.AskIdentity, Flags: wire.AckReq, Round: n.nextRound()})
		}
	}
}

// hearOfNamesake asks who is there, or reports that this one must wait. One is asked at a time, and while this node stands
// aside for one, that one alone. The silence of a life that has ended says nothing of another, and none is forgotten for it.
func (n *Node) hearOfNamesake(m Member) bool {
	switch {
	case !n.refused && !n.asksNamesake():
		n.meetNamesake(bearer{m, n.state.standing()})
	case n.isAsked(m.Nonce) || n.waiting(m.Nonce) != nil: // a second question would cancel the first
	case len(n.unasked) < maxNamesakes:
		n.unasked = append(n.unasked, bearer{m, n.state.standing()})
		return true
	}
	return false
}

// putFirst has the one with this nonce asked next, if it waits: it speaks, and others may have ended.
func (n *Node) putFirst(nonce uint32) {
	slices.SortStableFunc(n.unasked, func(a, b bearer) int {
		switch nonce {
		case a.Nonce:
			return -1
		case b.Nonce:
			return 1
		}
		return 0
	})
}

// waiting gives the one with this nonce that waits for being asked, or nil.
func (n *Node) waiting(nonce uint32) *bearer {
	i := slices.IndexFunc(n.unasked, func(s bearer) bool { return s.Nonce == nonce })
	if i < 0 {
		return nil
	}
	return &n.unasked[i]
}

// asksNamesake: whether the one that is asked is there is open.
func (n *Node) asksNamesake() bool { return n.exchanges.awaitsOf(n.cfg.ID, wire.Probe) }

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
	if !n.isAsked(f.Nonce) && (n.state == Start || n.now.Sub(n.metAt) >= n.cfg.Heartbeat) { // each costs a question
		n.hearOfNamesake(Member{ID: f.Sender, Addr: from, Nonce: f.Nonce, Incarnation: f.Incarnation, Status: Alive})
	}
	n.putFirst(f.Nonce)
	isAsked, waits := n.isAsked(f.Nonce), n.waiting(f.Nonce)
	switch {
	case f.Kind == wire.ProbeAck && isAsked && n.answered(n.namesake, wire.Probe, f):
		n.resolveConflict(from, f)
	case f.Kind != wire.Probe || f.Purpose != wire.AskIdentity:
		n.count("id-conflict")
	case isAsked:
		n.tellNamesake(n.namesake, n.stood, f)
	case waits != nil: // or it would take us for gone
		n.tellNamesake(&peer{Member: waits.Member}, waits.stood, f)
	case n.state != Start:
		m := Member{ID: f.Sender, Addr: from}
		n.tellNamesake(&peer{Member: m}, n.state.standing(), f)
	}
}

// isAsked: the namesake with this nonce was asked last.
func (n *Node) isAsked(nonce uint32) bool { return n.namesake != nil && n.namesake.Nonce == nonce }

// tellNamesake answers a namesake that asks who is there.
func (n *Node) tellNamesake(p *peer, stood wire.Standing, f *wire.Frame) {
	n.reply(p, f, wire.Frame{Kind: wire.ProbeAck, HeartbeatAge: n.heartbeatAge(), Standing: stood, Flags: n.epochFlag()})
}

func (n *Node) meetNamesake(s bearer) {
	n.namesake, n.stood, n.metAt = &peer{Member: s.Member}, s.stood, n.now
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
	wasRefused := n.refused
	if wasRefused && f.Nonce == n.asideFor { // it is still there
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
		n.askNextNamesake()
		return
	}
	n.refused, n.asideFor = true, f.Nonce
	n.timers.arm(asideTimer, n.now.Add(lookAgain))
	if wasRefused {
		return
	}
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

// onNamesakeGone: the one that was asked is not there any more.
func (n *Node) onNamesakeGone() {
	n.namesake = nil
	n.timers.disarm(asideTimer)
	n.askNextNamesake()
}

// askNextNamesake asks the next one that waits. If none does, nobody for whom this node would stand aside has our id any more:
// it listens before it stands, and where something else keeps it from that no transition says so.
func (n *Node) askNextNamesake() {
	if len(n.unasked) > 0 {
		next := n.unasked[0]
		n.unasked = slices.Delete(n.unasked, 0, 1)
		n.meetNamesake(next)
		return
	}
	if !n.refused {
		return
	}
	n.refused = false
	n.count("namesake-gone")
	n.resumeStanding(OnlyOne, n.cfg.Settle)
}

func (n *Node) hasLargerLife(f *wire.Frame) bool {
	if n.born != f.Incarnation {
		return n.born > f.Incarnation
	}
	return n.cfg.Nonce > f.Nonce
}
