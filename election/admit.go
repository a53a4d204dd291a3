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

// jobLane is the window of one life's frames about jobs.
type jobLane struct {
	seen  window
	nonce uint32
	at    time.Time // of the last that was admitted
}

const (
	// laneAhead is how many numbers a sender may be ahead of its clock: in a burst they
	// come faster than the milliseconds. Arbitrary, some ledgers of full size.
	laneAhead = 4096

	// laneIdle is after how much silence any number will do, far less than numbers take
	// to come round.
	laneIdle = 24 * time.Hour
)

func (l *jobLane) admit(nonce, seq uint32, now time.Time) bool {
	if l.nonce != nonce || now.Sub(l.at) > laneIdle {
		*l = jobLane{nonce: nonce, at: now}
	}
	ahead := int64(int32(seq - l.seen.top))
	if l.seen.any && ahead > now.Sub(l.at).Milliseconds()+laneAhead || !l.seen.admit(seq) {
		return false
	}
	if ahead > 0 || l.at.IsZero() {
		l.at = now
	}
	return true
}
