package agent

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/internal/jobs/jobframe"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// How the loop drives the scheduler: one event after the other, its effects in
// order, and none while the ledger is on its way to the disk.

// stepJobs tells the scheduler of an event, now or when its turn comes.
func (a *agent) stepJobs(ev jobs.Event) {
	if a.jobs.isFullFor(ev) {
		a.counters.add("job_event_overflow")
		return
	}
	a.jobs.queue = append(a.jobs.queue, ev)
	a.pumpJobs()
}

// isFullFor reports whether an event may be dropped, since others say it again,
// and has to be.
func (j *jobDesk) isFullFor(ev jobs.Event) bool {
	switch ev.(type) {
	case jobs.Heard:
		return len(j.queue) >= maxJobEvents
	case jobs.Merged:
		merged := 0
		for _, waiting := range j.queue {
			if _, isMerged := waiting.(jobs.Merged); isMerged {
				merged++
			}
		}
		return merged >= maxMerged
	}
	return false
}

// pumpJobs steps until nothing is left, or the disk is waited for. It does not
// call itself: effects that are events again are queued.
func (a *agent) pumpJobs() {
	j := &a.jobs
	if j.stepping {
		return
	}
	j.stepping = true
	for !j.writing {
		if len(j.rest) == 0 && !a.stepNext() {
			break
		}
		if len(j.rest) > 0 {
			effect := j.rest[0]
			j.rest = j.rest[1:]
			a.applyJob(effect)
		}
	}
	j.stepping = false
	a.planJobs()
}

// stepNext steps the next event, if there is one.
func (a *agent) stepNext() bool {
	j := &a.jobs
	wall := j.wall()
	ev, ok := j.next(wall, a.cfg.Now())
	if !ok {
		return false
	}
	if a.log.IsTrace() {
		a.log.Trace("jobs stepped", "event", ev)
	}
	j.rest = slices.Clone(j.scheduler.Step(wall, ev))
	return true
}

// next takes the next event: first a failed save; then that the clock was set, as
// of which all others are; then that a person waits no more, so that nothing
// starts for that one.
func (j *jobDesk) next(wall, now time.Time) (ev jobs.Event, ok bool) {
	if len(j.queue) > 0 {
		ev, ok = j.queue[0], true
	}
	if _, isFailure := ev.(jobs.SaveFailed); !isFailure {
		if by := j.clocks.set(wall, now); by != 0 {
			return jobs.ClockSet{By: by}, true
		}
		if token, isGone := j.withdrawn(); isGone {
			return jobs.Unask{Token: token}, true
		}
	}
	if ok {
		j.queue = j.queue[1:]
	}
	if e, isAsk := ev.(jobs.Ask); isAsk && !j.isStillWished(e.Token) {
		return jobs.Tick{}, true // in its place
	}
	return ev, ok
}

// clockPair is a reading of both clocks at one time: the first, or the last at which
// one was found set.
type clockPair struct{ wall, agent time.Time }

// clockSlack is how far the wall clock may have come from the agent's before the
// jobs are told. Arbitrary: what is timed for them may be off by as much.
const clockSlack = 500 * time.Millisecond

// set says by how much the wall clock was set since it was last said, back if below
// zero; 0 if it was not.
func (c *clockPair) set(wall, now time.Time) time.Duration {
	by := wall.Round(0).Sub(c.wall) - now.Sub(c.agent)
	if !c.agent.IsZero() && by.Abs() <= clockSlack {
		return 0
	}
	if c.agent.IsZero() {
		by = 0
	}
	*c = clockPair{wall.Round(0), now}
	return by
}

// applyJob carries out one effect.
func (a *agent) applyJob(effect jobs.Effect) {
	j := &a.jobs
	switch e := effect.(type) {
	case jobs.Save:
		j.writing, j.wroteAt = true, a.cfg.Now()
		j.file.write(e.Bytes)
	case jobs.Send:
		a.sendJob(e)
	case jobs.Begin:
		a.beginJob(e)
	case jobs.End:
		j.runner.End(runID(e.Job, e.Key), e.Outcome.String())
	case jobs.Reply:
		j.wishes[e.Token].done(e.Err)
		delete(j.wishes, e.Token)
	case jobs.Noted:
		a.noteJob(e.Decision)
	case jobs.Refused:
		a.counters.add("job_refused_" + e.Why)
	default:
		panic("BUG: unknown effect " + effect.String())
	}
}

// onLedgerWritten goes on where a Save was waited for.
func (a *agent) onLedgerWritten(w written) {
	j := &a.jobs
	j.writing = false
	switch {
	case w.err != nil:
		if !j.failed {
			a.log.Error("job ledger not saved; no job starts here until it is", "err", w.err)
			a.jobEvent("job ledger not saved: "+w.err.Error(), string(election.DiskFailed))
			j.passOn.since = a.cfg.Now()
		}
		j.failed, j.rest, j.passOn.why = true, nil, w.err
		j.queue = slices.Insert(j.queue, 0, jobs.Event(jobs.SaveFailed{}))
	case j.failed:
		j.failed, j.passOn = false, passOn{asked: j.passOn.asked, held: j.passOn.held, led: j.passOn.led, well: a.cfg.Now()}
		a.log.Info("job ledger saved again")
	}
	if w.err == nil {
		a.members.SetLedger(j.scheduler.Bytes())
	}
	a.pumpJobs()
	if j.failed && j.scheduler.Stalled() {
		a.passJobsOn()
	}
}

// planJobs puts the scheduler's deadline, which is on the wall clock, onto the
// agent's. A millisecond at least lies between two looks.
func (a *agent) planJobs() {
	j := &a.jobs
	at := j.scheduler.Deadline()
	if at.IsZero() || j.writing {
		j.due = time.Time{}
		return
	}
	j.due = a.cfg.Now().Add(max(at.Sub(j.wall()), time.Millisecond))
}

// tickJobs lets the scheduler do what is due.
func (a *agent) tickJobs() {
	if due := a.jobs.due; !due.IsZero() && !a.cfg.Now().Before(due) {
		a.stepJobs(jobs.Tick{})
	}
}

// onJobFrame tells the two protocols apart: it reports whether the frame was about
// jobs.
func (a *agent) onJobFrame(r *received) bool {
	f := &r.frame
	if f.Kind < wire.JobClaim || f.Kind > wire.LedgerPart {
		return false
	}
	if why := a.refuseJobFrame(f); why != "" {
		a.counters.add("job_refused_" + why)
		return true
	}
	a.stepJobs(jobs.Heard{From: jobs.ID(f.Sender), Message: jobframe.Unpack(f)})
	return true
}

// refuseJobFrame says why a frame about jobs means nothing, or "", by the
// election's rules for its own (R1, R2).
func (a *agent) refuseJobFrame(f *wire.Frame) string {
	m, known := a.view.member(f.Sender)
	switch {
	case f.Cluster != a.cfg.Election.Cluster:
		return "other-cluster"
	case !known || f.Sender == a.state.ID || m.Status == membership.Left:
		return "unknown-sender"
	case f.ConfigHash != a.view.self.ConfigHash:
		return "config-mismatch"
	case f.Epoch.Counter > wire.MaxCounter:
		return "counter-out-of-range"
	case a.isCounterJump(f.Epoch.Counter):
		return "counter-jump"
	case f.Nonce != m.Nonce && f.Incarnation <= m.Incarnation:
		return "old-incarnation"
	}
	return ""
}

// maxCounterJump is the election's bound for its own frames (protocol 2.4). An
// epoch that it has not seen yet is a few counters away.
const maxCounterJump = 1 << 20

// isCounterJump: a frame must not raise this host's fence above all epochs that
// there will be. A host that knows no leader, or leads alone, may have missed
// others.
func (a *agent) isCounterJump(counter uint64) bool {
	s, known := a.node.Status(), a.state.saved.MaxCounter
	isEstablished := !s.Epoch.IsZero() && (s.Epoch.Owner != a.state.ID || s.Acks > 0)
	return isEstablished && counter > known && counter-known > maxCounterJump
}

// sendJob sends one message. A host that is not known any more gets none.
func (a *agent) sendJob(e jobs.Send) {
	to, known := a.view.member(wire.ID(e.To))
	if !known {
		return
	}
	a.jobs.seq++
	f := jobframe.Pack(&e.Message)
	f.Cluster, f.ConfigHash, f.Priority = a.cfg.Election.Cluster, a.view.self.ConfigHash, a.view.self.Priority
	f.Sender, f.Incarnation, f.Nonce, f.Seq = a.state.ID, a.node.Incarnation(), a.cfg.Election.Nonce, a.jobs.seq
	a.out = wire.Append(a.out[:0], &f)
	if err := a.lan.SendFrame(to.Addr, a.out); err != nil {
		a.counters.add("send_error") // like a lost datagram
	}
}
