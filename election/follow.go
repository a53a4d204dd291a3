package election

import (
	"time"

	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// onHeartbeat takes the leader's periodic frame.
func (n *Node) onHeartbeat(p *peer, f *wire.Frame) {
	if !n.mayFollow(p, f) {
		return
	}
	if f.Epoch != n.epoch {
		n.beatAt = time.Time{} // another leader has a rhythm of its own
	}
	due := n.now.Add(-min(spanOf(f.Late), n.cfg.Heartbeat)) // when the first copy of a repetition would have come (M35)
	n.pulse.beat(due, n.intervalOf(f.Interval), n.beatAt)
	n.beatAt = later(n.beatAt, due)
	n.accept(p, f)
	n.waits = f.Flags&wire.Wait != 0
	n.lingerOn(p)
	n.noteRoster(f)
	if f.Flags&wire.AckReq != 0 && n.epoch == f.Epoch {
		n.reply(p, f, wire.Frame{Kind: wire.HeartAck, AckFlags: n.rosterFlags(f)})
	}
}

// onCoordinator takes the announcement of an epoch by its owner.
func (n *Node) onCoordinator(p *peer, f *wire.Frame) {
	if n.isQuorum() && f.Phase == wire.Claim {
		n.onClaim(p, f)
		return
	}
	if !n.mayFollow(p, f) {
		return
	}
	n.accept(p, f)
	n.waits = f.Flags&wire.Wait != 0
	n.reply(p, f, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.Accept, Epoch: f.Epoch})
}

// mayFollow obeys R4 and R9: an epoch is announced by its owner alone, never
// after it was resigned, and never below the best one known. Whoever announces
// an epoch that is too low is told so (the NACK of R5).
func (n *Node) mayFollow(p *peer, f *wire.Frame) bool {
	switch {
	case f.Epoch.Owner != p.ID:
		n.count("not-the-owner")
		return false
	case !n.mayLead(p.ID, f.Epoch):
		n.count("not-a-voter")
		n.askAVoter(f)
		return false
	case f.Epoch.Counter <= p.resigned:
		n.count("resigned-epoch")
		return false
	case f.Epoch.Compare(n.epoch) < 0 && !n.hasLostTo(f):
		n.reply(p, f, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale})
		return false
	case n.isQuorum() && n.votes().HasGrantedAbove(f.Epoch):
		n.reply(p, f, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Epoch: n.votes().Highest()})
		return false
	case f.Epoch.Compare(n.floor()) < 0: // of a life before
		n.reply(p, f, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Epoch: n.floor()})
		return false
	case n.isUsedUp(f.Epoch):
		n.reply(p, f, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Epoch: quorum.AboveAll(f.Epoch.Counter)})
		return false
	}
	return f.Epoch.Compare(n.saved.Accepted) <= 0 || n.mayWrite()
}

// mayLead: in quorum mode voters lead, by this node's own roster. Somebody outside it
// may have been taken in by a change that was missed here; that is for a voter to
// say, who hears that leader, and not for itself.
func (n *Node) mayLead(id wire.ID, e wire.Epoch) bool {
	return !n.isQuorum() || !n.saved.Roster.Formed || n.saved.Roster.Has(id) || e == n.vouched
}

// askAVoter asks one of the voters whether it hears the leader of f's epoch, who by
// its own word has a newer roster than ours; once in a heartbeat interval at most.
// Where no voter of ours is left nobody is asked: strangers could say so of each other.
func (n *Node) askAVoter(f *wire.Frame) {
	if f.RosterVersion <= n.saved.Roster.Version {
		return
	}
	n.outdatedAt = n.now
	if voters := n.otherVoters(); len(voters) > 0 && (n.askedVoter.IsZero() || n.now.Sub(n.askedVoter) >= n.cfg.Heartbeat) {
		n.askedVoter = n.now
		n.probe(voters[n.cfg.Rand.IntN(len(voters))], wire.AskOpinion)
	}
}

// noteVouched takes a voter's word, asked for, that it hears a leader.
func (n *Node) noteVouched(p *peer, f *wire.Frame) {
	if n.isQuorum() && n.saved.Roster.Has(p.ID) && f.Flags&wire.Fresh != 0 && f.Epoch.Compare(n.epoch) >= 0 {
		n.vouched = f.Epoch
	}
}

// hasLostTo: f's epoch is in force with the counter of a claim of ours. A majority
// has granted it that counter, so that ours never can be, whatever the owners' order;
// to refuse it would make the winner claim anew.
func (n *Node) hasLostTo(f *wire.Frame) bool {
	return n.isQuorum() && f.Flags&wire.Active != 0 && f.Epoch.Counter == n.epoch.Counter && n.epoch.Owner == n.cfg.ID &&
		n.state != Lead && n.state != Stopping
}

// accept follows the owner of f's epoch, from whom f came.
func (n *Node) accept(p *peer, f *wire.Frame) {
	isNews := f.Epoch != n.epoch || !n.leaderKnown
	if n.state == Lead {
		n.onSuperseded(f.Epoch)
	}
	isNew := n.recognise(f.Epoch)
	asked := n.askedFor(f)
	n.heardOwner(asked)
	if n.renewPromise(f.Epoch, asked) || isNew {
		n.save()
	}
	if isNews {
		n.followedAt = n.now
	}
	switch {
	case n.state == Stopping || (n.leaving && !n.timers.isArmed(lingerTimer)):
		return // it follows once its lose hook has ended
	case isNews || n.state != Follow:
		n.becomeFollower(HeardLeader)
	}
	n.armSuspicion(n.lastFromLeader.Add(n.suspectTimeout()))
	n.armPreemption(p)
}

// recognise makes e's owner the leader, and reports whether e must be saved: before
// anything shows that it was accepted, the acknowledgement that its owner leads by
// among it. So hosts that all lost their power go on above every epoch that a disk
// among those that are back has seen. A node without a disk goes on following, and
// saves what it accepted when the disk is well.
func (n *Node) recognise(e wire.Epoch) (mustSave bool) {
	n.raiseCounter(e.Counter)
	n.waits = n.waits || e != n.epoch // it may have asked for it (M26), until it is heard itself
	if e != n.epoch {
		n.ownerActs, n.ownerAsks = time.Time{}, 0
		n.giveUpDoubted()
	}
	n.epoch, n.leaderKnown, n.abandonedEpoch = e, true, wire.Epoch{}
	if e.Compare(n.saved.Accepted) <= 0 {
		return false
	}
	n.saved.Accepted = e
	return !n.hasVotedFor(e) && !n.diskFailed
}

// hasVotedFor: e is on disk already, as what this node granted, and every later life
// counts that as followed. Of its counter alone another owner could make use.
func (n *Node) hasVotedFor(e wire.Epoch) bool { return n.saved.Vote == e && !n.unsaved }

// inherit takes what the lives before granted to another for what they followed, if that
// is higher: whoever follows its vote writes nothing down again (M23). What this node
// claimed itself it has not led in, or it were on disk as accepted.
//
// Among voters a vote raises the floor's counter only: the counter has one leader at most, and who announces itself in it is
// that one, also if the vote was for the loser of a duel.
func (cfg *Config) inherit(saved Saved) Saved {
	if saved.Vote.Counter > saved.Accepted.Counter && saved.Vote.Owner != cfg.ID && cfg.Expect == 0 {
		saved.Accepted = saved.Vote
	}
	return saved
}

// floor is the lowest epoch that this node may follow: the highest that it
// accepted or granted, in this life or before. A state file of an older version
// has the counter alone.
func (n *Node) floor() wire.Epoch {
	lowest := n.saved.Accepted
	if lowest.IsZero() {
		lowest.Counter = n.inherited
	}
	if n.isQuorum() && n.saved.Vote.Counter > lowest.Counter {
		return wire.Epoch{Counter: n.saved.Vote.Counter}
	}
	return lowest
}

// toldOf takes somebody else's word that the epoch e is in force. It gives a
// node without a leader somebody to expect (R8: it must be heard within the
// suspect timeout), and never makes one out of oneself (M2).
func (n *Node) toldOf(e wire.Epoch) {
	if n.leaderKnown || n.state == Lead || n.state == Stopping || n.leaving || !n.mayBeTold(e) {
		return
	}
	if e.Compare(n.saved.Accepted) > 0 && !n.mayWrite() {
		return
	}
	if n.recognise(e) {
		n.save()
	}
	n.lastFromLeader, n.followedAt = time.Time{}, n.now
	n.becomeFollower(ToldOfLeader)
	n.armSuspicion(n.now.Add(n.suspectTimeout()))
}

// mayBeTold: e could be in force, as far as this node knows itself.
func (n *Node) mayBeTold(e wire.Epoch) bool {
	p := n.peer(e.Owner)
	switch {
	case e.IsZero() || e.Counter > wire.MaxCounter || e.Owner == n.cfg.ID || !n.hosts.has(e.Owner):
		return false
	case p == nil || p.Status != Alive || e.Counter <= p.resigned || !n.mayLead(e.Owner, e):
		return false
	}
	return e.Compare(n.epoch) >= 0 && e.Compare(n.abandonedEpoch) > 0 && e.Compare(n.floor()) >= 0 && !n.isUsedUp(e) && !n.isFar(e)
}

// onLeaderReported takes the record that memberlist carries (protocol 6.3).
func (n *Node) onLeaderReported(e wire.Epoch) {
	if n.isFar(e) {
		n.count("counter-jump")
		return
	}
	n.toldOf(e)
}

// armPreemption starts the wait of a better node under a worse leader; the
// wait counts from the last doubt, since every doubt re-enters Follow.
func (n *Node) armPreemption(leader *peer) {
	if !n.isElectable() || !n.cfg.mayPreempt(n.cfg.Priority, n.cfg.ID, leader.Priority, leader.ID) {
		n.timers.disarm(preemptTimer)
		return
	}
	if !n.timers.isArmed(preemptTimer) {
		settled := n.settleEnd.Add(-n.joinWait) // who follows has met somebody
		n.timers.arm(preemptTimer, later(later(settled, n.overruled.until), n.now.Add(n.preemptDelay())))
	}
}

// preemptDelay is the configured delay, doubled for each leadership lost lately
// (protocol 4.6).
func (n *Node) preemptDelay() time.Duration { return n.flaps.damp(n.cfg.PreemptDelay, n.now) }

// askToPreempt asks a worse leader to hand over; it, not we, decides to whom.
func (n *Node) askToPreempt() {
	leader := n.peer(n.epoch.Owner)
	if n.state != Follow || leader == nil {
		return
	}
	n.ask(leader, wire.Frame{Kind: wire.Election, Reason: wire.Preempt, Epoch: n.epoch,
		FailedCounter: n.epoch.Counter, HeartbeatAge: n.heartbeatAge()}, 0)
	n.timers.arm(preemptTimer, n.now.Add(max(n.preemptDelay(), askAgain*n.cfg.Heartbeat)))
}

// askAgain is the least that a better node waits between two questions, however
// short its delay, in heartbeats: a leader takes a while to let go. Arbitrary.
const askAgain = 4

// onQuery tells a joiner, or a node that waits for this one, what it knows of a leader.
func (n *Node) onQuery(p *peer, f *wire.Frame) {
	answer := wire.Frame{Kind: wire.Cid, HeartbeatAge: n.heartbeatAge()}
	switch {
	case n.state == Lead:
		answer.Knowledge = wire.Leads
		answer.Remain = millis(n.leaseEnd().Sub(n.now))
	case n.leaderIsFresh():
		answer.Knowledge = wire.Knows
	case n.canvassedInVain():
		n.answer(p, f, wire.Ineligible, 0)
		return
	}
	n.reply(p, f, answer)
}

// onCid takes the answer to our QUERY.
func (n *Node) onCid(p *peer, f *wire.Frame) {
	isNominees := n.exchanges.end(p.ID, wire.Nominate, f.Round) // its answer to our NOMINATE
	if !isNominees && !n.answered(p, wire.Query, f) {
		n.sampleLate(p, f)
		return
	}
	switch {
	case f.Knowledge == wire.Leads && n.leaderKnown:
	case f.Knowledge == wire.Leads && n.state != Lead && n.mayFollow(p, f):
		n.accept(p, f)
	case f.Knowledge == wire.Knows && isNominees:
		n.onLeaderAlive(f)
	case f.Knowledge == wire.Knows:
		n.toldOf(f.Epoch)
	case isNominees && n.state == Wait && p.ID == n.contest.helper:
		n.allow(p, n.waitOf(f.Remain))
	}
	n.checkJoin()
}

// checkJoin: a starting node has asked around, and nobody knows a leader.
func (n *Node) checkJoin() {
	if n.state == Start && !n.exchanges.awaits(wire.Query) {
		n.strategy.onNobodyLeads(n)
	}
}

// queryLeader asks around once while starting, when gossip brought no record.
func (n *Node) queryLeader() {
	if n.state == Start {
		n.strategy.onJoin(n)
	}
}

// onQuerySilent: p did not answer our QUERY or NOMINATE, or has canvassed in vain. If it is
// the better node that we wait for, we wait no longer.
func (n *Node) onQuerySilent(p *peer) {
	if n.state == Wait && p.ID == n.contest.helper {
		p.silent = true
		n.strategy.onHelperLost(n)
	}
	n.checkJoin()
}

// onLeave takes a member's own word that it goes.
func (n *Node) onLeave(p *peer) {
	p.Status = Left
	n.emit(Departed{ID: p.ID, Incarnation: p.Incarnation, Nonce: p.Nonce})
	n.onLeft(p)
	n.onViewChanged()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
