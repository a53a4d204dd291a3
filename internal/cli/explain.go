package cli

import (
	"strings"

	"github.com/bully-agent/bully-agent/internal/control"
)

var explainCommand = command{
	name: "explain", usage: "say why a host leads or not, and what comes next", args: "[MEMBER]", maxArgs: 1, offer: anyMember,
	about: `Without MEMBER it is about this host. The line "ok" lists the needs of the election that are met. Each line "NO" is
		something that keeps the host from leading; "then" is its next step. Of another member it says what this host
		knows; that member itself knows best why it does not lead. The host that leads names the next ones in rank. The command
		ok-to-stop says whether a quorum is left without one.`,
	examples: []string{program + " explain", program + " explain beta"},
	options:  []option{jsonOption, socketOption},
	action: func(c *call) error {
		e, err := c.client().Explain(c.Context.Context, c.Args().First())
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return c.printJSON(e)
		}
		return c.print(c.explainText(e))
	},
}

// explainText has all that is well on one line, and all that is not on one each.
func (c *console) explainText(e control.Explanation) string {
	var well []string
	var b strings.Builder
	for _, r := range e.Reasons {
		if r.OK {
			well = append(well, r.Text)
		} else {
			b.WriteString("  " + c.painted(red, "NO") + "   " + r.Text + "\n")
		}
	}
	head := e.Headline + "\n"
	if len(well) > 0 {
		head += "  " + c.painted(green, "ok") + "   " + strings.Join(well, ", ") + "\n"
	}
	for _, line := range e.Then {
		b.WriteString("  then " + line + "\n")
	}
	return head + b.String()
}
