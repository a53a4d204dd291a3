package election

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Links may be cut between some pairs of hosts for good while all others are well. The
// best one that is alive for everybody may then be one that reaches too few of those whose
// word a leader needs. Nobody must wait for it, or give way to it (M36).

// canvassedInVain: this voter has asked the others, and too few answered. A worse starter
// may reach those that it does not, and must not wait for it.
func (n *Node) canvassedInVain() bool { return n.isQuorum() && n.contest.isolated }

// reachFor is for how many heartbeat intervals a sign of life says that its sender is reached.
const reachFor = 4

// readying is the hand-over that a leader has asked this node to get ready for.
type readying struct {
	epoch wire.Epoch // the leader's
	round uint32     // of its PREPARE
	at    time.Time  // when the first copy came
}

// notePrepare takes a copy of PREPARE.
func (n *Node) notePrepare(f *wire.Frame) {
	if p := &n.readying; p.epoch != f.Epoch || p.round != f.Round {
		*p = readying{f.Epoch, f.Round, n.now}
	}
}

// isReached: it was heard a moment ago, or since the leader asked this node to get ready. On
// a long path the answer to what that set off is old when the next copy of PREPARE comes (M40).
func (n *Node) isReached(p *peer) bool {
	return n.heardWithin(p, max(reachFor*n.cfg.Heartbeat, n.now.Sub(n.readying.at)))
}

// reachesEnough: as many as a leader needs are reached, a majority of the voters or
// min_acks members, and min_members are there. While they are too few the others are asked for a
// sign of life: followers say nothing to each other, so who hears its leader need not hear those on
// whom its own lease would depend, and whoever led before and was given up is gone for it still.
func (n *Node) reachesEnough() bool {
	if n.presentCount() < n.cfg.MinMembers {
		for _, p := range n.peers {
			if n.isGone(p) && p.isElectable() {
				n.probe(p, wire.AskOpinion)
			}
		}
		return false
	}
	need := n.needAcks()
	var unheard []*peer
	for _, p := range n.presumedVoters() {
		switch {
		case !p.mayAcknowledge():
		case n.isReached(p) && !n.isGone(p):
			need--
		default:
			unheard = append(unheard, p)
		}
	}
	if need <= 0 {
		return true
	}
	for _, p := range unheard {
		n.probe(p, wire.AskOpinion)
	}
	return false
}

// In available mode two hosts that do not hear each other, and a third that hears both, would
// depose each other in turn: the third follows the higher epoch, and tells the other's leader
// of it, which then finds that it cannot hear the new one.

// overruled is a leadership that ended on a third member's word: another leads, which this
// node has not heard since.
type overruled struct {
	by    wire.ID
	until time.Time
}

// backOffFor is for how long who was overruled leaves the lead to others: so long that two
// hosts move it a few times an hour at most. Arbitrary.
const backOffFor = 30 * time.Minute

// overruleBy has this node back off, if it does not hear that leader.
func (n *Node) overruleBy(id wire.ID) {
	if !n.isQuorum() {
		n.overruled = overruled{by: id, until: n.now.Add(backOffFor)}
	}
}

// backsOff: this node was overruled. It is restless, asks for no turn, and nobody waits for it.
func (n *Node) backsOff() bool { return n.now.Before(n.overruled.until) }

// forgiveOverrule: the link to the one that overruled this node works, or it is gone.
func (n *Node) forgiveOverrule(p *peer) {
	if p.ID == n.overruled.by {
		n.overruled = overruled{}
		n.timers.disarm(preemptTimer) // the next heartbeat arms it anew
	}
}

// Cut links may also leave a leader whom a few hear, and the rest not. Somebody of the rest stood, a better
// host asked it for its turn, and so on up to the best, whom again only a few heard.

// word is what others say of a leader: when it was heard last, by whomever. An age grows while it is
// told on, so followers do not reassure each other about a dead leader (M1).
type word struct {
	epoch wire.Epoch
	at    time.Time
}

// noteWord takes an age that a peer tells, from before our question was sent.
func (n *Node) noteWord(p *peer, f *wire.Frame) {
	sent, isKnown := p.sentTime(f.EchoSeq)
	if !isKnown || f.HeartbeatAge == wire.AgeUnknown || f.Epoch.Compare(n.word.epoch) < 0 {
		return
	}
	if f.Epoch != n.word.epoch {
		n.word = word{epoch: f.Epoch}
	}
	n.word.at = later(n.word.at, sent.Add(-spanOf(f.HeartbeatAge)))
}

// knownAge is how old the last heartbeat of the epoch's owner is, of those that came here or that
// this node was told of.
func (n *Node) knownAge() uint32 {
	age := n.heartbeatAge()
	if n.isQuorum() || n.state == Lead || n.word.epoch != n.epoch || n.word.at.IsZero() {
		return age
	}
	return min(age, millis(n.now.Sub(n.word.at)))
}

// unrest is when this node has changed its leader lately.
type unrest struct {
	changes []time.Time
	until   time.Time
}

// restlessAfter is how often a node changes its leader within ten minutes before it is restless. Until
// then a leader that few hear is replaced. Arbitrary.
const restlessAfter = 3

// note takes that another than before is the leader.
func (u *unrest) note(now time.Time) {
	u.changes = slices.DeleteFunc(append(u.changes, now), func(t time.Time) bool { return now.Sub(t) > flapWindow })
	if len(u.changes) > restlessAfter {
		u.changes, u.until = u.changes[1:], now.Add(backOffFor)
	}
}

// isRestless: this node backs off, or has seen leaders change often. In available mode it follows
// whomever somebody hears, directly or not, rather than move the lead once more. Where nobody hears a
// leader it stands like anybody.
func (n *Node) isRestless() bool {
	return !n.isQuorum() && (n.backsOff() || n.now.Before(n.unrest.until))
}

// takesWordFor: this node is restless, and somebody has heard the owner of e not long ago. Its own leader
// somebody must have heard later than this node did: of one that died a moment ago all know the same.
func (n *Node) takesWordFor(e wire.Epoch) bool {
	isNewer := e != n.epoch || n.word.at.Sub(n.lastFromLeader) >= n.cfg.Heartbeat/2
	return n.isRestless() && n.word.epoch == e && isNewer && n.now.Sub(n.word.at) < wordFor*n.cfg.Lease
}

// vouchesFor is what a NACK says of the leader that this node follows on a word. Without it whoever
// announces a lower epoch took it that nobody leads, and claimed above the leader that it does not hear.
func (n *Node) vouchesFor() wire.Flags {
	if n.leaderKnown && n.takesWordFor(n.epoch) {
		return wire.Fresh
	}
	return 0
}

// wordFor is for how many leases a word counts. The other hosts have another leader by then, if
// the one that it is about is gone. Arbitrary.
const wordFor = 2
