package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/membership"
)

// The modes, and what each promises.
const (
	modeAvailable    = "available"
	modeQuorum       = "quorum"
	promiseAvailable = "one leader in every connected part of the network; two parts that cannot reach each other have one each"
	promiseQuorum    = "at most one leader at any instant; a minority has none"
)

// mode is the word for hooks and status.
func (a *agent) mode() string {
	if a.cfg.Election.Expect > 0 {
		return modeQuorum
	}
	return modeAvailable
}

func (a *agent) promise() string {
	if a.cfg.Election.Expect > 0 {
		return promiseQuorum
	}
	return promiseAvailable
}

// whyNoLeader says in one sentence what stands between this agent and a leader.
func (a *agent) whyNoLeader(s election.Status) string {
	switch {
	case !s.Leader.IsZero():
		return ""
	case s.State == election.Stopping || s.Cause == election.Stopped:
		return "this host hands over"
	case a.cfg.Election.Expect > 0:
		if why := a.whyNoQuorum(s); why != "" {
			return why
		}
	case s.Isolated:
		return "no other member answers: this host claims nothing until one does or all are declared dead"
	case s.Cause == election.TooFewMembers:
		return "fewer members than min_members can be elected"
	}
	switch {
	case s.State == election.Start:
		return "listening for a leader before a first election"
	case onlyWatches(s):
		return "this host does not stand, and hears nobody who leads"
	}
	return "an election is under way"
}

// whyNoQuorum is whyNoLeader for what only quorum mode waits for; empty if it
// waits for nothing of that kind.
func (a *agent) whyNoQuorum(s election.Status) string {
	expect, seen := a.cfg.Election.Expect, a.view.electorate()
	switch {
	case s.Outside:
		return "this host is outside the roster and hears no leader"
	case a.isForgotten(s.Roster):
		return "this host was forgotten and hears no leader"
	case s.Roster.Version == 0 && len(seen) > expect:
		return fmt.Sprintf("%s: nobody leads before %d voters have agreed on a roster", crowd(seen, expect), expect)
	case s.Roster.Version == 0 && len(seen) < expect:
		return fmt.Sprintf("waiting for %d voters, %d seen: %s", expect, len(seen), namesOf(seen))
	case s.Roster.Version == 0:
		return fmt.Sprintf("all %d voters are here and agree on the roster now", expect)
	case a.votersHere(s) < s.Quorum:
		return a.minority(s)
	case !s.Roster.Formed:
		return fmt.Sprintf("the roster holds once all %d voters have answered", len(s.Roster.IDs))
	case s.Cause == election.Promised:
		return "voters are still bound by their promise to the last leader, which ends within a lease"
	}
	return ""
}

// minority is the state of a part of the network that quorum mode keeps from
// leading.
func (a *agent) minority(s election.Status) string {
	return fmt.Sprintf("only %d of %d voters answer: no leader here until %d do", a.votersHere(s), len(s.Roster.IDs), s.Quorum)
}

// crowd says that more are there than were expected.
func crowd(seen []membership.Member, expect int) string {
	return fmt.Sprintf("%d voters are present (%s) but expect = %d", len(seen), namesOf(seen), expect)
}

// quorumNotes are the warnings of quorum mode.
func (a *agent) quorumNotes(s election.Status) []string {
	expect := a.cfg.Election.Expect
	if expect == 0 {
		return nil
	}
	seen := a.view.electorate()
	outside := slices.DeleteFunc(slices.Clone(seen), func(m membership.Member) bool { return slices.Contains(s.Roster.IDs, m.ID) })
	var notes []string
	switch {
	case s.Roster.Version > 0 && a.votersHere(s) < s.Quorum:
		notes = append(notes, a.minority(s))
	case s.Roster.Version == 0 && s.Leader.IsZero() && !s.Outside && len(seen) != expect:
		notes = append(notes, a.whyNoQuorum(s))
	}
	switch {
	case s.Outside && len(seen) > expect:
		notes = append(notes, fmt.Sprintf("%d voters are present but expect = %d: this host is outside the roster and only observes", len(seen), expect))
	case s.Outside:
		notes = append(notes, "this host is outside the roster and only observes until the leader admits it")
	case a.isForgotten(s.Roster):
		notes = append(notes, a.forgottenBy(s.Roster))
	case s.Roster.Formed && len(seen) > expect && len(outside) > 0:
		notes = append(notes, fmt.Sprintf("%d voters are present but expect = %d: %s outside the roster and only %s",
			len(seen), expect, hostsAre(outside), plural(len(outside), "observes", "observe")))
	}
	return notes
}

// isForgotten: the roster on this host's disk leaves it out. One that was never in a
// roster has none there.
func (a *agent) isForgotten(r election.Roster) bool {
	return a.cfg.Election.Part != election.Observer && r.Formed && !slices.Contains(r.IDs, a.state.ID)
}

// forgottenBy says what became of this host, and what lets it vote again.
func (a *agent) forgottenBy(r election.Roster) string {
	return fmt.Sprintf("this host was forgotten: roster %d leaves it out, and it only observes; to let it vote again, stop the agent, "+
		"empty %s, and start it: it takes a free place as a new voter", r.Version, a.state.dir)
}

// tellForgotten says it once, when it has come to this host's disk.
func (a *agent) tellForgotten(was, is election.Roster) {
	if a.isForgotten(was) || !a.isForgotten(is) {
		return
	}
	text := a.forgottenBy(is)
	a.log.Warn(text)
	a.event(control.Event{Type: "warning", Cause: "forgotten", Text: text})
}

func hostsAre(members []membership.Member) string {
	return plural(len(members), "host ", "hosts ") + namesOf(members) + plural(len(members), " is", " are")
}

func plural(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

func namesOf(members []membership.Member) string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// electorate is everybody alive here who would vote, this agent included.
func (v *view) electorate() []membership.Member {
	return slices.DeleteFunc(v.all(), func(m membership.Member) bool {
		return m.Status != membership.Alive || m.Role == membership.Observer
	})
}

// controlRoster shows the roster with what names are known; nil while there is
// none.
func (a *agent) controlRoster(r election.Roster) *control.Roster {
	if r.Version == 0 {
		return nil
	}
	out := &control.Roster{Version: r.Version, Formed: r.Formed, Voters: []control.Voter{}}
	for _, id := range r.IDs {
		m, _ := a.view.member(id)
		out.Voters = append(out.Voters, control.Voter{ID: id.String(), Name: m.Name, Self: id == a.state.ID, Alive: a.isHere(id)})
	}
	slices.SortFunc(out.Voters, func(x, y control.Voter) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.ID, y.ID))
	})
	return out
}

// controlQuorum counts the voters that are needed before anybody can lead: all
// of them while there is no roster that holds. It is nil in available mode.
func (a *agent) controlQuorum(s election.Status) *control.Quorum {
	expect := a.cfg.Election.Expect
	switch {
	case expect == 0:
		return nil
	case s.Roster.Formed:
		return &control.Quorum{Need: s.Quorum, Have: a.votersHere(s)}
	case s.Roster.Version > 0:
		return &control.Quorum{Need: len(s.Roster.IDs), Have: s.Heard}
	case s.Outside:
		return &control.Quorum{Need: s.Quorum, Have: min(len(a.view.electorate())-1, expect)}
	}
	return &control.Quorum{Need: expect, Have: min(len(a.view.electorate()), expect)}
}

// votersHere counts the voters of the roster that answer. A follower talks to its
// leader alone: of the others it knows what the failure detector says, and when
// they last answered that; and so it is with a host that watches, which asks nobody.
func (a *agent) votersHere(s election.Status) int {
	if (s.Leader.IsZero() && !onlyWatches(s)) || s.Leader == a.state.ID {
		return s.Heard
	}
	here := 0
	for _, id := range s.Roster.IDs {
		if a.isHere(id) {
			here++
		}
	}
	return here
}

// onlyWatches: a witness, a host that stepped down, one with a full disk. Without
// its link a host watches too, but what it heard last says nothing then.
func onlyWatches(s election.Status) bool {
	return s.State == election.Observe && s.Cause != election.LinkLost
}

// checkExpect obeys M9: a quorum of five voters and one of three need not have
// a voter in common, so expect moves by one at a time, each time with a roster
// that holds.
func checkExpect(expect int, r election.Roster) error {
	voters := len(r.IDs)
	if expect == 0 || r.Version == 0 || (expect-voters <= 1 && voters-expect <= 1) {
		return nil
	}
	return refusal("change expect by one at a time, and forget voters that are gone; a new cluster needs new state directories on all hosts",
		"expect is %d and the roster on disk has %d voters: they may differ by one", expect, voters)
}

// hintDamaged says what to do about a state file that cannot be read. A voter
// whose disk holds what it held some time ago has forgotten what it promised
// since, and could grant it again: in quorum mode only a new id is safe.
func (a *agent) hintDamaged(err error) error {
	var refused *Refusal
	switch {
	case !errors.As(err, &refused):
	case errors.Is(err, errFuture):
		refused.Hint = "start that version again"
	case !errors.Is(err, errCorrupt) && !errors.Is(err, errSense):
	case a.mode() == modeQuorum:
		refused.Hint = "restore no backup, which has forgotten what this voter promised: move the file away, start the agent as a new " +
			"node, and forget " + a.cfg.Name + " on the host that leads, so that it takes its old place"
	default:
		refused.Hint = "move it away: the agent then starts as a new node with a new id, and learns the epoch from the others; " +
			"restore a backup only if no other host has run since"
	}
	return err
}

// votersNeeded is how many voters are a majority, for hooks; 0 in available mode.
func (a *agent) votersNeeded(s election.Status) int {
	if a.cfg.Election.Expect == 0 {
		return 0
	}
	return s.Quorum
}
