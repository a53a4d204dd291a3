package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/agent"
	"github.com/bully-agent/bully-agent/internal/control"
)

// isLeaderPatience bounds the question: whoever asks wants to act now.
const isLeaderPatience = 2 * time.Second

var isLeaderCommand = command{
	name: "is-leader", usage: "exit 0 only if this host's agent leads, now",
	about: `Exit codes: 0 this node leads, its become-leader hook has succeeded and its lease is valid; 1 it does not lead;
		4 no agent answers. Anything but 0 means: do not act.`,
	examples: []string{program + " is-leader", program + " is-leader -q && echo act"},
	options:  []option{{name: "quiet", short: "q", usage: "print nothing at all"}, socketOption},
	action: func(c *call) error {
		ctx, cancel := context.WithTimeout(c.Context.Context, isLeaderPatience)
		defer cancel()
		now := agent.BootClock()
		asked := now()
		status, err := c.client().Status(ctx)
		if ctx.Err() != nil {
			err = fmt.Errorf("%w at %s: no answer within %v", control.ErrUnreachable, c.socketPath(), isLeaderPatience)
		}
		quiet := c.Bool("quiet")
		switch {
		case err != nil && quiet:
			return outcome(exitCode(err))
		case err != nil:
			return err
		}
		why := status.WhyNotLeading(now().Sub(asked))
		if !quiet {
			if err := c.print(verdict(status, why)); err != nil {
				return err
			}
		}
		if why != "" {
			return outcome(exitNo)
		}
		return nil
	},
}

func verdict(s control.Status, whyNot string) string {
	if whyNot == "" {
		return fmt.Sprintf("yes: %s leads, epoch %d\n", s.Self.Name, s.Epoch.Counter)
	}
	return fmt.Sprintf("no: %s may not act as leader: %s\n", s.Self.Name, whyNot)
}
