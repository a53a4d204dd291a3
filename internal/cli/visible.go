package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// ownColour is what colour.paint writes, and hclog for a terminal.
var ownColour = regexp.MustCompile("^\x1b\\[[0-9;]*m")

// visible makes a text harmless to show: what would move a terminal's cursor, turn the
// text around or not be seen is written out, as JSON writes it. Lines and tabs stay,
// and, if the reader gets colours, these. Names of hosts need nothing of it, for they
// are checked as hosts join; other words come by an answer of whoever listens on the
// agent's socket, by the log's messages of others, and by files.
func visible(text string, coloured bool) string {
	if strings.IndexFunc(text, func(r rune) bool { return !isVisible(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		colour := ""
		if coloured && r == '\x1b' {
			colour = ownColour.FindString(text[i:])
		}
		switch {
		case colour != "":
			b.WriteString(colour)
			size = len(colour)
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case isVisible(r):
			b.WriteString(text[i : i+size])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

func isVisible(r rune) bool {
	return r == '\n' || r == '\t' || r != utf8.RuneError && unicode.IsPrint(r)
}

// visibleWriter is visible for a log, which writes a line at a time.
type visibleWriter struct {
	out      io.Writer
	coloured bool
}

func (w visibleWriter) Write(line []byte) (int, error) {
	if _, err := io.WriteString(w.out, visible(string(line), w.coloured)); err != nil {
		return 0, err
	}
	return len(line), nil
}
