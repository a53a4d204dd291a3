package election

import (
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Outlook is what a node's next decisions rest on, beside its Bars: for people who ask
// why it leads or not, and what comes next. Each of its fields is what the deciding code
// returns or keeps; nothing is worked out anew.
type Outlook struct {
	// Of a node that knows no leader.
	Hurdle   Hurdle    // the first before a claim; NoHurdle with any leader
	Until    time.Time // it ends then by itself; zero: time alone does not end it
	Isolated bool      // when it looked for others last, too few answered
	Due      time.Time // the present state's patience ends; zero: it waits for others
	Rank     int       // how many outrank it here
	Helper   wire.ID   // the better one that it waits for; zero: none

	// Of a node that follows: its policy towards its leader, whether or not it is barred.
	Preempt Preemption
	AskAt   time.Time     // it asks the leader to hand over then; zero: it does not
	Delay   time.Duration // it would wait so long first

	// Of a leader.
	Successor  wire.ID   // a hand-over to it is under way; zero: none
	Successors []wire.ID // to whom it could hand over, the best first
	Challenger wire.ID   // the best that may preempt it; zero: nobody

	// Of whoever knows a leader: the best, perhaps this one, to which that gives way by the policy after Delay; zero: nobody.
	TakesBack wire.ID

	Lost    int // leaderships lost in the last ten minutes: each doubles Delay
	Present int // how many are there that may lead, barred or not, oneself included
}

// Outlook gives the node's outlook as of its last Step.
func (n *Node) Outlook() Outlook {
	o := Outlook{Due: n.timers[stateTimer], Rank: n.rank(), Delay: n.preemptDelay(), Lost: len(n.flaps.lost), Present: n.presentCount()}
	o.TakesBack = n.takesBack()
	switch leader := n.peer(n.epoch.Owner); {
	case n.state == Lead || n.state == Stopping:
		n.describeReign(&o)
	case n.leaderKnown && leader != nil:
		o.Preempt, o.AskAt = n.policyOn(n.cfg.Priority, n.cfg.ID), n.timers[preemptTimer]
	default:
		o.Hurdle, o.Until = n.hurdle()
		o.Isolated, o.Helper = n.contest.isolated, n.contest.helper
	}
	return o
}

// policyOn is what the policy says of a member under the present leader, to which it says nothing.
func (n *Node) policyOn(priority uint16, id wire.ID) Preemption {
	switch leader := n.peer(n.epoch.Owner); {
	case n.state == Lead || n.state == Stopping:
		return n.cfg.preemption(priority, id, n.cfg.Priority, n.cfg.ID)
	case n.leaderKnown && leader != nil && leader.ID != id:
		return n.cfg.preemption(priority, id, leader.Priority, leader.ID)
	}
	return NoPreemption
}

// takesBack gives the best to which the present leader gives way by the policy; zero: nobody.
func (n *Node) takesBack() (id wire.ID) {
	takes := n.isElectable() && n.policyOn(n.cfg.Priority, n.cfg.ID) == Preempts
	if takes {
		id = n.cfg.ID
	}
	for _, p := range n.living() {
		if n.policyOn(p.Priority, p.ID) == Preempts && (!takes || n.isOutrankedBy(p)) {
			return p.ID
		}
	}
	return id
}

func (n *Node) describeReign(o *Outlook) {
	if o.Successor = n.reign.transfer.to; n.state == Stopping {
		o.Successor = n.reign.ending.successor
	}
	for p := range n.successors() {
		o.Successors = append(o.Successors, p.ID)
	}
	for _, p := range n.living() {
		if n.mayPreempt(p) {
			o.Challenger = p.ID
			return
		}
	}
}

// Candidate is what a node knows of another member that might lead.
type Candidate struct {
	Unfit   Unfit
	Preempt Preemption // what the policy says of it under the present leader
	GivenUp time.Time  // it led and fell silent, or its life has left its will; zero: it did not, or was heard since
}

// Candidate judges another member; false: there is none with this id.
func (n *Node) Candidate(id wire.ID) (Candidate, bool) {
	p := n.peer(id)
	if p == nil || id == n.cfg.ID {
		return Candidate{}, false
	}
	return Candidate{Unfit: n.unfit(p), Preempt: n.policyOn(p.Priority, p.ID), GivenUp: p.givenUpAt}, true
}

// String gives the outlook on one line, times left out.
func (o Outlook) String() string {
	text := fmt.Sprintf("rank=%d present=%d", o.Rank, o.Present)
	if o.Hurdle != NoHurdle {
		text += " hurdle=" + o.Hurdle.String()
	}
	if o.Preempt != NoPreemption {
		text += " preempt=" + o.Preempt.String()
	}
	if o.Isolated {
		text += " isolated"
	}
	if !o.AskAt.IsZero() {
		text += " asks"
	}
	for _, who := range []struct {
		word string
		id   wire.ID
	}{{"helper", o.Helper}, {"successor", o.Successor}, {"challenger", o.Challenger}, {"takes-back", o.TakesBack}} {
		if !who.id.IsZero() {
			text += fmt.Sprintf(" %s=%s", who.word, who.id.Short())
		}
	}
	for i, id := range o.Successors {
		text += map[bool]string{true: " successors=", false: ","}[i == 0] + id.Short()
	}
	if o.Lost > 0 {
		text += fmt.Sprintf(" lost=%d", o.Lost)
	}
	return text
}

// Settings gives the node's own, with defaults filled in and as commands have changed them.
func (n *Node) Settings() Config { return n.cfg }
