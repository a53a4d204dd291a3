package keepalived

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What keepalived watches and an agent has as [[check]].

// maxChecks is how many an agent takes.
const maxChecks = 16

// tracking is a line of track_script or track_interface: a name, and perhaps its own weight.
type tracking struct {
	weight    int
	hasWeight bool
	reverse   bool
	isOdd     bool // something else is there
}

func (s *Statement) tracking() (t tracking) {
	words := s.Words[1:]
	if len(words) >= 2 && words[0] == "weight" {
		n, err := strconv.Atoi(words[1])
		t.weight, t.hasWeight, words = n, true, words[2:]
		t.isOdd = err != nil || n < -253 || n > 253
	}
	if len(words) > 0 && (words[0] == "reverse" || words[0] == "noreverse") {
		t.reverse, words = words[0] == "reverse", words[1:]
	}
	t.isOdd = t.isOdd || len(words) > 0
	return t
}

const noReverse = "reverse is not known here: write the check the other way round, as in ! COMMAND"

func (m *maker) takeScripts(s *Statement) {
	s.fate.kind = carried
	for _, t := range s.Block {
		if t.fate.kind != unjudged {
			continue
		}
		script, how := m.converter.scripts[t.Name()], t.tracking()
		switch {
		case script == nil:
			t.leave("there is no vrrp_script of that name")
		case how.isOdd:
			t.leave("expected a name, and perhaps weight and a number")
		case how.reverse:
			t.leave(noReverse)
		default:
			m.script(t, script, how)
		}
	}
}

// script makes a check of a vrrp_script that is tracked.
func (m *maker) script(t, script *Statement, how tracking) {
	check := Check{Name: m.checkName(t.Name()), Rise: 1, Fall: 1}
	weight, interval, timeout := how, 1.0, 0.0
	for _, s := range script.Block {
		switch s.Name() {
		case "script":
			check.Command = s.arg(0)
			if len(s.Words) > 2 { // without quotes it has its arguments behind it
				check.Command = strings.Join(s.Words[1:], " ")
			}
			s.fate.kind = carried
		case "interval":
			interval = s.seconds(interval)
		case "timeout":
			timeout = s.seconds(timeout)
		case "rise":
			check.Rise = s.times(check.Rise)
		case "fall":
			check.Fall = s.times(check.Fall)
		case "weight":
			if own := s.tracking0(); !how.hasWeight {
				weight = own
			}
		case "init_fail":
			s.fate.kind = carried // as all checks here, before the first verdict
		}
	}
	switch {
	case check.Command == "":
		t.leave("the vrrp_script has no script")
		leaveBlock(script, "it has no script")
		return
	case weight.reverse:
		t.leave(noReverse)
		leaveBlock(script, noReverse)
		return
	case !m.mayCheck(t):
		return
	}
	check.Interval, check.Timeout = times(interval, timeout)
	if timeout > interval {
		note(script, "timeout", fmt.Sprintf("it is %s, as interval: a check is not run twice at a time", check.Timeout))
	}
	m.tracked[t.Name()] = true
	script.fate.kind, t.fate.kind = carried, carried
	if how.hasWeight {
		note(script, "weight", "track_script says another")
	}
	if m.isWeightless() && weight.weight != 0 {
		note(script, "weight", zeroInGroup)
		if how.hasWeight {
			t.change(zeroInGroup)
		}
	}
	m.take(check, weight.weight, t)
}

// isWeightless: of the instances of a group keepalived itself makes all weights 0.
func (m *maker) isWeightless() bool { return m.inGroup && m.instance.Name() == "vrrp_instance" }

const zeroInGroup = "it is 0, as keepalived has it in a group: while the check fails this host does not lead"

// take adds a check, with what it does to the priority. One that adds while it passes takes away as much while it fails. What
// a group and its instances track is one check of their agent.
func (m *maker) take(check Check, weight int, t *Statement) {
	if m.isWeightless() {
		weight = 0
	}
	check.Penalty = -max(weight, -weight)
	if m.inGroup && m.has(check, t) {
		return
	}
	m.bonus += max(weight, 0)
	m.Checks, m.tracks = append(m.Checks, check), append(m.tracks, t)
}

// has reports whether there is such a check, under whatever name. An instance's has no weight and so is the stricter one: it holds.
func (m *maker) has(check Check, t *Statement) bool {
	for _, c := range m.Checks {
		twin := check
		twin.Name, twin.Penalty = c.Name, c.Penalty
		switch {
		case c != twin:
		case c.Penalty == check.Penalty:
			return true
		case c.Penalty == 0:
			t.change("an instance of the group tracks it too: while the check fails this host does not lead")
			return true
		}
	}
	return false
}

// tracking0 reads the weight of a vrrp_script, which has the number first.
func (s *Statement) tracking0() tracking {
	s.fate.kind = carried
	t := (&Statement{Words: append([]string{"", "weight"}, s.Words[1:]...)}).tracking()
	if t.isOdd {
		s.leave("expected a number from -253 to 253")
		return tracking{}
	}
	return t
}

// takeInterfaces has a check look at the carrier of each.
func (m *maker) takeInterfaces(s *Statement) {
	s.fate.kind = carried
	for _, t := range s.Block {
		how := t.tracking()
		switch {
		case t.fate.kind != unjudged:
		case !deviceName.MatchString(t.Name()) || how.isOdd:
			t.leave("expected the name of an interface, and perhaps weight and a number")
		case how.reverse:
			t.leave(noReverse)
		case m.mayCheck(t):
			t.fate.kind = carried
			check := Check{Name: m.checkName("link-" + t.Name()), Command: fmt.Sprintf(`test "$(cat /sys/class/net/%s/carrier)" = 1`, t.Name()),
				Interval: "1s", Timeout: "1s", Rise: 1, Fall: 1}
			if m.isWeightless() && how.weight != 0 {
				t.change(zeroInGroup)
			}
			m.take(check, how.weight, t)
		}
	}
}

// mayCheck reports whether there is room for one more check, or names the statement.
func (m *maker) mayCheck(t *Statement) bool {
	if len(m.Checks) < maxChecks {
		return true
	}
	t.leave(fmt.Sprintf("an agent has %d checks at most: write several into one", maxChecks))
	return false
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// label makes a name that is one here.
func label(s string, most int) string {
	s = strings.Trim(notInName.ReplaceAllString(s, "-"), "._-")
	s = strings.TrimRight(s[:min(len(s), most)], "._-")
	if s == "" {
		return "x"
	}
	return s
}

// checkName is one that no other check of this agent has.
func (m *maker) checkName(s string) string {
	name := label(s, 50)
	for n := 2; slices.ContainsFunc(m.Checks, func(c Check) bool { return c.Name == name }); n++ {
		name = fmt.Sprintf("%s-%d", label(s, 50), n)
	}
	return name
}

// seconds reads a time that a check may have.
func (s *Statement) seconds(otherwise float64) float64 {
	n, err := strconv.ParseFloat(s.arg(0), 64)
	if err != nil || !(n >= 0.05 && n <= 3600) {
		s.leave(fmt.Sprintf("expected seconds from 0.05 to 3600: it is %s here", duration(otherwise)))
		return otherwise
	}
	if s.fate.kind == unjudged {
		s.fate.kind = carried
	}
	return n
}

// times reads how many runs it takes.
func (s *Statement) times(otherwise int) int {
	n, err := strconv.Atoi(s.arg(0))
	if err != nil || n < 1 || n > 100 {
		s.leave(fmt.Sprintf("expected a number from 1 to 100: it is %d here", otherwise))
		return otherwise
	}
	s.fate.kind = carried
	return n
}

// times gives interval and timeout: a run of keepalived's has its interval, if nothing else is said.
func times(interval, timeout float64) (string, string) {
	if timeout == 0 || timeout > interval {
		timeout = interval
	}
	return duration(interval), duration(timeout)
}

// note says of a statement of a block that it is not quite the same here.
func note(in *Statement, name, what string) {
	for _, s := range in.Block {
		if s.Name() == name {
			s.change(what)
		}
	}
}
