package sim

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// After the storm all faults end. From then on things must go well: an agreement
// within healedWithin (I12), and no change of leader without a reason after
// everybody knows everybody again (I13).

// healedWithin bounds the time from the last fault to one leader that all know.
// Most of it is memberlist's: it takes up to six seconds to see who is gone, and
// two or more to see who is back.
func (w *World) healedWithin() time.Duration {
	return 20*time.Second + 12*w.longestLease() + w.base.Settle + w.rejoinedWithin()
}

// joinedWithin is when everybody knows everybody again.
func (w *World) joinedWithin() time.Duration {
	return 8*time.Second + 2*w.longestLease() + w.base.Settle + w.rejoinedWithin()
}

// rejoinedWithin is what memberlist's rejoin may take longer than usual.
func (w *World) rejoinedWithin() time.Duration {
	if w.unusual.slowRejoin {
		return slowestRejoin
	}
	return 0
}

// quietFor is how long the agreement must last: ten of the times that a failure
// takes to be seen, and a preemption.
func (w *World) quietFor() time.Duration { return 5*time.Second + 4*w.longestLease() }

// longestLease is the longest that a leader that fell silent is waited for, and among hosts that
// are far apart the way to those that wait.
func (w *World) longestLease() time.Duration {
	if w.trips.trip > 0 {
		return w.base.LongestLease() + w.base.TakeoverDelay + 2*w.trips.trip
	}
	return w.base.Lease + w.base.TakeoverDelay
}

// settle lets the cluster come to rest, and holds it to I12 and I13.
func (w *World) settle() {
	defer w.h5NothingIsLeftForEver()
	calm := w.now
	if !w.canLead() {
		w.runUntil(calm+int64(w.joinedWithin()), nil) // nothing is promised: but nothing may break
		return
	}
	if !w.agreeBy(calm+int64(w.healedWithin()), 20*time.Millisecond) {
		if w.failure == nil && w.wipes > 0 && !w.canLead() {
			// docs/protocol.md, 4.4: "A voter may have accepted a first roster that names a host
			// whose disk was lost meanwhile. It accepts no other": that may have happened in the calm, to a host that was believed alive.
			return
		}
		w.i12OneLeader(w.healedWithin())
		return
	}
	w.i20TheOneLeaderIsTheNewest()
	told := w.now + 2*int64(w.base.Heartbeat) // the leader has heard by then who may lead after it
	w.runUntil(max(told, calm+int64(w.joinedWithin())), nil)
	if w.rng.IntN(3) == 0 {
		w.handOverInPeace()
	}
	w.barInPeace()
	w.record.changes = nil
	w.runUntil(w.now+int64(w.quietFor()), nil)
	if w.failure == nil && !w.agreeBy(w.now+int64(time.Second), 20*time.Millisecond) {
		w.i12OneLeader(w.quietFor())
	}
	w.i13NoChangeWithoutACause()
	w.i12BestLeads()
	switch isWell := w.failure == nil && w.mixed == noFault; {
	case isWell && w.unusual.endsDark:
		w.endInTheDark()
	case isWell && w.links.ends:
		w.endWithLinksCut()
	case isWell && w.trips.trip > 0:
		w.endFarApart()
	}
}

// endInTheDark pulls all cables at once: a switch that is off. Each host knows that it is cut off, and nobody leads once the
// leader has let go; when the cables are back one leads.
func (w *World) endInTheDark() {
	w.fired(EndsDark)
	for _, m := range w.machines {
		w.setLink(m, false)
	}
	w.runUntil(w.now+int64(w.longestLease()), nil)
	w.i27NobodyLeadsInTheDark(w.now + int64(w.healedWithin()))
	for _, m := range w.machines {
		w.setLink(m, true)
	}
	if !w.agreeBy(w.now+int64(w.healedWithin()), 20*time.Millisecond) {
		w.i12OneLeader(w.healedWithin())
	}
}

// I27: who knows that it is cut off leads nobody, unless it never knew of anybody else.
func (w *World) i27NobodyLeadsInTheDark(until int64) {
	known := slices.DeleteFunc(slices.Clone(w.machines), func(m *machine) bool { return m.isOlderCopy() || m.copyOf != nil })
	leads := func() bool { return len(known) > 1 && slices.ContainsFunc(w.machines, w.acts) }
	if w.runUntil(until, leads) {
		w.sayStatus()
		w.fail(27, "a host leads though its link is down")
	}
}

// handOverInPeace lets an operator move the leadership while nothing fails.
func (w *World) handOverInPeace() {
	i := slices.IndexFunc(w.machines, func(m *machine) bool { return w.counts(m) && w.acts(m) })
	if i < 0 || w.failure != nil || w.isJoining() || w.unusual.late > max(50*time.Millisecond, w.base.Heartbeat/2) {
		return // of timers that late a node believes that it was frozen (R12), and a third may lead meanwhile
	}
	leader, successor := w.machines[i], pick(w.rng, w.machines...)
	isReady := successor != leader && w.counts(successor) && successor.state == election.Follow && successor.cfg.Part == election.Voter &&
		successor.node.Status().Held.IsZero() && (w.mode != Quorum || slices.Contains(leader.roster(), successor.id))
	if !isReady {
		return
	}
	epoch := leader.epoch
	leader.isChanging = false
	w.command(leader, election.Command{Verb: election.HandOver, To: successor.id, Token: handOverToken})
	if leader.isChanging { // in favour of a better host
		return
	}
	limit := w.now + int64(w.hookTimes.timeout+2*w.longestLease())
	took := w.runUntil(limit, func() bool { return successor.state == election.Lead && successor.epoch.Compare(epoch) > 0 })
	w.i18SuccessorLeads(leader, successor, took)
}

// isJoining: a host came back so late that not everybody knows it yet, or is about to.
// Two may then claim one counter, and which of them leads is not the operator's choice.
func (w *World) isJoining() bool {
	return slices.ContainsFunc(w.machines, func(m *machine) bool {
		isUnknown := func(other *machine) bool {
			v := w.detector.of(other, m)
			return other != m && other.runs() && m.runs() && (v.said != election.Alive || v.nonce != m.nonce)
		}
		return m.starting || slices.ContainsFunc(w.machines, isUnknown)
	})
}

// agreeBy runs until there is an agreement, and looks for one now and then.
func (w *World) agreeBy(limit int64, look time.Duration) bool {
	for w.failure == nil {
		if w.agreed() {
			return true
		}
		if w.now >= limit {
			return false
		}
		w.runUntil(min(w.now+int64(look), limit), nil)
	}
	return false
}

// counts says whether a machine has to agree.
func (w *World) counts(m *machine) bool {
	return m.runs() && m.copyOf == nil && !m.restored && !m.refused && !w.isOdd(m)
}

// agreed: there is one leader, and everybody that counts says so.
func (w *World) agreed() bool {
	var leader *machine
	for _, m := range w.machines {
		if (w.counts(m) || m.restored) && w.acts(m) {
			if leader != nil {
				return false
			}
			leader = m
		}
	}
	if leader == nil {
		return false
	}
	for _, m := range w.machines {
		if m.starting || w.counts(m) && (m.leader != leader.id || m.epoch != leader.epoch || m.state != election.Follow && m.state != election.Observe && m != leader) {
			return false
		}
	}
	return true
}

// canLead: the group that is left can have a leader at all. In quorum mode that
// takes a majority of the newest roster, and somebody in it who may lead.
func (w *World) canLead() bool {
	candidates, voters, present := 0, 0, []wire.ID(nil)
	for _, m := range w.machines {
		if !m.runs() && (!m.starting || w.refusesExpect(m)) || m.copyOf != nil || m.restored || w.isOdd(m) {
			continue
		}
		present = append(present, m.id)
		if m.cfg.Part != election.Observer {
			voters++
		}
		if m.cfg.Part == election.Voter {
			candidates++
		}
	}
	if w.mixed != noFault && voters <= max(1, w.base.MinAcks) {
		return false // the odd one is counted as present, and acknowledges nothing
	}
	if candidates < max(w.base.MinMembers, 1) {
		return false
	}
	return w.mode != Quorum || w.canRosterLead(present)
}

func (w *World) canRosterLead(present []wire.ID) bool {
	var newest election.Roster
	for _, m := range w.machines {
		if r := m.disk.state.Roster; m.copyOf == nil && r.Version >= newest.Version && r.Version > 0 {
			newest = r
		}
	}
	if newest.Version == 0 {
		return w.areExpected(present)
	}
	if !newest.Formed && (w.isDisputed(newest) || w.isHeldUp(newest, present) || slices.ContainsFunc(newest.IDs, func(id wire.ID) bool { return !slices.Contains(present, id) })) {
		return false // it waits for all of its voters
	}
	votes, candidates := 0, 0
	for _, m := range w.machines {
		if slices.Contains(newest.IDs, m.id) && slices.Contains(present, m.id) {
			votes++
			if m.cfg.Part == election.Voter {
				candidates++
			}
		}
	}
	return candidates >= max(w.base.MinMembers, 1) && votes > len(newest.IDs)/2
}

// areExpected: the voters that are present are exactly as many as each of them expects.
// Else nobody leads, as docs/troubleshooting.md says: "4 voters are present but expect = 3".
func (w *World) areExpected(present []wire.ID) bool {
	var voters []*machine
	for _, m := range w.votersByPart() {
		if slices.Contains(present, m.id) {
			voters = append(voters, m)
		}
	}
	return !slices.ContainsFunc(voters, func(m *machine) bool { return m.cfg.Expect != len(voters) })
}

// isHeldUp: a voter that is to accept a first roster sees others than it names.
func (w *World) isHeldUp(r election.Roster, present []wire.ID) bool {
	isOpen := slices.ContainsFunc(w.machines, func(m *machine) bool {
		return slices.Contains(r.IDs, m.id) && len(m.roster()) == 0
	})
	return isOpen && !w.areExpected(present)
}

// isDisputed: somebody has accepted another proposal of a first roster.
func (w *World) isDisputed(r election.Roster) bool {
	return slices.ContainsFunc(w.machines, func(m *machine) bool {
		mine := m.disk.state.Roster
		return mine.Version > 0 && !slices.Equal(mine.IDs, r.IDs)
	})
}

// I12: after the last fault one live leader is known to all within the bound.
func (w *World) i12OneLeader(within time.Duration) {
	if w.failure == nil {
		w.sayStatus()
		w.fail(12, "no agreement within %v after the last fault", within)
	}
}

// I12: and it is the best, unless the policy lets a worse one stay.
func (w *World) i12BestLeads() {
	if w.failure != nil || w.mixed != noFault {
		return
	}
	i := slices.IndexFunc(w.machines, func(m *machine) bool { return w.counts(m) && w.acts(m) })
	if i < 0 {
		return
	}
	leader := w.machines[i]
	for _, m := range w.machines {
		mayLead := w.counts(m) && m.cfg.Part == election.Voter && !m.hasStood && m.followsFor(w) > int64(5*time.Second+w.base.Settle+2*w.base.PreemptDelay) &&
			(w.mode != Quorum || slices.Contains(leader.roster(), m.id))
		if mayLead && w.mayPreempt(m, leader) && leader.lostReigns == 0 {
			w.sayStatus()
			w.fail(12, "n%d leads although n%d follows in good health and may preempt it", leader.number, m.number)
		}
	}
}

func (m *machine) followsFor(w *World) int64 {
	if m.state != election.Follow {
		return 0
	}
	return w.now - m.followsSince
}

// mayPreempt is the policy, said anew: whether a live leader b gives way to a.
func (w *World) mayPreempt(a, b *machine) bool {
	sign := 1
	if w.base.Algorithm == election.Smallest {
		sign = -1
	}
	byPriority, byID := sign*(int(a.cfg.Priority)-int(b.cfg.Priority)), sign*a.id.Compare(b.id)
	switch w.base.Preempt {
	case election.PreemptNever:
		return false
	case election.PreemptAlways:
		return byPriority > 0 || byPriority == 0 && byID > 0
	}
	return byPriority > 0
}

// I13: once healed, nobody takes over without a hand-over. A newcomer that need not
// listen for as long as it takes to be seen leads alone until then: config/reference.toml,
// settle: "How long a starting node listens before its first election".
func (w *World) i13NoChangeWithoutACause() {
	for _, c := range w.record.changes {
		if c.cause == election.Boot && w.base.Settle > 0 && w.base.Settle < w.aliveAfter {
			continue
		}
		if w.isByReturn(c.at) {
			continue
		}
		if w.failure == nil && (c.cause != election.HandedOver || w.base.Preempt == election.PreemptNever) {
			w.fail(13, "n%d took over at %v, long after the last fault: %s", c.who, time.Duration(c.at), c.cause)
		}
	}
}

// isByReturn: a host came back in the calm, and not everybody knew everybody again. It may
// lead until it knows the others (min_acks = 0), or know a higher epoch than the leader's.
// docs/fencing.md: "A part that was cut off may lead in a lower epoch, and so may hosts that are back before the
// only hosts that knew the last epoch. … When a host that knows the last epoch returns, the leader takes a higher
// epoch, with its two hooks."
func (w *World) isByReturn(change int64) bool {
	return slices.ContainsFunc(w.record.returned, func(at int64) bool {
		return change >= at && change < at+int64(w.joinedWithin())
	})
}

// sayStatus ends a trace with what everybody believes.
func (w *World) sayStatus() {
	for _, m := range w.machines {
		if !m.runs() {
			w.say(m, "down starting=%t", m.starting)
			continue
		}
		if w.trace != nil {
			s := m.node.Status()
			w.say(m, "%v leader=%s epoch=%v cause=%s acks=%d/%d isolated=%t counts=%t acts=%t shown: %v %v", s.State, s.Leader.Short(), s.Epoch, s.Cause, s.Acks, s.NeedAcks, s.Isolated, w.counts(m), w.acts(m), m.state, m.epoch)
		}
	}
}
