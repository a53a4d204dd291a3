package agent

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
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
	if name == "maintenance" {
		return a.maintain(ctx, args)
	}
	order, err := parseOrder(name, args)
	if err != nil {
		return err
	}
	return a.obey(ctx, func(done func(error)) { a.seat.give(order, done) })
}

// obey has the loop begin what a person asked for, and waits until that calls done, or for what ends an await.
func (a *agent) obey(ctx context.Context, begin func(done func(error))) error {
	result := make(chan error, 1)
	refused, err := await(ctx, a, func() { begin(func(err error) { result <- err }) }, result)
	return cmp.Or(err, refused)
}

// errGone is for whoever still listens when the agent stops with an order or a
// question under way.
var errGone = &control.APIError{Status: http.StatusServiceUnavailable, Message: "this agent is being stopped, and ended before it could answer",
	Code: "stopping", Hint: "see status of another host, or ask again when it has been started"}

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
		"stand":     {order{verb: election.Stand, what: "let this host lead again"}, ""},
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

// OKToStop implements control.Backend: what would become of the cluster if this host were
// stopped now. It is asked in the loop, so that it is of this moment.
func (a *agent) OKToStop(ctx context.Context) (control.OKToStop, error) {
	return ask(ctx, a, func() (control.OKToStop, error) { return a.seat.okToStop(), nil })
}
