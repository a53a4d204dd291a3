package agent

import (
	"fmt"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
)

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
