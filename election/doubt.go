package election

import (
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Some frames are not believed before their sender was asked back: those whose
// number is out of all order, and, where frames can be forged, those that end
// what a member has: its life, its epoch, its presence. The question goes to the
// address at which the member is known, and its answer bears the question's round
// and number: who sends an old frame again has none, nor has who writes one in
// another's name without seeing what that one is sent.

// lookAgain is after how long one that is missed is asked again. Shorter brings it back sooner, and costs a datagram each time.
// Arbitrary.
const lookAgain = 5 * time.Second

// doubt is a frame about which its sender is being asked. A peer has one at most.
type doubt struct {
	about doubted
	frame wire.Frame
	from  netip.AddrPort
	round uint32                // of the question
	seqs  [questionsMost]uint32 // of the question, each time that it was asked
	asked int                   // so often
	until time.Time             // it is not answered any more
}

// questionsMost is how often the question is asked at most: one datagram in a hundred may
// be lost on its way, or its answer, and what is believed then is forged.
const questionsMost = 2

// doubted is what a frame is doubted for.
type doubted uint8

const (
	aNumber doubted = iota + 1 // it is outside the window: whatever the answer, the frame is dropped
	anEnd                      // RESIGN, LEAVE: who does not answer, or not against it, is at an end
	aLife                      // a new life: who does not answer for the old one has begun it
	aReturn                    // a life that others' frames have ended here: it must answer itself
)

// askBack asks p whether the frame is its own, unless that is being asked. About a
// number it asks once in a heartbeat interval at most, since anybody can send one.
func (n *Node) askBack(about doubted, p *peer, from netip.AddrPort, f *wire.Frame) {
	isNumber := about == aNumber
	switch {
	case p.doubt != nil && (isNumber || p.doubt.about != aNumber):
		if !isNumber {
			n.count("in-doubt")
		}
		return
	case isNumber && !p.askedAt.IsZero() && n.now.Sub(p.askedAt) < n.cfg.Heartbeat:
		return
	}
	p.askedAt = n.now
	p.doubt = &doubt{about: about, frame: *f, from: from, round: n.nextRound()}
	n.sendQuestion(p)
	n.armDoubts()
}

// sendQuestion asks p about what is in doubt, and waits for its answer.
func (n *Node) sendQuestion(p *peer) {
	d, at := p.doubt, p.Addr
	if d.about == aReturn && p.seen.Addr.IsValid() {
		p.Addr = p.seen.Addr // not where somebody has moved it
	}
	f := wire.Frame{Kind: wire.Probe, Flags: wire.AckReq, Purpose: wire.AskIdentity, Epoch: n.epoch, Round: d.round}
	if d.asked > 0 {
		f.Flags |= wire.Retx
	}
	n.sendTo(p, f)
	p.Addr = at
	d.seqs[d.asked] = p.seq
	d.asked++
	d.until = n.now.Add(p.rtt.timeout())
}

func (n *Node) armDoubts() {
	var next time.Time
	for _, p := range n.peers {
		if p.doubt != nil {
			next = earlier(next, p.doubt.until)
		}
	}
	n.timers.arm(doubtTimer, next)
}

// answersDoubt: f is p's word on what it was asked back.
func (n *Node) answersDoubt(p *peer, f *wire.Frame) bool {
	d := p.doubt
	return d != nil && f.Kind == wire.ProbeAck && f.Round == d.round && slices.Contains(d.seqs[:d.asked], f.EchoSeq)
}

// settleDoubt takes the answer: of the life that is known, of the one that the
// doubted frame is of, or of neither.
func (n *Node) settleDoubt(p *peer, from netip.AddrPort, f *wire.Frame) {
	d := p.doubt
	p.doubt = nil
	n.armDoubts()
	switch f.Nonce {
	case p.Nonce:
		if d.about == aReturn {
			n.comesBack(p, f, d.isOurs())
		}
		n.takeNumber(p, f)
		n.admit(p, from, f)
		if d.isDeniedBy(p, f) {
			n.count("denied-by-its-sender")
			if n.state == Stagger || n.state == Elect { // as of any answer: its announcement may have been dropped
				n.onSignOfLife(f)
			}
			return
		}
		n.believe(p, d)
	case d.frame.Nonce:
		if d.about == aReturn {
			n.livesAgain(p, f)
			return
		}
		n.believe(p, d)
		n.takeNumber(p, f)
	default:
		n.count("id-conflict")
	}
}

// takeNumber takes the number of an answer, which says where its sender is.
func (n *Node) takeNumber(p *peer, f *wire.Frame) {
	if !p.received.admit(f.Seq, n.now) {
		p.received.restart(f.Seq, n.now)
		n.count("window-restarted")
	}
}

// mayReturn: what keeps p's frame out here was the word of frames, and may have been
// forged: LEAVE, what a will was compared with, or a next life that the failure detector
// never saw.
func (n *Node) mayReturn(p *peer, why string, f *wire.Frame) bool {
	switch {
	case !n.cfg.Forgeable || p == nil:
		return false
	case why == "after-its-will", why == "unknown-sender" && p.Status == Left && p.hasSaidLeave:
		return f.Nonce == p.Nonce || f.Nonce == p.seen.Nonce
	}
	return why == "old-incarnation" && p.unseen && f.Nonce == p.seen.Nonce && !n.heardWithin(p, n.suspectTimeout())
}

// isMissed: by frames alone p has gone, or become another life, and the failure detector
// has not said so.
func (n *Node) isMissed(p *peer) bool {
	isThere := p.seen.Status == Alive && p.seen.Addr.IsValid()
	return n.cfg.Forgeable && isThere && (p.unseen && p.Nonce != p.seen.Nonce || p.died || p.Status == Left && p.hasSaidLeave)
}

// lookFor has p asked in a while whether it has really gone, if it is missed.
func (n *Node) lookFor(p *peer) {
	if n.isMissed(p) && !n.timers.isArmed(missedTimer) {
		n.timers.arm(missedTimer, n.now.Add(lookAgain))
	}
}

// lookForMissed asks those that are missed, again and again: two that were made to
// believe so of each other say nothing to each other.
func (n *Node) lookForMissed() {
	for _, p := range n.peers {
		if !n.isMissed(p) {
			continue
		}
		if !n.heardWithin(p, n.suspectTimeout()) {
			n.askBack(aReturn, p, p.seen.Addr, &wire.Frame{Sender: p.ID, Nonce: p.seen.Nonce})
		}
		n.lookFor(p)
	}
}

// isOurs: no frame is in doubt, but this node asked by itself.
func (d *doubt) isOurs() bool { return d.frame.Kind == 0 }

// answersMissed answers the question of one that is missed here, where it was seen: it
// may miss this node, too.
func (n *Node) answersMissed(p *peer, f *wire.Frame) {
	at := p.Addr
	p.Addr = p.seen.Addr
	n.answerWho(p, f)
	p.Addr = at
}

// answerWho answers a question who we are, once in a while.
func (n *Node) answerWho(p *peer, f *wire.Frame) {
	isQuestion := f.Kind == wire.Probe && f.Purpose == wire.AskIdentity
	if isQuestion && (p.probedAt.IsZero() || n.now.Sub(p.probedAt) >= n.cfg.Heartbeat/2) {
		p.probedAt = n.now
		n.onProbe(p, f)
	}
}

// livesAgain: the life that was seen has answered, where another was believed to be its
// next.
func (n *Node) livesAgain(p *peer, f *wire.Frame) {
	n.meetLife(p, p.seen.Addr, f)
	n.takeNumber(p, f)
	n.admit(p, p.Addr, f)
}

// comesBack: the member has answered, so it is there. What it is does not matter where
// it would have gone long since.
func (n *Node) comesBack(p *peer, f *wire.Frame, isLong bool) {
	p.died = false
	if p.Status == Left && f.Standing != wire.Stopping && (isLong || f.Standing != wire.Observing) {
		p.Status, p.hasSaidLeave = Alive, false
		n.onJoined(p)
		n.onViewChanged()
	}
}

// isDeniedBy: the life that is known lives, and says nothing of what the frame says.
func (d *doubt) isDeniedBy(p *peer, f *wire.Frame) bool {
	switch {
	case d.about != anEnd:
		return true
	case d.frame.Kind == wire.Leave:
		return p.Part != Voter || f.Standing != wire.Observing && f.Standing != wire.Stopping
	}
	return f.Flags&wire.Active != 0 && f.Epoch == d.frame.Epoch
}

// settleSilence: who is asked about its own end, or its next life's beginning, and
// does not answer, has come to it. Where silence decides, it is asked once more.
func (n *Node) settleSilence() {
	for _, p := range n.peers {
		d := p.doubt
		if d == nil || n.now.Before(d.until) {
			continue
		}
		isProof := n.isSilenceProof(d)
		if isProof && d.asked < questionsMost {
			n.sendQuestion(p)
			continue
		}
		p.doubt = nil
		if isProof {
			n.believe(p, d)
		}
	}
	n.armDoubts()
}

// isSilenceProof: a promise of quorum mode is not freed by who cannot be asked: it may
// be cut off, and lead. Who resigned repeats it, and answers.
func (n *Node) isSilenceProof(d *doubt) bool {
	isResign := d.frame.Kind == wire.Resign
	return d.about == aLife || d.about == anEnd && !(n.isQuorum() && isResign)
}

// believe does what the frame was meant for.
func (n *Node) believe(p *peer, d *doubt) {
	defer n.lookFor(p)
	f := &d.frame
	switch {
	case d.about == aNumber:
	case d.about != anEnd:
		n.takeIn(p, d.from, f)
	case f.Nonce != p.Nonce: // the life has ended meanwhile
	case f.Kind == wire.Resign:
		n.endEpoch(p, f)
	case p.Status != Left:
		n.depart(p)
	}
}

// doubtsEnd asks back about a frame that ends something of p's, and reports whether
// it did. Nobody need answer for a process that its host says is gone (E1).
func (n *Node) doubtsEnd(p *peer, f *wire.Frame) bool {
	isGone := n.contest.processGone && p.ID == n.epoch.Owner
	if !n.cfg.Forgeable || isGone || !p.Addr.IsValid() {
		return false
	}
	n.askBack(anEnd, p, p.Addr, f)
	return true
}
