package hooks

const (
	// maxMembers is how many of an event's members a command is told of. Arbitrary: far
	// above what a LAN has.
	maxMembers = 1 << 16

	// maxTries bounds BULLY_ATTEMPT, and maxQuorum the JSON object's quorum. Arbitrary.
	maxTries  = 1 << 20
	maxQuorum = 1 << 10
)

// Sane is the event as whoever runs its hook believes it: a text that could not stand in an
// environment variable is empty, in the JSON object too, and numbers are in their ranges. A
// kind that is none of ours stays, and runs nothing.
func (ev Event) Sane() Event {
	ev.Cause, ev.Cluster, ev.Mode, ev.Role = Safe(ev.Cause), Safe(ev.Cluster), Safe(ev.Mode), Safe(ev.Role)
	ev.Epoch.Owner = Safe(ev.Epoch.Owner)
	ev.Self, ev.Leader, ev.PrevLeader = ev.Self.sane(), ev.Leader.sane(), ev.PrevLeader.sane()
	ev.Attempt, ev.Quorum = between(ev.Attempt, maxTries), between(ev.Quorum, maxQuorum)
	members := make([]Member, 0, min(len(ev.Members), maxMembers))
	for _, m := range ev.Members[:min(len(ev.Members), maxMembers)] {
		m.ID, m.Name, m.Addr, m.Status = Safe(m.ID), Safe(m.Name), Safe(m.Addr), Safe(m.Status)
		m.Priority = between(m.Priority, 1<<16-1)
		members = append(members, m)
	}
	ev.Members, ev.Ended = members, nil
	return ev
}

func (n Node) sane() Node { return Node{ID: Safe(n.ID), Name: Safe(n.Name), Addr: Safe(n.Addr)} }

func between(n, most int) int { return min(max(n, 0), most) }

// IsWord reports whether a text may stand in an environment variable of a command, and in a
// line of a record: it is not empty, and holds letters, digits and some marks.
func IsWord(s string) bool { return s != "" && Safe(s) == s }
