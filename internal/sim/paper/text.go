package paper

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// textWidth is the width of paragraphs; a table is as wide as its figures.
const textWidth = 80

const legend = `Messages of one election or join, counted in runs where no message is lost and each
	takes the same time. n is the number of nodes, crashed ones included.`

// key explains the headings and marks, in the order of reading.
const key = `
  sent  datagrams, those addressed to crashed nodes included
  live  datagrams addressed to nodes that are alive
  cast  sendings: one message to many nodes is a single broadcast
  *     counted by the paper in its table
  -     not run
`

// Text is the tables for a terminal.
func Text(tables []Table) string {
	var b strings.Builder
	b.WriteString(paragraph(legend, 0) + key)
	for _, t := range tables {
		b.WriteString("\n" + t.Title + "\n\n" + t.grid() + "\n")
		b.WriteString(paragraph(t.About, 2))
		for _, row := range t.Rows {
			b.WriteString(paragraph(row.Name+": "+row.Note, 2))
		}
	}
	return b.String()
}

// grid is the figures, three columns for each size.
func (t Table) grid() string {
	lines := t.lines()
	widths := columnWidths(lines)
	var b strings.Builder
	b.WriteString(t.sizesLine(widths))
	for _, line := range lines {
		text := fmt.Sprintf("  %-*s", widths[0], line[0])
		for i, cell := range line[1:] {
			text += strings.Repeat(" ", gap(i)+widths[i+1]-utf8.RuneCountInString(cell)) + cell
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

// gap is the space before a column of figures: a size's three stand together.
func gap(column int) int {
	if column%3 == 0 {
		return 3
	}
	return 1
}

// lines are the cells, the heading first.
func (t Table) lines() [][]string {
	heading := []string{""}
	for range t.Sizes {
		heading = append(heading, "sent", "live", "cast")
	}
	lines := [][]string{heading}
	for _, row := range t.Rows {
		line := []string{row.Name}
		for _, c := range row.Counts {
			for _, counting := range []Counting{BySent, ByLive, ByBroadcast} {
				line = append(line, figure(c.By(counting), counting == row.Paper))
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func figure(count int, papers bool) string {
	switch {
	case count < 0: // NotRun
		return "-"
	case papers:
		return "*" + strconv.Itoa(count)
	}
	return strconv.Itoa(count)
}

func columnWidths(lines [][]string) []int {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// sizesLine is the heading above the three columns of each size, beginning where
// they begin.
func (t Table) sizesLine(widths []int) string {
	text, at := "", 2+widths[0]
	for i, n := range t.Sizes {
		text += strings.Repeat(" ", at+gap(0)-len(text)) + "n = " + strconv.Itoa(n)
		for column := 3 * i; column < 3*i+3; column++ {
			at += gap(column) + widths[column+1]
		}
	}
	return text + "\n"
}

// paragraph breaks text into lines, those after the first indented.
func paragraph(text string, indent int) string {
	var b strings.Builder
	line, margin := strings.Repeat(" ", indent), strings.Repeat(" ", indent+2)
	if indent == 0 {
		margin = ""
	}
	start := len(line)
	for _, word := range strings.Fields(text) {
		if len(line) > start && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > textWidth {
			b.WriteString(line + "\n")
			line, start = margin, len(margin)
		}
		if len(line) > start {
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}
