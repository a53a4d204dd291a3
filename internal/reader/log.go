package reader

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
)

// What a reader says to the keeper: that it lives, what it lacks, and lines for the log. A reader reads what strangers send, so its lines are
// bounded in number and size where they are written, and again where they are read.
const (
	isAlive = 'B'
	isLine  = 'L' // and the line, as JSON
	isLack  = 'C' // and what of its confinement the host does not bear

	mostLine       = 2 << 10 // bytes of a line, with all that is in it
	linesPerSecond = 10
	linesAtOnce    = 50
)

// line is one of a log.
type line struct {
	Level hclog.Level
	Text  string
	Args  []string // names and values in turn
}

func linePace() *rate.Limiter { return rate.NewLimiter(linesPerSecond, linesAtOnce) }

// sink gives log lines to the keeper.
type sink struct {
	keeper *os.File
	pace   *rate.Limiter
}

// newLog gives a log whose lines go to the keeper, and so to the agent, which decides which of them are wanted.
func newLog(keeper *os.File) hclog.Logger {
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off})
	log.RegisterSink(sink{keeper, linePace()})
	return log
}

// Accept implements hclog.SinkAdapter.
func (s sink) Accept(_ string, level hclog.Level, text string, args ...any) {
	if level < hclog.Debug || !s.pace.Allow() {
		return
	}
	l := line{Level: level, Text: text}
	for _, arg := range args {
		l.Args = append(l.Args, fmt.Sprint(arg))
	}
	encoded, _ := json.Marshal(l) // texts always have a JSON form
	if len(encoded) < mostLine {
		_ = send(s.keeper, append([]byte{isLine}, encoded...)) // a keeper that does not read it loses it
	}
}

// write logs a line that a reader has sent, as harmless text.
func (l line) write(log hclog.Logger) {
	args := make([]any, len(l.Args))
	for i, arg := range l.Args {
		args[i] = plain(arg)
	}
	log.Log(min(max(l.Level, hclog.Debug), hclog.Error), plain(l.Text), args...)
}

// plain leaves nothing in a text that would end a line or move a cursor.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
