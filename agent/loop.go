package agent

import (
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

const (
	// healthInterval is how often memberlist's opinion of this host is passed
	// on; it changes with probes, which are a second apart.
	healthInterval = time.Second
	// diskRetry is how soon a failed save is tried again.
	diskRetry = time.Second
	// abortBudget is what a lose hook has when somebody is in a hurry.
	abortBudget = 500 * time.Millisecond
	// leaveTimeout bounds memberlist's goodbye.
	leaveTimeout = 2 * time.Second
)

// loop is the agent: it takes one thing at a time and lets the node say what to
// do. It returns when the agent has left, was aborted, or must not go on.
func (a *agent) loop() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	health := time.NewTicker(healthInterval)
	defer health.Stop()
	stop, left := a.stop, make(chan struct{})
	for {
		select {
		case r := <-a.inbox:
			a.hearing.note(r.frame.Sender, a.cfg.Now())
			if !a.onJobFrame(&r) {
				a.step(election.Received{From: r.from, Frame: r.frame})
			}
		case <-a.members.Wake():
			a.takeMembership()
		case f := <-a.findings:
			a.onFinding(f)
		case up := <-a.links:
			a.onLink(up)
		case r := <-a.runner.Results():
			a.onHookResult(r)
		case <-a.tenancy.vacant:
			a.onVacant()
		case r := <-a.jobs.runner.Results():
			a.onJobResult(r)
		case w := <-a.jobs.file.results:
			a.onLedgerWritten(w)
		case call := <-a.calls:
			call()
		case <-timer.C:
			a.armedFor = time.Time{}
			a.retrySave()
			a.tryAgain()
			a.step(election.Tick{})
			a.tickJobs()
		case <-health.C:
			a.step(election.HealthChanged{Score: a.members.Health()})
			a.publish()
			a.standForJobs()
			a.forgetHold()
		case <-a.cfg.Dump:
			a.dump()
		case <-stop:
			stop = nil
			a.log.Info("stopping in order")
			a.command(election.Command{Verb: election.Leave}, func(error) { close(left) })
		case <-left:
			left = nil
			a.endJobs()
		case <-a.cfg.Abort:
			a.abort()
			return ErrAborted
		}
		if a.fatal != nil && a.node.Status().State != election.Stopping {
			return a.giveUp()
		}
		if a.jobsOver() {
			return a.leave()
		}
		a.arm(timer)
	}
}

// arm sets the timer to what is due first.
func (a *agent) arm(timer *time.Timer) {
	at := a.due()
	if at.Equal(a.armedFor) && !at.IsZero() {
		return // most frames change nothing here, and setting a timer costs more than Step
	}
	a.armedFor = at
	if at.IsZero() {
		timer.Stop()
		return
	}
	timer.Reset(max(at.Sub(a.cfg.Now()), 0))
}

// step is the straight line: one event in, its effects carried out in order.
func (a *agent) step(ev election.Event) {
	if a.log.IsTrace() {
		a.log.Trace("stepped", "event", ev)
	}
	for _, effect := range a.node.Step(a.cfg.Now(), ev) {
		if err := a.apply(effect); err != nil {
			a.onSaveFailed(election.SaveFailed(effect.(election.Save)), err)
			return
		}
	}
	a.renewEnding()
	a.tellDisk()
}

// save writes the state and measures how long that takes.
func (a *agent) save(state election.Saved) error {
	begun, was := a.cfg.Now(), a.state.saved.Roster
	err := a.state.write(state)
	a.diskTook = max(a.diskTook, a.cfg.Now().Sub(begun))
	if err == nil {
		a.tellForgotten(was, state.Roster)
	}
	return err
}

// tellDisk tells the node how long a save took, once the step that
// asked for it is done (M10).
func (a *agent) tellDisk() {
	took := a.diskTook
	a.diskTook = 0
	if took > 0 {
		a.step(election.DiskTimed{Took: took})
	}
}

// onSaveFailed: the rest of the step's effects are dropped, and the node is
// told.
func (a *agent) onSaveFailed(e election.SaveFailed, err error) {
	a.onDiskFailed(err)
	a.step(e)
}

// onDiskFailed says once that the disk takes no writes, and has it tried again.
func (a *agent) onDiskFailed(err error) {
	if a.diskAt.IsZero() {
		a.log.Error("state not saved; this agent cannot lead until it is", "err", err)
		a.event(control.Event{Type: "warning", Cause: string(election.DiskFailed), Text: "state not saved: " + err.Error()})
	}
	a.diskAt, a.diskWhy = a.cfg.Now().Add(diskRetry), err.Error()
}

// retrySave tries the disk again after a failure.
func (a *agent) retrySave() {
	if a.diskAt.IsZero() || a.cfg.Now().Before(a.diskAt) {
		return
	}
	err := a.state.write(a.state.saved)
	if err == nil {
		err = a.runner.TryRecording()
	}
	if err != nil {
		a.diskAt = a.cfg.Now().Add(diskRetry)
		return
	}
	a.diskAt = time.Time{}
	a.log.Info("state saved again")
	a.step(election.SaveRecovered{})
}

// takeMembership passes on what changed among the members.
func (a *agent) takeMembership() {
	for _, ev := range a.members.Events() {
		a.log.Debug("membership changed", "event", ev)
		switch ev.Kind {
		case membership.LeaderReported:
			a.step(election.LeaderReported{Epoch: ev.Leader})
		case membership.LedgerReceived:
			a.stepJobs(jobs.Merged{Bytes: ev.Ledger})
		case membership.Conflict:
			a.warnRarely("two hosts claim the same life of one id", "member", ev.Member.Name, "addr", ev.Member.Addr)
		default:
			a.onMember(ev.Member)
		}
	}
}

// onMember shows the change to people before the election acts on it, so that
// whoever hears of a new leader has the members that go with it. The election
// never learns of members with other settings.
func (a *agent) onMember(m membership.Member) {
	if m.ID == a.state.ID { // our own life before this one, or a copy of us
		a.step(election.MemberChanged{Member: electionMember(m)})
		return
	}
	news := a.view.update(m)
	if news == "joined" || news == "restarted" {
		a.hearing.began(m.ID, a.cfg.Now(), a.view.others)
	}
	a.history.name(a.view.controlNode(m.ID))
	a.publish()
	if news != "" {
		a.announceMember(m, news)
	}
	if m.ConfigHash == a.view.self.ConfigHash {
		a.step(election.MemberChanged{Member: electionMember(m)})
	} else if m.Status == membership.Alive {
		a.onOddMember(m)
	}
}

// announceMember tells logs, events and the member-change hook.
func (a *agent) announceMember(m membership.Member, news string) {
	a.log.Info("member "+news, "member", m.Name, "addr", m.Addr, "priority", m.Priority, "id", m.ID.Short())
	a.event(control.Event{Type: "member", Member: m.Name, Cause: news, Text: fmt.Sprintf("%s %s (%v)", m.Name, news, m.Addr)})
	a.notify(hooks.MemberChange, news)
}

// onHookResult passes the end of a leadership hook on.
func (a *agent) onHookResult(r hooks.Result) {
	if r.Unasked {
		a.judgeHook(r)
		return
	}
	hook := election.Become
	if r.Kind == hooks.LoseLeadership {
		hook = election.Lose
	}
	epoch := election.HookEnded{Hook: hook, OK: r.OK}
	epoch.Epoch.Counter, epoch.Epoch.Owner = r.Epoch, a.state.ID
	a.noteHook(r, epoch.Epoch)
	if hook == election.Become && r.Epoch == a.node.Status().Epoch.Counter {
		a.hookReady = r.OK
	}
	a.step(epoch)
	a.judgeHook(r)
	a.publish()
}

// command gives the node an operator's wish; done is called when it is done.
func (a *agent) command(c election.Command, done func(error)) {
	a.tokens++
	c.Token = a.tokens
	a.replies[c.Token] = done
	a.step(c)
}

// abort is the second signal: what still runs for a leadership has a moment to
// end, and nobody is told.
func (a *agent) abort() {
	a.log.Warn("stopped at once, without waiting for hooks and hand-over")
	owed := a.node.Status().Reign
	if owed.IsZero() {
		return
	}
	a.hurryHook(owed, string(election.Stopped), abortBudget)
	enough := time.After(2 * abortBudget)
	for {
		select {
		case r := <-a.runner.Results():
			if r.Kind == hooks.LoseLeadership {
				a.forgetPromoted(r)
				return
			}
		case <-enough:
			return
		}
	}
}

// forgetPromoted: a lose hook that has succeeded need not run at the next start.
func (a *agent) forgetPromoted(r hooks.Result) {
	saved := a.state.saved
	if !r.OK || saved.Promoted.Counter != r.Epoch {
		return
	}
	saved.Promoted = wire.Epoch{}
	if err := a.state.write(saved); err != nil {
		a.log.Warn("state not saved; the lose hook will run again at the next start", "err", err)
	}
}

// leave says goodbye to memberlist; the node has said its own.
func (a *agent) leave() error {
	if err := a.members.Leave(leaveTimeout); err != nil {
		a.log.Debug("departure not fully announced", "err", err)
	}
	a.log.Info("agent stopped")
	return nil
}

// call runs f in the loop and waits for it, unless the loop ends before.
func (a *agent) call(done <-chan struct{}, f func()) bool {
	ran := make(chan struct{})
	select {
	case a.calls <- func() { f(); close(ran) }:
	case <-done:
		return false
	}
	select {
	case <-ran:
		return true
	case <-done:
		return false
	}
}
