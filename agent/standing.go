package agent

import (
	"cmp"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
)

// standing is what a seat shows of itself. It is never changed after it was shown.
type standing struct {
	status   election.Status
	role     string
	leader   control.Node
	ready    bool
	degraded bool
	lastHook *control.Hook
	owes     bool // a leadership that has ended has not been ended by its lose hook
	notes    []string
	roster   *control.Roster
	quorum   *control.Quorum
	why      string // there is no leader

	maintenance *control.Maintenance // nil: nobody is at work on this host
}

// publish shows the seat's state to the other goroutines.
func (s *seat) publish() {
	status := s.shownStatus()
	st := &standing{status: status, role: s.roleWord(status.Role), leader: s.around.seen().controlNode(status.Leader),
		degraded: s.degraded(status) || s.isStranded(status), lastHook: s.lastHook, notes: s.notes(status), roster: s.tally.controlRoster(status),
		quorum: s.tally.controlQuorum(status), why: s.tally.whyNoLeader(status),
		maintenance: s.state.maintenance.controlMaintenance(status)}
	st.ready = !status.Leader.IsZero() && (status.Leader != s.state.ID || s.hookReady)
	st.owes = s.redo.kind == hooks.LoseLeadership || s.beside && !s.owed().IsZero()
	s.shown = st
	s.around.show(st)
	s.holders.show(status, s.hookReady)
}

// shownStatus is the node's, with the operator's hold-down and not the seat's own.
func (s *seat) shownStatus() election.Status {
	status := s.node.Status()
	if s.isHeldBack {
		status.Held = s.heldUntil
	}
	return status
}

// notes says in plain words what a person should know.
func (s *seat) notes(status election.Status) []string {
	notes := []string{}
	if status.Isolated && s.election.Expect == 0 { // quorumNotes say how many answer
		notes = append(notes, "no other member answers: this host may be cut off")
	}
	if !s.diskAt.IsZero() {
		notes = append(notes, s.diskNote())
	}
	notes = append(notes, s.hookNotes(status)...)
	notes = append(notes, s.maintenanceNotes(status)...)
	if s.isStranded(status) {
		notes = append(notes, "degraded: this host should not lead now, and nobody else can: it goes on leading")
	}
	notes = append(notes, s.tally.quorumNotes(status)...)
	notes = append(notes, s.jobNotes()...)
	if why, ok := s.whyHeld(status); ok {
		notes = append(notes, why)
	}
	return append(notes, s.holdNotes(status.Held.Sub(s.around.now()))...)
}

// report completes a status with what was shown, on any goroutine. It looks at the clock
// before it says "leader", since callers act on the answer (R13).
func (s *seat) report(out *control.Status, st *standing) {
	now, until := s.around.now(), s.until.Load()
	leads := st.status.State == election.Lead && until > now.UnixNano()
	out.Role, out.State, out.Cause = st.role, st.status.State.String(), string(st.status.Cause)
	out.LeaderIsSelf, out.Ready, out.Degraded = leads, st.ready, st.degraded && leads
	out.Epoch = control.Epoch{Counter: st.status.Epoch.Counter, Owner: ownerText(st.status.Epoch)}
	out.Since, out.Mode, out.Promise, out.Expect = st.status.Since, s.tally.mode(), s.tally.promise(), s.election.Expect
	out.Roster, out.Quorum, out.WhyNoLeader = st.roster, st.quorum, st.why
	out.Algorithm = cmp.Or(s.election.Algorithm, election.Classic).String()
	out.Preempt, out.Isolated = s.election.Preempt.String(), st.status.Isolated
	out.Maintenance, out.Bars = st.maintenance, barWords(st.status.Bars)
	out.HoldDownMS = max(st.status.Held.Sub(now), 0).Milliseconds()
	out.LastHook = st.lastHook
	if st.status.Leader == s.state.ID && !leads {
		out.Ready = false
	} else if !st.status.Leader.IsZero() {
		out.Leader = &st.leader
	}
	if leads {
		remain := time.Duration(until - now.UnixNano()).Milliseconds()
		out.LeaseRemainMS = &remain
	}
}

// pulse is the seat's part of a Pulse.
func (st *standing) pulse() Pulse {
	return Pulse{Role: st.role, Leads: st.status.State == election.Lead, LetsGo: st.status.State == election.Stopping,
		Leader: st.leader.Name, Epoch: st.status.Epoch.Counter}
}

// isStranded: a bar would have this host hand over, and nobody takes over.
func (s *seat) isStranded(status election.Status) bool {
	return status.State == election.Lead && (status.Bars.Has(election.BarCheck) || isMaintained(status))
}

// barWords names what keeps this host from standing for election.
func barWords(bars election.Bars) []string {
	if bars == 0 {
		return []string{}
	}
	return strings.Split(bars.String(), ",")
}
