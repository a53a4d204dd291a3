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
	name: "history", usage: "list the leaderships that this host's agent saw",
	about: `The last 200, from its state directory, so that they outlive the agent. FROM and TO are what this host saw: of
		another leader when it heard and missed it, of its own leadership until its lease was over. BEGAN and ENDED are the
		causes.`,
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
		return c.print(historyText(history, time.Now()))
	},
}

// lostSight is the cause of a leadership whose end the agent did not see.
const lostSight = "unclean-restart"

// historyText has the newest last, next to the prompt.
func historyText(history []control.Leadership, now time.Time) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EPOCH\tLEADER\tFROM\tTO\tLASTED\tBEGAN\tENDED")
	for _, l := range history {
		to, lasted := "still leads", span(now.Sub(l.From))
		switch {
		case !l.To.IsZero():
			to, lasted = clock(l.To), span(l.To.Sub(l.From))
		case l.Ended == lostSight:
			to, lasted = "unknown", "-" // this agent died meanwhile
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Epoch.Counter, l.Leader.Name, clock(l.From), to, lasted,
			cmp.Or(l.Began, "-"), cmp.Or(l.Ended, "-"))
	}
	_ = table.Flush()
	return b.String()
}
