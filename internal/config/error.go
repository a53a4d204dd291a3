package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Error is one thing wrong with the configuration, in one line that a person can act on:
//
//	agent.toml:7:12: node.priority: 70000 is out of range: expected 0–65535
type Error struct {
	Where   string // "agent.toml:7:12", "BULLY_PRIORITY", "--priority", or "default"
	Key     string // "node.priority"; "" when the file as a whole is meant
	Message string // what was found and what was expected
	Hint    string // how to mend it; "" when Message says it

	place  place
	cause  error // what Message quotes; nil: no error of another's
	passes bool  // the host may be otherwise a moment later
}

// Unwrap gives the error that the message quotes.
func (e *Error) Unwrap() error { return e.cause }

// Error is one line without control characters, whatever the input held.
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	if e.place.origin != fromDefault {
		parts = append(parts, e.Where)
	}
	// A flag and a variable name the setting already.
	if e.Key != "" && e.place.origin <= fromFile {
		parts = append(parts, cut(e.Key))
	}
	line := strings.Join(append(parts, e.Message), ": ")
	if e.Hint != "" {
		line += "; hint: " + e.Hint
	}
	return Printable(line)
}

// ExitCode is the process's exit code (docs/operating.md, exit codes): 2 for a flag, 7 for the file, the environment and the host.
func (e *Error) ExitCode() int {
	if e.place.origin == fromFlag {
		return 2
	}
	return 7
}

// at says where the error is. A line that the error knew already, of one element in a list, is more exact and stays.
func (e *Error) at(p place, key string) *Error {
	if e.place.line > 0 {
		p.line, p.col = e.place.line, e.place.col
	}
	e.Where, e.Key, e.place = p.String(), key, p
	return e
}

// hint adds advice.
func (e *Error) hint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// wrong takes an error among the arguments for the cause.
func wrong(format string, args ...any) *Error {
	e := &Error{Message: fmt.Sprintf(format, args...)}
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			e.cause = err
		}
	}
	return e
}

// origin is the kind of place that a value came from. The order is that of precedence, and of errors in a report.
type origin int

const (
	fromDefault origin = iota
	fromFile
	fromEnv
	fromFlag
)

// place is where a value was written. The zero place is the default.
type place struct {
	origin    origin
	name      string // file as given, variable, or flag without dashes
	line, col int    // from 1; 0 when not from a file or when the whole file is meant
}

func (p place) String() string {
	switch {
	case p.origin == fromDefault:
		return "default"
	case p.origin == fromFlag:
		return "--" + p.name
	case p.line > 0:
		return p.name + ":" + strconv.Itoa(p.line) + ":" + strconv.Itoa(p.col)
	}
	return p.name
}

// joined sorts by place and joins; nil for none.
func joined(problems []*Error) error {
	slices.SortStableFunc(problems, func(a, b *Error) int {
		return cmp.Or(
			cmp.Compare(a.place.origin, b.place.origin),
			cmp.Compare(a.place.line, b.place.line),
			cmp.Compare(a.place.col, b.place.col),
		)
	})
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// quote shows text from outside in a message: quoted, control characters escaped, and cut, since a wrong value can be
// a whole file that was pasted by mistake.
func quote(s string) string {
	if short := cut(s); short != s {
		return strconv.Quote(strings.TrimSuffix(short, "…")) + "…"
	}
	return strconv.Quote(s)
}

// cut shortens to what fits on a line beside the rest of a message; the length is arbitrary.
func cut(s string) string {
	const most = 100 // runes
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// Printable escapes what would end a line of text or drive a terminal: file names, values from the command line and
// other packages' errors come unquoted.
func Printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return b.String()
}
