package agent

import (
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// onTransition makes a change of state known: to people only when they would
// call it one.
func (s *seat) onTransition(e election.Transition) {
	if e.To == election.Lead {
		s.hookReady = false
		s.redo = redo{} // a new leadership has other hooks to run
		s.heldFor = hooks.Result{}
	}
	s.around.tellLeader(recordOf(e))
	s.publish()
	said := s.said
	if said.Role == e.Role && said.Leader == e.Leader && said.Epoch == e.Epoch && e.To != election.Stopping {
		s.log.Debug("state changed", "from", e.From, "to", e.To, "epoch", e.Epoch.Counter, "cause", e.Cause)
		return
	}
	s.said = e
	s.logTransition(e)
	s.around.count(control.TransitionCounter+string(e.Cause), 1)
	if said.Leader != e.Leader || (!e.Leader.IsZero() && said.Epoch != e.Epoch) {
		s.previous = said.Leader
		s.history.record(s.leadership(e), string(endCause(said, e)), s.endOfLast(said))
		s.notify(hooks.LeaderChange, string(e.Cause))
	}
}

// endCause is why the leadership that was told last has ended. One of this host's own has
// by what made it step down: that it resigned then goes without saying.
func endCause(said, now election.Transition) election.Cause {
	if said.To == election.Stopping {
		return said.Cause
	}
	return now.Cause
}

// endOfLast is when the leadership that was told last had ended. A leader that
// wakes after its lease was none while it slept.
func (s *seat) endOfLast(said election.Transition) time.Time {
	over := time.Duration(0)
	if said.Leader == s.state.ID && !s.leasedTo.IsZero() {
		over = max(s.around.now().Sub(s.leasedTo), 0)
	}
	return wallClock().Add(-over)
}

// recordOf is the leader record that gossip carries: only an epoch whose leader
// is known.
func recordOf(e election.Transition) wire.Epoch {
	if e.Leader.IsZero() {
		return wire.Epoch{}
	}
	return e.Epoch
}

func (s *seat) logTransition(e election.Transition) {
	leader, text := s.around.seen().name(e.Leader), describe(e)
	s.log.Info(text, "role", s.roleWord(e.Role), "leader", leader, "epoch", e.Epoch.Counter, "cause", e.Cause)
	s.around.event(control.Event{Type: "transition", Role: s.roleWord(e.Role), Cause: string(e.Cause), Leader: leader,
		Epoch: &control.Epoch{Counter: e.Epoch.Counter, Owner: ownerText(e.Epoch)}, Text: text})
}

// describe says a transition as a fact in the past.
func describe(e election.Transition) string {
	switch {
	case e.To == election.Lead:
		return "became leader"
	case e.To == election.Stopping:
		return "began to step down"
	case e.From == election.Stopping:
		return "stepped down"
	case e.To == election.Claiming:
		return "claimed an epoch"
	case !e.Leader.IsZero():
		return "followed a leader"
	case e.To == election.Observe:
		return "ceased to be a candidate"
	case e.From == election.Start:
		return "found no leader"
	}
	return "lost the leader"
}

// onReached: a member follows this leadership only now, and may have followed or been another leader. So the neighbours
// where it is are told anew, by the keeper and by what a become-leader hook has left, which reads of it.
func (s *seat) onReached(id wire.ID) {
	s.runner.Reached()
	name := s.around.seen().name(id)
	s.log.Info("member follows this leadership now", "member", name)
	s.around.event(control.Event{Type: "member", Member: name, Cause: "reached", Text: name + " follows this leadership now"})
}

// roleWord is what people and hooks are told: an observer that votes is a
// witness, as its configuration says, and a voter that does not stand for a while,
// being cut off or held down, is a follower that knows no leader.
func (s *seat) roleWord(r election.Role) string {
	status := s.node.Status()
	switch {
	case r != election.RoleObserver:
	case s.election.Part == election.Witness:
		return membership.Witness.String()
	case s.election.Part == election.Voter && !status.Outside && !s.tally.isForgotten(status.Roster):
		return election.RoleFollower.String()
	}
	return r.String()
}

// leadership is the history's entry for the leader of e.
func (s *seat) leadership(e election.Transition) control.Leadership {
	return control.Leadership{Epoch: control.Epoch{Counter: e.Epoch.Counter, Owner: ownerText(e.Epoch)},
		Leader: s.around.seen().controlNode(e.Leader), From: wallClock(), Began: string(e.Cause), Self: e.Leader == s.state.ID}
}
