package cli

import (
	"fmt"
	"strconv"

	"github.com/bully-agent/bully-agent/internal/control"
)

var reloadCommand = command{
	name: "reload", usage: "have the agent read its configuration again",
	about: `As SIGHUP, but says what came of it: an invalid configuration changes nothing, and the exit code is 7. Changed
		settings that need a restart are named, here and in status, until the agent was restarted.`,
	examples: []string{program + " reload", program + " reload --json"},
	options:  []option{{name: "drop", usage: "leave out members that hosts does not name any more"}, jsonOption, socketOption},
	action: func(c *call) error {
		client := c.client()
		// An agent that is frozen takes the order and never answers, and systemd would wait for ever; a question has a bound.
		if _, err := client.Status(c.Context.Context); err != nil {
			return err
		}
		if err := client.Reload(c.Context.Context, c.Bool("drop")); err != nil {
			return err
		}
		s, err := client.Status(c.Context.Context)
		if err != nil {
			return fmt.Errorf("configuration reloaded, and then: %w", err)
		}
		if c.Bool("json") {
			return c.printJSON(reloadDone{Done: true, Waiting: s.Waiting})
		}
		return c.print("configuration reloaded\n" + c.waitingText(s.Waiting))
	},
}

// reloadDone is what reload prints with --json.
type reloadDone struct {
	Done    bool              `json:"done"`
	Waiting []control.Waiting `json:"waiting"` // settings that hold only after a restart
}

func (c *console) waitingText(waiting []control.Waiting) string {
	text := ""
	for _, w := range waiting {
		text += c.painted(yellow, "not applied") + fmt.Sprintf(": %s is %s until the agent is restarted, then %s\n",
			w.Setting, shown(w.Now), shown(w.Then))
	}
	return text
}

// shown is a value that may be empty or hold anything.
func shown(value string) string {
	if value == "" || strconv.Quote(value) != `"`+value+`"` {
		return strconv.Quote(value)
	}
	return value
}
