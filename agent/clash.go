package agent

import (
	"cmp"
	"fmt"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
)

// Two agents with one id have one private key: one's state directory is a copy of the other's, as of a cloned machine or a
// restored backup. Both believe that an epoch is theirs, so one of them ends (protocol 2.1). Others' word is not enough for that:
// the other has shown its card in a session of its own, and by that alone it is judged.

// causeSameID is the cause of events about them.
const causeSameID = "same-id"

// staysBeside: of two lives of one id the one stays that was there before, as both see: the one that is settled, else the earlier
// one.
func staysBeside(self, other membership.Member) bool {
	if self.Settled != other.Settled {
		return self.Settled
	}
	return cmp.Or(cmp.Compare(self.Incarnation, other.Incarnation), cmp.Compare(self.Nonce, other.Nonce)) < 0
}

// onCopy names the other agent with this one's id, and ends this one if that one stays. Both are told again when a card changes: one
// of the two may have become settled.
func (a *agent) onCopy(other membership.Member) {
	const message = "another agent has the same id: one state directory was copied from the other"
	text := fmt.Sprintf("life %d of this host's id is at %v, and this is life %d", other.Incarnation, other.Addr, a.view.self.Incarnation)
	isRare := a.isRare("clash", other.Addr) // a service manager starts the copy again every few seconds
	if isRare {
		a.event(control.Event{Type: "warning", Cause: causeSameID, Text: text})
	}
	switch {
	case !staysBeside(a.view.self, other):
		if a.fatal != nil {
			return
		}
		a.log.Error(message+"; this one ends", "addr", other.Addr)
		a.endFor(&Refusal{Err: fmt.Errorf("%w: %v", ErrSameID, other.Addr), Hint: "on the copy: bully-agent id new, which makes it a new host"})
	case isRare:
		a.log.Error(message+"; this one goes on, the other must not", "addr", other.Addr)
	}
}
