package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// The options that several commands share.
var (
	socketOption = option{name: "socket", value: "PATH",
		usage:    "the agent's socket; BULLY_SOCKET names one too",
		fallback: "/run/bully-agent/agent.sock as root, else under $XDG_RUNTIME_DIR or the state directory"}
	jsonOption = option{name: "json", usage: "print JSON"}
)

// client calls the agent that the flags and the environment name.
func (c *call) client() *control.Client { return control.Dial(c.socketPath()) }

func (c *call) socketPath() string {
	if c.IsSet(socketOption.name) {
		path := c.String(socketOption.name)
		return c.instance.socket(&path)
	}
	return c.instance.socket(nil)
}

// duration parses a flag's value; 0 when it was not given.
func (c *call) duration(flag string) (time.Duration, error) {
	if !c.IsSet(flag) {
		return 0, nil
	}
	d, err := time.ParseDuration(c.String(flag))
	if err != nil || d < 0 {
		hint := ""
		if _, err := strconv.ParseUint(c.String(flag), 10, 32); err == nil {
			hint = fmt.Sprintf("write --%s %ss", flag, c.String(flag))
		}
		return 0, usage(hint, "--%s is %s: expected a time such as 500ms, 10s or 2h", flag, strconv.Quote(c.String(flag)))
	}
	return d, nil
}

// span is a duration as people say it: no more digits than they care for.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// The times that people are shown are this host's, with their offset from UTC:
// whoever compares two hosts need not know what is set where. Coming slots are
// the job's zone's; JSON is RFC 3339.
const (
	dayLayout   = "2006-01-02"
	clockLayout = "15:04:05 -0700"
)

// clock is a time as the tables show it, to the millisecond.
func clock(t time.Time) string { return t.Local().Format(dayLayout + " 15:04:05.000 -0700") }
