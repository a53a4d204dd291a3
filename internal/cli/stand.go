package cli

import (
	"context"

	"github.com/bully-agent/bully-agent/internal/control"
)

var standCommand = command{
	name: "stand", usage: "end the time of step-down --for: this host may lead again",
	about: `Changes nothing on a host that may lead already, and says so. Whether it then leads is for the election: a host of
		higher priority takes over after the preempt delay, an equal one follows.`,
	examples: []string{program + " stand"},
	options:  []option{jsonOption, socketOption},
	action: func(c *call) error {
		s, err := c.client().Status(c.Context.Context)
		if err != nil {
			return err
		}
		what := "may lead again"
		if s.HoldDownMS == 0 {
			what = "nothing was held"
		}
		return c.order(what, func(ctx context.Context, client *control.Client) error { return client.Stand(ctx) })
	},
}
