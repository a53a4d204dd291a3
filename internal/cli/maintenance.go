package cli

import (
	"context"

	"github.com/bully-agent/bully-agent/internal/control"
)

var maintenanceCommand = command{
	name: "maintenance", usage: "keep this host from leading while somebody works on it",
	subcommands: []command{maintenanceOnCommand, maintenanceOffCommand},
}

var maintenanceOnCommand = command{
	name: "on", usage: "keep this host from leading, also after a restart",
	about: `A host in maintenance follows and votes, and does not lead, also after a restart of its agent or itself. members shows it on
		all hosts, with the reason. A host that leads hands over first: the lose-leadership hook has ended here before the
		other's become-leader hook starts, and the command returns when the other leads. Where nobody else can lead, nothing
		changes and the exit code is 6; with --force the leadership ends all the same, and nobody leads. Given again it changes
		reason and time.`,
	examples: []string{program + " maintenance on --reason 'kernel upgrade' --for 1h"},
	options: []option{
		{name: "for", value: "TIME", usage: "end it after so long, at most 744h", fallback: "until off"},
		{name: "reason", value: "TEXT", usage: "shown on all hosts: 64 letters, digits, blanks, ._-,:/+=@#()"},
		{name: "force", usage: "end a leadership though nobody else can lead"},
		jsonOption, socketOption,
	},
	action: func(c *call) error {
		length, err := c.duration("for")
		switch {
		case err != nil:
			return err
		case c.IsSet("for") && length == 0:
			return usage("leave it out to have it last until maintenance off", "--for is 0s: expected a time such as 30m")
		case length > control.LongestMaintenance:
			return usage("leave it out, and end it with maintenance off", "--for is %v: expected at most 744h", length)
		}
		return c.order("in maintenance", func(ctx context.Context, client *control.Client) error {
			return client.Maintain(ctx, c.String("reason"), length, c.Bool("force"))
		})
	},
}

var maintenanceOffCommand = command{
	name: "off", usage: "let this host lead again",
	about:    `Changes only a host that is in maintenance; of another it says so. Whether it then leads is for the election.`,
	examples: []string{program + " maintenance off"},
	options:  []option{jsonOption, socketOption},
	action: func(c *call) error {
		s, err := c.client().Status(c.Context.Context)
		if err != nil {
			return err
		}
		what := "maintenance ended"
		if s.Maintenance == nil {
			what = "it was in no maintenance"
		}
		return c.order(what, func(ctx context.Context, client *control.Client) error { return client.EndMaintenance(ctx) })
	},
}
