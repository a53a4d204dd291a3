package election

import (
	"slices"

	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// Who may vote is agreed on once and written down: the roster (quorum.Roster).
//
// The first roster is formed by all its members: the best of the expected
// number proposes those that are present, each of them writes it to its disk,
// and only when all have done so does it hold. A voter accepts one proposal in
// its life, so no two rosters with a voter in common can form. Later the leader
// changes one entry at a time; majorities of neighbouring rosters overlap.

// presentVoters gives everybody here who could vote, oneself included, sorted.
func (n *Node) presentVoters() []wire.ID {
	var out []wire.ID
	if n.cfg.Part != Observer {
		out = append(out, n.cfg.ID)
	}
	for _, p := range n.peers {
		if p.Part != Observer && n.presumedAlive(p) {
			out = append(out, p.ID)
		}
	}
	slices.SortFunc(out, wire.ID.Compare)
	return out
}

// formRoster is called by the best node that is present when there is no formed
// roster. One that was accepted earlier is the only one that may still form.
func (n *Node) formRoster() {
	r := n.saved.Roster
	if r.IsNone() {
		r = Roster{Version: 1, IDs: n.presentVoters()}
		if len(r.IDs) != n.cfg.Expect || !r.Has(n.cfg.ID) {
			n.retry(NoRoster)
			return
		}
	}
	n.offer = quorum.Propose(r)
	n.putBefore(r, wire.Proposed)
	n.timers.arm(stateTimer, n.now.Add(2*n.roundTrip()+2*n.sync+syncAllowance))
}

// putBefore asks everybody who is to have a roster to write it down; one that has
// formed also those that it leaves out.
func (n *Node) putBefore(r Roster, phase wire.Phase) {
	f := n.rosterFrame(r, phase)
	for _, p := range n.peers {
		if n.presumedAlive(p) && (phase != wire.Proposed || r.Has(p.ID)) {
			n.ask(p, f, 0)
		}
	}
}

func (n *Node) rosterFrame(r Roster, phase wire.Phase) wire.Frame {
	f := wire.Frame{Kind: wire.Roster, Phase: phase, RosterVersion: r.Version, Count: uint8(len(r.IDs)), Epoch: n.epoch}
	copy(f.Voters[:], r.IDs)
	return f
}

// onRoster takes a proposal, the word that the first roster holds, or a leader's
// change.
func (n *Node) onRoster(p *peer, f *wire.Frame) {
	if !n.isQuorum() {
		n.count("roster-without-quorum")
		return
	}
	r := Roster{Version: f.RosterVersion, IDs: slices.Clone(f.Voters[:min(f.Count, wire.MaxVoters)])}
	// Whoever was granted a higher epoch may lead without this change: our word must
	// not complete it, even if we have been told of it (M19).
	isVotedOut := f.Epoch.Compare(n.floor()) < 0
	verdict := wire.NotVoter
	switch {
	case !r.IsSane():
		n.count("roster-malformed")
		return
	case f.Phase == wire.Proposed:
		if verdict = n.onProposal(r); verdict == wire.Accept && n.saved.Roster.Formed {
			n.tellRoster(p, f)
		}
	case f.Flags&wire.AckReq == 0:
		n.onToldRoster(p, f, r)
		return
	case n.saved.Roster.IsFirst(r), !isVotedOut && n.isLeadersRoster(p, f, r):
		r.Formed = true
		n.adopt(r)
		verdict = wire.Accept
	case !isVotedOut && n.saved.Roster.Equals(r):
		n.adopt(n.saved.Roster)
		verdict = wire.Accept
	}
	n.reply(p, f, wire.Frame{Kind: wire.RosterAck, AckVerdict: verdict, RosterVersion: n.saved.Roster.Version})
}

// tellRoster answers a claimant whose roster is older than ours. It asks for no
// acknowledgement: nothing waits for it, and a claimant asks again.
func (n *Node) tellRoster(p *peer, question *wire.Frame) {
	if !n.unsaved && n.saved.Roster.Formed { // else it may be in memory alone
		n.reply(p, question, n.rosterFrame(n.saved.Roster, wire.Formed))
	}
}

// onToldRoster takes a voter's answer that there is a newer roster than ours, which
// then need not be known to anybody who could lead. The word completes no change, so it
// is not acknowledged.
//
// It outlives its sender on the disk, and is told on: so nobody brings one unasked (M33), and nobody a version that is
// further ahead than the counters of leaders are.
func (n *Node) onToldRoster(p *peer, f *wire.Frame, r Roster) {
	mine, question := n.saved.Roster, wire.Roster
	if mine.Formed {
		question = wire.Canvass
	}
	switch {
	case !n.exchanges.isOpen(p.ID, question, f.Round):
		n.count("late-reply")
	case n.isFar(wire.Epoch{Counter: uint64(r.Version / quorum.ChangesPerEpoch)}):
		n.count("counter-jump")
	case !mine.Formed && mine.IsFirst(r):
		n.onRosterFormed(r) // it missed that; it may never again find all of the voters that it names
	case !mine.TakesFromVoter(r):
		n.count("roster-not-taken")
	case n.mayWrite():
		n.contest.canvass.Tell(r) // each has its say: another may know a newer one
	}
}

// onProposal answers the proposal of a first roster.
func (n *Node) onProposal(r Roster) wire.AckVerdict {
	mine := n.saved.Roster
	verdict := mine.Judge(r, n.cfg.Expect, n.presentVoters())
	switch {
	case verdict != wire.Accept:
	case mine.IsNone():
		n.adopt(r)
	default:
		n.adopt(mine) // on disk, if its last save failed
	}
	return verdict
}

// isLeadersRoster: r takes the place of ours, and comes from the leader that we
// follow. Nobody leads outside its own roster: one that leaves the leader out is not its
// word, and would have us refuse it (M30).
func (n *Node) isLeadersRoster(p *peer, f *wire.Frame, r Roster) bool {
	isFromLeader := f.Epoch == n.epoch && n.epoch.Owner == p.ID && n.leaderKnown
	return isFromLeader && r.Has(p.ID) && n.saved.Roster.TakesFromLeader(r, n.cfg.ID)
}

// adopt writes a roster down. A node that it leaves out stands no more.
func (n *Node) adopt(r Roster) {
	if mine := n.saved.Roster; mine.Equals(r) && mine.Formed == r.Formed && !n.unsaved {
		return
	}
	n.withdrawRoster()                     // an older one is not on the disk any more
	n.saved.Roster, n.isOutside = r, false // without this node, isVoter says so
	n.save()
}

// onRosterAck counts who has the offered roster on disk.
func (n *Node) onRosterAck(p *peer, f *wire.Frame) {
	if !n.answered(p, wire.Roster, f) || n.offer == nil {
		return
	}
	switch {
	case f.AckVerdict == wire.Accept && f.RosterVersion == n.offer.Offered().Version:
		n.offer.Ack(p.ID)
		n.checkOffer()
	case f.RosterVersion > 0 && n.saved.Roster.IsNone():
		n.learnOutside() // they have a roster, and we are not in it
	}
}

// learnOutside: the cluster has formed its roster without this node. It may be
// admitted by the leader later, or else observes.
func (n *Node) learnOutside() {
	n.isOutside = true
	n.offer = nil
	if n.isStanding() || n.state == Start {
		n.becomeObserver(NoRoster)
	}
}

// withdrawRoster: what is offered is not on the disk, since a save has failed or
// another took its place. It is not repeated to anybody, so nobody's word can
// complete it. While its leader stops it needs both majorities all the same: others
// may have written it down.
func (n *Node) withdrawRoster() {
	n.exchanges.drop(func(x *exchange) bool { return x.frame.Kind == wire.Roster })
}

// checkOffer goes on once enough have the offered roster on disk.
func (n *Node) checkOffer() {
	switch o := n.offer.(type) {
	case *quorum.Proposal:
		n.checkProposal(o)
	case *quorum.Confirmation:
		switch {
		case !o.Holds():
		case n.state == Lead && n.isSecureWith(o.Next):
			n.change(o.Next)
		default:
			n.endChange(ErrRosterPending)
		}
	case *quorum.Change:
		if o.Holds() {
			n.endChange(nil)
		}
	}
}

func (n *Node) checkProposal(o *quorum.Proposal) {
	switch mine := n.saved.Roster; {
	case mine.Formed:
	case !mine.IsNone() && !slices.Equal(mine.IDs, o.Offered().IDs):
		n.offer = nil // meanwhile this node accepted another's proposal
	case o.IsAccepted(n.cfg.ID):
		n.onRosterFormed(o.Offered())
	}
}

// onRosterFormed: every voter has accepted the first roster. Everybody is told, and
// if this node had proposed it, it is its turn to claim.
func (n *Node) onRosterFormed(r Roster) {
	isMine := n.offer != nil
	r.Formed = true
	n.adopt(r)
	if !isMine {
		return
	}
	n.offer = nil
	n.putBefore(r, wire.Formed)
	if n.state == Elect {
		n.claim(n.contest.won)
	}
}

// onForgetCommand takes a voter out of the roster. It votes no more under its id,
// unless the host list names it; a host that comes back with a new one may take its
// place. So one that is alive is forgotten only if that is meant.
func (n *Node) onForgetCommand(c Command) {
	if err := n.mayForget(c); err != nil {
		n.emit(Reply{Token: c.Token, Err: err})
		return
	}
	ids := n.saved.Roster.Without(c.To)
	if !n.isSecureWith(ids) {
		n.emit(Reply{Token: c.Token, Err: ErrRosterPending})
		return
	}
	n.changeRoster(ids, c.Token)
}

func (n *Node) mayForget(c Command) error {
	voter := n.peer(c.To)
	switch {
	case !n.isQuorum():
		return ErrNotQuorum
	case n.state == Stopping:
		return ErrBusy
	case n.state != Lead:
		return ErrNotLeader
	case c.To == n.cfg.ID:
		return ErrSelf
	case !n.saved.Roster.Has(c.To):
		return ErrNotVoter
	case n.hosts.names(c.To) && voter != nil && n.presumedAlive(voter):
		return ErrVoterListed
	case !c.Force && voter != nil && n.presumedAlive(voter):
		return ErrVoterAlive
	case n.changing() != nil:
		return ErrRosterPending
	case n.epoch.Counter > quorum.LastChangeable:
		return ErrCounterTooHigh
	case n.nextVersion() == 0:
		return ErrVersionsUsedUp
	case len(n.saved.Roster.IDs) <= 2:
		return ErrRosterTooSmall
	}
	return nil
}

// isSecureWith: a majority of these voters acknowledges this leader already, so
// that the change does not cost it the lease.
func (n *Node) isSecureWith(ids []wire.ID) bool {
	return n.now.Before(n.majorityEnd(ids).Add(-n.cfg.StopBudget))
}

// changing gives the change of the roster that is under way, or nil.
func (n *Node) changing() *quorum.Change {
	switch o := n.offer.(type) {
	case *quorum.Change:
		return o
	case *quorum.Confirmation:
		return &o.Change
	}
	return nil
}

// nextVersion is the version of this leader's next roster, 0 if it can make none.
func (n *Node) nextVersion() uint32 { return n.saved.Roster.NextVersion(n.epoch.Counter) }

// changeRoster proposes a roster that differs from the present one by one voter,
// once this leader has its present one confirmed. The token is of the command that
// asked for it; zero: none did.
func (n *Node) changeRoster(ids []wire.ID, token uint64) {
	n.reign.forget = token
	if n.saved.Roster.Version >= quorum.FirstVersion(n.epoch.Counter) {
		n.change(ids)
		return
	}
	n.propose(quorum.Confirm(n.saved.Roster, n.epoch.Counter, ids, n.cfg.ID))
}

func (n *Node) change(ids []wire.ID) {
	n.propose(quorum.NewChange(n.saved.Roster, n.nextVersion(), ids, n.cfg.ID))
}

// propose writes a leader's offer down and puts it before the others.
func (n *Node) propose(o quorum.Offer) {
	n.offer = o
	n.adopt(o.Offered())
	n.putBefore(o.Offered(), wire.Formed)
	n.checkOffer()
}

// endChange: the change holds, or its leader does not lead any more.
func (n *Node) endChange(err error) {
	token := n.reign.forget
	n.offer, n.reign.forget = nil, 0
	if token != 0 {
		n.emit(Reply{Token: token, Err: err})
	}
}

// onRosterBehind brings a follower's roster up to date.
func (n *Node) onRosterBehind(p *peer) {
	if n.state == Lead && !n.exchanges.awaitsOf(p.ID, wire.Roster) {
		n.ask(p, n.rosterFrame(n.saved.Roster, wire.Formed), 0)
	}
}

// admitVoter takes a voter into a place that is free. One that was forgotten has its promises on its disk, as each voter has.
func (n *Node) admitVoter(p *peer) {
	r := n.saved.Roster
	if n.state != Lead || n.changing() != nil || len(r.IDs) >= n.cfg.Expect || r.Has(p.ID) || p.Part == Observer || n.nextVersion() == 0 || !n.listsAgree() {
		return
	}
	if ids := r.With(p.ID); n.isSecureWith(ids) {
		n.changeRoster(ids, 0)
	}
}

// noteRoster: a leader has a roster. Whether one that we accepted has formed only
// its ids can tell: every first roster has one version.
func (n *Node) noteRoster(f *wire.Frame) {
	if n.isQuorum() && n.saved.Roster.Version == 0 {
		n.isOutside = n.isOutside || f.RosterVersion > 0
	}
}

// rosterFlags is what an acknowledgement says of this node's roster.
func (n *Node) rosterFlags(f *wire.Frame) (flags uint8) {
	switch mine := n.saved.Roster; {
	case !n.isQuorum():
	case mine.IsNone() && n.cfg.Part != Observer:
		flags = wire.KnowsNoRoster
	case mine.IsBehind(f.RosterVersion):
		flags = wire.RosterBehind
	case !mine.Has(n.cfg.ID) && n.cfg.Part != Observer:
		flags = wire.OutOfRoster
	}
	return flags
}

// onRosterFlags acts on what a follower says of its roster.
func (n *Node) onRosterFlags(p *peer, flags uint8) {
	switch {
	case !n.isQuorum():
	case flags&wire.KnowsNoRoster != 0 && n.saved.Roster.Has(p.ID):
		n.onRosterBehind(p) // it was taken in, or its disk failed, and the word was lost
	case flags&wire.KnowsNoRoster != 0:
		n.admitVoter(p)
	case flags&wire.RosterBehind != 0:
		n.onRosterBehind(p)
	case flags&wire.OutOfRoster != 0 && n.hosts.names(p.ID):
		n.admitVoter(p) // forgotten once, and listed again
	}
}
