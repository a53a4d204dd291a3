// Package glass is a terminal for tests: it takes what a program writes and has what a person would see.
package glass

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Terminal has a screen of a fixed size, and an other one that programs take over. It knows the few sequences that ours
// write, and notes those that it does not know.
type Terminal struct {
	Scrolled int      // lines that left the screen at the top
	Unknown  []string // sequences
	Coloured bool     // a colour was asked for
	Other    bool     // the other screen is shown
	Hidden   bool     // the cursor is

	width, height int
	rows          [][]cell
	paint         string // of what is written next: the parameters of the last SGR sequence
	row, col      int
	isFull        bool   // the last column was written: the next character wraps
	kept          string // of a sequence that has not ended
}

// cell is one character and how it is painted.
type cell struct {
	rune
	paint string
}

// New is an empty terminal.
func New(width, height int) *Terminal {
	t := &Terminal{}
	t.Resize(width, height)
	return t
}

// Resize changes the size; what was there is gone, as nobody draws but to draw all.
func (t *Terminal) Resize(width, height int) {
	t.width, t.height, t.row, t.col, t.isFull = width, height, 0, 0, false
	t.rows = make([][]cell, height)
	for i := range t.rows {
		t.rows[i] = blank(width)
	}
}

func blank(width int) []cell { return slices.Repeat([]cell{{rune: ' '}}, width) }

// Write takes what a program writes; a sequence may come in parts.
func (t *Terminal) Write(text string) {
	text = t.kept + text
	t.kept = ""
	for len(text) > 0 {
		if text[0] == '\x1b' {
			rest, isWhole := t.sequence(text)
			if !isWhole {
				t.kept = text
				return
			}
			text = rest
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && !utf8.FullRuneInString(text) {
			t.kept = text
			return
		}
		text = text[size:]
		t.character(r)
	}
}

func (t *Terminal) character(r rune) {
	switch r {
	case '\r':
		t.col, t.isFull = 0, false
	case '\n':
		t.down()
	default:
		if t.isFull {
			t.col, t.isFull = 0, false
			t.down()
		}
		t.rows[t.row][t.col] = cell{r, t.paint}
		if t.col++; t.col == t.width {
			t.col, t.isFull = t.width-1, true
		}
	}
}

func (t *Terminal) down() {
	t.isFull = false
	if t.row++; t.row == t.height {
		t.row--
		t.Scrolled++
		t.rows = append(t.rows[1:], blank(t.width))
	}
}

// sequence does what ESC [ parameters letter says.
func (t *Terminal) sequence(text string) (rest string, isWhole bool) {
	end := strings.IndexFunc(text[min(2, len(text)):], func(r rune) bool { return r >= '@' })
	if end < 0 {
		return "", false
	}
	parameters, letter, rest := text[2:2+end], text[2+end], text[3+end:]
	switch sequence := parameters + string(letter); {
	case sequence == "H":
		t.row, t.col, t.isFull = 0, 0, false
	case sequence == "K":
		copy(t.rows[t.row][t.col:], blank(t.width-t.col))
	case sequence == "J":
		copy(t.rows[t.row][t.col:], blank(t.width-t.col))
		for i := t.row + 1; i < t.height; i++ {
			t.rows[i] = blank(t.width)
		}
	case sequence == "?1049h", sequence == "?1049l":
		t.Other = letter == 'h'
	case sequence == "?25l", sequence == "?25h":
		t.Hidden = letter == 'l'
	case letter == 'm':
		t.paint = strings.TrimPrefix(parameters, "0")
		t.Coloured = t.Coloured || t.paint != ""
	default:
		t.Unknown = append(t.Unknown, strconv.Quote(sequence))
	}
	return rest, true
}

// String is what is seen, without the spaces at the ends of lines.
func (t *Terminal) String() string {
	lines := make([]string, len(t.rows))
	for i, r := range t.rows {
		lines[i] = strings.TrimRight(text(r), " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

func text(cells []cell) string {
	var b strings.Builder
	for _, c := range cells {
		b.WriteRune(c.rune)
	}
	return b.String()
}
