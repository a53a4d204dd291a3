package election

import (
	"math"
	"time"

	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// contest is what a node knows of the election that it takes part in, from the
// first doubt about a leader to the next one.
type contest struct {
	began   time.Time   // of the doubt: who was heard since then hears us, as far as we know
	release time.Time   // nobody here claims before: the old leader's lease
	reason  wire.Reason // told to those we challenge
	cause   Cause       // told to the become hook
	// prompted: a worse node asked, so the detection is not ours alone and the
	// rank's wait has no purpose.
	prompted    bool
	isNamed     bool            // the old leader named this node as its successor
	processGone bool            // the leader's process has ended, by its host's word
	canvass     *quorum.Canvass // quorum mode: the question to the voters; nil: not asked
	certain     bool            // the old leader's own word or next life ended its leadership
	willed      bool            // the old leader's will came, and will come to whoever has not got it yet
	won         Cause           // why nobody better stands in the way; "" while that is open
	probed      bool            // others were asked for a sign of life
	isolated    bool            // nobody answers though others should be alive
	backoff     time.Duration   // doubled for each round that came to nothing
	helper      wire.ID         // Wait: the best that answered
	patience    time.Duration   // Wait: how long it may need
	volunteers  []wire.ID       // who would lead if named (Enhanced, Smallest)
	yielded     bool            // gave way to another's round already
	extensions  int             // Wait: how often we asked it again
}

const (
	// syncAllowance is what another's disk may need before it announces.
	syncAllowance = 20 * time.Millisecond
	// maxExtensions bounds how often a silent winner is waited for (protocol 2.5).
	maxExtensions = 3
	// minStagger is the least distance between two ranks' turns.
	minStagger = 25 * time.Millisecond
	// maxBackoff bounds the pause between rounds (protocol section 7).
	maxBackoff = 5 * time.Second
	// maxQuorumBackoff is shorter: asking the voters moves nobody.
	maxQuorumBackoff = time.Second
)

// stagger is the wait of the node with this rank before it stands: a step for
// each of the first eight, beyond them logarithmic with some chance in it.
func (n *Node) stagger(rank int) time.Duration {
	step := minStagger
	if better := n.better(); len(better) > 0 {
		step = max(step, 2*n.rto(better[0]))
	}
	if rank < 8 {
		return time.Duration(rank) * step
	}
	spread := 8 + 4*math.Log2(float64(rank)/8) + 4*n.cfg.Rand.Float64()
	return time.Duration(float64(step) * spread)
}

// roundTrip is the time in which the slowest living peer should answer a
// request and its repetition.
func (n *Node) roundTrip() time.Duration { return 3 * n.slowest(n.living()) }

// slowest is the longest RTO of these: who asks them waits for that one, too (M40).
func (n *Node) slowest(peers []*peer) time.Duration {
	rto := rtoFloor
	for _, p := range peers {
		rto = max(rto, n.rto(p))
	}
	return rto
}

// retry starts over after a pause that doubles each time. Who kept silent in this
// round is asked again in the next, and so is the leader that was given up: of two
// that gave each other up during a cut, neither would ever speak to the other again.
func (n *Node) retry(cause Cause) {
	longest := maxBackoff
	if n.isQuorum() {
		longest = maxQuorumBackoff
	}
	n.lostLeader = life{}
	for _, p := range n.peers {
		n.countAgain(p)
	}
	n.startOver(cause, min(max(2*n.contest.backoff, n.cfg.Heartbeat), longest))
}

// startOver begins another round after this pause and the release.
func (n *Node) startOver(cause Cause, backoff time.Duration) {
	c := n.contest
	n.contest = contest{began: n.now, release: c.release, reason: c.reason, cause: c.cause, isolated: c.isolated, willed: c.willed, backoff: backoff}
	for _, p := range n.peers {
		p.silent = false
	}
	n.becomeStaggering(cause, 0)
}
