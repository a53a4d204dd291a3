package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/membership"
)

// value is one setting as it was found in one place, before it is known to be of the right type.
type value struct {
	place place
	data  any      // from the file what TOML makes of it; a string or, if repeatable, []string otherwise
	elems []place  // of each element, when data is an array or a table from a file
	names []string // of the elements of a table, in the file's order
}

// literal is how the user would write s in the place that this value came from.
func (v value) literal(s string) string {
	if v.place.origin == fromFile {
		return strconv.Quote(s)
	}
	return s
}

// elem is the place of the i-th element of an array.
func (v value) elem(i int) place {
	if i < len(v.elems) {
		return v.elems[i]
	}
	return v.place
}

// found names the value and its type: what the user wrote, seen by TOML.
func (v value) found() string {
	switch d := v.data.(type) {
	case string:
		return quote(d) + " is a string"
	case int64:
		return fmt.Sprintf("%d is a number", d)
	case float64:
		return formatFloat(d) + " is a number"
	case bool:
		return fmt.Sprintf("%t is a boolean", d)
	case []any:
		return "an array was found"
	case map[string]any:
		return "a table was found"
	}
	return fmt.Sprintf("%v is a date or time", v.data)
}

// text is the value of a setting that is a string.
func (v value) text(expected string) (string, *Error) {
	s, ok := v.data.(string)
	if !ok {
		err := wrong("%s: expected %s", v.found(), expected)
		if _, number := v.data.(int64); number {
			err.hint("put it in quotes")
		}
		return "", err
	}
	return s, nil
}

// field is how one setting's value is read, and given back.
type field struct {
	parse func(*loader, value) *Error // stores the value in the loader's Config
	get   func(*Config) any           // a string, a whole number, a bool, a []string, a hostTable or a Command
	words []string                    // all that it may be, if that is a few words
}

// text is the value in the words of the file.
func (f field) text(c *Config) string {
	switch v := f.get(c).(type) {
	case []string:
		return strings.Join(v, ",")
	case hostTable:
		return strings.Join(v.words(), ",")
	}
	return fmt.Sprint(f.get(c))
}

// stringField reads a string through check, which returns what to store.
func stringField(at func(*Config) *string, expected string, check func(string, value) (string, *Error)) field {
	return field{
		parse: func(l *loader, v value) *Error {
			s, err := v.text(expected)
			if err != nil {
				return err
			}
			if s, err = check(s, v); err != nil {
				return err
			}
			*at(l.config) = s
			return nil
		},
		get: func(c *Config) any { return *at(c) },
	}
}

// labelExpected is membership's rule in words: what a host calls itself is what the others admit.
const labelExpected = "1–63 of A-Z a-z 0-9 . _ -, first a letter or digit"

func label(at func(*Config) *string) field {
	return stringField(at, labelExpected, func(s string, _ value) (string, *Error) {
		if membership.CheckName(s) == nil {
			return s, nil
		}
		err := wrong("%s is not a name: expected %s", quote(s), labelExpected)
		for _, r := range s {
			// Named by number, since the usual reason is a letter that looks like another one.
			if r > 0x7f {
				return "", err.hint("%s is %U", strings.Trim(strconv.QuoteRune(r), "'"), r)
			}
		}
		if len(s) > 63 {
			err.hint("it is %d long", len(s))
		}
		return "", err
	})
}

// account is the name of a user or group of this host; "" is none.
func account(at func(*Config) *string) field {
	const expected = labelExpected + "; or nothing"
	return stringField(at, expected, func(s string, _ value) (string, *Error) {
		if s != "" && membership.CheckName(s) != nil {
			return "", wrong("%s is no name of an account: expected %s", quote(s), expected)
		}
		return s, nil
	})
}

// anInterface is what a name of one is, which the kernel bounds.
const anInterface = "an interface's name, 1–15 bytes without blanks, / and :"

// device reads the name of an interface. Whether it is there is CheckHost's to find out.
func device(at func(*Config) *string, expected string) field {
	return stringField(at, expected, func(s string, _ value) (string, *Error) {
		if len(s) > 15 || s == "." || s == ".." || strings.ContainsAny(s, "/: \t\n") {
			return "", wrong("%s is no name of an interface: expected %s", quote(s), expected)
		}
		return s, nil
	})
}

// words reads an array of some of a few words.
func words(at func(*Config) *[]string, known ...string) field {
	expected := "an array of " + strings.Join(known, ", ")
	return field{
		parse: func(l *loader, v value) *Error {
			var given []string
			switch d := v.data.(type) {
			case []string:
				given = d
			case []any:
				for i, e := range d {
					s, err := value{place: v.elem(i), data: e}.text(expected)
					if err != nil {
						err.place = v.elem(i)
						return err
					}
					given = append(given, s)
				}
			default:
				return wrong("%s: expected %s", v.found(), expected)
			}
			for i, s := range given {
				if !slices.Contains(known, s) || slices.Contains(given[:i], s) {
					return wrong("%s: expected %s, each once", quote(s), expected)
				}
			}
			*at(l.config) = given
			return nil
		},
		get: func(c *Config) any { return *at(c) },
	}
}

// oneOf reads one of a few words.
func oneOf(at func(*Config) *string, known ...string) field {
	expected := strings.Join(known, ", ")
	if i := len(known) - 1; i > 0 {
		expected = strings.Join(known[:i], ", ") + " or " + known[i]
	}
	f := stringField(at, expected, func(s string, v value) (string, *Error) {
		if slices.Contains(known, s) {
			return s, nil
		}
		err := wrong("%s is unknown: expected %s", quote(s), expected)
		if near := nearest(s, known); near != "" {
			err.hint("write %s", v.literal(near))
		}
		return "", err
	})
	f.words = known
	return f
}

func duration(at func(*Config) *time.Duration, least, most time.Duration) field {
	return field{
		parse: func(l *loader, v value) *Error {
			d, err := parseDuration(v, least, most)
			if err != nil {
				return err
			}
			if d < least || d > most {
				return wrong("%s is out of range: expected %s–%s", shortDuration(d), shortDuration(least), shortDuration(most))
			}
			*at(l.config) = d
			return nil
		},
		get: func(c *Config) any { return shortDuration(*at(c)) },
	}
}

func parseDuration(v value, least, most time.Duration) (time.Duration, *Error) {
	const expected = "a number with a unit: ms, s, m or h"
	if n, ok := v.data.(int64); ok {
		return 0, wrong("%d has no unit: expected %s", n, expected).
			hint("write %s", v.literal(fmt.Sprintf("%d%s", n, likelyUnit(float64(n), least, most))))
	}
	s, err := v.text(expected)
	if err != nil {
		return 0, err
	}
	if n, bad := strconv.ParseFloat(s, 64); bad == nil && strings.Trim(s, "+-.0123456789") == "" {
		return 0, wrong("%s has no unit: expected %s", quote(s), expected).hint("write %s", v.literal(s+likelyUnit(n, least, most)))
	}
	d, bad := time.ParseDuration(s)
	if bad == nil {
		return d, nil
	}
	err = wrong("%s is not a duration: expected %s", quote(s), expected)
	if days, bad := strconv.Atoi(strings.TrimSuffix(s, "d")); bad == nil && days >= 0 && days <= 36500 {
		err.hint("write %s", v.literal(fmt.Sprintf("%dh", 24*days)))
	}
	return 0, err
}

// likelyUnit is the one that a number was most likely meant in: seconds or milliseconds, whichever comes closer, by
// ratio, to the middle of what is allowed.
func likelyUnit(n float64, least, most time.Duration) string {
	middle := math.Sqrt(max(least, time.Millisecond).Seconds() * most.Seconds())
	if seconds := n; seconds*(seconds/1000) > middle*middle { // seconds/middle > middle/milliseconds
		return "ms"
	}
	return "s"
}

// formatFloat keeps the point that made a whole number another type.
func formatFloat(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if f == math.Trunc(f) && strings.Trim(s, "-0123456789") == "" {
		s += ".0"
	}
	return s
}

// shortDuration is Duration.String without the zero units that it appends: "1m", not "1m0s".
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func integer[T int | uint16](at func(*Config) *T, least, most int64) field {
	expected := fmt.Sprintf("%d–%d", least, most)
	switch {
	case least == most:
		expected = fmt.Sprint(least)
	case least < 0:
		expected = fmt.Sprintf("%d to %d", least, most)
	}
	return field{
		parse: func(l *loader, v value) *Error {
			n, err := parseInteger(v, expected)
			if err != nil {
				return err
			}
			if n < least || n > most {
				return wrong("%d is out of range: expected %s", n, expected)
			}
			*at(l.config) = T(n)
			return nil
		},
		get: func(c *Config) any { return *at(c) },
	}
}

func parseInteger(v value, expected string) (int64, *Error) {
	switch d := v.data.(type) {
	case int64:
		return d, nil
	case float64:
		err := wrong("%s is not a whole number: expected %s", formatFloat(d), expected)
		if d == math.Trunc(d) && math.Abs(d) < 1e9 {
			err.hint("write %.0f", d)
		}
		return 0, err
	case string:
		n, bad := strconv.ParseInt(d, 10, 64)
		if v.place.origin == fromFile {
			err := wrong("%s: expected a whole number %s", v.found(), expected)
			if bad == nil {
				err.hint("write %d without quotes", n)
			}
			return 0, err
		}
		if bad != nil {
			return 0, wrong("%s is not a whole number: expected %s", quote(d), expected)
		}
		return n, nil
	}
	return 0, wrong("%s: expected a whole number %s", v.found(), expected)
}

func boolean(at func(*Config) *bool) field {
	return field{
		parse: func(l *loader, v value) *Error {
			b, ok := v.data.(bool)
			if s, isText := v.data.(string); isText && v.place.origin != fromFile {
				parsed, bad := strconv.ParseBool(s)
				if bad != nil {
					return wrong("%s is not a boolean: expected true or false", quote(s))
				}
				b, ok = parsed, true
			}
			if !ok {
				return wrong("%s: expected true or false, without quotes", v.found())
			}
			*at(l.config) = b
			return nil
		},
		get: func(c *Config) any { return *at(c) },
	}
}

// maxArgument is the kernel's bound on one string given to execve (MAX_ARG_STRLEN, 32 pages of 4 KiB), with its NUL.
const maxArgument = 128<<10 - 1

// command reads a string for the shell or, from the file, an argument vector.
func command(at func(*Config) *Command) field {
	return field{
		parse: func(l *loader, v value) *Error {
			var c Command
			err := wrong("%s: expected a string for the shell or an array of strings", v.found())
			switch d := v.data.(type) {
			case string:
				c.Shell, err = d, checkArgument(d)
			case []any:
				c.Argv, err = parseArgv(v, d)
			}
			if err != nil {
				return err
			}
			*at(l.config) = c
			return nil
		},
		get: func(c *Config) any { return *at(c) },
	}
}

func parseArgv(v value, words []any) ([]string, *Error) {
	argv := make([]string, len(words))
	for i, w := range words {
		word := value{place: v.elem(i), data: w}
		s, err := word.text("a string")
		if err == nil {
			err = checkArgument(s)
		}
		if err == nil && i == 0 {
			err = checkProgram(s)
		}
		if err != nil {
			err.place = word.place
			return nil, err
		}
		argv[i] = s
	}
	return argv, nil
}

func checkArgument(s string) *Error {
	if strings.Contains(s, "\x00") {
		return wrong("%s holds a NUL: no program can be given one", quote(s))
	}
	if len(s) > maxArgument {
		return wrong("the command is %d bytes long: expected at most %d", len(s), maxArgument).hint("put it in a script")
	}
	return nil
}

func checkProgram(s string) *Error {
	if s == "" {
		return wrong("the program's name is empty: expected an absolute path or a name in PATH")
	}
	if strings.Contains(s, "/") && !strings.HasPrefix(s, "/") {
		return wrong("%s is a relative path: expected an absolute one, since hooks run in /", quote(s))
	}
	return nil
}
