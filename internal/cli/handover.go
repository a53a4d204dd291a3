package cli

import (
	"context"

	"github.com/bully-agent/bully-agent/internal/control"
)

var handoverCommand = command{
	name: "handover", operand: "to", usage: "have this host, which leads, hand over to the one named",
	about: `As step-down, but to the member with this name or id; see members. Where that member is dead, unknown, an observer or
		this host itself, nothing changes and the exit code is 6. A host of higher priority takes over again after the preempt
		delay, unless preempt is never.`,
	examples: []string{program + " handover --to beta", program + " handover --to beta --json"},
	options:  []option{{name: "to", value: "NODE", offer: successors, usage: "name or id of the member, or the beginning of the id"}, jsonOption, socketOption},
	action: func(c *call) error {
		to := c.String("to")
		if to == "" {
			return usage("see "+program+" members", "--to is missing: expected a member's name or id")
		}
		return c.order("handed over", func(ctx context.Context, client *control.Client) error { return client.HandOver(ctx, to) })
	},
}
