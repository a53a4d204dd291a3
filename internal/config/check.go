package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// Check is one [[check]]: a command that says whether this host is fit to lead.
type Check struct {
	Name       string  // as Node.Name
	Command    Command // not zero
	Interval   time.Duration
	Timeout    time.Duration // at most Interval
	Rise, Fall int           // 1–100
	// Penalty is added to the priority while the check fails; 0: this host does not lead then.
	Penalty int

	item
}

const checkName = "check"

// Defaults of a check, and its ranges. The numbers are keepalived's habits, except for the timeout.
const (
	checkInterval = 2 * time.Second
	checkTimeout  = time.Second
	checkRise     = 2
	checkFall     = 3
)

// check is the one that is being read.
func (c *Config) check() *Check { return &c.Checks[len(c.Checks)-1] }

var checkKeys = []itemKey{
	{"name", `name = "nginx"`, label(func(c *Config) *string { return &c.check().Name })},
	{"command", `command = ["/usr/bin/curl", "-fsS", "http://127.0.0.1/"]`, command(func(c *Config) *Command { return &c.check().Command })},
	{"interval", "", duration(func(c *Config) *time.Duration { return &c.check().Interval }, 50*time.Millisecond, time.Hour)},
	{"timeout", "", duration(func(c *Config) *time.Duration { return &c.check().Timeout }, 10*time.Millisecond, time.Hour)},
	{"rise", "", integer(func(c *Config) *int { return &c.check().Rise }, 1, 100)},
	{"fall", "", integer(func(c *Config) *int { return &c.check().Fall }, 1, 100)},
	{"on_fail", "", onFail(func(c *Config) *int { return &c.check().Penalty })},
}

// applyChecks reads the [[check]] tables.
func (l *loader) applyChecks(tables []arrayTable) {
	for i, t := range tables {
		if i == hooks.MaxChecks {
			l.report(wrong("it is the %dth check: expected at most %d", i+1, hooks.MaxChecks).at(t.place, checkName))
			return
		}
		l.config.Checks = append(l.config.Checks, Check{Interval: checkInterval, Timeout: checkTimeout, Rise: checkRise, Fall: checkFall,
			item: newItem(checkName, t)})
		l.applyItem(&l.config.check().item, checkKeys, t.entries)
		l.checkCheck()
	}
}

// checkCheck looks at the one that was read as a whole.
func (l *loader) checkCheck() {
	c := l.config.check()
	l.checkItemCommand(&c.item, c.Command)
	if key := "interval"; c.Interval < c.Timeout && !c.failed["interval"] && !c.failed["timeout"] {
		if !c.has(key) {
			key = "timeout"
		}
		l.reportItem(&c.item, key, wrong("interval %s is shorter than timeout %s: expected an interval of at least %s, since a check is not run twice at a time",
			shortDuration(c.Interval), shortDuration(c.Timeout), shortDuration(c.Timeout)).hint("raise interval or lower timeout"))
	}
	for i := range l.config.Checks[:len(l.config.Checks)-1] {
		twin := &l.config.Checks[i]
		l.checkTwin(&c.item, c.Name, twin.Name == c.Name, &twin.item)
	}
}

// checkPenalties refuses what would take the priority out of its range if all checks failed.
func (l *loader) checkPenalties() {
	least, most := int(l.config.Node.Priority), int(l.config.Node.Priority)
	if l.failed["node.priority"] {
		return
	}
	for i := range l.config.Checks {
		c := &l.config.Checks[i]
		if c.Penalty < 0 {
			least += c.Penalty
		} else {
			most += c.Penalty
		}
		worst := least
		if most > 65535 {
			worst = most
		}
		if worst < 0 || worst > 65535 {
			l.reportItem(&c.item, "on_fail", wrong("priority %d would become %d if all checks failed that change it: expected 0–65535",
				l.config.Node.Priority, worst).hint("set priority so that it stays in that range, on all hosts"))
			return
		}
	}
}

// onFail reads what becomes of this host while the check fails.
func onFail(at func(*Config) *int) field {
	const expected = `"ineligible" or "priority -50"`
	return field{
		parse: func(l *loader, v value) *Error {
			s, err := v.text(expected)
			if err != nil {
				return err
			}
			number, isPriority := strings.CutPrefix(s, "priority ")
			n, bad := strconv.Atoi(strings.TrimSpace(number))
			switch {
			case s == "ineligible":
				*at(l.config) = 0
			case !isPriority || bad != nil:
				return wrong("%s is neither: expected %s", v.literal(s), expected)
			case n == 0 || n < -65535 || n > 65535:
				return wrong("%s is no change of a priority: expected a number such as -50, from -65535 to 65535", v.literal(s))
			default:
				*at(l.config) = n
			}
			return nil
		},
		get: func(c *Config) any { return onFailText(*at(c)) },
	}
}

func onFailText(penalty int) string {
	if penalty == 0 {
		return "ineligible"
	}
	return fmt.Sprintf("priority %+d", penalty)
}
