package keeper

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// argument is a key or a value of a log line: a text, a bool, a number or a duration, which looks in the
// agent's log as it would here.
type argument struct{ value any }

// duration is one in JSON, where it must not look like another number.
type duration struct{ Nanoseconds time.Duration }

// maxText is what a log line holds of one text, in bytes, and maxArguments how many of its values. Both
// arbitrary: a line of a command is shorter, and a message has room for that.
const (
	maxText      = 8 << 10
	maxArguments = 32
)

// toArgument gives a value that a message can hold, and that looks the same in a log.
func toArgument(arg any) argument {
	switch v := arg.(type) {
	case nil:
		return argument{"nil"}
	case bool, int, int64, uint32, uint64, time.Duration:
		return argument{v}
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return argument{v}
		}
	case string:
		return argument{cut(v)}
	case error:
		return argument{cut(v.Error())}
	}
	return argument{cut(fmt.Sprint(arg))}
}

func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// MarshalJSON implements json.Marshaler.
func (a argument) MarshalJSON() ([]byte, error) {
	if d, ok := a.value.(time.Duration); ok {
		return json.Marshal(duration{d})
	}
	return json.Marshal(a.value)
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *argument) UnmarshalJSON(text []byte) error {
	switch text[0] { // it is of a value
	case '{':
		var d duration
		err := json.Unmarshal(text, &d)
		a.value = d.Nanoseconds
		return err
	case '"':
		var s string
		err := json.Unmarshal(text, &s)
		a.value = s
		return err
	case 't', 'f':
		a.value = text[0] == 't'
		return nil
	}
	a.value = json.Number(text)
	return nil
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
		args[i] = arg.value
	}
	log.Log(l.Level, l.Text, args...)
}
