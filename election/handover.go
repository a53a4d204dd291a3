package election

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// transfer is the preparation of a hand-over (protocol 4.6): PREPARE to the
// successor, and its READY.
type transfer struct {
	to      wire.ID // zero: none under way
	cause   Cause
	refused []wire.ID     // who was asked and is not ready
	only    wire.ID       // the operator named the successor; zero: anybody
	hold    time.Duration // the operator wants this node out of it for so long
	bars    Bars          // this node has them from its end on
	force   bool          // the leadership ends even if nobody is ready
	token   uint64        // of the operator's command; zero: none
}

// ending says how a leadership ends.
type ending struct {
	// planned: the lease is renewed while the lose hook runs, then RESIGN
	// names the successor.
	planned    bool
	successor  wire.ID
	superseded bool          // another leads already; there is nothing to resign
	reclaim    bool          // we claim a higher epoch at once
	listen     time.Duration // then it listens this long before it stands; zero: the lease
	by         time.Time     // when the lose hook is over; zero: its own timeout
}

// onPreemptRequest: a better node that has followed for a while asks for its
// turn. The leader chooses the best of those that may displace it.
func (n *Node) onPreemptRequest(p *peer, f *wire.Frame) {
	switch {
	case n.reign.transfer.to != wire.ID{}:
		n.answer(p, f, wire.OK, 0)
	case !p.isElectable() || !n.mayPreempt(p):
		n.answer(p, f, wire.LeaderAlive, 0)
	default:
		n.answer(p, f, wire.OK, 0)
		n.prepare(Preempted)
	}
}

// prepare asks the best node that has not refused to get ready.
func (n *Node) prepare(cause Cause) {
	t := &n.reign.transfer
	t.cause, t.to = cause, wire.ID{}
	if p := n.successor(); p != nil {
		t.to = p.ID
		n.ask(p, wire.Frame{Kind: wire.Prepare, Epoch: n.epoch}, 0)
		return
	}
	if t.force {
		n.told |= t.bars
		n.isOwedAlone = t.token != 0
		n.becomeStopping(cause, ending{planned: true})
		return
	}
	n.refuseTransfer(ErrNobodyReady)
	if cause == Stopped {
		n.becomeStopping(Stopped, ending{planned: true}) // nobody can take over: stop all the same
	}
}

// successor gives the best to whom this leader may hand over; nil: there is nobody.
func (n *Node) successor() *peer {
	for p := range n.successors() {
		return p
	}
	return nil
}

// successors are all of them, the best first.
func (n *Node) successors() iter.Seq[*peer] {
	return func(yield func(*peer) bool) {
		for _, p := range n.living() {
			if !slices.Contains(n.reign.transfer.refused, p.ID) && n.mayReceive(p) && !yield(p) {
				return
			}
		}
	}
}

// mayReceive: a preemption goes only to those that may displace us; somebody
// who stops or steps down hands over to anybody, or to whom the operator named.
func (n *Node) mayReceive(p *peer) bool {
	switch t := n.reign.transfer; t.cause {
	case Preempted:
		return n.mayPreempt(p)
	default:
		return t.only.IsZero() || t.only == p.ID
	}
}

// mayPreempt: this leader gives way to p. Who has lost the lead lately, perhaps without
// knowing it any more since it was started again each time, must have lived for as long as
// these losses make it wait (M38).
func (n *Node) mayPreempt(p *peer) bool {
	return n.cfg.mayPreempt(p.Priority, p.ID, n.cfg.Priority, n.cfg.ID) && p.lost.areOver(n.cfg.PreemptDelay, p.livesSince, n.now)
}

// refuseTransfer gives the transfer up; the operator who asked is told why.
func (n *Node) refuseTransfer(why error) {
	token := n.reign.transfer.token
	n.reign.transfer = transfer{}
	if token != 0 {
		n.emit(Reply{Token: token, Err: why})
	}
}

// onHandOverCommand begins a planned change that the operator asks for. Its
// Reply comes when another leads, or when it is certain that this one goes on.
func (n *Node) onHandOverCommand(c Command) {
	if err := n.mayHandOver(c); err != nil {
		n.emit(Reply{Token: c.Token, Err: err})
		return
	}
	n.reign.transfer = transfer{only: c.To, token: c.Token}
	if c.Verb == StepDown {
		n.reign.transfer.hold = max(c.For, n.cfg.Lease)
	}
	n.prepare(c.cause())
}

// onMaintainCommand bars this node. A leader is so only once another is ready to take
// over, unless it is forced.
func (n *Node) onMaintainCommand(c Command) {
	if n.state != Lead && n.state != Stopping {
		n.onBarred(Barred{Bar: BarMaintenance, On: true})
		n.emit(Reply{Token: c.Token})
		return
	}
	if err := n.mayHandOver(c); err != nil {
		n.emit(Reply{Token: c.Token, Err: err})
		return
	}
	n.reign.transfer = transfer{bars: Bars(0).with(BarMaintenance, true), force: c.Force, token: c.Token}
	n.prepare(Maintenance)
}

func (n *Node) mayHandOver(c Command) error {
	switch {
	case n.state == Stopping || (n.state == Lead && !n.reign.transfer.to.IsZero()):
		return ErrBusy
	case n.state != Lead:
		return ErrNotLeader
	case c.Verb != HandOver:
		return nil
	case c.To == n.cfg.ID:
		return ErrSelf
	}
	p := n.peer(c.To)
	switch {
	case p == nil:
		return ErrUnknownMember
	case !n.presumedAlive(p):
		return ErrDeadMember
	case p.Part != Voter || !n.isVoter(p.ID):
		return ErrObserverMember
	}
	return nil
}

// settleHandOver answers the operator once it is known who leads.
func (n *Node) settleHandOver(to State) {
	token := n.owedReply
	isOver := to == Follow || to == Lead || (to == Observe && (n.leaving || n.isOwedAlone))
	if token == 0 || !isOver {
		return
	}
	n.owedReply, n.isOwedAlone = 0, false
	var err error
	if to == Lead || !n.wasHandedOver {
		err = ErrLostMeanwhile
	}
	n.emit(Reply{Token: token, Err: err})
}

// onPrepare: our leader wants to hand over to us.
func (n *Node) onPrepare(p *peer, f *wire.Frame) {
	ready := n.isElectable() && n.leaderKnown && n.epoch == f.Epoch && n.epoch.Owner == p.ID &&
		(n.state == Follow || n.state == Suspect) && n.muteFor() == 0
	n.notePrepare(f)
	if ready && !n.reachesEnough() {
		return // PREPARE is repeated, and the others may have answered by then
	}
	n.reply(p, f, wire.Frame{Kind: wire.Ready, IsReady: ready})
}

// onReady goes on with the hand-over, or to the next best. A PREPARE is open only
// while this node leads, and only with the successor that it chose.
func (n *Node) onReady(p *peer, f *wire.Frame) {
	if !n.answered(p, wire.Prepare, f) {
		return
	}
	if !f.IsReady {
		n.onPrepareSilent(p)
		return
	}
	if hold := n.reign.transfer.hold; hold > 0 {
		n.timers.arm(holdTimer, n.now.Add(hold))
	}
	n.told |= n.reign.transfer.bars
	n.becomeStopping(n.reign.transfer.cause, ending{planned: true, successor: p.ID})
}

func (n *Node) onPrepareSilent(p *peer) {
	t := &n.reign.transfer
	t.refused = append(t.refused, p.ID)
	if n.leaving {
		t.cause, t.only = Stopped, wire.ID{} // whoever stops hands over to anybody, or to nobody
	}
	n.prepare(t.cause)
}

// onHookEnded: only the end of a lose hook moves the protocol.
func (n *Node) onHookEnded(e HookEnded) {
	if e.Hook == Lose && n.state == Stopping && e.Epoch == n.reign.epoch {
		n.finishStopping()
	}
}

// finishStopping: nothing of this leadership runs any more. Now, and not
// before, others are told (protocol 4.6: no overlap).
func (n *Node) finishStopping() {
	end, epoch := n.reign.ending, n.reign.epoch
	n.endChange(ErrLostMeanwhile)
	n.wasHandedOver = end.planned
	n.withdrawWill()
	n.endReign()
	n.saved.Promoted = wire.Epoch{}
	end.reclaim = end.reclaim && !n.leaving // who goes claims nothing: its epoch has ended
	if !end.superseded && !end.reclaim {
		n.resign(epoch, end)
	}
	switch {
	case n.leaving:
		n.leaderKnown = false
		n.onResignDone()
	case n.epoch != epoch && n.leaderKnown && n.hosts.has(n.epoch.Owner):
		n.followAfterStopping()
	default:
		n.standAgain(end)
	}
	if n.state != Claiming && n.state != Lead { // a claim has saved it already
		n.save() // last: if the disk is full, the rest is to be known all the same
	}
}

// resign tells everybody that the epoch has ended.
func (n *Node) resign(epoch wire.Epoch, end ending) {
	reason := wire.LeaseLost
	if end.planned {
		reason = wire.Transfer
	}
	n.promise.Release(epoch)
	for _, p := range n.audience() {
		n.ask(p, wire.Frame{Kind: wire.Resign, Epoch: epoch, Reason: reason, Successor: end.successor}, 0)
	}
}

func (n *Node) followAfterStopping() {
	n.becomeFollower(Superseded)
	n.armSuspicion(later(n.lastFromLeader, n.followedAt).Add(n.suspectTimeout()))
}

// standAgain: without a leader, this node waits its turn like anybody.
func (n *Node) standAgain(end ending) {
	n.leaderKnown, n.abandonedEpoch = false, wire.Epoch{}
	n.contest = contest{began: n.now, release: n.now, reason: wire.NoLeader}
	switch {
	case end.reclaim:
		n.contest.cause = ReMinted
		n.claim(n.contest.cause)
	case end.planned:
		n.becomeStaggering(LeaderResigned, n.successorHeadStart())
	default:
		n.becomeStaggering(n.cause, cmp.Or(end.listen, n.cfg.Lease)) // others may do better
	}
}

// successorHeadStart is how long the others leave the field to a named
// successor (protocol 3.1).
func (n *Node) successorHeadStart() time.Duration { return n.roundTrip()*2/3 + syncAllowance }

// onResign: an epoch has ended. Its owner's late frames mean nothing from now on
// (the tombstone of CE8), and if it was our leader's, the successor claims.
func (n *Node) onResign(p *peer, f *wire.Frame) {
	if f.Epoch.Owner != p.ID {
		n.count("not-the-owner")
		return
	}
	n.reply(p, f, wire.Frame{Kind: wire.ResignAck})
	if f.Epoch.Counter > n.saved.MaxCounter {
		n.count("unknown-epoch") // a tombstone for what was never announced would silence it for ever
		return
	}
	n.endEpoch(p, f)
}

// endEpoch: what p announced has ended.
func (n *Node) endEpoch(p *peer, f *wire.Frame) {
	p.resigned = max(p.resigned, f.Epoch.Counter)
	wasGranted := n.promise.Epoch == f.Epoch
	n.promise.Release(f.Epoch)
	if n.timers.isArmed(lingerTimer) && f.Epoch == n.epoch {
		n.timers.arm(lingerTimer, n.now) // it has let go
	}
	if wasGranted && n.state == Wait && n.contest.helper == p.ID {
		n.becomeElecting(LeaderResigned) // an abandoned claim
		return
	}
	isLeaders := f.Epoch == n.epoch && n.leaderKnown
	wasGivenUp := f.Epoch == n.abandonedEpoch && (n.state == Stagger || n.state == Elect || n.state == Wait)
	if (!isLeaders && !wasGivenUp) || n.state == Stopping || n.leaving {
		return
	}
	n.leaderKnown, n.abandonedEpoch = false, wire.Epoch{}
	n.contest = contest{began: n.now.Add(-n.cfg.Lease), release: n.now, reason: wire.NoLeader}
	switch {
	case f.Successor == n.cfg.ID && n.isElectable():
		n.contest.cause, n.contest.isNamed = HandedOver, true
		n.claim(n.contest.cause)
	case !f.Successor.IsZero():
		n.becomeStaggering(LeaderResigned, n.successorHeadStart())
	default:
		n.becomeStaggering(LeaderResigned, 0)
	}
}

// flaps counts the leaderships that a node lost lately: its own, and those of each other
// whose end this node saw. In memory only: what a process forgets with its end the others
// know, and the leader that it asks for its turn is one of them.
type flaps struct {
	lost []time.Time
	last wire.Epoch // each epoch is lost once
}

// Flap damping (protocol 2.5): each leadership lost in the last ten minutes
// doubles the wait before the next preemption, up to a minute.
const (
	flapWindow  = 10 * time.Minute
	maxFlapWait = time.Minute
)

func (h *flaps) add(e wire.Epoch, now time.Time) {
	h.forget(now)
	if e != h.last {
		h.lost, h.last = append(h.lost, now), e
	}
}

// areOver: as long as the losses make a node wait has passed since the last of them, and
// since that time.
func (h *flaps) areOver(base time.Duration, since, now time.Time) bool {
	wait := h.damp(base, now)
	if len(h.lost) == 0 {
		return true
	}
	return now.Sub(later(since, h.lost[len(h.lost)-1])) >= wait
}

func (h *flaps) forget(now time.Time) {
	h.lost = slices.DeleteFunc(h.lost, func(t time.Time) bool { return now.Sub(t) > flapWindow })
}

func (h *flaps) damp(base time.Duration, now time.Time) time.Duration {
	h.forget(now)
	wait := base
	if len(h.lost) > 0 {
		wait = max(base, time.Second) // or twice next to nothing would be as little
	}
	for range h.lost {
		if wait >= maxFlapWait {
			return max(base, maxFlapWait)
		}
		wait *= 2
	}
	return max(base, min(wait, maxFlapWait))
}
