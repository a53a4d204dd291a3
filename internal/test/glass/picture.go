package glass

import (
	"fmt"
	"html"
	"strings"
)

// Of a picture, in its own units.
const (
	charWidth, lineHeight = 8, 18
	margin                = 8
	enlarged              = 1.25 // on a wide screen
)

// looks are those of SGR parameters that our programs use; the rest is drawn plain.
var looks = map[string]string{"1": "bold", "2": "faint", "31": "red", "32": "green", "33": "yellow", "34": "blue", "35": "magenta", "36": "cyan"}

// style has the reader's scheme, light or dark.
const style = `
  .ground { fill: #ffffff; stroke: #d1d9e0 }
  text { fill: #1f2328; font: 13.3px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre }
  .bold { font-weight: bold }
  .faint { fill: #59636e }
  .red { fill: #b3261e }
  .green { fill: #006b44 }
  .yellow { fill: #7d5200 }
  .blue { fill: #0550ae }
  .magenta { fill: #8250df }
  .cyan { fill: #1b6f7a }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #30363d }
    text { fill: #e6edf3 }
    .faint { fill: #8b95a1 }
    .red { fill: #ff7b72 }
    .green { fill: #56d364 }
    .yellow { fill: #e3b341 }
    .blue { fill: #79c0ff }
    .magenta { fill: #d2a8ff }
    .cyan { fill: #76e3ea }
  }
`

// Picture is what is seen, as an SVG: its first lines, as many as there is something on, and as broad as the longest of them,
// so that a narrow page shows its type as large as it can.
func (t *Terminal) Picture(title string) []byte {
	lines, columns := t.filled()
	width, height := columns*charWidth+2*margin, lines*lineHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%.0f" height="%.0f" role="img" aria-label="%s">`+"\n",
		width, height, enlarged*float64(width), enlarged*float64(height), html.EscapeString(title))
	fmt.Fprintf(&b, "<style>%s</style>\n", style)
	fmt.Fprintf(&b, `<rect class="ground" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`+"\n", width-1, height-1)
	for i, row := range t.rows[:lines] {
		drawLine(&b, row, margin+lineHeight*(i+1)-5)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// filled is how many lines and columns there is something in.
func (t *Terminal) filled() (lines, columns int) {
	for line := range strings.Lines(t.String()) {
		lines, columns = lines+1, max(columns, len([]rune(strings.TrimSuffix(line, "\n"))))
	}
	return lines, columns
}

// drawLine draws what is painted alike in one piece. Each piece says how long it is, so that columns stand one under
// another in whatever font there is.
func drawLine(b *strings.Builder, row []cell, y int) {
	for _, p := range pieces(row) {
		start := len(p.text) - len(strings.TrimLeft(p.text, " "))
		fmt.Fprintf(b, `<text class="%s" x="%d" y="%d" textLength="%d">%s</text>`+"\n", looks[p.paint], margin+charWidth*(p.column+start), y,
			charWidth*(len([]rune(p.text))-start), html.EscapeString(p.text[start:]))
	}
}

// A piece is a part of a line that is painted alike.
type piece struct {
	column      int
	paint, text string // without spaces at the end
}

// pieces leaves out those that are blank.
func pieces(row []cell) (all []piece) {
	for from := 0; from < len(row); {
		to := from
		for to < len(row) && row[to].paint == row[from].paint {
			to++
		}
		if text := strings.TrimRight(text(row[from:to]), " "); text != "" {
			all = append(all, piece{from, row[from].paint, text})
		}
		from = to
	}
	return all
}

// Painted is what is seen, with the sequences that paint it: Show makes the same screen of it.
func (t *Terminal) Painted() string {
	lines, _ := t.filled()
	var b strings.Builder
	for _, row := range t.rows[:lines] {
		column := 0
		for _, p := range pieces(row) {
			b.WriteString(strings.Repeat(" ", p.column-column))
			if p.paint == "" {
				b.WriteString(p.text)
			} else {
				b.WriteString("\x1b[" + p.paint + "m" + p.text + "\x1b[0m")
			}
			column = p.column + len([]rune(p.text))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Show is a terminal that is as large as what Painted has given, and shows it.
func Show(painted string) *Terminal {
	lines := strings.Split(strings.TrimSuffix(painted, "\n"), "\n")
	broadest := 1
	for _, line := range lines {
		broadest = max(broadest, len([]rune(line)))
	}
	t := New(broadest, len(lines))
	t.Write(strings.Join(lines, "\r\n"))
	return t
}
