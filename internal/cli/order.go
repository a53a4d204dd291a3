package cli

import (
	"context"
	"fmt"

	"github.com/bully-agent/bully-agent/internal/control"
)

// ordered is what a command prints with --json when it is done.
type ordered struct {
	Done   bool          `json:"done"`
	Leader *control.Node `json:"leader"` // null: none is known
	Epoch  control.Epoch `json:"epoch"`
}

// order gives the agent a command and says how it ended. what is a fact in the
// past, such as "stepped down".
func (c *call) order(what string, give func(ctx context.Context, client *control.Client) error) error {
	client := c.client()
	progress := c.progress("waiting for the agent")
	progress("until it is done")
	err := give(c.Context.Context, client)
	progress("")
	if err != nil {
		return err
	}
	s, err := client.Status(c.Context.Context)
	if err != nil {
		return fmt.Errorf("%s, and then: %w", what, err)
	}
	if c.Bool("json") {
		return c.printJSON(ordered{Done: true, Leader: s.Leader, Epoch: s.Epoch})
	}
	if s.Leader == nil {
		return c.print(fmt.Sprintf("%s: no leader is known yet\n", what))
	}
	return c.print(fmt.Sprintf("%s: %s leads, epoch %d\n", what, s.Leader.Name, s.Epoch.Counter))
}
