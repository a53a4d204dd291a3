package agent

import (
	"fmt"
	"strings"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
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
		a.log.Info("became a candidate again: the obstacle has gone")
		a.event(control.Event{Type: "warning", Cause: string(election.StandsAgain), Text: "this host is a candidate again"})
	default:
		a.warnRarely(why)
		a.event(control.Event{Type: "warning", Cause: string(election.StoodAside), Text: why})
	}
	if isNew {
		a.seat.step(election.Barred{Bar: election.BarAside, On: why != ""})
	}
	a.seat.publish()
}

// barNotes say of the bars that the host has the node know why they are there.
func (a *agent) barNotes() map[election.Bar]string {
	return map[election.Bar]string{election.BarAside: a.aside, election.BarCheck: strings.Join(a.failing(), "; ")}
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
			return "this host is no candidate: settings that must be the same on all nodes differ: " + a.differences(odd)
		}
	}
	return ""
}

// noteLaterLife sees whether gossip knows a life of this host, at its own address, that
// comes after the present one. Then what is on this disk is older than what was there: the
// others do not hear this life (R2), which may have forgotten what it promised.
func (a *agent) noteLaterLife(m membership.Member) {
	self := &a.view.self
	if a.older != "" || m.Nonce == self.Nonce || m.Addr != self.Addr || m.Incarnation < self.Incarnation {
		return
	}
	a.older = fmt.Sprintf("the state directory is an older copy: the others know life %d of this host, and do not hear life %d; "+
		"stop the agent, remove the directory, start it anew", m.Incarnation, self.Incarnation)
	a.log.Error(a.older)
	a.event(control.Event{Type: "warning", Cause: causeSameID, Text: a.older})
}
