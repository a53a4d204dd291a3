package election

import (
	"math"
	"slices"

	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// Who may vote is agreed on once and written down: the roster. Counting whom one
// sees instead would let two parts of a network each find a majority of itself.
//
// The first roster is formed by all its members: the best of the expected
// number proposes those that are present, each of them writes it to its disk,
// and only when all have done so does it hold. A voter accepts one proposal in
// its life, so no two rosters with a voter in common can form. Later the leader
// changes one entry at a time; majorities of neighbouring rosters overlap.

// has reports whether id may vote.
func (r Roster) has(id wire.ID) bool { return slices.Contains(r.IDs, id) }

// isSane: the ids are sorted, each is there once, and there are enough.
func (r Roster) isSane() bool {
	isRising := func(i int) bool { return i == 0 || r.IDs[i-1].Compare(r.IDs[i]) < 0 }
	for i, id := range r.IDs {
		if id.IsZero() || !isRising(i) {
			return false
		}
	}
	return len(r.IDs) >= 2
}

// with gives voters and one more, sorted.
func with(voters []wire.ID, id wire.ID) []wire.ID {
	out := append(without(voters, id), id)
	slices.SortFunc(out, wire.ID.Compare)
	return out
}

// without gives a copy of voters without id.
func without(voters []wire.ID, id wire.ID) []wire.ID {
	return slices.DeleteFunc(slices.Clone(voters), func(v wire.ID) bool { return v == id })
}

const (
	// changesPerEpoch is how many versions one epoch's leader can make: one that
	// confirms what it found, and fifteen changes.
	changesPerEpoch = 16
	// lastChangeable is the last epoch counter whose versions fit in 32 bits.
	lastChangeable = math.MaxUint32 / changesPerEpoch
)

// offer is the proposal of a roster, or of a change to it, that is under way.
type offer struct {
	roster Roster
	was    []wire.ID // the voters before the change; nil for the first roster
	acked  []wire.ID // who has it on disk; of a change its leader too
	token  uint64    // of the command that asked for the change; zero: none
	next   []wire.ID // the voters that the leader wants once its roster is confirmed
}

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
	if r.Version == 0 {
		r = Roster{Version: 1, IDs: n.presentVoters()}
		if len(r.IDs) != n.cfg.Expect || !r.has(n.cfg.ID) {
			n.retry(NoRoster)
			return
		}
	}
	n.offer = offer{roster: r}
	n.sendOffer(wire.Proposed)
	n.stateAt = n.now.Add(2*n.roundTrip() + 2*n.sync + syncAllowance)
}

// sendOffer puts the offered roster before everybody who is to have it, and the
// members that it leaves out.
func (n *Node) sendOffer(phase wire.Phase) {
	f := n.rosterFrame(n.offer.roster, phase)
	for _, p := range n.peers {
		if n.presumedAlive(p) && (phase != wire.Proposed || n.offer.roster.has(p.ID)) {
			n.ask(p, f, 0)
		}
	}
}

func (n *Node) rosterFrame(r Roster, phase wire.Phase) wire.Frame {
	f := wire.Frame{Kind: wire.Roster, Phase: phase, ConfigVersion: r.Version, Count: uint8(len(r.IDs)), Epoch: n.cur}
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
	r := Roster{Version: f.ConfigVersion, IDs: slices.Clone(f.Voters[:min(f.Count, wire.MaxVoters)])}
	// Whoever was granted a higher epoch may lead without this change: our word must
	// not complete it, even if we have been told of it (M19).
	isVotedOut := f.Epoch.Compare(n.floor()) < 0
	verdict := wire.NotVoter
	switch {
	case !r.isSane():
		n.count("roster-malformed")
		return
	case f.Phase == wire.Proposed:
		verdict = n.onProposal(r)
	case f.Flags&wire.AckReq == 0:
		n.onToldRoster(r)
		return
	case n.isFirstFormed(r), !isVotedOut && n.isLeadersRoster(p, f, r):
		r.Formed = true
		n.adopt(r)
		verdict = wire.Accept
	case !isVotedOut && r.Version == n.saved.Roster.Version && slices.Equal(r.IDs, n.saved.Roster.IDs):
		n.adopt(n.saved.Roster)
		verdict = wire.Accept
	}
	n.reply(p, f, wire.Frame{Kind: wire.RosterAck, AckVerdict: verdict, ConfigVersion: n.saved.Roster.Version})
}

// tellRoster answers a claimant whose roster is older than ours. It asks for no
// acknowledgement: nothing waits for it, and a claimant asks again.
func (n *Node) tellRoster(p *peer) {
	if !n.unsaved { // else it may be in memory alone
		n.sendTo(p, n.rosterFrame(n.saved.Roster, wire.Formed))
	}
}

// onToldRoster takes a voter's word that there is a newer roster than ours, which
// then need not be known to anybody who could lead. Majorities overlap all the
// same: no version is made by that, and versions rise on each disk as they do
// under a leader. Who follows one leaves that to it; who claims or leads counts by
// the roster that it began with. The word completes no change, so it is not
// acknowledged.
func (n *Node) onToldRoster(r Roster) {
	mine := n.saved.Roster
	isBusy := n.leaderKnown || n.state == Claiming || n.state == Lead || n.state == Stopping
	if isBusy || !mine.Formed || r.Version <= mine.Version || !slices.ContainsFunc(mine.IDs, r.has) {
		n.count("roster-not-taken")
		return
	}
	r.Formed = true
	n.adopt(r)
	switch n.state {
	case Elect: // asks again, as one who has it; or stands no more, if it leaves this node out
		n.startOver(NoQuorum, 0)
	case Observe:
		n.resumeStanding(NoQuorum, 0)
	}
}

// onProposal accepts a first roster if it names exactly those whom this node
// sees, and none was accepted before.
func (n *Node) onProposal(r Roster) wire.AckVerdict {
	mine := n.saved.Roster
	switch {
	case mine.Version > 0 && slices.Equal(mine.IDs, r.IDs):
		n.adopt(mine) // on disk, if its last save failed
		return wire.Accept
	case mine.Version > 0:
		return wire.NotVoter
	case r.Version != 1 || len(r.IDs) != n.cfg.Expect || !slices.Equal(r.IDs, n.presentVoters()):
		return wire.AckHold // we do not see the same members, not yet perhaps
	}
	n.adopt(r)
	return wire.Accept
}

func (n *Node) isFirstFormed(r Roster) bool {
	return r.Version == 1 && n.saved.Roster.Version == 1 && slices.Equal(r.IDs, n.saved.Roster.IDs)
}

// isLeadersRoster: r is newer than ours and comes from the leader that we follow.
// It also replaces a proposal that we accepted and that never formed: a voter
// that both name has accepted the other one, so ours cannot form any more. Of a
// roster with nobody in common we know nothing.
func (n *Node) isLeadersRoster(p *peer, f *wire.Frame, r Roster) bool {
	mine := n.saved.Roster
	if f.Epoch != n.cur || n.cur.Owner != p.ID || !n.leaderKnown {
		return false
	}
	if mine.Version == 0 {
		return r.has(n.cfg.ID)
	}
	return (r.Version > mine.Version || !mine.Formed) && slices.ContainsFunc(mine.IDs, r.has)
}

// adopt writes a roster down. A node that it leaves out stands no more.
func (n *Node) adopt(r Roster) {
	isSame := r.Version == n.saved.Roster.Version && r.Formed == n.saved.Roster.Formed && slices.Equal(r.IDs, n.saved.Roster.IDs)
	if isSame && !n.unsaved {
		return
	}
	n.withdrawRoster()                     // an older one is not on the disk any more
	n.saved.Roster, n.isOutside = r, false // without this node, isVoter says so
	n.save()
}

// onRosterAck counts who has the offered roster on disk.
func (n *Node) onRosterAck(p *peer, f *wire.Frame) {
	if !n.answered(p, wire.Roster, f) || n.offer.roster.Version == 0 {
		return
	}
	switch {
	case f.AckVerdict == wire.Accept && f.ConfigVersion == n.offer.roster.Version:
		n.offer.acked = append(n.offer.acked, p.ID)
		n.checkOffer()
	case f.ConfigVersion > 0 && n.saved.Roster.Version == 0:
		n.learnOutside() // they have a roster, and we are not in it
	}
}

// learnOutside: the cluster has formed its roster without this node. It may be
// admitted by the leader later, or else observes.
func (n *Node) learnOutside() {
	n.isOutside = true
	n.offer = offer{}
	if n.isStanding() || n.state == Start {
		n.becomeObserver(NoRoster)
	}
}

// withdrawRoster: what is offered is not on the disk, since a save has failed or
// another took its place. It is not repeated to anybody, so nobody's word can
// complete it. While its leader stops it needs both majorities all the same: others
// may have written it down.
func (n *Node) withdrawRoster() {
	n.dropExchanges(func(x *exchange) bool { return x.frame.Kind == wire.Roster })
}

// checkOffer: the first roster needs all of its voters, a change a majority of
// the old ones and of the new. A proposal is a question, which whoever asks it
// has not on disk: its own word comes last, with the save of what has formed.
func (n *Node) checkOffer() {
	o := n.offer
	isAcked := func(id wire.ID) bool { return slices.Contains(o.acked, id) }
	isOpen := func(id wire.ID) bool { return id != n.cfg.ID && !isAcked(id) }
	switch {
	case o.was == nil && n.saved.Roster.Formed:
	case o.was == nil && n.saved.Roster.Version > 0 && !slices.Equal(n.saved.Roster.IDs, o.roster.IDs):
		n.offer = offer{} // meanwhile this node accepted another's proposal
	case o.was == nil:
		if !slices.ContainsFunc(o.roster.IDs, isOpen) {
			n.onRosterFormed()
		}
	case !quorum.Has(o.was, isAcked) || !quorum.Has(o.roster.IDs, isAcked):
	case o.next != nil && n.state == Lead && n.isSecureWith(o.next):
		n.propose(offer{roster: Roster{Version: n.nextVersion(), Formed: true, IDs: o.next}, token: o.token})
	case o.next != nil:
		n.endChange(ErrRosterPending)
	default:
		n.endChange(nil)
	}
}

// onRosterFormed: every voter has accepted the first roster. It is this node's
// turn to claim, and everybody is told that the roster holds.
func (n *Node) onRosterFormed() {
	r := n.offer.roster
	r.Formed = true
	n.adopt(r)
	n.sendOffer(wire.Formed)
	n.offer = offer{}
	if n.state == Elect {
		n.claim(n.contest.won)
	}
}

// onForgetCommand takes a voter out of the roster for good. It never votes again
// under its id; a host that comes back with a new one may take its place. So one
// that is alive is forgotten only if that is meant.
func (n *Node) onForgetCommand(c Command) {
	if err := n.mayForget(c); err != nil {
		n.emit(Reply{Token: c.Token, Err: err})
		return
	}
	ids := without(n.saved.Roster.IDs, c.To)
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
	case !n.saved.Roster.has(c.To):
		return ErrNotVoter
	case !c.Force && voter != nil && n.presumedAlive(voter):
		return ErrVoterAlive
	case n.isChanging():
		return ErrRosterPending
	case n.cur.Counter > lastChangeable:
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

func (n *Node) isChanging() bool { return n.offer.was != nil }

// nextVersion is the version of this leader's next roster, 0 if it has used up
// those of its epoch, or no version of its epoch can be written.
func (n *Node) nextVersion() uint32 {
	if n.cur.Counter > lastChangeable {
		return 0
	}
	first := n.cur.Counter * changesPerEpoch
	next := max(first+1, uint64(n.saved.Roster.Version)+1)
	if next >= first+changesPerEpoch || next > 1<<32-1 {
		return 0
	}
	return uint32(next)
}

// firstVersion is what this leader confirms the roster as that it found. It is
// asked for only where nextVersion is not 0.
func (n *Node) firstVersion() uint32 { return uint32(n.cur.Counter * changesPerEpoch) }

// changeRoster proposes a roster that differs from the present one by one voter.
// A majority of both must have it on disk before the next change, and until then
// the leader needs the acknowledgements of majorities of both.
//
// A leader first has its present roster confirmed under its own epoch: else an
// earlier leader's change, which few have, could come back newer than it, and two
// changes of one roster by two leaders may have majorities without a common voter.
func (n *Node) changeRoster(ids []wire.ID, token uint64) {
	o := offer{roster: Roster{Version: n.nextVersion(), Formed: true, IDs: ids}, token: token}
	if n.saved.Roster.Version < n.firstVersion() {
		o.roster, o.next = Roster{Version: n.firstVersion(), Formed: true, IDs: n.saved.Roster.IDs}, ids
	}
	n.propose(o)
}

func (n *Node) propose(o offer) {
	o.was, o.acked = n.saved.Roster.IDs, []wire.ID{n.cfg.ID}
	n.offer = o
	n.adopt(o.roster)
	n.sendOffer(wire.Formed)
	n.checkOffer()
}

// endChange: the change holds, or its leader does not lead any more.
func (n *Node) endChange(err error) {
	token := n.offer.token
	n.offer = offer{}
	if token != 0 {
		n.emit(Reply{Token: token, Err: err})
	}
}

// onRosterBehind brings a follower's roster up to date.
func (n *Node) onRosterBehind(p *peer) {
	if n.state == Lead && !n.hasExchange(p, wire.Roster) {
		n.ask(p, n.rosterFrame(n.saved.Roster, wire.Formed), 0)
	}
}

// admitVoter takes a voter that was never in a roster into a place that is free.
func (n *Node) admitVoter(p *peer) {
	r := n.saved.Roster
	if n.state != Lead || n.isChanging() || len(r.IDs) >= n.cfg.Expect || r.has(p.ID) || p.Part == Observer || n.nextVersion() == 0 {
		return
	}
	if ids := with(r.IDs, p.ID); n.isSecureWith(ids) {
		n.changeRoster(ids, 0)
	}
}

// noteRoster: a leader has a roster. Whether one that we accepted has formed only
// its ids can tell: every first roster has one version.
func (n *Node) noteRoster(f *wire.Frame) {
	if n.isQuorum() && n.saved.Roster.Version == 0 {
		n.isOutside = n.isOutside || f.ConfigVersion > 0
	}
}

// rosterFlags is what an acknowledgement says of this node's roster.
func (n *Node) rosterFlags(f *wire.Frame) (flags uint8) {
	mine := n.saved.Roster.Version
	switch {
	case !n.isQuorum():
	case mine == 0 && n.cfg.Part != Observer:
		flags = wire.KnowsNoRoster
	case mine > 0 && (mine < f.ConfigVersion || !n.saved.Roster.Formed):
		flags = wire.RosterBehind
	}
	return flags
}

// onRosterFlags acts on what a follower says of its roster.
func (n *Node) onRosterFlags(p *peer, flags uint8) {
	switch {
	case !n.isQuorum():
	case flags&wire.KnowsNoRoster != 0 && n.saved.Roster.has(p.ID):
		n.onRosterBehind(p) // it was taken in, or its disk failed, and the word was lost
	case flags&wire.KnowsNoRoster != 0:
		n.admitVoter(p)
	case flags&wire.RosterBehind != 0:
		n.onRosterBehind(p)
	}
}
