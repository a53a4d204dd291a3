package keeper

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// duration is one in a message, where it must not look like another number.
type duration struct{ Nanoseconds time.Duration }

// maxText is what a log line holds of one text, in bytes, and maxArguments how many of its values. Both
// arbitrary: a line of a command is shorter, and a message has room for that.
const (
	maxText      = 8 << 10
	maxArguments = 32
)

// toArgument gives a key or a value that a message can hold: a text, a bool, a number or a duration.
func toArgument(arg any) any {
	switch v := arg.(type) {
	case nil:
		return "nil"
	case bool, int, int64, uint32, uint64:
		return v
	case time.Duration:
		return duration{v}
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
	case string:
		return cut(v)
	case error:
		return cut(v.Error())
	}
	return cut(fmt.Sprint(arg))
}

// fromArgument gives one that looks in the agent's log as it would where it was met.
func fromArgument(arg any) any {
	switch v := arg.(type) {
	case duration:
		return v.Nanoseconds
	case map[string]any: // the same, out of a message
		n, _ := v["Nanoseconds"].(json.Number)
		ns, _ := n.Int64()
		return time.Duration(ns)
	}
	return arg
}

func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// toLine makes a line of what was logged.
func toLine(name string, level hclog.Level, text string, args []any) *line {
	l := &line{Name: name, Level: level, Text: cut(text)}
	for _, arg := range args[:min(len(args), maxArguments)] {
		l.Args = append(l.Args, toArgument(arg))
	}
	return l
}

// write logs a line as if it had been met here.
func (l *line) write(log hclog.Logger) {
	if l.Name != "" {
		log = log.ResetNamed(l.Name)
	}
	args := make([]any, len(l.Args))
	for i, arg := range l.Args {
		args[i] = fromArgument(arg)
	}
	log.Log(l.Level, l.Text, args...)
}
