package election

import (
	"strings"
	"time"
)

// Difference is one setting on which two members do not agree.
type Difference struct {
	Name        string // as in the configuration file
	Here, There string // "?" where one side does not say
}

// Describe gives what Hash covers as text: name=value pairs with spaces between
// them, always the same in the same order. It is gossiped, so that members that
// do not agree can tell people in what. At most 160 bytes for times up to
// an hour.
//
// The order of the ids has no setting of its own: it goes with the algorithm.
func (c Config) Describe() string {
	c, _ = c.withDefaults()
	mode := "available"
	if c.Expect > 0 {
		mode = "quorum"
	}
	pairs := []string{
		"algorithm=" + c.Algorithm.String(),
		"mode=" + mode,
		"preempt=" + c.Preempt.String(),
		"heartbeat=" + span(c.Heartbeat),
		"lease=" + span(c.Lease),
		"stop_budget=" + span(c.StopBudget),
		"takeover_delay=" + span(c.TakeoverDelay),
	}
	return strings.Join(pairs, " ")
}

// span is a time in ASCII, without the zero units that Duration appends.
func span(d time.Duration) string {
	s := strings.Replace(d.String(), "µ", "u", 1)
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Differences compares two texts of Describe, of which the second may come from
// anywhere. They are in the order of the first; what only the second has
// comes last.
func Differences(here, there string) []Difference {
	var out []Difference
	for pair := range strings.FieldsSeq(here) {
		name, value, _ := strings.Cut(pair, "=")
		if other := settingIn(there, name); other != value {
			out = append(out, Difference{Name: name, Here: value, There: other})
		}
	}
	for pair := range strings.FieldsSeq(there) {
		name, value, _ := strings.Cut(pair, "=")
		if settingIn(here, name) == "?" {
			out = append(out, Difference{Name: name, Here: "?", There: value})
		}
	}
	return out
}

// settingIn finds a value in a text of Describe.
func settingIn(text, name string) string {
	for pair := range strings.FieldsSeq(text) {
		if value, found := strings.CutPrefix(pair, name+"="); found {
			return value
		}
	}
	return "?"
}
