package agent

import (
	"fmt"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// then says what comes next for this host: a line for each thing that it has decided.
func (s *seat) then(status election.Status, out election.Outlook) []string {
	switch {
	case status.State == election.Stopping:
		return s.thenOfTheEnd(status, out)
	case status.State == election.Lead:
		return s.thenOfTheLeader(out)
	case s.election.Part != election.Voter:
		return []string{"it follows the host that leads"}
	case !status.Leader.IsZero():
		return []string{s.thenOfTheFollower(status, out)}
	case status.Bars != 0:
		return []string{"it may lead once nothing of this is in the way"}
	}
	return []string{s.thenOfTheCandidate(status, out)}
}

func (s *seat) thenOfTheEnd(status election.Status, out election.Outlook) []string {
	if out.Successor.IsZero() || status.Lease.IsZero() {
		return []string{"its lose hook runs; when that has ended, others may lead"}
	}
	return []string{"it hands over: " + s.labelOf(out.Successor) + " leads when the lose hook of this host has ended"}
}

func (s *seat) thenOfTheLeader(out election.Outlook) (lines []string) {
	switch {
	case !out.Successor.IsZero():
		lines = append(lines, "it hands over: "+s.labelOf(out.Successor)+" is asked whether it is ready")
	case !out.Challenger.IsZero():
		lines = append(lines, s.versus(out.Challenger, s.state.ID)+": "+s.labelOf(out.Challenger)+" may ask it to hand over")
	}
	switch len(out.Successors) {
	case 0:
		return append(lines, "nobody else here could lead")
	case 1:
		return append(lines, s.labelOf(out.Successors[0])+" is the next in rank")
	}
	return append(lines, s.labelOf(out.Successors[0])+" is the next in rank, and "+s.labelOf(out.Successors[1])+" after that")
}

// takesBack says who takes the lead from the present leader by the policy, and what prevents it; "": nobody.
func (s *seat) takesBack(status election.Status, out election.Outlook) string {
	if out.TakesBack.IsZero() || status.Leader.IsZero() {
		return ""
	}
	cfg, name := s.node.Settings(), s.labelOf(out.TakesBack)
	return fmt.Sprintf("preempt = %q: %s hands over to %s when that has followed it for preempt_delay (%v, and longer while leaderships are lost often). "+
		"To prevent it: bully-agent maintenance on, at %s, or preempt = \"never\" on all hosts",
		cfg.Preempt, s.labelOf(status.Leader), name, cfg.PreemptDelay, name)
}

// versus compares the priorities of two members.
func (s *seat) versus(a, b wire.ID) string {
	x, _ := s.around.seen().member(a)
	y, _ := s.around.seen().member(b)
	switch {
	case x.Priority > y.Priority:
		return fmt.Sprintf("priority %d > %d", x.Priority, y.Priority)
	case x.Priority < y.Priority:
		return fmt.Sprintf("priority %d < %d", x.Priority, y.Priority)
	}
	return fmt.Sprintf("priority %d on both, and the order of ids decides", x.Priority)
}

const equalStays = "at equal priorities the leader stays"

// thenOfTheFollower says what the policy makes of its leader.
func (s *seat) thenOfTheFollower(status election.Status, out election.Outlook) string {
	leader := s.labelOf(status.Leader)
	switch out.Preempt {
	case election.PreemptForbidden:
		return "preempt = never: " + leader + " goes on as long as it can"
	case election.PreemptEqual:
		return equalStays
	case election.PreemptOutranked:
		return leader + " outranks it: " + s.versus(status.Leader, s.state.ID)
	case election.Preempts:
		return s.versus(s.state.ID, status.Leader) + ": asks " + leader + " to hand over " + s.when(status, out)
	}
	return "it follows " + leader
}

// when says when a follower asks for its turn, and what makes it wait for longer.
func (s *seat) when(status election.Status, out election.Outlook) string {
	text := inWords(out.Delay) + " after nothing of this is in the way"
	if status.Bars == 0 && !out.AskAt.IsZero() {
		text = "in " + inWords(out.AskAt.Sub(s.around.now()))
	}
	if out.Lost > 0 {
		text += fmt.Sprintf("; %d %s lost in the last ten minutes made that longer", out.Lost, plural(out.Lost, "leadership", "leaderships"))
	}
	return text
}

// thenOfTheCandidate says what a host that stands does next.
func (s *seat) thenOfTheCandidate(status election.Status, out election.Outlook) string {
	due := inWords(out.Due.Sub(s.around.now()))
	switch {
	case status.State == election.Start:
		return whyListening + ", which is " + due + " away"
	case status.State == election.Stagger && out.Rank > 0:
		return fmt.Sprintf("it starts an election in %s, after %d that %s it", due, out.Rank, plural(out.Rank, "outranks", "outrank"))
	case status.State == election.Stagger:
		return "it starts an election in " + due
	case status.State == election.Wait:
		return s.labelOf(out.Helper) + " is better and has answered: it is waited for, " + due + " at most"
	case status.State == election.Claiming:
		return fmt.Sprintf("it has claimed epoch %d and waits for acknowledgements", status.Epoch.Counter)
	case status.State == election.Suspect:
		return "its leader is silent: it asks the others whether they hear it"
	}
	return "it asks the others"
}

// thenOf says what comes next for another member.
func (s *seat) thenOf(id wire.ID, status election.Status) []string {
	c, known := s.node.Candidate(id)
	m, _ := s.around.seen().member(id)
	name := s.labelOf(id)
	switch {
	case !known || c.Unfit == election.UnfitLeft || c.Unfit == election.UnfitPart || c.Unfit == election.UnfitRoster:
		return nil
	case c.Unfit == election.UnfitDraining && m.InMaintenance:
		return []string{"bully-agent maintenance off on " + name + " ends that"}
	case c.Unfit == election.UnfitDraining:
		return []string{"why, " + name + " knows: bully-agent explain there"}
	case c.Unfit != election.Fit || status.Leader == id:
		return nil
	}
	switch c.Preempt {
	case election.Preempts:
		return []string{s.versus(id, status.Leader) + ": it may ask " + s.labelOf(status.Leader) + " to hand over; when, " + name + " knows"}
	case election.PreemptForbidden:
		return []string{"preempt = never: " + s.labelOf(status.Leader) + " goes on as long as it can"}
	case election.PreemptEqual:
		return []string{equalStays}
	case election.PreemptOutranked:
		return []string{s.labelOf(status.Leader) + " outranks it: " + s.versus(status.Leader, id)}
	}
	return nil
}
