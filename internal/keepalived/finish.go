package keepalived

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bully-agent/bully-agent/internal/peers"
)

// finish makes hooks of what was found, and judges what depends on the whole.
func (m *maker) finish(p *party) {
	m.Cluster = label(p.name, 63)
	if m.id > 0 {
		m.Cluster = "vrid-" + strconv.Itoa(m.id)
	}
	m.ids = append(m.ids, m.id)
	for _, s := range m.own {
		if m.add[s.arg(0)] != nil {
			s.fate.kind = carried
		} else {
			s.leave(fmt.Sprintf(`no address stands on it; the agent listens on all of them: bind = '{{ GetInterfaceIP "%s" }}' is that one alone`, s.arg(0)))
		}
	}
	for i := range m.scripts {
		m.scripts[i].command = strings.ReplaceAll(m.scripts[i].command, " PRIORITY ", " "+strconv.Itoa(m.Priority)+" ")
	}
	m.Priority += m.bonus
	m.bound()
	for _, device := range m.devices {
		m.Resources = append(m.Resources, Resource{Addresses: m.add[device], Interface: device})
	}
	m.Become, m.Lose, m.HasAddresses, m.HasScripts = m.becomes(), m.loses(), len(m.devices) > 0, len(m.scripts) > 0
}

// bound keeps the priority from going below 0 if all checks fail; keepalived's ends at 1.
func (m *maker) bound() {
	left := m.Priority
	for i := range m.Checks {
		c := &m.Checks[i]
		if c.Penalty < -left {
			c.Penalty = -left
			m.tracks[i].change(fmt.Sprintf("it takes %d from the priority, which ends at 0; at 0 already, this host does not lead", left))
		}
		left += c.Penalty
	}
}

// becomes are the lines of the become hook. The addresses are resources, which are there before it, as keepalived has it.
func (m *maker) becomes() (lines []string) { return m.told("MASTER", "") }

// loses are the lines of the lose hook.
func (m *maker) loses() (lines []string) {
	by := []struct{ causes, state string }{{peers.CauseStopped, "STOP"}, {strings.Join(peers.Faults(), " | "), "FAULT"}, {"*", "BACKUP"}}
	var cases []string
	for _, b := range by {
		if told := m.told(b.state, "\t"); told != nil {
			cases = append(cases, b.causes+")")
			cases = append(append(cases, told...), "\t;;")
		} else if b.causes != "*" {
			cases = append(cases, b.causes+") ;;")
		}
	}
	if slices.ContainsFunc(m.scripts, func(n notice) bool { return n.on != "MASTER" && n.on != "" }) {
		lines = append(append(append(lines, "case $BULLY_CAUSE in"), cases...), "esac")
	}
	return append(lines, m.told("", "")...)
}

// told are the scripts that are told of a state: those of the state, and for MASTER those of any after them. How they end
// does not matter to keepalived.
func (m *maker) told(state, indent string) (lines []string) {
	for _, n := range m.scripts {
		if n.on == state {
			lines = append(lines, indent+n.command+" || true")
		}
	}
	if state == "MASTER" {
		lines = append(lines, m.told("", indent)...)
	}
	return lines
}

// TOML is the agent's configuration. source is where it comes from.
func (a Agent) TOML(source string) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	say("# Made of %s, %s, by bully-agent import. What it leaves out, that command says.\n", comment(a.Name), comment(source))
	say("cluster = %s\n\n[node]\npriority = %d\n\n[network]\n", text(a.Cluster), a.Priority)
	if a.Port > 0 {
		say("# One of several agents on this host: the port is the same on all hosts.\n")
	}
	if bind := a.bind(); bind != "" {
		say("bind = %s\n", text(bind))
	}
	if a.Address != "" {
		say("advertise = %s\n", text(a.Address))
	}
	if len(a.Join) == 0 {
		say("# keepalived finds the others by multicast; here one that is up must be named, on every host the same.\n# join = [\"alpha.lan\", \"beta.lan\"]\n")
	} else {
		say("join = %s\n", list(a.Join))
	}
	if a.Preempt != "" || a.Delay != "" {
		say("\n[election]\n")
	}
	if a.Preempt != "" {
		say("preempt = %s\n", text(a.Preempt))
	}
	if a.Delay != "" {
		say("preempt_delay = %s\n", text(a.Delay))
	}
	for _, r := range a.Resources {
		say("\n[[resource]]\naddresses = %s\ninterface = %s\n", list(r.Addresses), text(r.Interface))
	}
	a.writeHooks(&b)
	for _, c := range a.Checks {
		say("\n[[check]]\nname = %s\ncommand = %s\ninterval = %s\ntimeout = %s\nrise = %d\nfall = %d\n", text(c.Name), text(c.Command),
			text(c.Interval), text(c.Timeout), c.Rise, c.Fall)
		if c.Penalty != 0 {
			say("on_fail = \"priority %+d\"\n", c.Penalty)
		}
	}
	return b.String()
}

// bind is where the agent listens; "": the default, which a host with IPv4 has for IPv4 alone.
func (a Agent) bind() string {
	isSix := slices.ContainsFunc(append([]string{a.Address}, a.Join...), func(s string) bool { return strings.ContainsRune(s, ':') })
	switch {
	case isSix && a.Port > 0:
		return fmt.Sprintf("[::]:%d", a.Port)
	case isSix:
		return "[::]"
	case a.Port > 0:
		return fmt.Sprintf("0.0.0.0:%d", a.Port)
	}
	return ""
}

func (a Agent) writeHooks(b *strings.Builder) {
	if len(a.Become)+len(a.Lose) == 0 {
		return
	}
	b.WriteString("\n[hooks]\n")
	if slices.ContainsFunc(append(slices.Clone(a.Become), a.Lose...), func(s string) bool { return strings.HasSuffix(s, "|| true") }) {
		b.WriteString("# keepalived does not care how a script ends; without its \"|| true\" one that fails makes this host step down, or\n" +
			"# is run again (docs/hooks.md).\n")
	}
	for _, h := range []struct {
		key   string
		lines []string
	}{{"on_become_leader", a.Become}, {"on_lose_leadership", a.Lose}} {
		if len(h.lines) > 0 {
			fmt.Fprintf(b, "%s = %s\n", h.key, paragraph(append([]string{"exec </dev/null"}, h.lines...)))
		}
	}
	if len(a.Lose) > 0 {
		b.WriteString("# the BACKUP that keepalived says at its start\nat_start = \"lose\"\n")
	}
}

// text is a string of TOML.
func text(s string) string {
	return `"` + strings.ReplaceAll(escape(s), `"`, `\"`) + `"`
}

// paragraph is a string of several lines.
func paragraph(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.ReplaceAll(escape(line), `""`, `"\"`) + "\n")
	}
	return "\"\"\"\n" + b.String() + "\"\"\""
}

// escape takes what a string of TOML may not have.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r < ' ' && r != '\t', r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func list(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = text(w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// comment is a word that stays on its line.
func comment(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}
