package screen

import (
	"strings"
	"text/tabwriter"
)

// Row is one line of the table.
type Row struct {
	Cells []string
	Paint string // SGR parameters for the whole line, such as "31"; "": none
}

// Picture is all that a screen shows. Its texts hold nothing that moves a cursor.
type Picture struct {
	Title    []string
	Head     []string
	Rows     []Row
	Selected int      // index of the row that has a mark, and is always in sight
	Recent   []string // newest last
	Message  string
	Help     string // parts are set apart by " · "
}

// Lines lays the picture out for a screen of the given size. If the rows do not all fit, those around the selected one are
// shown; Recent gets what room is left.
func (p Picture) Lines(width, height int) []string {
	around := len(p.Title) + 4 // two blank lines, the table's head, message
	help := wrap(p.Help, width)
	help = help[:min(len(help), max(height-around-1, 1))]
	shown := min(len(p.Rows), max(height-around-len(help), 1))
	first := min(max(p.Selected-shown/2, 0), len(p.Rows)-shown)
	out := append(append([]string{}, p.Title...), "")
	table := len(out) + 1
	out = append(append(out, p.table(first, shown)...), "")
	room := max(height-len(out)-1-len(help), 0)
	out = append(out, p.Recent[max(len(p.Recent)-room, 0):]...)
	out = append(append(out, p.Message), help...)
	for i := range out {
		out[i] = clip(out[i], width)
	}
	for i, r := range p.Rows[first : first+shown] {
		if r.Paint != "" {
			out[table+i] = "\x1b[" + r.Paint + "m" + out[table+i] + "\x1b[0m"
		}
	}
	return out[:min(len(out), height)]
}

// Text is the whole picture for what is no screen: without marks, colours and help.
func (p Picture) Text() string {
	lines := append(append([]string{}, p.Title...), "")
	for _, line := range p.table(0, len(p.Rows)) {
		lines = append(lines, line[len(noMark):])
	}
	if p.Message != "" {
		lines = append(lines, "", p.Message)
	}
	return strings.Join(lines, "\n") + "\n"
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

// What stands before each row.
const (
	mark   = "> "
	noMark = "  "
)

// table is the head and the rows from first on, in columns.
func (p Picture) table(first, shown int) []string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	write := func(mark string, cells []string) {
		_, _ = columns.Write([]byte(mark + strings.Join(cells, "\t") + "\n")) // a Builder takes everything
	}
	write(noMark, p.Head)
	for i, r := range p.Rows[first : first+shown] {
		if first+i == p.Selected {
			write(mark, r.Cells)
		} else {
			write(noMark, r.Cells)
		}
	}
	_ = columns.Flush()
	return strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
}

func clip(s string, width int) string {
	if runes := []rune(s); len(runes) > width {
		return string(runes[:max(width, 0)])
	}
	return s
}
