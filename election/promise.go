package election

import (
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// maxGrant bounds what a claimant may ask for beyond the lease, for its disk.
const maxGrant = 4 * time.Second

// isQuorum: leases come from a majority of the roster.
func (n *Node) isQuorum() bool { return n.cfg.Expect > 0 }

// boundFor is how long this voter may not grant id anything.
func (n *Node) boundFor(id wire.ID) time.Duration {
	return n.promise.BoundFor(id, n.cfg.TakeoverDelay, n.now)
}

// boundUntil is until when this voter may not grant anybody but id anything; zero: it
// is not bound to id. Of a leader's voters a majority is bound for as long: nobody else
// can lead before, and whoever stood before would stand again when all are free, and
// not in its turn (M27).
func (n *Node) boundUntil(id wire.ID) time.Time {
	if n.promise.Epoch.Owner != id {
		return time.Time{}
	}
	return n.promise.Until.Add(n.cfg.TakeoverDelay)
}

// muteFor is how long a restarted voter still keeps silent.
func (n *Node) muteFor() time.Duration { return max(0, n.timers[muteTimer].Sub(n.now)) }

// startMute begins the silence of a voter that may have made promises in its
// life before (M5).
func (n *Node) startMute() {
	if n.isQuorum() && n.saved.LongestPromise > 0 {
		n.timers.arm(muteTimer, n.now.Add(lease.WaitLength(max(n.saved.LongestPromise, n.bindsFor(n.cfg.Lease)))))
	}
}

// endMute: what the lives before promised has run out, and whoever is mute grants
// nothing: it has promised a leader that it hears what this life noted, and no more. So a
// disk that was slow once does not keep this voter silent for as long at every start.
func (n *Node) endMute() {
	if longest := max(n.bindsFor(n.cfg.Lease), n.longest); longest < n.saved.LongestPromise {
		n.saved.LongestPromise = longest
		n.save()
	}
}

// bindsFor is how long a promise of that length keeps this voter from granting
// others. What is saved of it has the takeover_delay of its day: the next life may
// have another.
func (n *Node) bindsFor(length time.Duration) time.Duration { return length + n.cfg.TakeoverDelay }

// notePromise notes for the disk that this voter is about to promise that much, and reports
// whether it is to be saved before (M5).
func (n *Node) notePromise(length time.Duration) (mustSave bool) {
	n.longest = max(n.longest, n.bindsFor(length))
	mustSave = n.longest > n.saved.LongestPromise
	n.saved.LongestPromise = max(n.saved.LongestPromise, n.longest)
	return mustSave
}

// noted is what the disk has for a heartbeat that asks for so much: the next may ask for all
// of the lease, or beyond that for the longest, and is not to wait for a disk.
func (n *Node) noted(asked time.Duration) time.Duration {
	if asked > n.cfg.Lease {
		return n.cfg.LongestLease()
	}
	return n.cfg.Lease
}

// bind makes or prolongs a promise to e's owner, for that long from now on.
func (n *Node) bind(e wire.Epoch, length time.Duration) { n.promise.Bind(e, n.now.Add(length)) }

// bindSelf binds a leader for as long as its next heartbeat asks the others to be bound: self
// is a voter (M4).
func (n *Node) bindSelf() {
	if n.notePromise(n.noted(n.reign.length)) {
		n.save()
	}
	n.bind(n.reign.epoch, n.reign.length)
}

// renewPromise: the leader that this voter follows is heard. It reports whether
// something that a restart must not forget is to be saved, before the
// acknowledgement goes out.
func (n *Node) renewPromise(e wire.Epoch, asked time.Duration) (mustSave bool) {
	if !n.isQuorum() {
		return false
	}
	mustSave = n.notePromise(n.noted(asked)) || e.Counter > n.onDisk || n.unsaved
	n.bind(e, asked)
	return mustSave
}

// votes is what this node's disk says of epochs.
func (n *Node) votes() quorum.Votes {
	return quorum.Votes{Seen: n.saved.MaxCounter, Granted: n.saved.Vote, Accepted: n.saved.Accepted}
}

// isUsedUp: another has led this node in e's counter: in quorum mode before it was
// that, or in a life before, and whoever stopped before that leadership may claim
// its counter again. Only of two that claim one counter at the same time the order
// of owners decides (CE2).
func (n *Node) isUsedUp(e wire.Epoch) bool {
	isOld := n.isQuorum() || n.epoch.Compare(n.saved.Accepted) < 0
	return isOld && n.votes().HasUsedUp(e)
}

// voterFor is this node as p's claim has to do with it.
func (n *Node) voterFor(p *peer) quorum.Voter {
	return quorum.Voter{Votes: n.votes(), ID: n.cfg.ID, Roster: n.saved.Roster, Mute: n.muteFor(),
		Bound: n.boundFor(p.ID), Yields: n.yieldsClaimTo(p), Most: n.cfg.LongestLease() + maxGrant}
}

// onCanvass answers a claimant's question whether this voter would grant now. A
// leader that lives is protected as from a challenge (R7).
func (n *Node) onCanvass(p *peer, f *wire.Frame) {
	switch {
	case !n.isQuorum():
		n.count("kind-without-meaning")
	case !n.protectsLeader(p, f):
		n.answerCanvass(p, f)
	}
}

// answerCanvass says what a claim would meet. Nothing is promised and nothing is
// written.
func (n *Node) answerCanvass(p *peer, f *wire.Frame) {
	verdict, remain := n.voterFor(p).Answer(quorum.Claim{By: p.ID, Roster: f.RosterVersion})
	if verdict == wire.Stale {
		n.tellRoster(p, f) // first: the answer ends the question
	}
	n.reply(p, f, wire.Frame{Kind: wire.Answer, Verdict: verdict, ETA: millis(remain + time.Millisecond),
		Epoch: n.votes().Highest(), HeartbeatAge: n.heartbeatAge()})
	switch {
	case verdict != wire.Yes:
	case n.state == Follow && !n.isLeadersOwn(p, f): // the leader is not fresh
		n.becomeSuspicious(Challenged)
	case n.state == Stagger && n.isOutrankedBy(p): // its claim comes as soon as its disk has it
		n.timers.arm(stateTimer, later(n.timers[stateTimer], n.now.Add(syncAllowance+2*n.sync)))
	}
}

// yieldsClaimTo: of two claimants the better one goes on, if the other does not
// lead yet (rule 3 of protocol 4.3).
func (n *Node) yieldsClaimTo(p *peer) bool {
	return n.state == Claiming && n.isOutrankedBy(p)
}

// onClaim answers a CLAIM by the rules of protocol 4.3, afresh for each copy (M3).
func (n *Node) onClaim(p *peer, f *wire.Frame) {
	if f.Epoch.Owner != p.ID || f.Epoch.Counter <= p.resigned {
		n.count("resigned-epoch")
		return
	}
	claim := quorum.Claim{By: p.ID, Epoch: f.Epoch, Roster: f.RosterVersion, Length: spanOf(f.Lease)}
	verdict, remain := n.voterFor(p).Judge(claim)
	answer := wire.Frame{Kind: wire.CoordAck, AckVerdict: verdict, Epoch: f.Epoch}
	if remain > 0 {
		answer.Remain = millis(remain + time.Millisecond)
	}
	if verdict == wire.Accept && n.saved.Vote != f.Epoch && !n.mayWrite() {
		return // it is repeated
	}
	switch verdict {
	case wire.Accept:
		n.grant(p, f)
	case wire.AckStale:
		answer.Epoch = n.votes().Highest()
		if n.leaderIsFresh() && n.epoch.Counter >= f.Epoch.Counter {
			answer.Epoch = n.epoch
		}
		if n.isUsedUp(f.Epoch) && answer.Epoch.Compare(f.Epoch) <= 0 {
			answer.Epoch = quorum.AboveAll(f.Epoch.Counter)
		}
	}
	n.reply(p, f, answer)
}

// grant gives this voter's promise to a claimant. The vote is on disk before the
// answer is sent: no restart makes it vote twice for one counter (I4).
func (n *Node) grant(p *peer, f *wire.Frame) {
	if n.state == Claiming {
		n.abandonClaim()
	}
	length := spanOf(f.Lease)
	if n.notePromise(length) || n.saved.Vote != f.Epoch || n.unsaved {
		n.saved.Vote = f.Epoch
		n.raiseCounter(f.Epoch.Counter)
		n.save()
	}
	n.bind(f.Epoch, length)
	n.awaitClaimant(p, length)
}

// awaitClaimant leaves the field to the claimant: it leads once a majority has
// granted, and its heartbeat says so.
func (n *Node) awaitClaimant(p *peer, length time.Duration) {
	switch {
	case n.state == Stopping || n.leaving || n.state == Wait && n.contest.helper == p.ID:
		return
	case n.leaderKnown:
		n.giveUp(n.epoch)
		n.countAgain(p)
	}
	if n.contest.cause == "" {
		n.contest.reason, n.contest.cause = wire.NoLeader, AwaitingBetter
	}
	if !n.isElectable() {
		if n.state != Observe {
			n.becomeObserver(AwaitingBetter)
		}
		return
	}
	n.becomeWaiting(p, length)
}

// spanOf reads a span of the wire.
func spanOf(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }
