package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

var handoverCommand = command{
	name: "handover", operand: "to", usage: "have this host, which leads, hand over to the one named",
	about: `As step-down, but to the member with this name or id; see members. Where that member is dead, unknown, an observer or
		this host itself, nothing changes and the exit code is 6. A host of higher priority takes over again after the preempt
		delay where preempt is priority or always; a note on standard error says which will.`,
	examples: []string{program + " handover --to beta", program + " handover --to beta --json"},
	options:  []option{{name: "to", value: "NODE", offer: successors, usage: "name or id of the member, or the beginning of the id"}, jsonOption, socketOption},
	action: func(c *call) error {
		to := c.String("to")
		if to == "" {
			return usage("see "+program+" members", "--to is missing: expected a member's name or id")
		}
		err := c.order("handed over", func(ctx context.Context, client *control.Client) error { return client.HandOver(ctx, to) })
		if err == nil {
			c.noteTakeBack()
		}
		return err
	},
}

// noteTakeBack says who takes over again, by what was configured: the hand-over is done, and would be undone unasked.
func (c *call) noteTakeBack() {
	e, err := c.client().Explain(c.Context.Context, "")
	if err != nil {
		return // the order was carried out; status says the rest
	}
	var leader string
	var best *control.Host
	for i, h := range e.Cluster.Hosts {
		switch isFree := h.Here && len(h.Bars) == 0 && h.Role == "voter"; {
		case h.Leader:
			leader = h.Name
		case h.Preempts && isFree && (best == nil || h.Priority > best.Priority):
			best = &e.Cluster.Hosts[i]
		}
	}
	if leader == "" || best == nil {
		return
	}
	_, _ = fmt.Fprintf(c.err, "note: preempt = %q: %s hands over to %s again when that has followed it for preempt_delay (%v, and longer while leaderships are lost often). "+
		"To prevent it: %s maintenance on, at %s, or preempt = \"never\" on all hosts\n",
		e.Cluster.Preempt, leader, best.Name, time.Duration(e.Cluster.PreemptDelay), program, best.Name)
}
