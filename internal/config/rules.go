package config

import "net/netip"

// checkRules checks what holds between settings. Each error stands at a setting that somebody wrote: defaults agree
// with each other (a test says so), so at least one of the two was.
func (l *loader) checkRules() {
	e := l.config.Election
	l.rule(e.Lease >= 4*e.Heartbeat, "election.lease", "election.heartbeat", // protocol 2.5
		wrong("lease %s is shorter than 4 heartbeats of %s: expected a lease of at least %s",
			shortDuration(e.Lease), shortDuration(e.Heartbeat), shortDuration(4*e.Heartbeat)).
			hint("raise lease or lower heartbeat"))
	l.rule(e.Lease > 2*e.StopBudget, "election.stop_budget", "election.lease", // protocol 2.5
		wrong("stop_budget %s is not less than half of lease %s: expected less than %s",
			shortDuration(e.StopBudget), shortDuration(e.Lease), shortDuration(e.Lease/2)).
			hint("lower stop_budget or raise lease"))
	// Acknowledgements must go on after one heartbeat was lost (protocol 2.5). Defaults keep to it.
	l.rule(e.Lease-e.StopBudget >= 3*e.Heartbeat || e.Lease <= 2*e.StopBudget || e.Lease < 4*e.Heartbeat, "election.stop_budget", "election.heartbeat",
		wrong("stop_budget %s leaves less than 3 heartbeats of %s of the lease of %s, so that one lost packet would depose a leader: expected at most %s",
			shortDuration(e.StopBudget), shortDuration(e.Heartbeat), shortDuration(e.Lease), shortDuration(e.Lease-3*e.Heartbeat)).
			hint("lower stop_budget or raise lease"))
	// A live leader must be heard before an election is thought of; two, since one heartbeat may be lost.
	l.rule(e.Settle >= 2*e.Heartbeat, "election.settle", "election.heartbeat",
		wrong("settle %s is shorter than 2 heartbeats of %s: expected at least %s, to hear a leader that is there",
			shortDuration(e.Settle), shortDuration(e.Heartbeat), shortDuration(2*e.Heartbeat)).
			hint("raise settle or lower heartbeat"))
	l.rule(e.Algorithm != "smallest" || l.config.Node.Priority >= e.KnownMinimum, "election.known_minimum", "node.priority",
		wrong("priority %d is lower than known_minimum %d, which is the lowest that exists", l.config.Node.Priority, e.KnownMinimum).
			hint("lower known_minimum or raise priority"))
	l.rule(e.Expect == 0 || e.MinMembers <= e.Expect, "election.min_members", "election.expect",
		wrong("min_members %d is more than the %d voters that expect names, so nobody could ever lead: expected at most %d",
			e.MinMembers, e.Expect, e.Expect).hint("lower min_members; in quorum mode a majority is needed anyway"))
	l.rule(l.config.Hooks.AtStart != "lose" || !l.config.Hooks.OnLoseLeadership.IsZero(), "hooks.at_start", "hooks.on_lose_leadership",
		wrong("there is no on_lose_leadership to run at a start").hint("set it, or leave at_start out"))
	l.checkPenalties()
	l.checkFamilies()
	l.checkHTTP()
	l.noteElection()
}

// checkFamilies refuses an address that could not arrive at the socket.
func (l *loader) checkFamilies() {
	n := l.config.Network
	bind, advertise := n.Bind.Addr(), n.Advertise.Addr()
	// A socket on [::] takes both families.
	fits := bind.Is4() == advertise.Is4() || bind == netip.IPv6Unspecified()
	err := wrong("%s cannot be reached: network.bind %s takes another address family", advertise, n.Bind)
	if bind.Is4() && bind.IsUnspecified() {
		err.hint("bind to [::]:%d, which takes both", n.Bind.Port())
	}
	l.rule(fits, "network.advertise", "network.bind", err)
}

// rule reports err at the first of two settings that was set, unless either failed already.
func (l *loader) rule(holds bool, key, other string, err *Error) {
	if holds || l.failed[key] || l.failed[other] {
		return
	}
	if !l.isSet(key) && l.isSet(other) {
		key = other
	}
	l.report(err.at(l.config.places[key], key))
}
