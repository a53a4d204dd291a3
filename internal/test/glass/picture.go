package glass

import (
	"fmt"
	"html"
	"strings"
)

// Of a picture, in its own units.
const (
	charWidth, lineHeight = 8, 18
	margin                = 12
)

// colours are those of SGR parameters that our programs use; the rest is drawn plain. Bold and faint are not colours.
var colours = map[string]string{
	"1": `font-weight="bold"`, "2": `fill="#8b95a1"`,
	"31": `fill="#ff7b72"`, "32": `fill="#56d364"`, "33": `fill="#e3b341"`, "34": `fill="#79c0ff"`, "35": `fill="#d2a8ff"`, "36": `fill="#76e3ea"`,
}

// Picture is what is seen, as an SVG: its first lines, as many as there is something on, and as broad as the longest of them,
// so that a narrow page shows its type as large as it can.
func (t *Terminal) Picture(title string) []byte {
	lines, columns := strings.Count(t.String(), "\n"), 0
	for line := range strings.Lines(t.String()) {
		columns = max(columns, len([]rune(strings.TrimSuffix(line, "\n"))))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n",
		columns*charWidth+2*margin, lines*lineHeight+2*margin, html.EscapeString(title))
	b.WriteString(`<style>text{font:13.3px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#e6edf3;white-space:pre}</style>` + "\n")
	b.WriteString(`<rect width="100%" height="100%" rx="8" fill="#0d1117"/>` + "\n")
	for i, row := range t.rows[:lines] {
		drawLine(&b, row, margin+lineHeight*(i+1)-5)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// drawLine draws what is painted alike in one piece. Each piece says how long it is, so that columns stand one under
// another in whatever font there is.
func drawLine(b *strings.Builder, row []cell, y int) {
	for from := 0; from < len(row); {
		to := from
		for to < len(row) && row[to].paint == row[from].paint {
			to++
		}
		if piece := strings.TrimRight(text(row[from:to]), " "); piece != "" {
			start := len(piece) - len(strings.TrimLeft(piece, " "))
			piece = piece[start:]
			fmt.Fprintf(b, `<text x="%d" y="%d" textLength="%d" %s>%s</text>`+"\n", margin+charWidth*(from+start), y,
				charWidth*len([]rune(piece)), colours[row[from].paint], html.EscapeString(piece))
		}
		from = to
	}
}
