package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

var eventsCommand = command{
	name: "events", usage: "show what happened since the agent started",
	about:    "The agent keeps its last 1000 events. With --json each is one line.",
	examples: []string{program + " events", program + " events --since 1h --json", program + " events --follow"},
	options: []option{
		{name: "follow", short: "f", usage: "go on with what happens, until interrupted or the agent stops"},
		{name: "since", value: "TIME", usage: "leave out what is older, such as 10m", fallback: "all"},
		jsonOption, socketOption,
	},
	action: func(c *call) error {
		since, err := c.duration("since")
		if err != nil {
			return err
		}
		var oldest time.Time
		if c.IsSet("since") {
			oldest = time.Now().Add(-since)
		}
		return c.client().Events(c.Context.Context, 0, c.Bool("follow"), func(e control.Event) error {
			if e.Time.Before(oldest) {
				return nil
			}
			if !c.Bool("json") {
				return c.print(eventText(e))
			}
			line, err := json.Marshal(e)
			if err != nil {
				return fmt.Errorf("encode event: %w", err)
			}
			return c.print(string(line) + "\n")
		})
	},
}

// eventText is one line with the keys of the log.
func eventText(e control.Event) string {
	text := fmt.Sprintf("%s  %-10s  %s", clock(e.Time), e.Type, e.Text)
	if e.Type == "transition" {
		text += "  role=" + e.Role
	}
	return text + eventKeys(e) + "\n"
}

// eventKeys is what an event is about, each with a blank before it.
func eventKeys(e control.Event) string {
	var b strings.Builder
	if e.Leader != "" {
		fmt.Fprintf(&b, " leader=%s", e.Leader)
	}
	if e.Epoch != nil {
		fmt.Fprintf(&b, " epoch=%d", e.Epoch.Counter)
	}
	if e.Type == "transition" && e.Cause != "" {
		fmt.Fprintf(&b, " cause=%s", e.Cause)
	}
	return b.String()
}
