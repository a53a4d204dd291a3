package election

import (
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/wire"
)

// reign is one leadership of this node, from its claim to the end of its lose
// hook.
type reign struct {
	epoch      wire.Epoch
	prior      wire.Epoch // best epoch known before the claim
	priorVote  wire.Epoch // this voter's vote before the claim
	accepted   wire.Epoch // what was accepted before the claim
	lease      lease.Lease
	lastBeat   time.Time
	length     time.Duration // what its heartbeats ask for
	fullUntil  time.Time     // until when that is the whole lease; zero once it has fallen to what the round trips need
	leaseShown time.Time     // what the last LeaseUntil said
	need       int           // acknowledgements needed, as of the last look
	grant      time.Duration // what was asked for with the claim
	tries      int           // how often the epoch was claimed
	bound      time.Duration // the longest that a voter that did not grant is bound to another
	hasRival   bool          // a voter has granted the claim's counter to another
	transfer   transfer
	relief     relief
	forget     uint64 // token of the command whose change of the roster is under way; zero: none
	ending     ending
	commitment wire.Commitment  // of the secret that its frames announce; zero: none
	heirs      []netip.AddrPort // of the last will
	mintedAt   uint64           // number of the step that made the epoch
	promoted   wire.Epoch       // the epoch, once its promotion goes to disk
	promotedAt uint64           // number of the step that saved it
}

// endReign: nothing is left of this leadership.
func (n *Node) endReign() {
	n.reign = reign{}
	n.timers.end(ofReign)
}

func newReign(e, prior wire.Epoch, length time.Duration) reign {
	return reign{epoch: e, prior: prior, lease: lease.New(length)}
}

// fastFanOut bounds the members that get every heartbeat; in larger groups only
// the best few do, and the others one a second or so (protocol 6.4).
const (
	fastFanOut    = 64
	candidatesFew = 7
)

// beat sends the heartbeats that are due and sets the next.
func (n *Node) beat() {
	if n.letsGo() {
		return
	}
	n.reign.lastBeat = n.now
	n.timers.arm(beatTimer, n.now.Add(n.cfg.Heartbeat))
	n.seekRelief()
	n.forgetUnlisted()
	n.leaveWill()
	n.chooseLength()
	if n.isQuorum() {
		n.bindSelf()
	}
	n.sendBeats()
	n.awaitAcks()
}

// sendBeats sends a heartbeat to everybody whose turn it is.
func (n *Node) sendBeats() {
	all := n.heartbeatAudience()
	if len(all) <= fastFanOut {
		for _, p := range all {
			n.sendHeartbeat(p, n.cfg.Heartbeat)
		}
		return
	}
	slow := max(time.Second, time.Duration(len(all))*time.Millisecond)
	for _, p := range n.closeFollowers() {
		n.sendHeartbeat(p, n.cfg.Heartbeat)
		p.beatAt = n.now.Add(slow)
	}
	for _, p := range all {
		if !n.now.Before(p.beatAt) {
			n.sendHeartbeat(p, slow)
			p.beatAt = n.now.Add(slow)
		}
	}
}

// closeFollowers get every heartbeat even in a large group: in quorum mode the
// voters, whose acknowledgements are the lease, else those who would take over.
func (n *Node) closeFollowers() []*peer {
	if n.isQuorum() {
		return slices.DeleteFunc(n.heartbeatAudience(), func(p *peer) bool { return !n.isVoter(p.ID) })
	}
	best := n.living()
	return best[:min(len(best), candidatesFew)]
}

// heartbeatAudience is everybody presumed alive, the former leader too: if it
// lives after all, this is how it learns.
func (n *Node) heartbeatAudience() []*peer { return n.those(n.presumedAlive) }

func (n *Node) sendHeartbeat(p *peer, interval time.Duration) { n.tellBeat(p, n.heartbeat(interval)) }

func (n *Node) tellBeat(p *peer, f wire.Frame) {
	p.waits.ask(spanOf(f.Lease))
	n.sendTo(p, f)
}

func (n *Node) heartbeat(interval time.Duration) wire.Frame {
	return wire.Frame{Kind: wire.Heartbeat, Flags: wire.Active | wire.AckReq | n.waitFlag(), Epoch: n.reign.epoch,
		Lease: millis(n.reign.length), Interval: millis(interval), RosterVersion: n.saved.Roster.Version, Will: n.willHash()}
}

// onHeartAck renews the lease from the moment that the acknowledged heartbeat
// was sent.
func (n *Node) onHeartAck(p *peer, f *wire.Frame) {
	if f.Epoch != n.reign.epoch || (n.state != Lead && n.state != Stopping) {
		n.count("late-ack")
		n.sampleLate(p, f)
		return
	}
	n.onAcknowledged(p, f.EchoSeq)
	n.onRosterFlags(p, f.AckFlags)
}

// onAcknowledged counts an acknowledgement: it is worth what was asked for, from
// the moment that this was sent.
func (n *Node) onAcknowledged(p *peer, seq uint32) {
	sent, ok := p.sentTime(seq)
	if !ok {
		n.count("late-ack")
		return
	}
	n.sampleRTT(p, sent)
	n.noteLate(sent)
	n.onBeatAcked(p, sent)
	if !p.mayAcknowledge() {
		return // needAcks counts none of them either
	}
	n.noteReached(p)
	p.noteWaits(seq)
	n.reign.lease.Renew(p.ID, sent, n.counts(p.worth(seq)))
}

// noteReached tells of a member that acknowledges this leadership for the first time, and late (M41). A leader stays
// at a heal if its epoch is the highest, and then its leadership began during the tear. So each rival that gives way
// acknowledges it for the first time, whoever of the two was heard first, and so does a host that had led and let go.
func (n *Node) noteReached(p *peer) {
	if n.state == Lead && !p.waits.any && n.now.Sub(n.since) > n.cfg.Lease {
		n.emit(Reached{ID: p.ID})
	}
}

// needAcks is m of protocol 4.5, counted against who is there (M11). The
// automatic choice asks for one acknowledgement once at least two others are
// believed alive: a leader that is cut off alone then lets go. With a single
// other, nobody could tell which of the two is cut off, and the leader stays. Who
// cannot lead now, held down or without a disk, acknowledges all the same, and counts.
func (n *Node) needAcks() int {
	if n.isQuorum() {
		return n.quorumNeed()
	}
	present := n.acknowledgerCount()
	lost := n.howMany(func(p *peer) bool { return p.Status == Alive && n.isGone(p) })
	m := n.cfg.MinAcks
	if m == AutoMinAcks {
		m = 0
		if present+lost >= 2 {
			m = 1
		}
	}
	return min(m, present)
}

// acknowledgers gives the others that are there and whose acknowledgements count, in
// the order of living.
func (n *Node) acknowledgers() []*peer {
	return n.ranked(n.those(n.isAcknowledger))
}

// acknowledgerCount is len(acknowledgers()).
func (n *Node) acknowledgerCount() int { return n.howMany(n.isAcknowledger) }

func (n *Node) isAcknowledger(p *peer) bool {
	if n.isQuorum() {
		return n.isLiving(p) // there the roster says whose word counts
	}
	return p.mayAcknowledge() && n.presumedAlive(p) && !n.isGone(p)
}

// ackCount is how many others' acknowledgements are in force.
func (n *Node) ackCount() int {
	if n.isQuorum() {
		return n.reign.lease.CountAmong(n.saved.Roster.IDs, n.now)
	}
	return n.reign.lease.Count(n.now)
}

// leaseEnd is until when this leader may act. Where no acknowledgement is
// needed, its own turning loop renews it: a frozen leader must look again
// before it acts.
func (n *Node) leaseEnd() time.Time {
	if n.isQuorum() {
		return n.quorumEnd()
	}
	if need := n.needAcks(); need > 0 {
		return n.reign.lease.End(need)
	}
	return n.reign.lastBeat.Add(lease.LeaderLength(n.counts(n.reign.length)))
}

// holdsLease: the lease of this state can run out.
func (n *Node) holdsLease() bool {
	return n.state == Lead || (n.state == Stopping && n.reign.ending.planned)
}

// loseLease obeys R13. It comes first in every step, so that a leader that was
// frozen past its lease steps down before it does anything else.
func (n *Node) loseLease() {
	if !n.isQuorum() && n.reign.need == 0 && n.needAcks() == 0 && n.acknowledgerCount() == 0 {
		return // alone: nobody could have taken over
	}
	if n.state == Stopping { // the plan failed: nobody waits for us any more
		n.reign.ending.planned = false
		n.timers.end(ofReign)
		n.emit(HurryHook{Epoch: n.reign.epoch, By: n.releaseEnd()})
		return
	}
	n.becomeStopping(LeaseExpired, ending{by: n.releaseEnd()})
}

// releaseEnd is when a lose hook is over if the lease runs out: at its end, for
// then others take over. A leader that was frozen comes late; if its lease has
// ended, others lead already, and a release cut short would protect nobody: zero.
func (n *Node) releaseEnd() time.Time {
	end := n.leaseEnd().Add(lease.LeaderLength(n.cfg.TakeoverDelay))
	switch {
	case !end.After(n.now):
		return time.Time{}
	case n.isQuorum():
		return end // the next leader's become hook starts then
	}
	return later(end, n.now.Add(n.cfg.StopBudget/2))
}

// renewDeadline recomputes when this leader must be gone, after every step.
func (n *Node) renewDeadline() {
	if !n.holdsLease() {
		n.timers.disarm(stepDownTimer)
		return
	}
	need := n.needAcks()
	if need > n.reign.need && !n.isQuorum() {
		n.reign.lease.Forgive(n.now) // whoever came had no chance to acknowledge yet
	}
	n.reign.need = need
	end := n.leaseEnd()
	n.timers.arm(stepDownTimer, end.Add(-n.cfg.StopBudget))
	if n.state == Lead && end != n.reign.leaseShown {
		n.reign.leaseShown = end
		n.emit(LeaseUntil{Deadline: end})
	}
}

// onJoined: a leader shows itself to a newcomer at once, so that it need not
// ask. A node that found nobody asks whoever turns up what it knows, before it
// claims anything.
func (n *Node) onJoined(p *peer) {
	switch {
	case n.state == Lead:
		n.sendHeartbeat(p, n.cfg.Heartbeat)
	case n.state == Stagger && n.contest.backoff > 0:
		n.probe(p, wire.AskOpinion)
	}
}

// onViewChanged looks at what depends on how many members there are.
func (n *Node) onViewChanged() {
	if n.state == Lead && n.presentCount() < n.cfg.MinMembers {
		n.becomeStopping(TooFewMembers, ending{})
	}
	n.checkClaim() // fewer may be needed now
}

// showLeadership shows the leadership to whoever challenges it, and only to it:
// announcing to all again would multiply every late ELECTION by n.
func (n *Node) showLeadership(p *peer, f *wire.Frame) {
	verdict := wire.LeaderAlive
	if !n.isOutrankedBy(p) {
		verdict = wire.OK
	}
	n.answer(p, f, verdict, 0)
	n.sendTo(p, n.announcement(wire.InForce))
}

// onSuperseded: another leader has a higher epoch; one of the two must go, and
// the order of epochs says which (CE7: not both).
func (n *Node) onSuperseded(by wire.Epoch) {
	n.becomeStopping(Superseded, ending{superseded: true})
	if n.recognise(by) {
		n.save()
	}
	n.lastFromLeader, n.followedAt = time.Time{}, n.now // R8: to be heard in person soon
}
