package election

import (
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
)

// What other members say is held against what the protocol can produce. A value
// beyond that is cut to it: whoever sends it gains nothing, and a member whose numbers
// are odd for a reason that we do not know is not lost.

// longestWait is the longest that anybody can have to wait for what it says that it
// waits for: a lease and what slow disks add to it, takeover_delay, which may have been
// longer in a life before, a round, a pause between rounds, and the first listening.
func (n *Node) longestWait() time.Duration {
	return lease.WaitLength(n.cfg.LongestLease()) + maxGrant + 2*n.cfg.TakeoverDelay + 7*rtoCeiling + maxBackoff + max(n.cfg.Settle, longSettle)
}

// longSettle is as long as a first listening usually is at most; it is every host's own
// setting. Arbitrary.
const longSettle = 10 * time.Second

// waitOf reads for how long somebody waits.
func (n *Node) waitOf(ms uint32) time.Duration { return min(spanOf(ms), n.longestWait()) }

// intervalOf reads a leader's interval: all members have the same one, but where a
// group is so large that some get every heartbeat and others one a second or so. A
// longer one would have its followers wait for a dead leader as long as it likes.
func (n *Node) intervalOf(ms uint32) time.Duration {
	longest := n.cfg.Heartbeat
	if 2*len(n.peers) > fastFanOut { // the leader may see more members
		longest = max(longest, time.Second, 2*time.Duration(len(n.peers))*time.Millisecond)
	}
	return min(spanOf(ms), longest)
}

// What others announce is written down, and synced, before it is acted upon. So it is
// bounded how often: far above what elections need, far below what a disk can bear.
const (
	writesAtOnce  = 64
	writeInterval = 125 * time.Millisecond
)

// mayWrite reports whether what a frame says may be written down now, and counts it.
func (n *Node) mayWrite() bool {
	at := later(n.writeAt, n.now.Add(-writesAtOnce*writeInterval))
	if at.After(n.now) {
		n.count("writes-bounded")
		return false
	}
	n.writeAt = at.Add(writeInterval)
	return true
}
