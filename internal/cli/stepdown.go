package cli

import (
	"context"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// longestHold is the agent's bound on a hold-down.
const longestHold = 24 * time.Hour

var stepDownCommand = command{
	name: "step-down", usage: "hand over from this host, which leads, to the best other",
	about: `The lose-leadership hook has ended here before the other's become-leader hook starts. The command returns when the
		other leads. This host does not lead again for the time of --for, also if its agent or itself is restarted meanwhile;
		the command stand ends that time early. Where it does not lead, or nobody is ready to take over, nothing changes and the exit code is 6.`,
	examples: []string{program + " step-down", program + " step-down --for 10m"},
	options: []option{
		{name: "for", value: "TIME", usage: "do not lead again for so long, at most 24h", fallback: "the lease"},
		jsonOption, socketOption,
	},
	action: func(c *call) error {
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
	},
}
