package agent

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// give passes an order to the node; done is called once.
func (s *seat) give(o order, done func(error)) {
	if o.verb == election.Stand {
		s.stand(done)
		return
	}
	c := election.Command{Verb: o.verb, For: o.hold, Force: o.must}
	if o.who != "" {
		var err error
		if c.To, err = s.find(o); err != nil {
			if s.node.Status().State != election.Lead {
				err = election.ErrNotLeader // that comes first
			}
			done(s.refused(o, err))
			return
		}
	}
	before := s.node.Status().Held
	s.command(c, func(err error) {
		s.publish() // whoever asked looks at once
		var kept error
		if o.hold > 0 && s.node.Status().Held != before { // not one that this host gave itself, of a command that was refused
			kept = s.keepHold()
		}
		if err != nil {
			err = s.refused(o, err)
		}
		done(cmp.Or(err, kept))
	})
}

// refused turns the node's reason into what the operator is told: what could not
// be done, why, and what to do instead.
func (s *seat) refused(o order, reason error) error {
	refusal := &control.APIError{Status: http.StatusConflict, Code: "refused"}
	for _, known := range refusals {
		if errors.Is(reason, known.reason) {
			refusal.Code, refusal.Hint = known.code, known.hint
		}
	}
	if errors.Is(reason, election.ErrNotLeader) {
		refusal.Message, refusal.Hint = reason.Error(), s.whereToAsk()
		return refusal
	}
	if errors.Is(reason, election.ErrUnknownMember) {
		refusal.Hint = s.whoIsThere()
	}
	refusal.Message = strings.TrimSpace("cannot "+o.what+" "+o.who) + ": " + reason.Error()
	return refusal
}

// refusals are the node's reasons with the words that scripts and people get.
var refusals = []struct {
	reason     error
	code, hint string
}{
	{election.ErrNotLeader, "not_leader", ""},
	{election.ErrUnknownMember, "unknown_member", ""},
	{errAmbiguous, "ambiguous", giveID},
	{election.ErrDeadMember, "dead_member", "see members; nothing was changed"},
	{election.ErrObserverMember, "observer", "see members for the roles; nothing was changed"},
	{election.ErrSelf, "self", "name another member"},
	{election.ErrNobodyReady, "nobody_ready", "a host that is in maintenance, fails a check, stepped down, stops, waits for its last run or has a failing disk is not; nothing was changed"},
	{election.ErrBusy, "busy", "try again when that has ended; see status"},
	{election.ErrTakenBack, "taken_back", "nothing was changed"},
	{election.ErrLostMeanwhile, "lost_meanwhile", "see status and history"},
	{election.ErrNotQuorum, "not_quorum", "members that are gone need not be forgotten"},
	{election.ErrNotVoter, "not_voter", "see status for the voters"},
	{election.ErrVoterAlive, "voter_alive", "stop it first, or wait until status shows it dead; --force forgets it all the same"},
	{election.ErrVoterListed, "voter_listed", "take it out of hosts on each of the others, and reload with --drop: the leader forgets it by itself"},
	{election.ErrRosterTooSmall, "roster_too_small", "add a voter first"},
	{election.ErrRosterPending, "roster_pending", "try again in a moment"},
	{election.ErrVersionsUsedUp, "versions_used_up", "nothing was changed"},
	{election.ErrCounterTooHigh, "counter_too_high", "nothing was changed"},
}

// whoIsThere is the hint to a name that no member has.
func (s *seat) whoIsThere() string {
	known := s.around.seen()
	return "there is " + known.namesOf(known.all())
}

// whereToAsk names the host that leads.
func (s *seat) whereToAsk() string {
	leader := s.node.Status().Leader
	if leader.IsZero() || leader == s.state.ID {
		return "no leader is known; see status"
	}
	return "run it on " + s.labelOf(leader) + ", which leads"
}

// errAmbiguous is returned where a name means several members.
var errAmbiguous = errors.New("several members are called so")

// giveID is the hint with it.
const giveID = "give the id, or enough of it; see members"

// shortestID is how much of an id stands for all of it; `members` shows eight.
const shortestID = 4

// find gives the id of the member that the order names. Of several with one name
// the one is meant that the order can be about: a host whose disk was wiped
// comes back under its name with a new id.
func (s *seat) find(o order) (wire.ID, error) {
	voters := s.node.Status().Roster.IDs
	if o.verb == election.Forget {
		return s.around.seen().find(o.who, voters, func(m membership.Member) bool { return slices.Contains(voters, m.ID) })
	}
	return s.around.seen().find(o.who, nil, func(m membership.Member) bool { return m.Status == membership.Alive })
}

// find gives the id of the member, or of one of the further ids, that people
// call so: by its name, its id, or the beginning of that.
func (v *view) find(who string, further []wire.ID, isMeant func(membership.Member) bool) (wire.ID, error) {
	var named, meant []wire.ID
	ids := slices.Clone(further)
	for _, m := range v.all() {
		ids = append(ids, m.ID)
		if m.Name == who {
			named = append(named, m.ID)
			if isMeant(m) {
				meant = append(meant, m.ID)
			}
		}
	}
	for _, found := range [][]wire.ID{meant, named, beginningWith(who, ids)} {
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return wire.ID{}, errAmbiguous
		}
	}
	return wire.ID{}, election.ErrUnknownMember
}

// beginningWith gives the ids that begin so, each once.
func beginningWith(text string, ids []wire.ID) []wire.ID {
	if len(text) < shortestID {
		return nil
	}
	slices.SortFunc(ids, wire.ID.Compare)
	return slices.DeleteFunc(slices.Compact(ids), func(id wire.ID) bool {
		return !strings.HasPrefix(id.String(), strings.ToLower(text))
	})
}
