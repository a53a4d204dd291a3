package election

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// A leader repeats its heartbeat to those that have not acknowledged it (M35): one RTO
// after it was sent, and two RTO after that. So a lost datagram does not cost an eighth
// of the lease, and in peace nothing is sent that would not be sent anyway.
//
// A repetition is a frame of its own. It has its own number, and its acknowledgement
// counts from its own sending.

// maxRepeats bounds the copies of one heartbeat to one follower, beside the first.
const maxRepeats = 2

// repeats are those of the last heartbeat to one follower. The zero value awaits
// nothing.
type repeats struct {
	at   time.Time // the next one; zero: none
	made int
}

// next gives when the copy after this one is due.
func (r repeats) next(now time.Time, rto time.Duration) repeats {
	if r.made == maxRepeats {
		return repeats{}
	}
	return repeats{at: now.Add(rto << r.made), made: r.made}
}

// awaitAcks begins the wait for the acknowledgements of the heartbeat that was just sent.
func (n *Node) awaitAcks() {
	for _, p := range n.peers {
		p.repeats = repeats{}
	}
	for _, p := range n.lenders() {
		if sent, ok := p.sentTime(p.seq); ok && sent.Equal(n.now) { // in a large group not all get each
			p.repeats = p.repeats.next(n.now, n.rto(p))
		}
	}
	n.armRepeat()
}

// lenders gives the peers whose acknowledgements are the lease, and that were heard
// within two leases: in quorum mode the voters, else the best few.
func (n *Node) lenders() []*peer {
	out := n.those(func(p *peer) bool {
		return n.isVoter(p.ID) && p.mayAcknowledge() && n.presumedAlive(p) && !n.isGone(p) && n.heardWithin(p, 2*n.cfg.Lease)
	})
	if n.isQuorum() || len(out) <= candidatesFew {
		return out
	}
	return n.ranked(out)[:candidatesFew]
}

// repeatBeat sends the repetitions that are due. The timer ends with the lease: what is
// sent after that would prolong promises to a leader that has let go.
func (n *Node) repeatBeat() {
	if n.isQuorum() {
		n.bindSelf() // as each copy renews the others' promises
	}
	for _, p := range n.peers {
		if p.repeats.at.IsZero() || n.now.Before(p.repeats.at) {
			continue
		}
		f := n.heartbeat(n.cfg.Heartbeat)
		f.Flags |= wire.Retx
		f.Late = millis(n.now.Sub(n.reign.lastBeat))
		n.tellBeat(p, f)
		p.repeats.made++
		p.repeats = p.repeats.next(n.now, n.rto(p))
	}
	n.armRepeat()
}

// armRepeat sets when the next repetition is due. One that would come with the next
// heartbeat, or shortly before it, is not worth its datagram.
func (n *Node) armRepeat() {
	last := n.reign.lastBeat.Add(n.cfg.Heartbeat * 4 / 5)
	var first time.Time
	for _, p := range n.peers {
		if p.repeats.at.Before(last) {
			first = earlier(first, p.repeats.at)
		}
	}
	n.timers.arm(repeatTimer, first)
}

// onBeatAcked takes the acknowledgement of what was sent to p then. A late one, of the
// heartbeat before, says nothing about the last. Where the timer is not armed nothing is
// to be repeated any more, or there is no lease to keep.
func (n *Node) onBeatAcked(p *peer, sent time.Time) {
	if n.timers.isArmed(repeatTimer) && !sent.Before(n.reign.lastBeat) {
		p.repeats = repeats{}
		n.armRepeat()
	}
}
