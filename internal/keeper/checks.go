package keeper

import (
	"maps"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/hooks"
)

// Checks run from the moment at which a keeper has its settings, and need no order: what
// they are the keeper has read itself. The agent is told what has changed.

// Checked receives when Checks or Resources may have something.
func (c *Client) Checked() <-chan struct{} { return c.toCheck }

// Checks gives what has changed about checks since the last call, by name.
func (c *Client) Checks() []hooks.CheckReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := slices.Collect(maps.Values(c.checks))
	clear(c.checks)
	slices.SortFunc(news, func(a, b hooks.CheckReport) int { return strings.Compare(a.Name, b.Name) })
	return news
}

// noteCheck keeps the last word on a check until it is asked for; the caller holds mu. A keeper that knows nothing yet
// does not take back what the one before has said.
func (c *Client) noteCheck(r hooks.CheckReport) {
	if said := c.checks[r.Name]; r.State != hooks.CheckPending || said.State == hooks.CheckPending {
		c.checks[r.Name] = r
	}
	c.wakeAgent()
}

// wakeAgent fills Checked; the caller holds mu.
func (c *Client) wakeAgent() {
	select {
	case c.toCheck <- struct{}{}:
	default:
	}
}
