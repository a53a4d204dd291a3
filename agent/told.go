package agent

import (
	"slices"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
)

// A host that others tell of and that has not shown itself to this one is no member here: it counts nowhere, and hooks do not
// hear of it. People are shown that it may be there.

// maxTold bounds those that are shown, whatever others make up.
const maxTold = 16

// lookForTold finds such hosts. It is called once a second.
func (a *agent) lookForTold() {
	told := a.members().Told()
	told = told[:min(len(told), maxTold)]
	if !slices.Equal(told, a.told) {
		a.told = told
		a.seat.publish()
	}
}

// toldMembers shows them behind the members. Nobody but a host itself says what it is called, and what it is.
func (a *agent) toldMembers() (out []control.Member) {
	for _, m := range a.told {
		out = append(out, control.Member{ID: m.ID.String(), Name: m.ID.Short(), Addr: m.Addr.String(), Status: m.Status.String(),
			Role: membership.Observer.String(), Incarnation: m.Incarnation, Notes: []string{"others tell of it, not met"}})
	}
	return out
}
