package cli

import (
	"context"

	"github.com/bully-agent/bully-agent/control"
)

var standCommand = command{
	name: "stand", usage: "end the time of step-down --for: this host may lead again",
	about: `Changes nothing on a host that stands already. Whether it then leads is for the election: a host of higher priority
		takes over after the preempt delay, an equal one follows.`,
	examples: []string{program + " stand"},
	options:  []option{jsonOption, socketOption},
	action: func(c *call) error {
		return c.order("stands again", func(ctx context.Context, client *control.Client) error { return client.Stand(ctx) })
	},
}
