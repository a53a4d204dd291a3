package election

import (
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Admit is what a frame about jobs has to pass, which Step does not take, before anything
// is made of it: why it means nothing here, or "". The rules are those of the
// election's own frames (R1–R3, I16), in the same order; the number is marked as
// seen, so that a frame that the network doubled, or somebody replays, is refused.
//
//   - A life begins with a frame of the election, or by gossip: one that is not met yet
//     is refused, and what was said is said again.
//   - Numbers of frames about jobs are a series of their own: their bursts must not
//     push the window of heartbeats.
//
// now is the agent's clock, as for Step.
func (n *Node) Admit(now time.Time, from netip.AddrPort, f *wire.Frame) (why string) {
	if why := n.Refusal(from, f); why != "" {
		return why
	}
	p := n.peer(f.Sender)
	switch {
	case f.Nonce != p.Nonce:
		return "unmet-life"
	case !p.jobs.admit(p.Nonce, f.Seq, now):
		return "duplicate"
	}
	return ""
}

// JobNumber is the number of a frame about jobs after one of another number: the
// milliseconds of the sender's clock, or the next one where they come faster. So the
// true sender soon passes whatever number somebody has used in its name.
func JobNumber(last uint32, now time.Time) uint32 {
	millis := uint32(now.UnixMilli())
	if int32(millis-last) > 0 { // as RFC 1982 compares
		return millis
	}
	return last + 1
}

// jobLane is the window of one life's frames about jobs. Its numbers cannot run away from
// the sender's clock, whoever pushes them: who was pushed out is heard again in a second.
type jobLane struct {
	seen  window
	nonce uint32
	first uint32    // a number that was admitted, and
	since time.Time // when: what the others are held against
	at    time.Time // of the last that was admitted
}

const (
	// laneAhead is how many numbers a sender may be ahead of its clock: in a burst they
	// come faster than the milliseconds. A ledger of full size has 384 parts.
	laneAhead = jumpAtOnce

	// laneAnchor is for how long a number is held against the same first one: clocks
	// drift by less than laneAhead in it. Arbitrary.
	laneAnchor = time.Hour

	// laneIdle is after how long without a number that was admitted any will do: the
	// machine of one of the two may have been paused, or its clock slewed, and numbers
	// come round. A frame that is repeated later than that says nothing new: ledgers are merged.
	laneIdle = 10 * time.Second
)

func (l *jobLane) admit(nonce, seq uint32, now time.Time) bool {
	if l.nonce != nonce || now.Sub(l.at) > laneIdle {
		*l = jobLane{nonce: nonce, first: seq, since: now, at: now}
	}
	if l.ahead(seq, now) > laneAhead || !l.seen.admit(seq, now) {
		return false
	}
	l.at = now
	if now.Sub(l.since) > laneAnchor {
		l.first, l.since = seq, now
	}
	return true
}

// ahead is how many numbers seq is beyond those that the sender's clock has come to.
func (l *jobLane) ahead(seq uint32, now time.Time) int64 {
	return int64(int32(seq-l.first)) - now.Sub(l.since).Milliseconds()
}
