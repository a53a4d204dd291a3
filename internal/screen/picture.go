package screen

import (
	"fmt"
	"slices"
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
	Notes    []string // what a person should know, the most urgent first
	More     string   // behind the last note that has room, how many have none: "(and %d more in status)"
	Message  string
	Help     string // parts are set apart by " · "
}

// Lines lays the picture out for a screen of the given size. If the rows do not all fit, those around the selected one are
// shown. Half of the room that is left is for Notes and Message, and Recent gets the rest.
func (p Picture) Lines(width, height int) []string {
	out := append(p.title(width, height), "")
	table, around := len(out)+1, len(out)+3 // the table's head, a blank line, a note or message
	help := wrap(p.Help, width)
	help = help[:min(len(help), max(height-around-1, 1))]
	shown := min(len(p.Rows), max(height-around-len(help), 1))
	first := min(max(p.Selected-shown/2, 0), len(p.Rows)-shown)
	out = append(append(out, p.table(p.columns(width), first, shown)...), "")
	room := max(height-len(out)-len(help), 1)
	said := p.said(width, max(room/2, 1))
	out = append(append(out, p.recent(width, room-len(said))...), said...)
	out = append(out, help...)
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

// title is broken into lines, unless they would leave the rest too little of the screen: then the ends are cut off.
func (p Picture) title(width, height int) (lines []string) {
	for _, line := range p.Title {
		lines = append(lines, fold(line, width)...)
	}
	if len(lines) > height/3 {
		return slices.Clone(p.Title)
	}
	return lines
}

// recent are the last texts that fit into so many lines whole.
func (p Picture) recent(width, room int) (lines []string) {
	for _, text := range slices.Backward(p.Recent) {
		folded := fold(text, width)
		if len(folded)+len(lines) > room {
			break
		}
		lines = append(folded, lines...)
	}
	return lines
}

// said are the notes and the message, in at most so many lines; a message always, and a blank line where there is neither.
func (p Picture) said(width, room int) []string {
	message := fold(p.Message, width)
	message = message[:min(len(message), room)]
	if len(p.Notes) == 0 {
		return message
	}
	if p.Message == "" {
		message = nil
	}
	return append(p.notes(width, room-len(message)), message...)
}

// notes are those that fit into so many lines, the first at least, and how many do not.
func (p Picture) notes(width, room int) (lines []string) {
	if room <= 0 {
		return nil
	}
	last := 0 // index of the last note that is shown
	for i, n := range p.Notes {
		folded := fold(n, width)
		if i > 0 && len(lines)+len(folded) > room {
			break
		}
		lines, last = append(lines, folded...), i
	}
	left := len(p.Notes) - 1 - last
	if left == 0 && len(lines) <= room {
		return lines
	}
	more := ""
	if left > 0 {
		more = " " + fmt.Sprintf(p.More, left)
	}
	if len(lines) < room {
		return append(lines, fold(more[1:], width)[0])
	}
	lines = lines[:min(len(lines), room)]
	end := &lines[len(lines)-1]
	*end = clip(*end, width-len([]rune(more))) + more
	return lines
}

// Text is the whole picture for what is no screen: without marks, colours and help.
func (p Picture) Text() string {
	lines := append(append([]string{}, p.Title...), "")
	for _, line := range p.table(len(p.Head), 0, len(p.Rows)) {
		lines = append(lines, line[len(noMark):])
	}
	said := p.Notes
	if p.Message != "" {
		said = append(slices.Clone(said), p.Message)
	}
	if len(said) > 0 {
		lines = append(append(lines, ""), said...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// fold breaks a line between words where it is longer than width. What follows stands below the first line's second column, if
// it has one: two spaces set columns apart.
func fold(line string, width int) []string {
	rest := []rune(line)
	indent := secondColumn(line)
	if indent > width/2 {
		indent = 0
	}
	var lines []string
	for lead := 0; len(rest) > width-lead && width > lead; lead = indent {
		at := breakAt(rest, width-lead)
		lines = append(lines, strings.Repeat(" ", lead)+strings.TrimRight(string(rest[:at]), " "))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
	}
	if lead := min(len(lines), 1) * indent; len(rest) > 0 || len(lines) == 0 {
		lines = append(lines, strings.Repeat(" ", lead)+string(rest))
	}
	return lines
}

// secondColumn is where it begins; without one, a bit to the right.
func secondColumn(line string) int {
	const without = 2
	start := len(line) - len(strings.TrimLeft(line, " "))
	head, after, found := strings.Cut(line[start:], "  ")
	if !found {
		return start + without
	}
	return start + len([]rune(head)) + len("  ") + len(after) - len(strings.TrimLeft(after, " "))
}

// breakAt is how much of a text fits into the width, as whole words unless the first word is longer.
func breakAt(text []rune, width int) int {
	for at := width; at > 0; at-- {
		if text[at] == ' ' {
			return at
		}
	}
	return width
}

// wrap breaks a line between its parts where it is longer than width.
func wrap(line string, width int) []string {
	const dot = " · "
	var lines []string
	for part := range strings.SplitSeq(line, dot) {
		if last := len(lines) - 1; last >= 0 && len([]rune(lines[last]+dot+part)) <= width {
			lines[last] += dot + part
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

// leastColumns are shown on whatever screen, though it cuts them off.
const leastColumns = 2

// columns is how many of the table have room as a whole. Half an address would read as another one.
func (p Picture) columns(width int) int {
	used := len(noMark)
	for i := range p.Head {
		widest := len([]rune(p.Head[i]))
		for _, r := range p.Rows {
			widest = max(widest, len([]rune(r.Cells[i])))
		}
		if used += widest; used > width && i >= leastColumns {
			return i
		}
		used += between
	}
	return len(p.Head)
}

// between is how many spaces set two columns apart.
const between = 2

// table is the head and the rows from first on, in so many columns.
func (p Picture) table(columns, first, shown int) []string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, between, ' ', 0)
	write := func(mark string, cells []string) {
		_, _ = table.Write([]byte(mark + strings.Join(cells[:columns], "\t") + "\n")) // a Builder takes everything
	}
	write(noMark, p.Head)
	for i, r := range p.Rows[first : first+shown] {
		if first+i == p.Selected {
			write(mark, r.Cells)
		} else {
			write(noMark, r.Cells)
		}
	}
	_ = table.Flush()
	return strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
}

func clip(s string, width int) string {
	if runes := []rune(s); len(runes) > width {
		return string(runes[:max(width, 0)])
	}
	return s
}
