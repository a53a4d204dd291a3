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
	Heirs      []wire.ID // to whom it could hand over, the best first
	Challenger wire.ID   // the best that may preempt it; zero: nobody

	Lost    int // leaderships lost in the last ten minutes: each doubles Delay
	Present int // how many are there that may lead, barred or not, oneself included
}

// Outlook gives the node's outlook as of its last Step.
func (n *Node) Outlook() Outlook {
	o := Outlook{Due: n.timers[stateTimer], Rank: n.rank(), Delay: n.preemptDelay(), Lost: len(n.flaps.lost), Present: n.presentCount()}
	switch leader := n.peer(n.epoch.Owner); {
	case n.state == Lead || n.state == Stopping:
		n.describeReign(&o)
	case n.leaderKnown && leader != nil:
		o.Preempt = n.cfg.preemption(n.cfg.Priority, n.cfg.ID, leader.Priority, leader.ID)
		o.AskAt = n.timers[preemptTimer]
	default:
		o.Hurdle, o.Until = n.hurdle()
		o.Isolated, o.Helper = n.contest.isolated, n.contest.helper
	}
	return o
}

func (n *Node) describeReign(o *Outlook) {
	if o.Successor = n.reign.transfer.to; n.state == Stopping {
		o.Successor = n.reign.ending.successor
	}
	for p := range n.successors() {
		o.Heirs = append(o.Heirs, p.ID)
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
	c := Candidate{Unfit: n.unfit(p), GivenUp: p.givenUpAt}
	switch leader := n.peer(n.epoch.Owner); {
	case n.state == Lead || n.state == Stopping:
		c.Preempt = n.cfg.preemption(p.Priority, p.ID, n.cfg.Priority, n.cfg.ID)
	case n.leaderKnown && leader != nil && leader != p:
		c.Preempt = n.cfg.preemption(p.Priority, p.ID, leader.Priority, leader.ID)
	}
	return c, true
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
	}{{"helper", o.Helper}, {"successor", o.Successor}, {"challenger", o.Challenger}} {
		if !who.id.IsZero() {
			text += fmt.Sprintf(" %s=%s", who.word, who.id.Short())
		}
	}
	for _, heir := range o.Heirs {
		text += " heir=" + heir.Short()
	}
	if o.Lost > 0 {
		text += fmt.Sprintf(" lost=%d", o.Lost)
	}
	return text
}

// Settings gives the node's own, with defaults filled in and as commands have changed them.
func (n *Node) Settings() Config { return n.cfg }
