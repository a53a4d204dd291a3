package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// longestHold is the agent's bound on a hold-down.
const longestHold = 24 * time.Hour

var stepDownCommand = command{
	name: "step-down", operand: "to", usage: "hand over from this host, which leads, to another",
	about: `Hands over to the best other host. The lose-leadership hook has ended here before the other's become-leader hook starts.
		The command returns when the other leads. Where this host does not lead, or nobody is ready to take over, nothing
		changes and the exit code is 6.

		With --to the member with this name or id takes over; see members. Where that member is dead, unknown, an observer or
		this host itself, nothing changes and the exit code is 6. A host of higher priority takes over again after the preempt
		delay where preempt is priority or always; a note on standard error says which will.

		Without --to this host does not lead again for the time of --for, also if its agent or itself is restarted meanwhile. With
		--end that time ends early, and this host may lead again. Whether it then leads is for the election.`,
	examples: []string{program + " step-down", program + " step-down --to beta", program + " step-down --to beta --json", program + " step-down --for 10m", program + " step-down --end"},
	options: []option{
		{name: "to", value: "NODE", offer: successors, usage: "name or id of the member that takes over, or the beginning of the id"},
		{name: "for", value: "TIME", usage: "do not lead again for so long, at most 24h", fallback: "the lease"},
		{name: "end", usage: "end the time of --for: this host may lead again"},
		jsonOption, socketOption,
	},
	action: func(c *call) error {
		given := ""
		for _, name := range []string{"to", "for", "end"} {
			if !c.IsSet(name) {
				continue
			}
			if given != "" {
				return usage("see "+c.path+" --help", "--%s and --%s do not go together: expected one of them", given, name)
			}
			given = name
		}
		switch given {
		case "to":
			return c.handOver(c.String("to"))
		case "end":
			return c.endHold()
		}
		return c.stepDown()
	},
}

// stepDown hands over to the best other host, and keeps this one out for the time of --for.
func (c *call) stepDown() error {
	hold, err := c.duration("for")
	switch {
	case err != nil:
		return err
	case c.IsSet("for") && hold == 0:
		return usage("leave it out to stay out of it for the lease", "--for is 0s: expected a time such as 10m")
	case hold > longestHold:
		return usage("to keep a host out of it, lower its priority or make it an observer", "--for is %v: expected at most 24h", hold)
	}
	return c.order("stepped down", func(ctx context.Context, client *control.Client) error { return client.StepDown(ctx, hold) })
}

// handOver hands over to the member that is named, and says who takes over from it again.
func (c *call) handOver(to string) error {
	if to == "" {
		return usage("see "+program+" members", "--to is empty: expected a member's name or id")
	}
	err := c.order("handed over", func(ctx context.Context, client *control.Client) error { return client.HandOver(ctx, to) })
	if err == nil {
		c.noteTakeBack()
	}
	return err
}

// noteTakeBack says who takes over again: the hand-over is done, and would be undone unasked.
func (c *call) noteTakeBack() {
	e, err := c.client().Explain(c.Context.Context, "")
	if err == nil && e.TakesBack != "" {
		_, _ = fmt.Fprintf(c.err, "note: %s\n", e.TakesBack)
	} // else the order was carried out, and status says the rest
}

// endHold ends the time of an earlier step-down, if there is any.
func (c *call) endHold() error {
	s, err := c.client().Status(c.Context.Context)
	if err != nil {
		return err
	}
	what := "may lead again"
	if s.HoldDownMS == 0 {
		what = "nothing was held"
	}
	return c.order(what, func(ctx context.Context, client *control.Client) error { return client.Stand(ctx) })
}
