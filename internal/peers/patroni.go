package peers

import "github.com/bully-agent/bully-agent/hooks"

// Patroni is what a callback of Patroni is called with: the action, the role and the scope, after its own arguments.
type Patroni struct {
	Scope   string // "": the cluster's name
	Primary string // word for the role of the leader: "primary", or "master" before Patroni 4
}

// Call gives the arguments. The error says that Patroni has no call for the event.
func (p Patroni) Call(t Told) (Call, error) {
	if !t.ofLeadership() {
		return Call{}, t.refuse("Patroni")
	}
	if p.Scope == "" {
		p.Scope = t.Cluster
	}
	action, role := p.action(t)
	return Call{Args: []string{action, role, p.Scope}}, nil
}

// action is on_role_change, but where this host starts, and where its leader stops: what Patroni stops is what it was.
func (p Patroni) action(t Told) (action, role string) {
	switch {
	case t.Kind == hooks.BecomeLeader:
		return "on_role_change", p.Primary
	case t.Cause == CauseStopped:
		return "on_stop", p.Primary
	case t.Cause == hooks.CauseStarted, t.Cause == CauseUncleanRestart:
		return "on_start", "replica"
	}
	return "on_role_change", "replica"
}
