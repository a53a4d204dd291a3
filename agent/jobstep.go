package agent

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/jobs"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// How the loop drives the scheduler: one event after the other, its effects in
// order, and none while the ledger is on its way to the disk.

// stepJobs tells the scheduler of an event, now or when its turn comes.
func (a *agent) stepJobs(ev jobs.Event) {
	j := &a.jobs
	if len(j.queue) >= maxJobEvents && isRepeated(ev) {
		a.counters.add("job_event_overflow")
		return
	}
	j.queue = append(j.queue, ev)
	a.pumpJobs()
}

// isRepeated reports whether others say it again if it is lost.
func isRepeated(ev jobs.Event) bool {
	switch ev.(type) {
	case jobs.Heard, jobs.Merged:
		return true
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
	for !j.writing && len(j.rest)+len(j.queue) > 0 {
		if len(j.rest) == 0 {
			ev := j.queue[0]
			j.queue = j.queue[1:]
			if a.log.IsTrace() {
				a.log.Trace("jobs stepped", "event", ev)
			}
			j.rest = slices.Clone(j.scheduler.Step(wallClock(), ev))
			continue
		}
		effect := j.rest[0]
		j.rest = j.rest[1:]
		a.applyJob(effect)
	}
	j.stepping = false
	a.planJobs()
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
		j.wishes[e.Token](e.Err)
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
			a.jobEvent("job ledger not saved: "+w.err.Error(), "disk-failed")
		}
		j.failed, j.rest = true, nil
		j.queue = slices.Insert(j.queue, 0, jobs.Event(jobs.SaveFailed{}))
	case j.failed:
		j.failed = false
		a.log.Info("job ledger saved again")
	}
	if w.err == nil {
		a.members.SetLedger(w.bytes)
	}
	a.pumpJobs()
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
	j.due = a.cfg.Now().Add(max(at.Sub(wallClock()), time.Millisecond))
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
	a.stepJobs(jobs.Heard{From: jobs.ID(f.Sender), Message: jobs.Message{Kind: jobs.MessageKind(f.Kind),
		Epoch: f.Epoch.Counter, Owner: jobs.ID(f.Epoch.Owner), Round: f.Round, Why: jobs.Reason(f.Why), Digest: f.Digest,
		Place: f.Place, Count: f.Parts, Payload: f.Payload}})
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
	case f.Nonce != m.Nonce && f.Incarnation <= m.Incarnation:
		return "old-incarnation"
	}
	return ""
}

// sendJob sends one message. A host that is not known any more gets none.
func (a *agent) sendJob(e jobs.Send) {
	to, known := a.view.member(wire.ID(e.To))
	if !known {
		return
	}
	m := e.Message
	a.jobs.seq++
	f := wire.Frame{Kind: wire.Kind(m.Kind), Cluster: a.cfg.Election.Cluster, ConfigHash: a.view.self.ConfigHash,
		Sender: a.state.ID, Incarnation: a.node.Incarnation(), Nonce: a.cfg.Election.Nonce, Seq: a.jobs.seq, Round: m.Round,
		Epoch: wire.Epoch{Counter: m.Epoch, Owner: wire.ID(m.Owner)}, Priority: a.view.self.Priority,
		Why: uint8(m.Why), Digest: m.Digest, Place: m.Place, Parts: m.Count, Payload: m.Payload}
	a.out = wire.Append(a.out[:0], &f)
	if err := a.lan.SendFrame(to.Addr, a.out); err != nil {
		a.counters.add("send_error") // like a lost datagram
	}
}
