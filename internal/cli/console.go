package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// console is a process's standard streams and what they can show.
type console struct {
	in       io.Reader
	out, err io.Writer

	outColour, errColour bool
}

func newConsole(in io.Reader, out, err io.Writer) *console {
	return &console{in: in, out: out, err: err, outColour: takesColour(out), errColour: takesColour(err)}
}

// isTerminal reports whether a person sees what is written to, or types what is
// read from, stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// takesColour obeys no-color.org: NO_COLOR set to anything but "" means none.
func takesColour(stream any) bool {
	return isTerminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// print writes a command's answer. An answer that did not arrive is a failure:
// somebody acts on it.
func (c *console) print(text string) error { return c.printRaw(visible(text, c.outColour)) }

// printRaw is print for what a command of the host's own has printed, on its way to
// another command.
func (c *console) printRaw(text string) error {
	if _, err := io.WriteString(c.out, text); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}

// printJSON writes v, indented for people's eyes.
func (c *console) printJSON(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return c.print(string(text) + "\n")
}

// report tells a person what went wrong. It does not touch the stream when there
// is nothing to say: after run, another write may still stand in it.
func (c *console) report(err error) {
	text := errorLines(err)
	if text == "" {
		return
	}
	if c.errColour {
		text = strings.ReplaceAll(text, "error: ", red.paint("error:")+" ")
		text = strings.ReplaceAll(text, "; hint: ", "; "+cyan.paint("hint:")+" ")
	}
	_, _ = io.WriteString(c.err, visible(text, c.errColour)) // there is nobody else to tell
}

// colour is a terminal's (ECMA-48, SGR).
type colour string

const (
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	cyan   colour = "36"
)

func (c colour) paint(s string) string { return "\x1b[" + string(c) + "m" + s + "\x1b[0m" }

// painted is s in colour where standard output takes it.
func (c *console) painted(col colour, s string) string {
	if !c.outColour || col == "" {
		return s
	}
	return col.paint(s)
}
