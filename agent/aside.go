package agent

import (
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
)

// An agent that may be the one that is not meant to be here does not end on the word of
// members that have not proved who they are: anybody on the network could end all
// agents so, one after the other, and nothing would start them again. It stands
// aside: it goes on following, is no candidate, says so, and looks again each
// second.

// provesMembers: nobody who lacks the cluster's key can be taken for a member.
func (a *agent) provesMembers() bool {
	lan, ok := a.lan.(interface{ Authenticates() bool })
	return ok && lan.Authenticates()
}

// lookAside stands aside if something speaks for it now, and again if nothing does any
// more.
func (a *agent) lookAside() {
	why := a.whyAside()
	if why == a.aside {
		return
	}
	isNew := a.aside == "" || why == ""
	a.aside = why
	switch {
	case why == "":
		a.log.Info("stands again: what it stood aside for has gone")
		a.event(control.Event{Type: "warning", Cause: string(election.StandsAgain), Text: "this host stands again"})
	default:
		a.warnRarely(why)
		a.event(control.Event{Type: "warning", Cause: string(election.StoodAside), Text: why})
	}
	if isNew {
		a.seat.step(election.Barred{Bar: election.BarAside, On: why != ""})
	}
	a.seat.publish()
}

// whyAside says what speaks against this host, if only members say so that have proved
// nothing. Of these, one that answers nothing counts for no longer than it takes to
// ask it.
func (a *agent) whyAside() string {
	if a.provesMembers() {
		return ""
	}
	for _, odd := range a.view.oddlyConfigured() {
		if a.view.mustGiveWayTo(odd) && !a.isSilent(odd) {
			return "this host stands aside, settings that must be the same on all nodes differ: " + a.differences(odd)
		}
	}
	return ""
}
