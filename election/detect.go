package election

import (
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// pulse is the rhythm of the leader's heartbeats as this node receives them.
// Mean and deviation are moving averages (gains 1/8 and 1/4), as TCP keeps them
// for round trips: constant memory, and a silence is judged by what is usual on
// this network. (φ-accrual assumes normally distributed intervals and keeps a
// window of samples.)
type pulse struct {
	mean, deviation time.Duration
	interval        time.Duration // announced by the leader
}

// beat takes a heartbeat that came at now, if no copy of it was late; last is when the
// one before did, zero if this is the leader's first.
func (p *pulse) beat(now time.Time, announced time.Duration, last time.Time) {
	if announced <= 0 {
		return
	}
	if announced != p.interval || last.IsZero() {
		*p = pulse{mean: announced, deviation: announced / 4, interval: announced}
		return
	}
	gap := now.Sub(last)
	if gap > 6*announced {
		return // an outage, not a rhythm
	}
	if gap < announced/2 {
		return // another copy of the last one
	}
	p.deviation += ((p.mean - gap).Abs() - p.deviation) / 4
	p.mean += (gap - p.mean) / 8
}

// suspectTimeout is T_s: three intervals and four deviations, at least two
// intervals and at most the lease, longer on a host in poor health, and never
// above six announced intervals (M1).
func (n *Node) suspectTimeout() time.Duration {
	p := n.pulse
	if p.interval == 0 {
		p = pulse{mean: n.cfg.Heartbeat, deviation: n.cfg.Heartbeat / 4, interval: n.cfg.Heartbeat}
	}
	t := max(3*p.mean+4*p.deviation, 2*p.interval)
	t = min(t, max(n.cfg.Lease, 3*p.interval)) * time.Duration(1+n.health)
	return min(t, 6*p.interval)
}

// leaderIsFresh: this node leads, or heard the leader itself within T_s.
func (n *Node) leaderIsFresh() bool {
	if n.state == Lead {
		return true
	}
	return n.leaderKnown && !n.lastFromLeader.IsZero() && n.now.Sub(n.lastFromLeader) < n.suspectTimeout()
}

// armSuspicion sets when silence becomes suspicious.
func (n *Node) armSuspicion(at time.Time) {
	if n.state == Follow {
		n.timers.arm(suspectTimer, at)
	}
}

// opinions counts what peers say of a leader that this node does not hear.
type opinions struct{ fresh, others int }

// confirmLoss weighs evidence E2∧E3∧¬(majority of E4 fresh) of protocol 6.4,
// once the leader has left every probe unanswered.
func (n *Node) confirmLoss() {
	if n.contest.processGone {
		n.loseLeader(ProcessGone, n.releaseAfterDeath())
		return
	}
	if n.opinions.fresh > n.opinions.others || n.backsOff() && n.opinions.fresh > 0 {
		n.resumeFollowing(PeersHearLeader)
		return
	}
	n.loseLeader(LeaderFailed, n.takeoverEnd())
}

// resumeFollowing returns to the leader without having heard it: lastFromLeader
// stays as it was and only the next doubt is put off, or followers would reassure
// each other about a dead leader for ever (M1).
func (n *Node) resumeFollowing(cause Cause) {
	n.leaderKnown = true
	n.becomeFollower(cause)
	n.armSuspicion(n.now.Add(n.suspectTimeout() / 2))
}

// probeCount is k of protocol 3.1: how many others are asked for their opinion.
const probeCount = 3

// askOpinions asks k of those whose acknowledgements count. Who backs off asks everybody:
// one that hears the leader is enough for it, and that may be an observer.
func (n *Node) askOpinions() {
	if n.backsOff() {
		n.probeSome(n.heartbeatAudience(), fastFanOut)
		return
	}
	n.probeSome(n.acknowledgers(), probeCount)
}

// probeSome asks that many of these, chosen at random, how old their heartbeat is.
// Their answers also show whom this node can hear at all. The leader that it doubts
// is asked for itself; one that has let go is one of the others.
func (n *Node) probeSome(others []*peer, count int) {
	n.cfg.Rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	for _, p := range others[:min(count, len(others))] {
		if !n.leaderKnown || p.ID != n.epoch.Owner {
			n.probe(p, wire.AskOpinion)
		}
	}
}

func (n *Node) probe(p *peer, why wire.Purpose) {
	n.ask(p, wire.Frame{Kind: wire.Probe, Purpose: why, Epoch: n.epoch}, 0)
}

// onProbe says how old our heartbeat is, and what we are.
func (n *Node) onProbe(p *peer, f *wire.Frame) {
	standing := n.state.standing()
	if n.state == Stopping && n.reign.ending.planned {
		standing = wire.Leading // as its heartbeats say: it has ended with RESIGN (protocol 4.6)
	}
	n.reply(p, f, wire.Frame{Kind: wire.ProbeAck, HeartbeatAge: n.heartbeatAge(), Standing: standing})
}

// onProbeAck takes the answer of the leader, or the opinion of another.
func (n *Node) onProbeAck(p *peer, f *wire.Frame) {
	isAnswer := n.answered(p, wire.Probe, f)
	if isAnswer {
		n.noteVouched(p, f)
		n.sampleEcho(p, f)
	} else {
		n.sampleLate(p, f)
	}
	if !isAnswer && n.state != Stagger && n.state != Elect {
		return // there even a late one counts: it says whether a leader is heard
	}
	switch {
	case n.state == Suspect && p.ID == n.epoch.Owner:
		n.onLeaderAnswered(f)
	case n.state == Suspect:
		n.onOpinion(f)
	case n.state == Stagger || n.state == Elect:
		n.onSignOfLife(f)
	}
}

// onSignOfLife: somebody answers a node without a leader. If it hears one, that
// is whom to follow; else it is what a claimant waited for.
func (n *Node) onSignOfLife(f *wire.Frame) {
	if f.Flags&wire.Fresh != 0 && f.Epoch == n.abandonedEpoch && f.Epoch == n.epoch && !n.contest.certain {
		n.onLeaderAlive(f)
		return
	}
	isNews := f.Flags&wire.Fresh != 0 && f.Epoch.Compare(n.abandonedEpoch) > 0 && f.Epoch.Compare(n.epoch) >= 0
	if isNews {
		n.toldOf(f.Epoch)
	}
	if n.state != Elect || n.contest.won == "" {
		return
	}
	if isNews {
		n.retry(ToldOfLeader) // of one that we do not know yet
		return
	}
	if n.contest.canvass != nil {
		return // it waits for the voters, and has heard some; to ask again would be to forget them
	}
	if n.heardCount() < n.needAcks() && n.exchanges.awaits(wire.Probe) {
		return // of several that must be heard more may answer yet
	}
	n.claim(n.contest.won)
}

// onLeaderAnswered obeys M2: only a leader of the very epoch,
// in the very life, is still one.
func (n *Node) onLeaderAnswered(f *wire.Frame) {
	if f.Standing == wire.Leading && f.Epoch == n.epoch {
		n.heardOwner(max(n.cfg.Lease, n.ownerAsks)) // what it asks of others, and counts on, may be as much
		n.becomeFollower(HeardLeader)
		n.armSuspicion(n.lastFromLeader.Add(n.suspectTimeout()))
		return
	}
	n.loseLeader(LeaderResigned, n.takeoverEnd())
}

// onOpinion counts a peer's opinion as fresh if its heartbeat is newer than
// ours by at least half an interval, and not old by our own measure.
func (n *Node) onOpinion(f *wire.Frame) {
	age := time.Duration(f.HeartbeatAge) * time.Millisecond
	switch {
	case f.Epoch.Compare(n.epoch) > 0 && f.Flags&wire.Fresh != 0 && n.mayBeTold(f.Epoch):
		n.leaderKnown = false
		n.toldOf(f.Epoch)
	case f.Epoch == n.epoch && f.HeartbeatAge != wire.AgeUnknown && age < n.suspectTimeout() &&
		n.now.Sub(n.lastFromLeader)-age >= n.cfg.Heartbeat/2:
		n.opinions.fresh++
	default:
		n.opinions.others++
	}
}

func (n *Node) onProbeSilent(p *peer) {
	if n.state == Suspect && p.ID == n.epoch.Owner {
		n.confirmLoss()
	}
}

// onDead: the failure detector gives a member up. Against a fresh heartbeat it
// starts nothing (E5); with a silence it settles the matter.
func (n *Node) onDead(p *peer) {
	n.forgiveOverrule(p)
	if n.leaderKnown && p.ID == n.epoch.Owner {
		switch {
		case n.state == Suspect:
			n.confirmLoss()
		case n.leaderIsFresh():
			n.count("detector-disagrees")
		}
		return
	}
	if !n.presumedAlive(p) {
		n.giveUpOn(p, func(k wire.Kind) bool { return k == wire.Election || k == wire.Canvass })
	}
}

// onLeft: a member has left cleanly; its leadership, if any, with it, and
// whatever it was asked it will not answer.
func (n *Node) onLeft(p *peer) {
	n.forgiveOverrule(p)
	n.endLeadershipOf(p, LeaderLeft)
	n.giveUpOn(p, func(wire.Kind) bool { return true })
}

// onRestarted: a new life of p shows that the old one has ended, with its
// leadership, even if nobody noticed in between (CE4). But of a leader that others told
// of alone it is not known which life leads: it is waited for as before (M34).
func (n *Node) onRestarted(p *peer) {
	isTold := n.leaderKnown && n.epoch.Owner == p.ID && n.lastFromLeader.IsZero()
	if !isTold {
		n.endLeadershipOf(p, LeaderRestarted)
	}
}

// endLeadershipOf: p no longer leads, for certain, so nobody need wait for its
// lease to run out; but a voter that has not heard so from p is bound to it still.
func (n *Node) endLeadershipOf(p *peer, cause Cause) {
	free := later(n.now, n.boundUntil(p.ID))
	switch {
	case n.epoch.Owner != p.ID:
	case n.leaderKnown && (n.state == Follow || n.state == Suspect):
		n.loseLeader(cause, free)
	case n.state == Stagger && n.contest.release.After(n.now):
		n.contest.release, n.contest.certain = free, true
		n.becomeStaggering(cause, 0)
	case n.state == Elect || n.state == Wait:
		n.contest.release, n.contest.certain = free, true
	}
}
