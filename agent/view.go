package agent

import (
	"net/netip"
	"slices"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// view is what the loop knows of members for people's eyes: names to ids. The
// election has its own, in which nothing has a name.
type view struct {
	self   membership.Member
	others []membership.Member // sorted by id; the newest life of each
	roster election.Roster     // as the node had it when it was shown last; zero in available mode
}

func newView(self membership.Member) view { return view{self: self} }

// update takes a member's newest state and says what is new about it, in a
// word, or nothing that a person would ask for.
func (v *view) update(m membership.Member) string {
	i, found := slices.BinarySearchFunc(v.others, m.ID, func(o membership.Member, id wire.ID) int { return o.ID.Compare(id) })
	if !found {
		v.others = slices.Insert(v.others, i, m)
		v.forgetEnded()
		return map[membership.Status]string{membership.Alive: "joined"}[m.Status]
	}
	was := v.others[i]
	if m.Incarnation < was.Incarnation || (m.Nonce != was.Nonce && m.Status != membership.Alive) {
		return "" // the end of a life that another has followed
	}
	v.others[i] = m
	switch {
	case m.Status == membership.Left && was.Status != membership.Left:
		return "left"
	case m.Status == membership.Dead && was.Status == membership.Alive:
		return "failed"
	case m.Status == membership.Alive && was.Status != membership.Alive:
		return "joined"
	case m.Status == membership.Alive && m.Nonce != was.Nonce:
		return "restarted"
	}
	return ""
}

// oddlyConfigured gives the living members whose settings differ from ours in
// what all must agree on.
func (v *view) oddlyConfigured() []membership.Member {
	return slices.DeleteFunc(slices.Clone(v.others), func(m membership.Member) bool {
		return !v.isOdd(m)
	})
}

// isOdd: the member is alive, and its settings differ from ours in what all must agree on.
func (v *view) isOdd(m membership.Member) bool {
	return m.Status == membership.Alive && m.ConfigHash != v.self.ConfigHash
}

// hasOtherJobs: the member is alive and of this cluster, and its jobs are not those of this host.
func (v *view) hasOtherJobs(m membership.Member) bool {
	return m.Status == membership.Alive && m.Jobs != v.self.Jobs && m.ConfigHash == v.self.ConfigHash
}

// oddities are the notes on one member, for those who may not see settings: far is the one whose round trip the lease does not bear.
// The notes of status say each of them at length.
func (v *view) oddities(m membership.Member, far wire.ID) (notes []string) {
	if v.isOdd(m) {
		notes = append(notes, "settings differ")
	}
	if v.hasOtherJobs(m) {
		notes = append(notes, "jobs differ")
	}
	if m.ID == far {
		notes = append(notes, "round trip too long for the lease")
	}
	return notes
}

// maxEnded bounds the members shown after their end.
const maxEnded = 256

// forgetEnded drops a member that has ended, if there are too many.
func (v *view) forgetEnded() {
	isOver := func(m membership.Member) bool { return m.Status != membership.Alive }
	ended := 0
	for _, m := range v.others {
		if isOver(m) {
			ended++
		}
	}
	if ended > maxEnded {
		i := slices.IndexFunc(v.others, isOver)
		v.others = slices.Delete(v.others, i, i+1)
	}
}

// places is where the others are that are alive.
func (v *view) places() (at []netip.Addr) {
	for _, m := range v.others {
		if m.Status == membership.Alive {
			at = append(at, m.Addr.Addr())
		}
	}
	return at
}

// loseAll is for a host that goes on at another address: whoever is there will be met anew. It gives where the others were.
func (v *view) loseAll() (at []netip.AddrPort) {
	for i := range v.others {
		m := &v.others[i]
		if m.Status == membership.Left {
			continue
		}
		at, m.Status = append(at, m.Addr), membership.Dead
	}
	return at
}

// hasCompany: another member is alive.
func (v *view) hasCompany() bool {
	return slices.ContainsFunc(v.others, func(m membership.Member) bool { return m.Status == membership.Alive })
}

// hasPeers: another member is alive and takes part in elections with us.
func (v *view) hasPeers() bool {
	return slices.ContainsFunc(v.others, func(m membership.Member) bool {
		return m.Status == membership.Alive && m.ConfigHash == v.self.ConfigHash
	})
}

// peers are those who are alive and take part in elections with us.
func (v *view) peers() (ids []wire.ID) {
	for _, m := range v.others {
		if m.Status == membership.Alive && m.ConfigHash == v.self.ConfigHash {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

func (v *view) member(id wire.ID) (membership.Member, bool) {
	if id == v.self.ID {
		return v.self, true
	}
	i, found := slices.BinarySearchFunc(v.others, id, func(o membership.Member, id wire.ID) int { return o.ID.Compare(id) })
	if !found {
		return membership.Member{}, false
	}
	return v.others[i], true
}

// name is what the member calls itself, or a part of its id while no
// label is known. Empty for nobody.
func (v *view) name(id wire.ID) string {
	if m, ok := v.member(id); ok {
		return m.Name
	}
	if id.IsZero() {
		return ""
	}
	return id.Short()
}

// label is how a text for people calls the member: its name, and its address with it where another has that name too.
func (v *view) label(id wire.ID) string {
	name := v.name(id)
	m, known := v.member(id)
	if known && slices.ContainsFunc(v.all(), func(o membership.Member) bool { return o.Name == name && o.Addr != m.Addr }) {
		return control.Label(name, m.Addr.String())
	}
	return name
}

// voterName is the label of a voter that was met, else empty.
func (v *view) voterName(id wire.ID) string {
	if _, known := v.member(id); !known {
		return ""
	}
	return v.label(id)
}

// labels are those of several, sorted.
func (v *view) labels(members []membership.Member) []string {
	labels := make([]string, len(members))
	for i, m := range members {
		labels[i] = v.label(m.ID)
	}
	slices.Sort(labels)
	return labels
}

func (v *view) hookNode(id wire.ID) hooks.Node {
	m, ok := v.member(id)
	if !ok {
		return hooks.Node{}
	}
	return hooks.Node{ID: m.ID.String(), Name: m.Name, Addr: m.Addr.String()}
}

func (v *view) controlNode(id wire.ID) control.Node {
	if id.IsZero() {
		return control.Node{}
	}
	n := control.Node{ID: id.String(), Name: v.name(id)}
	if m, ok := v.member(id); ok {
		n.Addr = m.Addr.String()
	}
	return n
}

// all gives this agent and the others, this one first, without those that are replaced.
func (v *view) all() []membership.Member {
	all := []membership.Member{v.self}
	for _, m := range v.others {
		if !v.isReplaced(m) {
			all = append(all, m)
		}
	}
	return all
}

// isReplaced: it has ended, and another is at its address. Such is a host whose state directory was removed: it comes
// back with a new id. One that the roster still counts is shown until somebody forgets it.
func (v *view) isReplaced(m membership.Member) bool {
	if m.Status == membership.Alive || slices.Contains(v.roster.IDs, m.ID) {
		return false
	}
	return m.Addr == v.self.Addr || slices.ContainsFunc(v.others, func(o membership.Member) bool {
		return o.Status == membership.Alive && o.Addr == m.Addr
	})
}

// isOutside: it would vote, and the roster leaves it out: it was forgotten, or not taken in yet.
func (v *view) isOutside(m membership.Member) bool {
	return v.roster.Formed && m.Role != membership.Observer && !slices.Contains(v.roster.IDs, m.ID)
}

func (v *view) hookMembers() []hooks.Member {
	var out []hooks.Member
	for _, m := range v.all() {
		out = append(out, hooks.Member{ID: m.ID.String(), Name: m.Name, Addr: m.Addr.String(), Status: m.Status.String(),
			Priority: int(m.Priority), Voter: m.Role == membership.Voter})
	}
	return out
}

func (v *view) controlMembers(leader wire.ID) []control.Member {
	var out []control.Member
	for i, m := range v.all() {
		role := m.Role
		if v.isOutside(m) {
			role = membership.Observer // whatever its settings say
		}
		out = append(out, control.Member{ID: m.ID.String(), Name: m.Name, Addr: m.Addr.String(), Status: m.Status.String(),
			Role: role.String(), Priority: int(m.Priority), Voter: role == membership.Voter, Outside: v.isOutside(m), Self: i == 0,
			Leader: m.ID == leader, Incarnation: m.Incarnation, RTTMS: float64(m.RTT.Microseconds()) / 1000,
			Draining: m.Draining, Maintenance: maintenanceOf(m)})
	}
	return out
}

// maintenanceOf gives the reason, which may be empty; nil: nobody is at work on it.
func maintenanceOf(m membership.Member) *string {
	if !m.InMaintenance {
		return nil
	}
	return &m.Reason
}

// otherTables names the members whose jobs are not those of this host.
func (v *view) otherTables() []string {
	var others []membership.Member
	for _, m := range v.others {
		if v.hasOtherJobs(m) {
			others = append(others, m)
		}
	}
	return v.labels(others)
}

// electionMember translates what memberlist found into what the election takes.
func electionMember(m membership.Member) election.Member {
	presence := map[membership.Status]election.Presence{
		membership.Alive: election.Alive, membership.Dead: election.Dead, membership.Left: election.Left}[m.Status]
	return election.Member{ID: m.ID, Addr: m.Addr, Incarnation: m.Incarnation, Nonce: m.Nonce, Priority: m.Priority,
		Part: election.Part(m.Role), Draining: m.Draining || m.Leaving, Status: presence, RTT: m.RTT,
		List: uint64(m.List)}
}
