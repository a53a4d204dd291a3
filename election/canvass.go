package election

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// canvass is a claimant's round among the voters (quorum mode): first it asks
// who would grant, and only if a majority would does it claim an epoch. Without
// the question, claims that fail would bind voters to nobody, each time for a
// lease.
type canvass struct {
	asked bool          // the question is out
	yes   int           // others that would grant
	bound time.Duration // the longest that a voter said it is bound to another
	tries int           // how often one epoch was claimed
}

// maxClaims bounds how often one epoch is claimed where disks are slow (M10).
const maxClaims = 5

// canvassVoters asks every other voter that may be alive.
func (n *Node) canvassVoters() {
	if wait := max(n.boundFor(n.cfg.ID), n.muteFor()); wait > 0 { // self is a voter too (M4)
		n.stateAt, n.contest.isNamed = n.now.Add(wait), false
		return
	}
	if n.contest.isNamed { // the old leader has released the voters for us
		n.becomeClaimant(n.contest.won)
		return
	}
	n.contest.canvass = canvass{asked: true}
	question := n.challenge()
	question.Flags |= wire.Active
	question.FailedCounter = uint64(n.saved.Roster.Version)
	n.stateAt = time.Time{}
	for _, p := range n.otherVoters() {
		n.ask(p, question, 0)
	}
	n.onCanvassed()
}

// otherVoters gives the voters that a frame may reach, without oneself and the
// leader believed dead.
func (n *Node) otherVoters() []*peer {
	var out []*peer
	for _, p := range n.peers {
		if n.isVoter(p.ID) && n.presumedAlive(p) && p.ID != n.gone {
			out = append(out, p)
		}
	}
	return out
}

// onVoterAnswer takes a voter's answer to the question.
func (n *Node) onVoterAnswer(f *wire.Frame) {
	switch f.Verdict {
	case wire.Yes:
		n.contest.canvass.yes++
		n.raiseCounter(f.Epoch.Counter)
	case wire.Leased, wire.Hold:
		n.contest.canvass.bound = max(n.contest.canvass.bound, spanOf(f.ETA))
	case wire.LeaderAlive:
		n.onLeaderAlive(f)
	}
	n.onCanvassed()
}

// onCanvassed: enough would grant, or there is nobody left to ask.
func (n *Node) onCanvassed() {
	switch c := n.contest.canvass; {
	case n.state != Elect || !c.asked:
	case c.yes >= n.needAcks():
		n.becomeClaimant(n.contest.won)
	case n.awaiting(wire.Election):
	case c.bound > 0:
		n.retryAfter(Promised, c.bound)
	default:
		n.contest.isolated = true
		n.retry(NoQuorum)
	}
}

// retryAfter starts over when the promises that stood in the way have ended.
func (n *Node) retryAfter(cause Cause, wait time.Duration) {
	jitter := time.Duration(n.cfg.Rand.Float64() * float64(10*time.Millisecond))
	n.contest.release = later(n.contest.release, n.now.Add(wait+jitter))
	n.startOver(cause, 0)
}

// grantLength is what a claimant asks for: the lease, and time for two slow
// disks in a row (M10).
func (n *Node) grantLength() time.Duration {
	if !n.isQuorum() {
		return n.cfg.Lease
	}
	return n.cfg.Lease + min(2*n.sync, maxGrant)
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
		n.contest.canvass.bound = max(n.contest.canvass.bound, spanOf(f.Remain))
	}
}

// onClaimsAnswered: where promises to another stand in the way, the claim is over
// as soon as no voter is left to be asked again. Mere silence is waited for: the
// voters said yes a moment ago, so their disks may be slow.
func (n *Node) onClaimsAnswered() {
	if !n.isQuorum() || n.state != Claiming || n.awaiting(wire.Coordinator) {
		return
	}
	if bound := n.contest.canvass.bound; bound > 0 {
		n.abandonClaim()
		n.retryAfter(Promised, bound)
	}
}

// announceClaim sends the claim of the present epoch to all who have a say.
func (n *Node) announceClaim() {
	n.contest.canvass.tries++
	n.reign.grant = n.grantLength()
	n.stateAt = n.now.Add(n.reign.grant)
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
	n.dropExchanges(func(x *exchange) bool { return x.frame.Kind == wire.Coordinator })
	for _, p := range n.audience() {
		n.sendTo(p, wire.Frame{Kind: wire.Resign, Epoch: n.cur, Reason: wire.Abandoned})
	}
	n.release(n.cur)
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
	return !n.isQuorum() || n.saved.Roster.has(id) || n.saved.Roster.Version == 0
}

// quorumNeed is how many others must grant besides this node itself.
func (n *Node) quorumNeed() int { return quorum.Size(len(n.saved.Roster.IDs)) - 1 }

// describeQuorum adds to a status what quorum mode knows.
func (n *Node) describeQuorum(s *Status) {
	if !n.isQuorum() {
		return
	}
	s.Roster, s.Outside, s.Present = n.saved.Roster, n.isOutside, len(n.presentVoters())
	s.Quorum = quorum.Size(max(len(s.Roster.IDs), n.cfg.Expect))
	if s.Roster.Version > 0 {
		s.Quorum = quorum.Size(len(s.Roster.IDs))
	}
	for _, id := range s.Roster.IDs {
		if p := n.peer(id); id == n.cfg.ID || (p != nil && n.heardWithin(p, 2*n.cfg.Lease)) {
			s.Heard++
		}
	}
}

// quorumEnd is until when a majority of the voters is bound to this leader; while
// the roster changes, a majority of the old voters and one of the new.
func (n *Node) quorumEnd() time.Time {
	end := n.majorityEnd(n.saved.Roster.IDs)
	if n.isChanging() {
		if before := n.majorityEnd(n.offer.was); before.Before(end) {
			end = before
		}
	}
	if own := n.promise; own.epoch == n.reign.epoch && own.until.Before(end) {
		return own.until
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
	n.saved.LongestPromise = max(n.saved.LongestPromise, n.bindsFor(n.grantLength()))
}

// promiseSelf binds the claimant for as long as it asks the others to be bound.
func (n *Node) promiseSelf() {
	if n.bindsFor(n.reign.grant) > n.saved.LongestPromise {
		n.saved.LongestPromise = n.bindsFor(n.reign.grant)
		n.save()
	}
	n.bind(n.cur, n.reign.grant)
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
	n.dropExchanges(func(x *exchange) bool { return x.frame.Kind == wire.Coordinator })
	if n.contest.canvass.tries < maxClaims {
		n.announceClaim()
		return
	}
	n.withdraw(ClaimUnheard)
}
