package election

import (
	"bytes"
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/wire"
)

// promise is what this voter owes in quorum mode (protocol 4.3): until its end
// it grants nobody else. It is given to a claimant and renewed by each of its
// heartbeats, measured from receipt, so that it ends after the leader's own
// view of it. It lives in memory: a restarted voter keeps silent for as long as
// any promise may run.
//
// Invariant: while this node claims or leads, its promise is to itself (M4).
type promise struct {
	epoch wire.Epoch
	until time.Time
}

// maxGrant bounds what a claimant may ask for beyond the lease, for its disk.
const maxGrant = 4 * time.Second

// isQuorum: leases come from a majority of the roster.
func (n *Node) isQuorum() bool { return n.cfg.Expect > 0 }

// boundFor is how long this voter may not grant id anything: a promise to
// another runs. takeover_delay binds the voters too (M6).
func (n *Node) boundFor(id wire.ID) time.Duration {
	if n.promise.epoch.IsZero() || n.promise.epoch.Owner == id {
		return 0
	}
	return max(0, n.promise.until.Add(n.cfg.TakeoverDelay).Sub(n.now))
}

// muteFor is how long a restarted voter still keeps silent.
func (n *Node) muteFor() time.Duration { return max(0, n.muteUntil.Sub(n.now)) }

// startMute begins the silence of a voter that may have made promises in its
// life before (M5).
func (n *Node) startMute() {
	if n.isQuorum() && n.saved.LongestPromise > 0 {
		n.muteUntil = n.now.Add(lease.WaitLength(max(n.saved.LongestPromise, n.bindsFor(n.cfg.Lease))))
	}
}

// endMute: what the lives before promised has run out, and whoever is mute grants
// nothing: it has promised a leader that it hears the lease, and no more. So a disk
// that was slow once does not keep this voter silent for as long at every start.
func (n *Node) endMute() {
	if longest := n.bindsFor(n.cfg.Lease); longest < n.saved.LongestPromise {
		n.saved.LongestPromise = longest
		n.save()
	}
}

// bindsFor is how long a promise of that length keeps this voter from granting
// others. What is saved of it has the takeover_delay of its day: the next life may
// have another.
func (n *Node) bindsFor(length time.Duration) time.Duration { return length + n.cfg.TakeoverDelay }

// bind makes or prolongs a promise to e's owner. It never shortens one to the
// same owner: that owner counts on the longer.
func (n *Node) bind(e wire.Epoch, length time.Duration) {
	until := n.now.Add(length)
	if n.promise.epoch.Owner == e.Owner {
		until = later(until, n.promise.until)
	}
	n.promise = promise{e, until}
}

// release ends the promise to e, and to no other epoch: an old RESIGN must not
// free a newer promise (CE8).
func (n *Node) release(e wire.Epoch) {
	if n.promise.epoch == e {
		n.promise = promise{}
	}
}

// renewPromise: the leader that this voter follows is heard. It reports whether
// something that a restart must not forget is to be saved, before the
// acknowledgement goes out.
func (n *Node) renewPromise(e wire.Epoch) (mustSave bool) {
	if !n.isQuorum() {
		return false
	}
	mustSave = n.bindsFor(n.cfg.Lease) > n.saved.LongestPromise || e.Counter > n.onDisk || n.unsaved
	n.saved.LongestPromise = max(n.saved.LongestPromise, n.bindsFor(n.cfg.Lease))
	n.bind(e, n.cfg.Lease)
	return mustSave
}

// hasVotedAbove: this voter granted an epoch above e, so e is over for it.
func (n *Node) hasVotedAbove(e wire.Epoch) bool {
	return n.isQuorum() && n.saved.Vote.Counter > e.Counter
}

// hasVotedAgainst: this voter granted e's counter to another. It must not grant it
// twice (I4), but may follow e: where e is in force, the other never can be.
func (n *Node) hasVotedAgainst(e wire.Epoch) bool {
	return n.saved.Vote.Counter == e.Counter && n.saved.Vote.Owner != e.Owner
}

// isUsedUp: another than e's owner has led this node in e's counter. A majority
// grants a counter once, so that was in available mode, of which the voters that
// grant e now need not have heard; or in a life before, and whoever stopped before
// that leadership may claim its counter again. Only of two that claim one counter at
// the same time the order of owners decides (CE2).
func (n *Node) isUsedUp(e wire.Epoch) bool {
	isOld := n.isQuorum() || n.cur.Compare(n.saved.Accepted) < 0
	return isOld && n.saved.Accepted.Counter == e.Counter && n.saved.Accepted.Owner != e.Owner
}

// aboveAll refuses a counter to everybody, whatever the order of the owners.
func aboveAll(counter uint64) wire.Epoch {
	return wire.Epoch{Counter: counter, Owner: lastID}
}

// lastID is above every id, and nobody's.
var lastID = wire.ID(bytes.Repeat([]byte{0xff}, len(wire.ID{})))

// onCanvass answers a claimant's question whether this voter would grant now
// (pre-vote). Nothing is promised and nothing is written.
func (n *Node) onCanvass(p *peer, f *wire.Frame) {
	verdict, remain := wire.Yes, time.Duration(0)
	switch {
	case !n.mayVoteFor(p, uint32(f.FailedCounter)) && uint32(f.FailedCounter) < n.saved.Roster.Version:
		verdict = wire.Stale // its roster is older than ours
	case !n.mayVoteFor(p, uint32(f.FailedCounter)):
		verdict = wire.Ineligible
	case n.muteFor() > 0:
		verdict, remain = wire.Hold, n.muteFor()
	case n.boundFor(p.ID) > 0 && !n.yieldsClaimTo(p):
		verdict, remain = wire.Leased, n.boundFor(p.ID)
	}
	if verdict == wire.Stale {
		n.tellRoster(p) // first: with it the asker starts over, without it it waits
	}
	n.reply(p, f, wire.Frame{Kind: wire.Answer, Verdict: verdict, ETA: millis(remain + time.Millisecond),
		Epoch: n.votedEpoch(), HeartbeatAge: n.heartbeatAge()})
	switch {
	case verdict != wire.Yes:
	case n.state == Follow && !n.isLeadersOwn(p, f): // the leader is not fresh
		n.becomeSuspicious(Challenged)
	case n.state == Stagger && n.isOutrankedBy(p): // its claim comes as soon as its disk has it
		n.stateAt = later(n.stateAt, n.now.Add(syncAllowance+2*n.sync))
	}
}

// votedEpoch tells a claimant which counters are used up here.
func (n *Node) votedEpoch() wire.Epoch {
	if n.saved.Vote.Counter == n.saved.MaxCounter {
		return n.saved.Vote
	}
	return wire.Epoch{Counter: n.saved.MaxCounter} // heard of, by whomever
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
	verdict, remain := n.judgeClaim(p, f)
	answer := wire.Frame{Kind: wire.CoordAck, AckVerdict: verdict, Epoch: f.Epoch}
	if remain > 0 {
		answer.Remain = millis(remain + time.Millisecond)
	}
	switch verdict {
	case wire.Accept:
		n.grant(p, f)
	case wire.AckStale:
		answer.Epoch = n.votedEpoch()
		if n.leaderIsFresh() && n.cur.Counter >= f.Epoch.Counter {
			answer.Epoch = n.cur
		}
		if n.isUsedUp(f.Epoch) && answer.Epoch.Compare(f.Epoch) <= 0 {
			answer.Epoch = aboveAll(f.Epoch.Counter)
		}
	}
	n.reply(p, f, answer)
}

func (n *Node) judgeClaim(p *peer, f *wire.Frame) (wire.AckVerdict, time.Duration) {
	switch {
	case !n.mayVoteFor(p, f.ConfigVersion):
		return wire.NotVoter, 0
	case spanOf(f.Lease) > n.cfg.Lease+maxGrant:
		return wire.NotVoter, 0
	case n.muteFor() > 0:
		return wire.AckHold, n.muteFor()
	case f.Epoch.Counter < n.saved.MaxCounter || n.hasVotedAbove(f.Epoch) || n.hasVotedAgainst(f.Epoch) || n.isUsedUp(f.Epoch):
		return wire.AckStale, 0
	case n.boundFor(p.ID) > 0 && !n.yieldsClaimTo(p):
		return wire.AckLeased, n.boundFor(p.ID)
	}
	return wire.Accept, 0
}

// mayVoteFor: this voter and a claimant with that version of the roster are in one
// roster. A newer one than ours is the claimant's to judge by: it is the word of a
// leader that we missed, and majorities of neighbouring rosters overlap. One with
// an older roster would bring the past back.
func (n *Node) mayVoteFor(p *peer, version uint32) bool {
	mine := n.saved.Roster
	switch {
	case n.refused || mine.Version == 0 || version < mine.Version:
		return false
	case version == mine.Version:
		return mine.has(n.cfg.ID) && mine.has(p.ID)
	}
	return true
}

// grant gives this voter's promise to a claimant. The vote is on disk before the
// answer is sent: no restart makes it vote twice for one counter (I4).
func (n *Node) grant(p *peer, f *wire.Frame) {
	if n.state == Claiming {
		n.abandonClaim()
	}
	length := spanOf(f.Lease)
	if n.saved.Vote != f.Epoch || n.bindsFor(length) > n.saved.LongestPromise || n.unsaved {
		n.saved.Vote = f.Epoch
		n.saved.LongestPromise = max(n.saved.LongestPromise, n.bindsFor(length))
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
	case n.state == Stopping || n.leaving || n.refused || n.state == Wait && n.contest.helper == p.ID:
		return
	case n.leaderKnown:
		n.failed, n.gone, n.leaderKnown = n.cur, n.cur.Owner, false
		if n.gone == p.ID {
			n.gone = wire.ID{}
		}
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
