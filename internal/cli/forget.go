package cli

import (
	"context"

	"github.com/bully-agent/bully-agent/internal/control"
)

var forgetCommand = command{
	name: "forget", usage: "take a voter that will not come back out of the roster",
	args: "NODE", maxArgs: 1, offer: otherMembers,
	about: `For quorum mode, on the host that leads: the voter with this name or id votes no more. A new host may take its place,
		or this one once hosts names it. One at a time; a majority of the voters must be here. A voter that is only down for a
		while need not be forgotten: a majority is enough without it. One that is alive is refused without --force. One that is
		alive and that hosts names is refused in any case. The forgotten host says so in its own status, and what lets it vote again.`,
	examples: []string{program + " forget gamma"},
	options:  []option{{name: "force", usage: "forget it though it is alive"}, jsonOption, socketOption},
	action: func(c *call) error {
		who := c.Args().First()
		if who == "" {
			return usage("see "+program+" status for the voters", "the voter is missing: expected its name or id")
		}
		return c.order("forgot "+who, func(ctx context.Context, client *control.Client) error {
			return client.Forget(ctx, who, c.Bool("force"))
		})
	},
}
