package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
)

// Check is a check of this host, and what it means.
type Check struct {
	hooks.Check
	Penalty int // is added to the priority while it fails; 0: this host does not lead then
}

// onFail is that as the configuration has it.
func (c Check) onFail() string {
	if c.Penalty == 0 {
		return "ineligible"
	}
	return fmt.Sprintf("priority %+d", c.Penalty)
}

// checks is what the host knows of its checks. The keeper runs them, and says what has
// changed; here that becomes a bar of the node, or another priority.
type checks struct {
	all      []Check
	found    map[string]checkFinding
	priority uint16 // as configured
	isBarred bool   // as the node was told
}

// checkFinding is what is known of one check.
type checkFinding struct {
	hooks.CheckReport
	since time.Time // wall clock: it is in this state
}

// beginChecks has a host with checks wait for their first pass. The keeper has begun to run
// them by now.
func (a *agent) beginChecks() {
	a.checks = checks{found: map[string]checkFinding{}, priority: a.cfg.Election.Priority}
	a.setChecks(a.cfg.Checks, hooks.CheckPending)
}

// setChecks takes the checks of the configuration. One that is not known yet is in that
// state until the keeper says otherwise.
func (a *agent) setChecks(all []Check, state hooks.CheckState) {
	before := a.checks.found
	a.checks.all, a.checks.found = all, map[string]checkFinding{}
	for _, c := range all {
		known, ok := before[c.Name]
		if !ok {
			known = checkFinding{CheckReport: hooks.CheckReport{Name: c.Name, State: state}, since: wallClock()}
		}
		a.checks.found[c.Name] = known
	}
	a.weighChecks()
}

// onChecked takes what the keeper says. Another keeper, which knows nothing yet, does not
// make unknown what was known.
func (a *agent) onChecked() {
	for _, r := range a.runner.Checks() {
		was, isOurs := a.checks.found[r.Name]
		if !isOurs || r.State == hooks.CheckPending && was.State != hooks.CheckPending {
			continue
		}
		is := checkFinding{CheckReport: r, since: was.since}
		if r.State != was.State {
			is.since = wallClock()
			a.tellCheck(is)
		}
		a.checks.found[r.Name] = is
	}
	a.weighChecks()
	a.seat.publish()
}

func (a *agent) tellCheck(f checkFinding) {
	text := fmt.Sprintf("check %s %v", f.Name, f.State)
	if f.State == hooks.CheckFails {
		a.log.Warn(text, "err", f.Why)
		text += ": " + f.Why
	} else {
		a.log.Info(text)
	}
	a.event(control.Event{Type: "check", Cause: f.State.String(), Text: text})
}

// weighChecks tells the node what the checks come to.
func (a *agent) weighChecks() {
	priority := int(a.checks.priority)
	for _, c := range a.checks.all {
		if a.checks.found[c.Name].State == hooks.CheckFails {
			priority += c.Penalty
		}
	}
	a.setPriority(uint16(min(max(priority, 0), 65535)))
	isBarred := slices.ContainsFunc(a.checks.all, a.bars)
	if isBarred != a.checks.isBarred {
		a.checks.isBarred = isBarred
		a.seat.step(election.Barred{Bar: election.BarCheck, On: isBarred})
	}
}

// setPriority takes another priority, and lets the others know.
func (a *agent) setPriority(priority uint16) {
	if priority == a.view.self.Priority {
		return
	}
	a.view.self.Priority = priority
	a.seat.command(election.Command{Verb: election.Reprioritise, Priority: priority}, func(error) {})
	a.members().SetSelf(priority, a.view.self.Role, a.view.self.Draining, false)
}

// controlChecks is how clients see them.
func (a *agent) controlChecks() []control.Check {
	out := make([]control.Check, 0, len(a.checks.all))
	for _, c := range a.checks.all {
		f := a.checks.found[c.Name]
		out = append(out, control.Check{Name: c.Name, State: f.State.String(), Since: f.since, Why: f.Why, OnFail: c.onFail()})
	}
	return out
}

// bars reports whether a check keeps this host from leading now.
func (a *agent) bars(c Check) bool {
	return c.Penalty == 0 && a.checks.found[c.Name].State != hooks.CheckPasses
}

// because is why a check did not pass the last time, to end a sentence with.
func (f checkFinding) because() string {
	if f.Why == "" {
		return ""
	}
	return ": " + f.Why
}

// barNotes say of the bars that the host has the node know why they are there.
func (a *agent) barNotes() map[election.Bar]string {
	return map[election.Bar]string{election.BarCheck: strings.Join(a.failing(), "; ")}
}

// failing says which checks keep this host from leading, since when and why.
func (a *agent) failing() (all []string) {
	for _, c := range a.checks.all {
		f := a.checks.found[c.Name]
		switch {
		case !a.bars(c):
		case f.State == hooks.CheckPending:
			all = append(all, fmt.Sprintf("check %s has not passed yet%s", c.Name, f.because()))
		default:
			all = append(all, fmt.Sprintf("check %s fails, for %v%s", c.Name, wallClock().Sub(f.since).Round(time.Second), f.because()))
		}
	}
	return all
}

// checkNotes say what keeps this host from leading, or makes it a worse leader.
func (a *agent) checkNotes() (notes []string) {
	for _, c := range a.checks.all {
		f := a.checks.found[c.Name]
		switch {
		case a.bars(c) && f.State == hooks.CheckPending:
			notes = append(notes, fmt.Sprintf("check %s has not passed yet, so this host cannot lead%s", c.Name, f.because()))
		case a.bars(c):
			notes = append(notes, fmt.Sprintf("check %s fails, so this host cannot lead%s", c.Name, f.because()))
		case f.State == hooks.CheckFails:
			notes = append(notes, fmt.Sprintf("check %s fails, so the priority is %d instead of %d%s", c.Name, a.view.self.Priority, a.checks.priority, f.because()))
		}
	}
	return notes
}

// noteBars tells the other hosts whether this one can lead, and whether somebody is at work
// on it.
func (a *agent) noteBars(st *standing) {
	self := &a.view.self
	if draining := st.status.Bars != 0; draining != self.Draining {
		self.Draining = draining
		a.members().SetSelf(self.Priority, self.Role, draining, false)
	}
	isOn, reason := st.maintenance != nil, ""
	if isOn {
		reason = st.maintenance.Reason
	}
	if isOn != self.InMaintenance || reason != self.Reason {
		self.InMaintenance, self.Reason = isOn, reason
		a.members().SetMaintenance(isOn, reason)
	}
}
