package agent

import (
	"fmt"
	"slices"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
)

// okToStop says whether somebody leads afterwards, in quorum mode with a majority of the
// voters, and who that is.
func (s *seat) okToStop() control.OKToStop {
	status, known := s.node.Status(), s.around.seen()
	next := status.Leader
	if status.State == election.Lead {
		next = s.node.Successor()
	}
	stay, of := s.tally.stayingWithout(status)
	answer := control.OKToStop{Stay: stay, Of: of, Need: max(s.tally.votersNeeded(status), s.election.MinMembers)}
	if !next.IsZero() {
		node := known.controlNode(next)
		answer.Leader = &node
	}
	who, verb := "voters", "leads"
	if s.election.Expect == 0 {
		who = "hosts"
	}
	if status.State == election.Lead {
		verb = "would lead"
	}
	switch {
	case status.State == election.Stopping:
		answer.Text = "no: this host is handing over"
	case status.Leader.IsZero():
		answer.Text = "no: no leader is known"
	case next.IsZero():
		answer.Text = "no: nobody else can lead"
	case stay < answer.Need:
		answer.Text = fmt.Sprintf("no: %d of %d %s would be left", stay, of, who)
	default:
		answer.OK = true
		answer.Text = fmt.Sprintf("ok: %s %s, %d of %d %s stay", known.label(next), verb, stay, of, who)
	}
	return answer
}

// stayingWithout counts who is left without this host: voters of the roster that answer, or
// where there is none the hosts that are alive, of all that are known and have not left.
func (t *tally) stayingWithout(status election.Status) (stay, of int) {
	if t.settings.Expect > 0 {
		stay = t.votersHere(status)
		if t.isRosters(status) {
			stay--
		}
		if of = t.settings.Expect; status.Roster.Formed {
			of = len(status.Roster.IDs)
		}
		return stay, of
	}
	for _, m := range t.known.seen().others {
		switch {
		case m.Status.String() == "left":
		case t.known.isHere(m.ID):
			stay, of = stay+1, of+1
		default:
			of++
		}
	}
	return stay, of + 1
}

// isRosters: this host is in the roster, and so among those that votersHere counts.
func (t *tally) isRosters(status election.Status) bool {
	return slices.Contains(status.Roster.IDs, t.self)
}
