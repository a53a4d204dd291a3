package keeper

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/hooks/checkrun"
)

// Checks run from the moment at which a keeper has its settings, and need no order: what
// they are the keeper has read itself. The agent is told what has changed.

// sayCheck tells of one check. It is called on the check's goroutine, and does not wait.
func (k *keeper) sayCheck(r checkrun.Report) { k.out.add(report{Say: sayCheck, Check: &r}) }

// endChecks ends what runs of them and of the programs that name hosts, in the background.
func (k *keeper) endChecks() {
	k.endAsks()
	if k.checks != nil {
		go k.checks.Close()
	}
}

// awaitChecks has all of these end, and waits for that a moment: what they have started would
// outlive this process.
func (k *keeper) awaitChecks() {
	k.endAsks()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if k.checks != nil {
			k.checks.Close()
		}
		k.asking.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(goodbye):
	}
}

// Checked receives when Checks or Resources may have something.
func (c *Client) Checked() <-chan struct{} { return c.toCheck }

// Checks gives what has changed about checks since the last call, by name.
func (c *Client) Checks() []checkrun.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := slices.Collect(maps.Values(c.checks))
	clear(c.checks)
	slices.SortFunc(news, func(a, b checkrun.Report) int { return strings.Compare(a.Name, b.Name) })
	return news
}

// noteCheck keeps the last word on a check until it is asked for; the caller holds mu.
func (c *Client) noteCheck(r checkrun.Report) {
	c.checks[r.Name] = r
	c.wakeAgent()
}

// wakeAgent fills Checked; the caller holds mu.
func (c *Client) wakeAgent() {
	select {
	case c.toCheck <- struct{}{}:
	default:
	}
}
