package peers

import (
	"errors"
	"slices"
	"strconv"

	"github.com/bully-agent/bully-agent/hooks"
)

// Keepalived is what a notify script of keepalived is called with (keepalived.conf(5), notify): the kind, the name, the
// new state and the priority, after its own arguments. Its standard input is empty.
type Keepalived struct {
	Kind     string // INSTANCE or GROUP
	Name     string // of the vrrp_instance or vrrp_sync_group
	Priority string // "": this host's, by the standard input
}

// Call gives the arguments. The error says that keepalived has no call for the event, or that the priority is not known.
func (k Keepalived) Call(t Told) (Call, error) {
	if !t.ofLeadership() {
		return Call{}, t.refuse("keepalived")
	}
	if k.Priority == "" {
		p, err := t.look()
		if err == nil && p.Self.Priority == nil {
			err = errors.New("standard input does not say this host's priority")
		}
		if err != nil {
			return Call{}, err
		}
		k.Priority = strconv.Itoa(*p.Self.Priority)
	}
	return Call{Args: []string{k.Kind, k.Name, State(t), k.Priority}}, nil
}

// State is keepalived's word for what the event comes to. STOP is an agent's that stops while it leads, FAULT one's that is
// not fit to lead, all else BACKUP.
func State(t Told) string {
	switch {
	case t.Kind == hooks.BecomeLeader:
		return "MASTER"
	case t.Cause == CauseStopped:
		return "STOP"
	case slices.Contains(Faults(), t.Cause):
		return "FAULT"
	}
	return "BACKUP"
}
