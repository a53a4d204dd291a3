package election

import "time"

// Hurdle is one of the things that a node which stands has to get over before it
// claims an epoch. Bars keep it from standing; hurdles only keep it waiting.
type Hurdle uint8

// The hurdles, in the order in which they are met.
const (
	NoHurdle      Hurdle = iota
	HurdleLease          // the leader that was given up may act still, or voters are bound to it
	HurdleMembers        // fewer can lead than min_members asks for
	HurdleRoster         // quorum mode: no roster holds yet
	HurdleMute           // quorum mode: a voter that restarted keeps silent about what it promised (M5)
	HurdlePromise        // quorum mode: this voter is bound to another (M4)
	HurdleVoters         // quorum mode: no majority of the voters has said that it would grant
	HurdleSilence        // available mode: too few others have given a sign of life (M11)
	hurdleCount
)

var hurdleWords = [hurdleCount]string{NoHurdle: "none", HurdleLease: "lease", HurdleMembers: "members", HurdleRoster: "roster",
	HurdleMute: "mute", HurdlePromise: "promise", HurdleVoters: "voters", HurdleSilence: "silence"}

// String gives the hurdle's word.
func (h Hurdle) String() string { return hurdleWords[h] }

// hurdle gives the first that this node meets now, and when it ends by itself; zero:
// time alone does not end it. What a claim waits for and what people are told is this
// one list.
func (n *Node) hurdle() (h Hurdle, until time.Time) {
	mute, bound := n.muteFor(), n.boundFor(n.cfg.ID) // self is a voter too (M4)
	switch {
	case n.now.Before(n.contest.release):
		return HurdleLease, n.contest.release
	case n.presentCount() < n.cfg.MinMembers:
		return HurdleMembers, until
	case n.isQuorum() && !n.saved.Roster.Formed:
		return HurdleRoster, until
	case mute > bound:
		return HurdleMute, n.now.Add(mute)
	case bound > 0:
		return HurdlePromise, n.now.Add(bound)
	case n.isQuorum() && n.contest.isNamed: // the old leader has released the voters for us
		return NoHurdle, until
	case n.isQuorum():
		return HurdleVoters, until
	case n.heardCount() < n.needAcks() || (n.wasCutOff() && !n.contest.probed):
		return HurdleSilence, until
	}
	return NoHurdle, until
}
