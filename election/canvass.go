package election

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// maxClaims bounds how often one epoch is claimed where disks are slow (M10).
const maxClaims = 5

// canvassVoters asks every other voter that may be alive.
func (n *Node) canvassVoters() {
	n.contest.canvass = &quorum.Canvass{}
	n.exchanges.drop(func(x *exchange) bool { return x.frame.Kind == wire.Election }) // that round has ended
	question := wire.Frame{Kind: wire.Canvass, Reason: n.contest.reason, Epoch: n.epoch, HeartbeatAge: n.heartbeatAge(),
		RosterVersion: n.saved.Roster.Version}
	n.timers.disarm(stateTimer)
	for _, p := range n.otherVoters() {
		n.ask(p, question, 0)
	}
	n.onCanvassed()
}

// otherVoters gives the voters that a frame may reach, without oneself and the
// leader believed dead.
func (n *Node) otherVoters() []*peer { return slices.DeleteFunc(n.presumedVoters(), n.isGone) }

// presumedVoters gives all voters that a frame may reach, without oneself.
func (n *Node) presumedVoters() []*peer {
	return n.those(func(p *peer) bool { return n.isVoter(p.ID) && n.presumedAlive(p) })
}

// onVoterAnswer takes a voter's answer to the question.
func (n *Node) onVoterAnswer(f *wire.Frame) {
	n.contest.canvass.Note(f.Verdict, n.waitOf(f.ETA))
	switch f.Verdict {
	case wire.Yes:
		n.raiseCounter(f.Epoch.Counter)
	case wire.LeaderAlive:
		n.onLeaderAlive(f)
	}
	n.onCanvassed()
}

// onCanvassed: enough would grant, or there is nobody left to ask.
func (n *Node) onCanvassed() {
	c := n.contest.canvass
	if n.state != Elect || c == nil {
		return
	}
	switch c.Outcome(n.needAcks(), n.exchanges.awaits(wire.Canvass)) {
	case quorum.Won:
		n.becomeClaimant(n.contest.won)
	case quorum.Outdated: // it asks again, as one who has it; or stands no more, if it leaves this node out
		n.adopt(c.Told())
		n.startOver(NoQuorum, 0)
	case quorum.Wait:
		n.retryAfter(Promised, c.Bound())
	case quorum.Refused:
		n.contest.isolated = true
		n.retry(NoQuorum)
	}
}

// retryAfter starts over when the promises that stood in the way have ended. Those to
// a leader that has left its will end as soon as it reaches the voter: its copies come
// one after the other, and a claimant may be quicker.
func (n *Node) retryAfter(cause Cause, wait time.Duration) {
	if n.contest.willed {
		n.startOver(cause, min(max(2*n.contest.backoff, minStagger), maxQuorumBackoff))
		return
	}
	jitter := time.Duration(n.cfg.Rand.Float64() * float64(10*time.Millisecond))
	n.contest.release = later(n.contest.release, n.now.Add(wait+jitter))
	n.startOver(cause, 0)
}

// grantLength is what a claimant asks for: what the way needs, and time for two slow
// disks in a row (M10).
func (n *Node) grantLength() time.Duration {
	if !n.isQuorum() {
		return n.claimLength()
	}
	return n.claimLength() + min(2*n.sync, maxGrant)
}

// onDiskTimed learns how slow the disk is. It forgets slowly.
func (n *Node) onDiskTimed(e DiskTimed) {
	if e.Took > n.sync {
		n.sync = e.Took
		return
	}
	n.sync -= (n.sync - e.Took) / 8
}

// onRefusedClaim: a voter did not grant. The request is repeated, since a RESIGN
// or the end of a promise may be on its way to that voter.
func (n *Node) onRefusedClaim(f *wire.Frame) {
	if f.Epoch == n.reign.epoch && n.state == Claiming {
		n.reign.bound = max(n.reign.bound, n.waitOf(f.Remain))
	}
}

// onClaimsAnswered: where promises to another stand in the way, or a voter has granted the
// same counter to another, the claim has ended as soon as no voter is left to be asked again:
// each has answered, or its tries have ended. A silent voter is then counted as one that
// does not grant, and so is a majority whose word no longer holds for as long as stepping
// down takes. Where nothing but silence stands in the way it is waited for: the voters said
// yes a moment ago, so their disks may be slow.
func (n *Node) onClaimsAnswered() {
	if !n.isQuorum() || n.state != Claiming || n.exchanges.awaits(wire.Coordinator) {
		return
	}
	if bound := n.reign.bound; bound > 0 {
		n.abandonClaim()
		n.retryAfter(Promised, bound)
	} else if n.reign.hasRival && n.reign.promoted.IsZero() {
		n.withdraw(ClaimStale)
	}
}

// announceClaim sends the claim of the present epoch to all who have a say.
func (n *Node) announceClaim() {
	n.reign.tries++
	n.reign.grant = n.grantLength()
	n.timers.arm(stateTimer, n.now.Add(n.reign.grant))
	if n.isQuorum() {
		n.promiseSelf()
	}
	audience := n.audience()
	if n.isQuorum() {
		audience = n.otherVoters()
	}
	for _, p := range audience {
		n.ask(p, n.announcement(wire.Claim), 0)
	}
}

// abandonClaim tells the voters that their promises to this claim are void, and
// so is our own.
func (n *Node) abandonClaim() {
	n.exchanges.drop(func(x *exchange) bool { return x.frame.Kind == wire.Coordinator })
	for _, p := range n.audience() {
		n.sendTo(p, wire.Frame{Kind: wire.Resign, Epoch: n.epoch, Reason: wire.Abandoned})
	}
	n.promise.Release(n.epoch)
}

// noteLate: a grant that was worth nothing any more when it came shows that
// disks are slow.
func (n *Node) noteLate(sent time.Time) {
	took := n.now.Sub(sent)
	if n.state == Claiming && took >= lease.LeaderLength(n.reign.grant) {
		n.sync = max(n.sync, min(took/2, maxGrant/2))
	}
}

// isVoter: id is in the roster. Where there is none yet, everybody may be.
func (n *Node) isVoter(id wire.ID) bool {
	return !n.isQuorum() || n.saved.Roster.Has(id) || n.saved.Roster.IsNone()
}

// quorumNeed is how many others must grant besides this node itself.
func (n *Node) quorumNeed() int { return quorum.Size(len(n.saved.Roster.IDs)) - 1 }

// describeQuorum adds to a status what quorum mode knows.
func (n *Node) describeQuorum(s *Status) {
	if !n.isQuorum() {
		return
	}
	s.Roster, s.Outside = n.saved.Roster, n.isOutside
	s.Outdated = !n.leaderKnown && !n.outdatedAt.IsZero() && n.now.Sub(n.outdatedAt) <= 2*n.cfg.Lease
	s.Quorum = quorum.Size(max(len(s.Roster.IDs), n.cfg.Expect))
	if s.Roster.Version > 0 {
		s.Quorum = quorum.Size(len(s.Roster.IDs))
	}
	for _, id := range s.Roster.IDs {
		if p := n.peer(id); id == n.cfg.ID || (p != nil && n.heardWithin(p, 2*n.cfg.Lease)) {
			s.Heard = append(s.Heard, id)
		}
	}
}

// quorumEnd is until when a majority of the voters is bound to this leader; while
// the roster changes, a majority of the old voters and one of the new.
func (n *Node) quorumEnd() time.Time {
	end := n.majorityEnd(n.saved.Roster.IDs)
	if c := n.changing(); c != nil {
		if before := n.majorityEnd(c.Was()); before.Before(end) {
			end = before
		}
	}
	if own := n.promise; own.Epoch == n.reign.epoch && own.Until.Before(end) {
		return own.Until
	}
	return end
}

// majorityEnd counts this node itself as one that needs no acknowledgement;
// quorumEnd looks at its own promise.
func (n *Node) majorityEnd(voters []wire.ID) time.Time {
	need := quorum.Size(len(voters))
	if slices.Contains(voters, n.cfg.ID) {
		need--
	}
	return n.reign.lease.EndAmong(voters, need)
}

// voteForSelf is the claimant's own grant; it goes to disk with the epoch.
func (n *Node) voteForSelf() {
	n.saved.Vote = wire.Epoch{Counter: n.saved.MaxCounter, Owner: n.cfg.ID}
	n.notePromise(n.grantLength())
}

// promiseSelf binds the claimant for as long as it asks the others to be bound.
func (n *Node) promiseSelf() {
	if n.notePromise(n.reign.grant) {
		n.save()
	}
	n.bind(n.epoch, n.reign.grant)
}

// onClaimDue: the promotion was saved, or the claim was not granted by enough in
// its time.
func (n *Node) onClaimDue() {
	if !n.reign.promoted.IsZero() {
		n.onPromoted()
		return
	}
	n.repeatClaim()
}

// repeatClaim claims the same epoch once more: what is on others' disks by now is
// acknowledged at once.
func (n *Node) repeatClaim() {
	n.exchanges.drop(func(x *exchange) bool { return x.frame.Kind == wire.Coordinator })
	if n.reign.tries < maxClaims {
		n.announceClaim()
		return
	}
	n.withdraw(ClaimUnheard)
}
