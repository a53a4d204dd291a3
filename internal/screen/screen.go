// Package screen shows a table on a terminal that is drawn again and again, and hears its keys: what lab and top have in
// common.
package screen

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/term"
)

// Screen is a terminal that was taken over. One goroutine owns it.
type Screen struct {
	Keys    <-chan Key
	Resized <-chan os.Signal

	fd  int
	out io.Writer
}

// Take runs f with the terminal taken over: no echo, no line editing, and the other screen, so that what the user had there
// comes back. The terminal is restored in a panic of f, too. Signals that end the process are the caller's to catch.
func Take(in *os.File, out io.Writer, f func(*Screen) error) error {
	fd := int(in.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return fmt.Errorf("open screen: standard input is no terminal: %w", err)
	}
	resized, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(resized, syscall.SIGWINCH)
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l")
	defer func() {
		fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
		_ = term.Restore(fd, before)
		signal.Stop(resized)
		close(done)
	}()
	return f(&Screen{Keys: readKeys(in, done), Resized: resized, fd: fd, out: out})
}

// Draw shows p as it fits now.
func (s *Screen) Draw(p Picture) error {
	width, height, err := term.GetSize(s.fd)
	if err != nil || width == 0 || height == 0 {
		width, height = 80, 24
	}
	_, err = io.WriteString(s.out, drawn(p.Lines(width, height), width, height))
	return err
}

// drawn overwrites in place and clears what is left over: clearing first would flicker. Behind a line that fills its row
// nothing is cleared, for the cursor of a terminal stays on the last character then.
func drawn(lines []string, width, height int) string {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line)
		if columns(line) < width {
			b.WriteString("\x1b[K")
		}
	}
	if len(lines) < height {
		b.WriteString("\r\n\x1b[J")
	}
	return b.String()
}

// columns is how wide a line is, its colour apart.
func columns(line string) int {
	if rest, isPainted := strings.CutPrefix(line, "\x1b["); isPainted {
		_, rest, _ = strings.Cut(rest, "m")
		line = strings.TrimSuffix(rest, "\x1b[0m")
	}
	return utf8.RuneCountInString(line)
}
