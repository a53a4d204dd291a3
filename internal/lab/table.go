package lab

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// row is one node in the live table.
type row struct {
	name, role, leader, state, hook, cable string
	pid                                    int
	epoch                                  uint64
}

// picture is all that the live screen shows.
type picture struct {
	title    string
	rows     []row
	selected int
	recent   []verdict.Record // newest last
	message  string
	help     string
}

// lines lays the picture out for a screen of the given size. If the nodes do not all fit, those around the selected one
// are shown; the records get what room is left.
func (p picture) lines(width, height int) []string {
	const around = 5 // title, two blank lines, the table's head, message
	help := wrap(p.help, width)
	help = help[:min(len(help), max(height-around-1, 1))]
	shown := min(len(p.rows), max(height-around-len(help), 1))
	first := min(max(p.selected-shown/2, 0), len(p.rows)-shown)
	out := append([]string{p.title, ""}, p.table(first, shown)...)
	out = append(out, "")
	room := max(height-len(out)-1-len(help), 0)
	for _, r := range p.recent[max(len(p.recent)-room, 0):] {
		out = append(out, r.String())
	}
	out = append(append(out, p.message), help...)
	for i := range out {
		out[i] = clip(out[i], width)
	}
	return out
}

// wrap breaks a line between its parts where it is longer than width.
func wrap(line string, width int) []string {
	const between = " · "
	var lines []string
	for part := range strings.SplitSeq(line, between) {
		if last := len(lines) - 1; last >= 0 && len([]rune(lines[last]+between+part)) <= width {
			lines[last] += between + part
		} else {
			lines = append(lines, part)
		}
	}
	return lines
}

// table is the head and the rows from first on, in columns.
func (p picture) table(first, shown int) []string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprint(columns, "  NAME\tPID\tROLE\tLEADER\tEPOCH\tSTATE\tCABLE\tLAST HOOK\n")
	for i, r := range p.rows[first : first+shown] {
		mark := "  "
		if first+i == p.selected {
			mark = "> "
		}
		fmt.Fprintf(columns, "%s%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", mark, r.name, number(uint64(r.pid)), orDash(r.role), orDash(r.leader),
			number(r.epoch), r.state, r.cable, orDash(r.hook))
	}
	columns.Flush()
	return strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
}

func number(n uint64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatUint(n, 10)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func clip(s string, width int) string {
	if runes := []rune(s); len(runes) > width {
		return string(runes[:max(width, 0)])
	}
	return s
}

// row is what is known of n: from its process, from what it answered last, and from its hooks.
func (n *node) row(v view, records []verdict.Record, now time.Duration) row {
	r := row{name: n.name, cable: "-"}
	r.state, r.pid = n.condition()
	if r.pid != 0 && v.node != nil && v.err == nil {
		r.role, r.epoch = v.status.Role, v.status.Epoch.Counter
		if v.status.Leader != nil {
			r.leader = v.status.Leader.Name
		}
	}
	if n.host != nil {
		r.cable = "in"
		if n.isSevered() {
			r.cable = "PULLED"
		}
	}
	for _, x := range records {
		if x.Node == n.name && (x.What == verdict.Became || x.What == verdict.Lost) {
			r.hook = fmt.Sprintf("%s, epoch %d, %s ago", x.What, x.Epoch.Counter, (now - x.At).Round(time.Second))
		}
	}
	return r
}
