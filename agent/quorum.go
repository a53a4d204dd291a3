package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// tally says how far from a leader this host's part of the cluster is, who counts and who
// is missing: to people, by what the node and gossip say. It decides nothing.
type tally struct {
	settings *election.Config
	self     wire.ID
	dir      string // of the state
	known    interface {
		seen() *view
		isHere(id wire.ID) bool
	}
}

// The modes, and what each promises.
const (
	modeAvailable    = "available"
	modeQuorum       = "quorum"
	promiseAvailable = "one leader in every connected part of the network; two parts that cannot reach each other have one each"
	promiseQuorum    = "at most one leader at any instant; a minority has none"
)

// What whyNoLeader and explain both say.
const (
	whyUnlinked  = "the link of this host is down"
	whyIsolated  = "no other member answers: this host claims nothing until one does or all are declared dead"
	whyTooFew    = "fewer members than min_members can be elected"
	whyPromised  = "voters are still bound by their promise to the last leader, which ends within a lease"
	whyListening = "listening for a leader before a first election"
)

// mode is the word for hooks and status.
func (t *tally) mode() string {
	if t.settings.Expect > 0 {
		return modeQuorum
	}
	return modeAvailable
}

func (t *tally) promise() string {
	if t.settings.Expect > 0 {
		return promiseQuorum
	}
	return promiseAvailable
}

// whyNoLeader says in one sentence what stands between this agent and a leader.
func (t *tally) whyNoLeader(status election.Status) string {
	switch {
	case !status.Leader.IsZero():
		return ""
	case status.State == election.Stopping || status.Cause == election.Stopped:
		return "this host hands over"
	case status.Bars.Has(election.BarLink):
		return whyUnlinked // whatever else is missing comes of that
	case t.settings.Expect > 0:
		if why := t.whyNoQuorum(status); why != "" {
			return why
		}
	case status.Isolated:
		return whyIsolated
	case status.Cause == election.TooFewMembers:
		return whyTooFew
	}
	switch {
	case status.State == election.Start:
		return whyListening
	case onlyWatches(status):
		return "this host cannot lead, and hears no leader"
	}
	return "an election is under way"
}

// whyNoQuorum is whyNoLeader for what only quorum mode waits for; empty if it
// waits for nothing of that kind.
func (t *tally) whyNoQuorum(status election.Status) string {
	expect, seen := t.settings.Expect, t.known.seen().electorate()
	switch {
	case status.Outside:
		return "this host is outside the roster and hears no leader"
	case t.isForgotten(status.Roster):
		return "this host was forgotten and hears no leader"
	case status.Roster.Version == 0 && len(seen) > expect:
		return fmt.Sprintf("%s: nobody leads before %d voters have agreed on a roster", t.crowd(seen, expect), expect)
	case status.Roster.Version == 0 && len(seen) < expect:
		return fmt.Sprintf("waiting for %d voters, %d seen: %s", expect, len(seen), t.known.seen().namesOf(seen))
	case status.Roster.Version == 0:
		return fmt.Sprintf("all %d voters are here and agree on the roster now", expect)
	case t.votersHere(status) < status.Quorum:
		return t.minority(status)
	case !status.Roster.Formed:
		return fmt.Sprintf("the roster holds once all %d voters have answered", len(status.Roster.IDs))
	case status.Cause == election.Promised:
		return whyPromised
	}
	return ""
}

// minority is the state of a part of the network that quorum mode keeps from
// leading.
func (t *tally) minority(status election.Status) string {
	if status.Outdated {
		return "a leader with a newer roster is heard, and no known voter confirms it: start one of them; " +
			"or, if all are gone for good, remove this host's state directory"
	}
	return fmt.Sprintf("only %d of %d voters answer: no leader here until %d do", t.votersHere(status), len(status.Roster.IDs), status.Quorum)
}

// crowd says that more are there than were expected.
func (t *tally) crowd(seen []membership.Member, expect int) string {
	return fmt.Sprintf("%d voters are present (%s) but expect = %d", len(seen), t.known.seen().namesOf(seen), expect)
}

// quorumNotes are the warnings of quorum mode.
func (t *tally) quorumNotes(status election.Status) []string {
	expect := t.settings.Expect
	if expect == 0 {
		return nil
	}
	seen := t.known.seen().electorate()
	outside := slices.DeleteFunc(slices.Clone(seen), func(m membership.Member) bool { return slices.Contains(status.Roster.IDs, m.ID) })
	var notes []string
	switch {
	case status.Roster.Version > 0 && t.votersHere(status) < status.Quorum:
		notes = append(notes, t.minority(status))
	case status.Roster.Version == 0 && status.Leader.IsZero() && !status.Outside && len(seen) != expect:
		notes = append(notes, t.whyNoQuorum(status))
	}
	switch {
	case status.Outside || t.isForgotten(status.Roster):
		notes = append(notes, t.whyNoVoter(status))
	case status.Roster.Formed && len(seen) > expect && len(outside) > 0:
		notes = append(notes, fmt.Sprintf("%d voters are present but expect = %d: %s outside the roster and only %s",
			len(seen), expect, t.known.seen().hostsAre(outside), plural(len(outside), "observes", "observe")))
	}
	return notes
}

// whyNoVoter says why this host does not vote; empty if it does, as far as it knows.
func (t *tally) whyNoVoter(status election.Status) string {
	seen, expect := len(t.known.seen().electorate()), t.settings.Expect
	switch {
	case status.Outside && seen > expect:
		return fmt.Sprintf("%d voters are present but expect = %d: this host is outside the roster and only observes", seen, expect)
	case status.Outside:
		return "this host is outside the roster and only observes until the leader admits it"
	case t.isForgotten(status.Roster):
		return t.forgottenBy(status.Roster)
	}
	return ""
}

// isForgotten: the roster on this host's disk leaves it out. One that was never in a
// roster has none there.
func (t *tally) isForgotten(r election.Roster) bool {
	return t.settings.Part != election.Observer && r.Formed && !slices.Contains(r.IDs, t.self)
}

// forgottenBy says what became of this host, and what lets it vote again.
func (t *tally) forgottenBy(r election.Roster) string {
	return fmt.Sprintf("this host was forgotten: roster %d leaves it out, and it only observes; to let it vote, "+
		"name it in hosts, or stop the agent, empty %s, and start it", r.Version, t.dir)
}

func (v *view) hostsAre(members []membership.Member) string {
	return plural(len(members), "host ", "hosts ") + v.namesOf(members) + plural(len(members), " is", " are")
}

func plural(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// namesOf lists members for people.
func (v *view) namesOf(members []membership.Member) string {
	return strings.Join(v.labels(members), ", ")
}

// electorate is everybody alive here who would vote, this agent included.
func (v *view) electorate() []membership.Member {
	return slices.DeleteFunc(v.all(), func(m membership.Member) bool {
		return m.Status != membership.Alive || m.Role == membership.Observer
	})
}

// controlRoster shows the roster with what names are known; nil while there is
// none.
func (t *tally) controlRoster(status election.Status) *control.Roster {
	r := status.Roster
	if r.Version == 0 {
		return nil
	}
	out := &control.Roster{Version: r.Version, Formed: r.Formed, Voters: []control.Voter{}}
	for _, id := range r.IDs {
		out.Voters = append(out.Voters, control.Voter{ID: id.String(), Name: t.known.seen().voterName(id), Self: id == t.self, Alive: t.answers(status, id)})
	}
	slices.SortFunc(out.Voters, func(x, y control.Voter) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.ID, y.ID))
	})
	return out
}

// controlQuorum counts the voters that are needed before anybody can lead: all
// of them while there is no roster that holds. It is nil in available mode.
func (t *tally) controlQuorum(status election.Status) *control.Quorum {
	expect := t.settings.Expect
	switch {
	case expect == 0:
		return nil
	case status.Roster.Formed:
		return &control.Quorum{Need: status.Quorum, Have: t.votersHere(status)}
	case status.Roster.Version > 0:
		return &control.Quorum{Need: len(status.Roster.IDs), Have: t.votersHere(status)}
	case status.Outside:
		return &control.Quorum{Need: status.Quorum, Have: min(len(t.known.seen().electorate())-1, expect)}
	}
	return &control.Quorum{Need: expect, Have: min(len(t.known.seen().electorate()), expect)}
}

// votersHere counts the voters of the roster that answer.
func (t *tally) votersHere(status election.Status) (here int) {
	for _, id := range status.Roster.IDs {
		if t.answers(status, id) {
			here++
		}
	}
	return here
}

// answers: a voter of the roster does. A follower talks to its leader alone: of the others it knows what the failure detector says,
// and when they last answered that; and so it is with a host that watches, which asks nobody. Who has said good-bye answers no more,
// however short a time ago it did.
func (t *tally) answers(status election.Status, id wire.ID) bool {
	if (status.Leader.IsZero() && !onlyWatches(status)) || status.Leader == t.self {
		return slices.Contains(status.Heard, id) && t.hasNotLeft(id)
	}
	return t.known.isHere(id)
}

func (t *tally) hasNotLeft(id wire.ID) bool {
	m, known := t.known.seen().member(id)
	return !known || m.Status != membership.Left
}

// onlyWatches: a witness, a host that stepped down, one with a full disk. Without
// its link a host watches too, but what it heard last says nothing then.
func onlyWatches(s election.Status) bool {
	return s.State == election.Observe && s.Cause != election.LinkLost
}

// votersNeeded is how many voters are a majority, for hooks; 0 in available mode.
func (t *tally) votersNeeded(status election.Status) int {
	if t.settings.Expect == 0 {
		return 0
	}
	return status.Quorum
}
