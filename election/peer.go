package election

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// peer is what a node knows of one other member, from the failure detector and
// from the election's own frames.
type peer struct {
	Member
	heard      time.Time // last valid frame of this life
	rtt        rtt
	seq        uint32 // last number we sent it (M14: one series per destination)
	sent       [64]sentAt
	resigned   uint64    // tombstone: the highest counter that this owner resigned
	silent     bool      // did not answer in this round
	beatAt     time.Time // next heartbeat to it, where not everybody gets each
	endedAt    time.Time // when the detector gave it up
	died       bool      // this life has left its will: it has ended, whatever the failure detector says
	lost       flaps     // leaderships that it lost here, over its lives
	livesSince time.Time // when this life was met
	goneAt     time.Time // when this life, which led, was given up since its process had ended; zero: it was not
	givenUpAt  time.Time // when this life was given up, as a leader or by its will; zero: it was not, or was heard since
	unseen     bool      // the failure detector has not seen this life yet: only its frames tell of it
	repeats    repeats   // of the last heartbeat to it
	waits      waits     // for how long it waits, if we lead and fall silent
}

// sentAt remembers when a numbered frame went out, for round trips and leases. There are
// 64 for each peer: a round trip of 200 ms and a heartbeat that is sent three times each
// 50 ms need twelve, and an acknowledgement of what is forgotten is worth nothing.
type sentAt struct {
	seq   uint32
	at    time.Time
	worth time.Duration // of its acknowledgement, for a lease
}

// sentTime is when the frame that a reply echoes was sent; false if it is too
// long ago or never was.
func (p *peer) sentTime(seq uint32) (time.Time, bool) {
	s := p.sent[seq%uint32(len(p.sent))]
	return s.at, s.seq == seq && !s.at.IsZero()
}

// worth is for how long the frame that sentTime knows asked to be promised.
func (p *peer) worth(seq uint32) time.Duration { return p.sent[seq%uint32(len(p.sent))].worth }

// isElectable: may lead, as far as its own words go.
func (p *peer) isElectable() bool { return p.unfit() == Fit }

// mayAcknowledge: its acknowledgement counts, for it could see who leads after us.
func (p *peer) mayAcknowledge() bool { return p.Part != Observer }

// presumedAlive: heard on the election's own lane a moment ago, or alive for
// the failure detector. A member that memberlist calls dead but that talks to
// us is alive. One that memberlist has never seen in this life is so only while it
// talks: nobody would report its end.
func (n *Node) presumedAlive(p *peer) bool {
	if p.Status == Left || n.isOut(p.ID) {
		return false
	}
	return p.Status == Alive && !p.unseen && !p.died || n.heardWithin(p, 3*n.rto(p)+2*n.cfg.Heartbeat)
}

func (n *Node) heardWithin(p *peer, d time.Duration) bool {
	return !p.heard.IsZero() && n.now.Sub(p.heard) <= d
}

// peer gives the peer with this id, or nil.
func (n *Node) peer(id wire.ID) *peer {
	i, found := n.findPeer(id)
	if !found {
		return nil
	}
	return n.peers[i]
}

func (n *Node) findPeer(id wire.ID) (int, bool) {
	return slices.BinarySearchFunc(n.peers, id, func(p *peer, id wire.ID) int { return p.ID.Compare(id) })
}

// living gives the peers presumed alive that can lead, best first, without the
// leader that is believed gone.
func (n *Node) living() []*peer { return n.ranked(n.those(n.isLiving)) }

// those gives the peers of which this holds, in the order of their ids.
func (n *Node) those(which func(*peer) bool) []*peer {
	var out []*peer
	for _, p := range n.peers {
		if which(p) {
			out = append(out, p)
		}
	}
	return out
}

// howMany counts them, for what is asked at every frame.
func (n *Node) howMany(which func(*peer) bool) int {
	count := 0
	for _, p := range n.peers {
		if which(p) {
			count++
		}
	}
	return count
}

// ranked sorts peers, best first.
func (n *Node) ranked(peers []*peer) []*peer {
	slices.SortFunc(peers, n.byRank)
	return peers
}

// byRank compares two nodes so that the better sorts first.
func (n *Node) byRank(a, b *peer) int {
	if n.cfg.outranks(a.Priority, a.ID, b.Priority, b.ID) {
		return -1
	}
	return 1
}

// life is one run of one host's agent.
type life struct {
	id    wire.ID
	nonce uint32
}

// isGone: it led and was given up, as the last who did or with its process. The last is gone until another led and
// was given up, since two followers may never hear each other; a process that ended (E1) until the failure detector
// must have noticed, if it is true. Else an election after a second death would wait for the answer of the first.
func (n *Node) isGone(p *peer) bool {
	return p.ID == n.lostLeader.id || !p.goneAt.IsZero() && n.now.Sub(p.goneAt) < goneFor
}

// goneFor is in what time the failure detector notices a dead process, with much to spare. Arbitrary.
const goneFor = 10 * time.Second

// countAgain: it was heard, or must be counted again to get any further.
func (n *Node) countAgain(p *peer) {
	p.goneAt, p.givenUpAt = time.Time{}, time.Time{}
	if p.ID == n.lostLeader.id {
		n.lostLeader = life{}
	}
}

// forgiveNextLife: the next life of the leader that was given up is as good as gone
// while it starts, and an election does not wait for it. Once another leads it is a
// member like all others, though two followers may never hear each other.
func (n *Node) forgiveNextLife() {
	if p := n.peer(n.lostLeader.id); p != nil && p.Nonce != n.lostLeader.nonce {
		n.lostLeader = life{}
	}
}

func (n *Node) isLiving(p *peer) bool { return n.unfit(p) == Fit }

// presentCount is how many are there that may lead, oneself included, whether or not a bar keeps them from it now: a
// check that fails on some hosts makes no smaller cluster of those that are left.
func (n *Node) presentCount() int {
	return 1 + n.howMany(func(p *peer) bool {
		why := n.unfit(p)
		return why == Fit || why == UnfitDraining
	})
}

// livingCount is len(living()).
func (n *Node) livingCount() int { return n.howMany(n.isLiving) }

// better gives those of living that outrank this node and have not been silent
// in this round.
func (n *Node) better() []*peer {
	return slices.DeleteFunc(n.living(), func(p *peer) bool { return p.silent || !n.isOutrankedBy(p) })
}

func (n *Node) isOutrankedBy(p *peer) bool {
	return n.cfg.outranks(p.Priority, p.ID, n.cfg.Priority, n.cfg.ID)
}

// rank is this node's place among the electable: 0 is the best.
func (n *Node) rank() int { return len(n.better()) }

// onMemberChanged takes the failure detector's view. It starts nothing by
// itself while heartbeats are fresh (evidence E5): the two views differ often
// and harmlessly.
func (n *Node) onMemberChanged(m Member) {
	i, found := n.findPeer(m.ID)
	switch {
	case found:
		n.updatePeer(n.peers[i], m)
	case m.Status == Alive:
		p := &peer{Member: m, seq: n.firstNumber(), livesSince: n.now}
		n.peers = slices.Insert(n.peers, i, p)
		n.seedRTT(p)
		n.onJoined(p)
	default:
		return
	}
	n.forgetEnded()
	n.onViewChanged()
}

// firstNumber is where the numbers to a destination begin: above those to each that was forgotten, for it may be one of these.
// It is drawn, so that traces tell apart the lives of this node.
func (n *Node) firstNumber() uint32 { return max(n.series, n.cfg.Rand.Uint32()>>1) }

// maxEnded bounds the members kept after their end, as membership does: hosts
// that come with a new id at each start would fill the table otherwise.
const maxEnded = 256

// forgetEnded drops the member that ended longest ago, if there are too many.
func (n *Node) forgetEnded() {
	var oldest *peer
	ended := 0
	for _, p := range n.peers {
		if n.presumedAlive(p) || p.ID == n.epoch.Owner || n.isGone(p) {
			continue
		}
		ended++
		if oldest == nil || p.endedAt.Before(oldest.endedAt) {
			oldest = p
		}
	}
	if ended <= maxEnded {
		return
	}
	n.giveUpOn(oldest, func(wire.Kind) bool { return true })
	n.series = max(n.series, oldest.seq) // if it comes back, what it still acknowledges is of no number that is used again
	i, _ := n.findPeer(oldest.ID)
	n.peers = slices.Delete(n.peers, i, i+1)
}

// updatePeer takes the failure detector's word on p. A later life takes the place of the one before at once: the port has
// proved it, and holds back a copy of a host that is there (S17). A late word about another life means nothing (R2).
func (n *Node) updatePeer(p *peer, m Member) {
	switch {
	case m.Nonce == p.Nonce:
		n.updateLife(p, m)
	case m.Status != Alive || m.Incarnation < p.Incarnation:
		n.count("old-life")
	default:
		n.startNewLife(p, m)
	}
}

func (n *Node) updateLife(p *peer, m Member) {
	was := p.Status
	if !m.Addr.IsValid() {
		m.Addr = p.Addr
	}
	p.unseen = p.unseen && m.Status != Alive
	p.Member = m
	n.seedRTT(p)
	if m.Status != Alive && was == Alive {
		p.endedAt = n.now
	}
	switch {
	case m.Status == Left && was != Left:
		n.onLeft(p)
	case m.Status == Dead && was == Alive:
		n.onDead(p)
	case m.Status == Alive && was != Alive:
		n.onJoined(p)
	}
}

// startNewLife: m takes the place of what p was.
func (n *Node) startNewLife(p *peer, m Member) {
	ended := p.Nonce
	p.Member = m
	p.heard, p.silent, p.unseen, p.died = time.Time{}, false, false, false
	p.goneAt, p.givenUpAt, p.livesSince = time.Time{}, time.Time{}, n.now
	n.seedRTT(p)
	n.onRestarted(p)
	if p.ID == n.lostLeader.id && n.lostLeader.nonce == m.Nonce {
		n.lostLeader.nonce = ended // it is not this life that was given up
	}
	if n.leaderKnown {
		n.forgiveNextLife()
	}
	n.onJoined(p)
}

// seedRTT takes memberlist's ping as a first sample, so that the first doubt
// about a peer need not wait for the timeout of an unknown one.
func (n *Node) seedRTT(p *peer) {
	if p.RTT > 0 && !p.rtt.known {
		p.rtt.sample(p.RTT, n.now, n.cfg.weather())
	}
}
