package cli

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

var historyCommand = command{
	name: "history", usage: "list who led, from when to when",
	about: `The last 200 leaderships, from this host's state directory. Each host keeps its own list: FROM and TO are when it
		heard of another leader and missed it, or when its own lease began and ended. So the lists of two hosts differ a little,
		and a host that was down has gaps. BEGAN and ENDED are the causes that this host saw.`,
	examples: []string{program + " history", program + " history --json"},
	options:  []option{jsonOption, socketOption},
	action: func(c *call) error {
		history, err := c.client().History(c.Context.Context)
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return c.printJSON(history)
		}
		s, err := c.client().Status(c.Context.Context)
		if err != nil {
			return err
		}
		return c.print(historyText(s.Self.Name, history, time.Now()))
	},
}

// lostSight is the cause of a leadership whose end the agent did not see.
const lostSight = "unclean-restart"

// historyText has the newest last, next to the prompt. The causes are those of the host that saw them.
func historyText(who string, history []control.Leadership, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "as %s saw it\n", who)
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EPOCH\tLEADER\tFROM\tTO\tLASTED\tBEGAN\tENDED")
	all := make([]control.Member, len(history))
	for i, l := range history {
		all[i] = control.Member{Name: l.Leader.Name, Addr: l.Leader.Addr}
	}
	label := control.Labels(all)
	for _, l := range history {
		to, lasted := "still leads", span(now.Sub(l.From))
		switch {
		case !l.To.IsZero():
			to, lasted = clock(l.To), span(l.To.Sub(l.From))
		case l.Ended == lostSight:
			to, lasted = "unknown", "-" // this agent died meanwhile
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Epoch.Counter, label(l.Leader.Name, l.Leader.Addr), clock(l.From), to, lasted,
			cmp.Or(l.Began, "-"), cmp.Or(l.Ended, "-"))
	}
	_ = table.Flush()
	return b.String()
}
