package agent

import (
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
)

const (
	// lookInterval is how often the agent looks for what nothing tells it of. memberlist's
	// opinion of this host changes with probes, which are a second apart.
	lookInterval = time.Second
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
	looks := time.NewTicker(lookInterval)
	defer looks.Stop()
	due := a.beginPulse()
	defer a.endPulse()
	stop, left := a.stop, make(chan struct{})
	s := a.seat
	a.beginHosts()
	s.resumeMaintenance()
	a.beginChecks()
	for {
		select {
		case r := <-a.inbox:
			a.take(&r)
		case <-a.members().Wake():
			a.takeMembership()
		case f := <-a.findings:
			a.onFinding(f)
		case s := <-a.sights:
			a.onSight(s)
		case r := <-a.runner.Results():
			a.onResources()
			a.noteFailure(r)
			s.onHookResult(r)
		case <-a.runner.Checked():
			a.onResources()
			a.onChecked()
			a.onClients()
		case <-a.roll.news:
			a.onShut()
		case <-s.holders.dismissed:
			s.onDismissed()
		case <-s.holders.moved:
			s.noteHolders()
		case r := <-a.jobRunner.Results():
			s.onJobResult(r)
		case w := <-s.jobs.file.results:
			s.onLedgerWritten(w)
		case life := <-a.later:
			a.endOlder(life)
		case call := <-a.calls:
			call()
		case <-timer.C:
			a.armedFor = time.Time{}
			if !a.view.self.Settled {
				a.takeMembership() // a copy that has shown itself, before a start may claim
			}
			s.tick()
		case <-looks.C:
			a.lookAround()
		case <-due:
			a.pulse.isDue = true
		case <-a.cfg.Dump:
			a.dump()
		case <-stop:
			stop, a.pulse.isStopping = nil, true
			a.log.Info("stopping cleanly")
			s.command(election.Command{Verb: election.Leave}, func(error) { close(left) })
		case <-left:
			left = nil
			s.endJobs()
		case <-a.runner.Gone():
			return ErrKeeperGone // it renews nothing and sends nothing from here on
		case <-a.cfg.Abort:
			a.log.Warn("stopped at once, without waiting for hooks and hand-over")
			s.abandon()
			return ErrAborted
		}
		a.goOn()
		s.turn()
		a.beat()
		if a.fatal != nil && s.status().State != election.Stopping {
			return a.giveUp()
		}
		if s.isOver() {
			return a.leave()
		}
		a.arm(timer)
	}
}

// lookAround is what a host does once a second: nothing wakes the loop for these.
func (a *agent) lookAround() {
	a.lookForPlace()
	a.receipts.mayWrite()
	a.knowMembers()
	a.lookAtHolders()
	a.lookForMute()
	a.lookForStrays()
	a.lookForRelayed()
	a.lookForTold()
	a.lookAtLists()
	a.onResources() // what was not told for its number
	a.seat.lookAround(a.members().Health())
}

// arm sets the timer to what is due first.
func (a *agent) arm(timer *time.Timer) {
	at := a.seat.due()
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

// takeMembership passes on what changed among the members. It shows all of it to people before the election acts on any of it, so
// that whoever hears of a new leader has the members that go with it. It shows that once, since a list of members is as long as the
// cluster, and so may be what comes at a time.
func (a *agent) takeMembership() {
	events := a.members().Events()
	news, isShown := make([]string, len(events)), true
	for i, ev := range events {
		if m := ev.Member; !m.ID.IsZero() && m.ID != a.view.self.ID {
			news[i], isShown = a.note(m), false
		}
	}
	if !isShown {
		a.keepWarm()
		a.seat.publish()
	}
	for i, ev := range events {
		a.log.Debug("membership changed", "event", ev)
		switch ev.Kind {
		case membership.LeaderReported:
			a.seat.step(election.LeaderReported{Epoch: ev.Leader})
		case membership.LedgerReceived:
			a.seat.merge(ev.Ledger)
		case membership.JoinEnded:
			a.seat.step(election.JoinEnded{})
		default:
			a.onMember(ev.Member, news[i])
		}
	}
}

// note has the view know of a member, and says what is new of it in a word.
func (a *agent) note(m membership.Member) (news string) {
	news = a.view.update(m)
	if news == "joined" || news == "restarted" {
		a.hearing.began(m.ID, a.cfg.Now(), a.view.others)
	}
	a.seat.introduce(a.view.controlNode(m.ID))
	return news
}

// onMember tells people and the election what has changed of a member, which is shown already. The election never learns of
// members with other settings.
func (a *agent) onMember(m membership.Member, news string) {
	if m.ID == a.view.self.ID {
		a.onCopy(m)
		return
	}
	if news != "" {
		a.announceMember(m, news)
	}
	if m.ConfigHash == a.view.self.ConfigHash {
		a.seat.step(election.MemberChanged{Member: electionMember(m)})
	} else if m.Status == membership.Alive {
		a.onOddMember(m)
	}
}

// announceMember tells logs, events and the member-change hook.
func (a *agent) announceMember(m membership.Member, news string) {
	a.log.Info("member "+news, "member", m.Name, "addr", m.Addr, "priority", m.Priority, "id", m.ID.Short())
	a.event(control.Event{Type: "member", Member: m.Name, Cause: news, Text: fmt.Sprintf("%s %s (%v)", m.Name, news, m.Addr)})
	a.seat.notify(hooks.MemberChange, news)
}

// leave says goodbye to memberlist; the node has said its own.
func (a *agent) leave() error {
	if err := a.members().Leave(leaveTimeout); err != nil {
		a.log.Debug("departure not fully announced", "err", err)
	}
	a.log.Info("agent stopped")
	return nil
}
