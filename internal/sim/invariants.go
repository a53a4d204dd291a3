package sim

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// Each function here is one invariant of the protocol, or a part of it, and is
// called when what it speaks of may have changed. I12 and I13 are in liveness.go.
// I21 is about counts of messages and has tests of its own.

// I1: what is on disk never decreases, except for the longest promise of the lives before
// once that has run out since the start of this one.
func (w *World) i1DiskNeverGoesBack(m *machine, was, is *election.Saved) {
	isOver := was.LongestPromise == m.inherited && m.clock.at(w.now)-m.bornAt >= int64(was.LongestPromise)
	if is.MaxCounter < was.MaxCounter || is.Incarnation < was.Incarnation || is.Roster.Version < was.Roster.Version ||
		is.LongestPromise < was.LongestPromise && !isOver || is.Accepted.Compare(was.Accepted) < 0 {
		w.fail(1, "n%d: disk goes back from %+v to %+v", m.number, *was, *is)
	}
}

// I2: an epoch is on its owner's disk before anything shows it.
func (w *World) i2EpochIsOnDiskBeforeItIsShown(m *machine, f *wire.Frame) {
	if f.Epoch.Counter > m.disk.state.MaxCounter {
		w.fail(2, "n%d sends %v with counter %d on disk", m.number, f, m.disk.state.MaxCounter)
	}
}

// I2: an epoch is announced and resigned by its owner alone, in one life.
func (w *World) i2AnnouncedByItsOwnerAlone(m *machine, f *wire.Frame) {
	if f.Epoch.Owner != m.id {
		w.fail(2, "n%d sends %v of another's epoch", m.number, f)
		return
	}
	if f.Epoch == m.epoch && m.shown == m.epoch {
		return // as with the last frame
	}
	is := leadership{who: m.number, nonce: m.nonce}
	was, known := w.record.owners[f.Epoch]
	if !known {
		w.record.owners[f.Epoch] = is
	} else if was.who != is.who || was.nonce != is.nonce {
		w.fail(2, "n%d sends %v, which is an epoch of n%d's or of an earlier life", m.number, f, was.who)
	}
	m.shown = f.Epoch
}

// I3 (quorum): at most one owner of each counter ever leads.
func (w *World) i3OneActivePerCounter(m *machine, e *election.Transition) {
	if w.mode != Quorum {
		return
	}
	if owner, known := w.record.active[e.Epoch.Counter]; known && owner != e.Epoch.Owner {
		w.fail(3, "n%d leads in epoch %v, but %s led with that counter", m.number, e.Epoch, owner.Short())
	}
	w.record.active[e.Epoch.Counter] = e.Epoch.Owner
}

// I4 (quorum): a voter grants each counter to one owner, and has what it
// acknowledges on disk.
func (w *World) i4OneGrantPerCounter(m, to *machine, f *wire.Frame) {
	if f.Kind == wire.CoordAck && f.AckVerdict != wire.Accept {
		return
	}
	if f.Epoch.Counter > m.disk.state.MaxCounter {
		w.fail(4, "n%d acknowledges %v with counter %d on disk", m.number, f, m.disk.state.MaxCounter)
	}
	if f.Kind != wire.CoordAck || !m.hasClaimed(to.number, f.EchoSeq) {
		return
	}
	if m.disk.state.Vote != f.Epoch {
		w.fail(4, "n%d grants %v with vote %v on disk", m.number, f.Epoch, m.disk.state.Vote)
	}
	key := grant{m.id, f.Epoch.Counter}
	if owner, known := w.record.grants[key]; known && owner != f.Epoch.Owner {
		w.fail(4, "n%d grants %v after it granted that counter to %s", m.number, f.Epoch, owner.Short())
	}
	w.record.grants[key] = f.Epoch.Owner
}

// I5 (quorum): at every instant of true time at most one node acts as leader,
// frozen ones included. m has just begun to.
func (w *World) i5AtMostOneActs(m *machine) {
	if w.mode != Quorum {
		return
	}
	for _, other := range w.machines {
		if other != m && w.acts(other) {
			w.fail(5, "n%d acts in epoch %v while n%d acts in %v, until %v from now", m.number, m.epoch, other.number, other.epoch,
				time.Duration(other.lease-other.clock.at(w.now)))
		}
	}
}

// I6: the epochs that a node accepts never decrease, over its restarts too: each is
// on disk before anything shows it. Excepted is what it accepted while its disk
// took no writes, which docs/fencing.md says ("may have forgotten").
func (w *World) i6EpochsNeverDecrease(m *machine, e *election.Transition) {
	if e.To == election.Lead || e.To == election.Follow && !e.Leader.IsZero() {
		w.i6AcceptedIsSaved(m, e)
	}
	lostDuel := w.mode == Quorum && e.Epoch.Counter == m.epoch.Counter && m.epoch.Owner == m.id && !w.record.owners[m.epoch].led
	if e.Epoch.Compare(m.epoch) < 0 && !lostDuel { // a claim that another won is no epoch that was accepted
		w.fail(6, "n%d goes from epoch %v to %v", m.number, m.epoch, e.Epoch)
	}
	if e.Epoch.Owner == m.id && e.Epoch.Counter > m.disk.state.MaxCounter {
		w.fail(6, "n%d shows epoch %v with counter %d on disk", m.number, e.Epoch, m.disk.state.MaxCounter)
	}
}

func (w *World) i6AcceptedIsSaved(m *machine, e *election.Transition) {
	disk := &m.disk.state
	switch isSaved := e.Epoch.Compare(disk.Accepted) <= 0 || e.Epoch == disk.Vote; {
	case e.Epoch.Compare(m.accepted) < 0:
		w.fail(6, "n%d accepts epoch %v after %v in a life before", m.number, e.Epoch, m.accepted)
	case m.saveDown:
	case !isSaved:
		w.fail(6, "n%d accepts epoch %v with %v on disk", m.number, e.Epoch, disk.Accepted)
	default:
		m.accepted = e.Epoch
	}
}

// I7: the leader of an epoch is its owner, and leads in it once.
func (w *World) i7OneEpochOneLeader(m *machine, e *election.Transition) {
	if !e.Leader.IsZero() && e.Leader != e.Epoch.Owner {
		w.fail(7, "n%d follows %s in epoch %v", m.number, e.Leader.Short(), e.Epoch)
	}
	if e.To != election.Lead {
		return
	}
	was := w.record.owners[e.Epoch]
	if e.Epoch.Owner != m.id || was.led || (was.who != 0 && was.who != m.number) {
		w.fail(7, "epoch %v has two leaderships", e.Epoch)
	}
	w.record.owners[e.Epoch] = leadership{who: m.number, nonce: m.nonce, led: true}
}

// I8: what a become hook announces is on disk when it is asked for.
func (w *World) i8BecomeIsOnDisk(m *machine, e wire.Epoch) {
	if m.disk.state.Promoted != e {
		w.fail(8, "n%d runs the become hook of %v with %v on disk", m.number, e, m.disk.state.Promoted)
	}
}

// I8: hooks alternate, become then lose, with rising epochs. A become hook of an epoch may be tried again.
func (w *World) i8HooksAlternate(m *machine, c *group) {
	h := &m.hooks
	switch {
	case !h.acting.IsZero() && h.acting != c.epoch:
		w.fail(8, "n%d becomes leader of %v before it lost %v", m.number, c.epoch, h.acting)
	case c.epoch.Compare(h.begun) < 0:
		w.fail(8, "n%d becomes leader of %v after %v", m.number, c.epoch, h.begun)
	case c.epoch == h.begun && h.acting != c.epoch:
		w.fail(8, "n%d becomes leader of %v after it lost it", m.number, c.epoch)
	}
}

// I8: and a lose hook is that of a leadership that has begun and was not lost. It may run once more if
// whoever had run it was killed before it had noted that, or the agent before its state file had it.
func (w *World) i8LosesWhatHasBegun(m *machine, c *group) {
	h := &m.hooks
	owed := h.disk.page.Owed
	isPromoted := m.disk.state.Promoted == c.epoch || m.debt == c.epoch
	isOnDisk := owed != nil && owed.Counter == c.epoch.Counter || isPromoted
	switch {
	case h.lost == c.epoch && (h.lostBy == c.keeper || !isOnDisk || h.isNoted && !isPromoted):
		w.fail(8, "n%d runs the lose hook of %v, which has succeeded", m.number, c.epoch)
	case h.begun != c.epoch && h.loseBegun != c.epoch && !isOnDisk: // one that has failed is tried again by whoever has seen that
		w.fail(8, "n%d runs the lose hook of %v after the become hook of %v", m.number, c.epoch, h.begun)
	}
}

// I8: a state file forgets a leadership whose lose hook has not succeeded only once the journal says that it is due, or
// nobody knows any more who dies then.
func (w *World) i8DebtIsForgottenLast(m *machine, e wire.Epoch) {
	owed := m.hooks.disk.page.Owed
	isDue := !e.IsZero() && m.hooks.begun == e && m.hooks.lost != e
	if isDue && (owed == nil || owed.Counter != e.Counter) && !m.disk.full && !m.disk.errors {
		w.fail(8, "n%d's state file forgets %v, whose lose hook has not succeeded, before the journal has it", m.number, e)
	}
}

// I8: nothing that an earlier run has left works against a hook.
func (w *World) i8NothingIsLeft(m *machine, c *group) {
	for _, l := range m.hooks.left {
		w.fail(8, "n%d runs the %s hook of %v while something of the %s hook of epoch %d lives on", m.number, c.kind, c.epoch, l.kind, l.epoch)
	}
}

// I8: a become hook starts only while the lease is in force.
func (w *World) i8BecomeOnlyWithLease(m *machine, e wire.Epoch) {
	end := m.lease
	if m.state == election.Stopping { // its keeper has not heard of that yet, and then ends what it has begun
		end = m.overLease
	}
	isLed := m.epoch == e && (m.state == election.Lead || m.state == election.Stopping)
	if m.runs() && m.need != 0 && (!isLed || end != 0 && end <= m.clock.at(w.now)) {
		w.fail(8, "n%d starts the become hook of %v in %v of %v, %v after its lease", m.number, e, m.state, m.epoch,
			time.Duration(m.clock.at(w.now)-end))
	}
}

// I9 (quorum): what users see of two leaderships on different hosts, from the
// start of become to the end of lose, never overlaps, nor with what has borrowed the
// lease of another. Where an agent is dead or silent its keeper runs the lose hook, and
// that takes its time.
func (w *World) i9HooksOfHostsAreDisjoint(m *machine, e wire.Epoch) {
	if w.mode != Quorum {
		return
	}
	for _, other := range w.machines {
		h := &other.hooks
		switch {
		case other == m:
		case w.hasHolder(other) && !other.suspended:
			w.fail(9, "n%d starts the become hook of %v while n%d's lease is lent for %v", m.number, e, other.number,
				time.Duration(h.holder.until-other.clock.at(w.now)))
		case !h.held.IsZero():
			// docs/hooks.md: "A lose hook is tried until it succeeds, also after a restart, …: the hook may not have
			// released everything yet."
			w.fired(HeldOn)
		case h.acting.IsZero():
		case other.suspended || h.overslept == h.acting:
			// README: "A host that freezes as a whole can run nothing while it is frozen, its lose
			// hook included; only a check of the epoch protects a shared resource then."
		case h.unminded == h.acting && w.isPastLease(other):
			// docs/hooks.md: "both die, or the host loses its power | the next start": nobody is there to run it by
			// the end of the lease.
		default:
			w.fail(9, "n%d starts the become hook of %v while that of %v on n%d has not ended (%v)", m.number, e,
				h.acting, other.number, other.state)
		}
	}
}

// I10: nobody claims while a leader is heard by everybody without a gap and has
// not let go, whatever the failure detector says.
func (w *World) i10NoCoup(m *machine) {
	if w.size > 64 {
		return // there only some get every heartbeat
	}
	if m.forgedAt > 0 && w.now-m.forgedAt < 4*int64(w.longestLease())+int64(5*time.Second) {
		// docs/protocol.md, 6.4: "A leader is lost on E6; on E1 confirmed by E7 or by one PROBE lost":
		// somebody between two hosts can forge both.
		return
	}
	for _, leader := range w.machines {
		if leader != m && leader.isUp() && !leader.busy && w.acts(leader) && w.isHeardByAll(leader) {
			w.fail(10, "n%d claims although n%d leads in %v and everybody hears it", m.number, leader.number, leader.epoch)
		}
	}
}

func (w *World) isHeardByAll(leader *machine) bool {
	since := w.now - 2*int64(w.base.Lease)
	for _, h := range w.machines {
		if h == leader || !h.runs() {
			continue
		}
		isFresh := h.heardEpoch == leader.epoch && h.freshFrom <= since && w.now-h.heardAt < int64(w.base.Heartbeat)*3/2
		if !isFresh || h.isBlocked() || h.epoch != leader.epoch {
			return false
		}
	}
	return true
}

// I11: who claims may lead.
func (w *World) i11ClaimantIsElectable(m *machine, e *election.Transition) {
	switch {
	case m.cfg.Part != election.Voter:
		w.fail(11, "n%d claims %v and is no candidate", m.number, e.Epoch)
	case m.leaving:
		w.fail(11, "n%d claims %v and is leaving", m.number, e.Epoch)
	case m.saveDown:
		w.fail(11, "n%d claims %v without a disk", m.number, e.Epoch)
	case m.refused:
		w.fail(11, "n%d claims %v though another agent has its id", m.number, e.Epoch)
	case m.node.Status().Bars.Has(election.BarCheck) && !isRenewed(e.Cause):
		w.fail(11, "n%d claims %v and its check fails", m.number, e.Epoch)
	case m.node.Status().Bars.Has(election.BarMaintenance) && !isRenewed(e.Cause):
		w.fail(11, "n%d claims %v and is in maintenance", m.number, e.Epoch)
	case m.node.Status().Bars.Has(election.BarListed) && !isRenewed(e.Cause):
		w.fail(11, "n%d claims %v and is left out of a host list", m.number, e.Epoch)
	case w.mode == Quorum && !slices.Contains(m.roster(), m.id):
		w.fail(11, "n%d claims %v and is not in the roster", m.number, e.Epoch)
	case w.mode == Quorum && !m.disk.state.Roster.Formed:
		w.fail(11, "n%d claims %v before the roster is formed", m.number, e.Epoch)
	}
}

// I14: a leader acts for no longer than a lease after the last of the
// acknowledgements that it needs.
func (w *World) i14GivesUpWithoutAcks(m *machine) {
	need := m.need
	if need <= 0 {
		return
	}
	last := max(w.nthAck(m, need), m.forgivenAt)
	if w.mode == Available { // its need may have fallen and risen again in between
		last = max(last, m.viewChangedAt)
	}
	length := max(w.base.Lease, m.grantAsked)
	until := m.clock.when(epoch.Add(time.Duration(m.lease)), w.now)
	if until > last+int64(length)+int64(length)/100 {
		w.fail(14, "n%d publishes a lease until %v, %v after the last of the %d acknowledgements that it needs", m.number,
			time.Duration(until), time.Duration(until-last), need)
	}
}

// nthAck is when the need-th latest acknowledgement came. A machine that lost its
// disk may be two voters: the one that it was has promised, and promises nothing
// to anybody else.
func (w *World) nthAck(m *machine, need int) int64 {
	times := w.scratch[:0]
	for _, other := range w.machines {
		if other == m {
			continue
		}
		for range w.votersOn(m, other) {
			times = append(times, m.ackAt[other.number-1])
		}
	}
	w.scratch = times
	slices.Sort(times)
	if need > len(times) {
		return 0
	}
	return times[len(times)-need]
}

// votersOn counts the voters that other is or was, by m's roster; in available
// mode it is one.
func (w *World) votersOn(m, other *machine) int {
	if w.mode != Quorum {
		return 1
	}
	count := 0
	for _, id := range m.roster() {
		if isOf(id, other) {
			count++
		}
	}
	return count
}

// isOf: the id is or was the machine's.
func isOf(id wire.ID, m *machine) bool { return id == m.id || slices.Contains(m.former, id) }

// I15: after a freeze past the lease nothing that only a leader may do comes
// before the loss.
func (w *World) i15NothingAfterTheLease(m *machine, f *wire.Frame) {
	if m.state == election.Lead && m.leaseSeen && m.lease <= m.clock.at(w.now) && m.need != 0 && !m.waited && f.Phase != wire.Claim {
		w.fail(15, "n%d sends %v, %v after its lease", m.number, f, time.Duration(m.clock.at(w.now)-m.lease))
	}
}

// refusals is what a Node counts when a frame means nothing to it.
var refusals = []string{"old-incarnation", "unknown-sender", "other-mode", "counter-jump",
	"counter-out-of-range", "other-cluster", "config-mismatch", "after-its-will", "unknown-life", "not-listed"}

func isRefused(effects []election.Effect) bool {
	return slices.ContainsFunc(effects, func(e election.Effect) bool {
		c, ok := e.(election.Counted)
		return ok && slices.Contains(refusals, c.What)
	})
}

// I18: RESIGN is sent only after the lose hook has ended.
func (w *World) i18ResignsAfterItsLoseHook(m *machine, f *wire.Frame) {
	if f.Epoch == m.hooks.acting {
		w.fail(18, "n%d sends RESIGN for %v before its lose hook has ended", m.number, f.Epoch)
	}
}

// I18: and a will only after it has succeeded, of whatever the life has led in,
func (w *World) i18WillAfterItsLoseHook(k *keeper) {
	m := k.host
	isOf := func(e wire.Epoch) bool { return !e.IsZero() && w.record.owners[e].nonce == k.nonce }
	switch h := &m.hooks; {
	case isOf(h.acting), isOf(h.held):
		w.fail(18, "n%d's keeper says its death notice before the lose hook of %v or %v has succeeded", m.number, h.acting, h.held)
	case h.disk.synced.Owed != nil && isOf(wire.Epoch{Counter: h.disk.synced.Owed.Counter, Owner: m.id}) && !m.disk.lies:
		w.fail(18, "n%d's keeper says its death notice, and a loss of power would forget that a lose hook has succeeded", m.number)
	case w.hasHolder(m):
		w.fail(18, "n%d's keeper says its death notice while somebody has borrowed its lease", m.number)
	}
}

// I18: so who has said one is dead,
func (w *World) i18WillOfTheDead(m *machine, c wire.Commitment) {
	if of, isKept := w.wills.of[c]; isKept && of.who.runs() && of.who.life == of.life {
		w.fail(18, "n%d hears the death notice of n%d, which lives", m.number, of.who.number)
	}
}

// I18: and nobody says it who has not the secret,
func (w *World) i18SecretIsNeeded(m *machine, leader wire.ID) {
	if in := w.attack.insider; in == nil || leader != in.host.id {
		w.fail(18, "n%d follows %v no more, by a false death notice", m.number, leader.Short())
	}
}

// I18: and if nothing fails the successor that it names leads.
func (w *World) i18SuccessorLeads(leader, successor *machine, leads bool) {
	if w.failure == nil && !leads {
		w.sayStatus()
		w.fail(18, "n%d was told to hand over to n%d, which is in %v", leader.number, successor.number, successor.state)
	}
}

// triesAllowed is how often one request may go to one peer.
var triesAllowed = [kinds]uint32{wire.Election: 3, wire.Coordinator: 4, wire.Query: 2, wire.Probe: 2, wire.Nominate: 3,
	wire.Prepare: 3, wire.Resign: 4, wire.Roster: 4, wire.Canvass: 3}

// I19: a request is repeated a few times only.
func (w *World) i19FewRepetitions(m, to *machine, f *wire.Frame) {
	limit := triesAllowed[f.Kind]
	if f.Kind == wire.Coordinator && f.Phase == wire.Claim || f.Kind == wire.Heartbeat {
		m.grantAsked = max(m.grantAsked, time.Duration(f.Lease)*time.Millisecond)
	}
	if limit == 0 || f.Round == 0 || w.record.tries == nil {
		return
	}
	t := &w.record.tries[((m.number-1)*w.net.size+to.number-1)*kinds+int(f.Kind)]
	if t.life != m.life || t.round != f.Round || f.Flags&wire.Retx == 0 {
		*t = try{life: m.life, round: f.Round}
	}
	if t.count++; t.count > limit {
		w.fail(19, "n%d sends %v to n%d for the %dth time", m.number, f, to.number, t.count)
	}
}

// I20 (quorum): later leaderships have higher tokens, by the counter alone.
func (w *World) i20NewerLeadershipsHaveHigherTokens(m *machine) {
	if w.mode != Quorum {
		return
	}
	if m.epoch.Counter <= w.record.newest.Counter {
		w.fail(20, "n%d leads in epoch %v after %v", m.number, m.epoch, w.record.newest)
	}
	w.record.newest = m.epoch
}

// I20 (available): once one leader is known to all, a resource that compares epochs
// refuses it for no epoch that a host which is here, with its disk, has accepted.
// Higher ones may be known to hosts that are off, which docs/fencing.md says ("returns").
func (w *World) i20TheOneLeaderIsTheNewest() {
	i := slices.IndexFunc(w.machines, func(m *machine) bool { return w.counts(m) && w.acts(m) })
	if i < 0 || w.failure != nil {
		return
	}
	leader := w.machines[i]
	for _, m := range w.machines {
		if w.counts(m) && leader.epoch.Compare(m.accepted) < 0 {
			w.fail(20, "all follow n%d in %v though n%d has accepted %v", leader.number, leader.epoch, m.number, m.accepted)
		}
	}
}

// I22: a node always awaits something, unless it observes or waits for a hook.
func (w *World) i22AlwaysAwaitsSomething(m *machine) {
	if m.node.Deadline().IsZero() && m.state != election.Observe && m.client.isIdle() && !m.gone {
		w.fail(22, "n%d waits for nothing in %v", m.number, m.state)
	}
}

// I22: and not for what is always due already.
func (w *World) i22TimeGoesOn(m *machine) {
	if m.spunAt != w.now {
		m.spunAt, m.spins = w.now, 0
	}
	if m.spins++; m.spins > 100 {
		w.fail(22, "n%d has had %d deadlines at one instant in %v", m.number, m.spins, m.state)
	}
}

// I23: a roster that holds is told and acknowledged only from the disk. A first
// roster that is proposed is a question, and binds whoever answers.
func (w *World) i23RosterIsOnDiskBeforeItIsTold(m *machine, f *wire.Frame) {
	has := &m.disk.state.Roster
	switch {
	case f.Kind == wire.RosterAck && f.AckVerdict == wire.Accept:
		if f.RosterVersion != has.Version {
			w.fail(23, "n%d acknowledges roster %d with %d on disk", m.number, f.RosterVersion, has.Version)
		}
		w.record.holders[held{m.id, f.RosterVersion}] = true
	case f.Kind == wire.Roster && f.Phase == wire.Formed:
		voters := f.Voters[:f.Count]
		if !has.Formed || f.RosterVersion != has.Version || !slices.Equal(voters, has.IDs) {
			w.fail(23, "n%d sends %v with roster %d of %d on disk", m.number, f, has.Version, len(has.IDs))
		}
		if m.offered.version != f.RosterVersion {
			m.offered = offered{f.RosterVersion, slices.Clone(voters)}
		}
	}
}

// I23: a voter is forgotten, in the words of its leader, when that is on the
// leader's own disk and on those of a majority.
func (w *World) i23ForgottenOnDisks(m *machine, voter wire.ID) {
	has := func(id wire.ID) bool {
		return w.record.holders[held{id, m.offered.version}] || id == m.id && m.disk.state.Roster.Version >= m.offered.version
	}
	if slices.Contains(m.offered.voters, voter) || !has(m.id) || !quorum.Has(m.offered.voters, has) {
		w.fail(23, "n%d says that %s is forgotten; roster %d is not on its disk and a majority's", m.number, voter.Short(), m.offered.version)
	}
}

// What is far more than a machine needs: at once, and all the time.
const (
	stepsAllowed   = 200_000
	stepsPerSecond = 200
)

// I22: nor is there always something to do.
func (w *World) i22NobodyIsBusyForEver(m *machine) {
	w.fail(22, "n%d takes the %dth step of this schedule in %v: frames breed frames", m.number, w.steps, m.state)
}
