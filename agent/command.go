package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// longestHold bounds a hold-down: whoever wants a host out for longer lowers its
// priority, or makes it an observer.
const longestHold = 24 * time.Hour

// Command implements control.Backend. It returns when the command is done or has
// failed, or when the caller or this agent goes away.
func (a *agent) Command(ctx context.Context, name string, args map[string]string) error {
	if strings.HasPrefix(name, "job-") {
		return a.jobCommand(ctx, name, args)
	}
	order, err := parseOrder(name, args)
	if err != nil {
		return err
	}
	result := make(chan error, 1)
	if !a.call(ctx.Done(), func() { a.give(order, func(err error) { result <- err }) }) {
		return errGone
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return errGone
	}
}

// errGone is for whoever still listens when the agent stops with an order under
// way.
var errGone = &control.APIError{Status: http.StatusServiceUnavailable, Message: "the agent stops", Code: "stopping",
	Hint: "see status of another host"}

// order is a command as the operator gave it.
type order struct {
	verb election.Verb
	what string        // "hand over to", for messages
	who  string        // name or id; empty: nobody is named
	hold time.Duration // step-down
	must bool          // forget: a voter that is alive too
}

// parseOrder takes a command's arguments, all of which must mean something.
func parseOrder(name string, args map[string]string) (order, error) {
	orders := map[string]struct {
		order
		argument string
	}{
		"step-down": {order{verb: election.StepDown, what: "step down"}, "for"},
		"handover":  {order{verb: election.HandOver, what: "hand over to"}, "to"},
		"forget":    {order{verb: election.Forget, what: "forget"}, "member"},
		"stand":     {order{verb: election.Stand, what: "stand again"}, ""},
	}
	known, ok := orders[name]
	if !ok {
		return order{}, control.ErrUnsupported
	}
	for key, value := range args {
		switch isForce := key == "force" && known.verb == election.Forget; {
		case known.argument == "":
			return order{}, badOrder("%s has no argument %q: expected none", name, key)
		case key != known.argument && !isForce:
			return order{}, badOrder("%s has no argument %q: expected %q", name, key, known.argument)
		case isForce && value != "true":
			return order{}, badOrder("force is %q: expected \"true\", or no such argument", value)
		}
	}
	if known.argument == "" {
		return known.order, nil
	}
	o, value := known.order, args[known.argument]
	o.must = args["force"] != ""
	if o.verb != election.StepDown {
		if o.who = value; value == "" {
			return order{}, badOrder("%s needs the name or the id of a member in %q", name, known.argument)
		}
		return o, nil
	}
	if value == "" {
		return o, nil
	}
	var err error
	if o.hold, err = time.ParseDuration(value); err != nil || o.hold < 0 || o.hold > longestHold {
		return order{}, badOrder("for is %q: expected a time such as 30s, at most %v", value, longestHold)
	}
	return o, nil
}

func badOrder(format string, args ...any) error {
	return &control.APIError{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...), Code: "usage"}
}

// give passes an order to the node; done is called once.
func (a *agent) give(o order, done func(error)) {
	if o.verb == election.Stand {
		a.stand(done)
		return
	}
	c := election.Command{Verb: o.verb, For: o.hold, Force: o.must}
	if o.who != "" {
		var err error
		if c.To, err = a.find(o); err != nil {
			if a.node.Status().State != election.Lead {
				err = election.ErrNotLeader // that comes first
			}
			done(a.refused(o, err))
			return
		}
	}
	before := a.node.Status().Held
	a.command(c, func(err error) {
		a.publish() // whoever asked looks at once
		var kept error
		if o.hold > 0 && a.node.Status().Held != before { // not one that this host gave itself, of a command that was refused
			kept = a.keepHold()
		}
		if err != nil {
			err = a.refused(o, err)
		}
		done(cmp.Or(err, kept))
	})
}

// refused turns the node's reason into what the operator is told: what could not
// be done, why, and what to do instead.
func (a *agent) refused(o order, reason error) error {
	refusal := &control.APIError{Status: http.StatusConflict, Code: "refused"}
	for _, known := range refusals {
		if errors.Is(reason, known.reason) {
			refusal.Code, refusal.Hint = known.code, known.hint
		}
	}
	if errors.Is(reason, election.ErrNotLeader) {
		refusal.Message, refusal.Hint = reason.Error(), a.whereToAsk()
		return refusal
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
	{election.ErrUnknownMember, "unknown_member", "see members"},
	{errAmbiguous, "ambiguous", "give the id, or enough of it; see members"},
	{election.ErrDeadMember, "dead_member", "see members; nothing was changed"},
	{election.ErrObserverMember, "observer", "see members for the roles; nothing was changed"},
	{election.ErrSelf, "self", "name another member"},
	{election.ErrNobodyReady, "nobody_ready", "a host that stepped down, stops or has a failing disk is not; nothing was changed"},
	{election.ErrBusy, "busy", "try again when that is over; see status"},
	{election.ErrLostMeanwhile, "lost_meanwhile", "see status and history"},
	{election.ErrNotQuorum, "not_quorum", "members that are gone need not be forgotten"},
	{election.ErrNotVoter, "not_voter", "see status for the voters"},
	{election.ErrVoterAlive, "voter_alive", "stop it first, or wait until status shows it dead; --force forgets it all the same"},
	{election.ErrRosterTooSmall, "roster_too_small", "add a voter first"},
	{election.ErrRosterPending, "roster_pending", "try again in a moment"},
	{election.ErrVersionsUsedUp, "versions_used_up", "nothing was changed"},
	{election.ErrCounterTooHigh, "counter_too_high", "nothing was changed"},
}

// whereToAsk names the host that leads.
func (a *agent) whereToAsk() string {
	leader := a.node.Status().Leader
	if leader.IsZero() || leader == a.state.ID {
		return "no leader is known; see status"
	}
	return "run it on " + a.view.name(leader) + ", which leads"
}

// errAmbiguous is returned where a name means several members.
var errAmbiguous = errors.New("several members are called so")

// shortestID is how much of an id stands for all of it; `members` shows eight.
const shortestID = 4

// find gives the id of the member that the order names. Of several with one name
// the one is meant that the order can be about: a host whose disk was wiped
// comes back under its name with a new id.
func (a *agent) find(o order) (wire.ID, error) {
	voters := a.node.Status().Roster.IDs
	if o.verb == election.Forget {
		return a.view.find(o.who, voters, func(m membership.Member) bool { return slices.Contains(voters, m.ID) })
	}
	return a.view.find(o.who, nil, func(m membership.Member) bool { return m.Status == membership.Alive })
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
