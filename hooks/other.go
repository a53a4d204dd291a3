package hooks

import (
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
)

// What commands that are no hooks share with hooks: how they are started, what
// they are told, and what becomes of what they print.

// Words is the command as execve takes it, through /bin/sh if it is a string.
func (c Command) Words() []string { return c.argv() }

// Environ is the whole environment of a command that is run because of ev: that
// of a hook. seq, attempt (from 1) and timeout are of this run.
func Environ(ev Event, seq uint64, attempt int, timeout time.Duration, socket string) []string {
	return environ(ev, circumstances{seq: seq, attempt: attempt, timeout: timeout, socket: socket}, os.Getenv)
}

// Output takes what one run of a command prints: the last 64 KiB are kept, and
// lines are logged, within the bounds of hooks. Safe for concurrent use.
type Output struct{ output *output }

// NewOutput logs lines with said as the message.
func NewOutput(log hclog.Logger, said string) *Output {
	out := newOutput(log)
	out.said = said
	return &Output{out}
}

// Read takes one stream to its end, or until its deadline, and closes it.
func (o *Output) Read(f *os.File, stream string) { o.output.read(f, stream) }

// Tail gives what is kept, and how many bytes were ever printed.
func (o *Output) Tail() (kept []byte, printed int64) { return o.output.tail.bytes() }

// Dropped is how many lines did not go to the log.
func (o *Output) Dropped() int64 { return o.output.allowed.dropped() }
