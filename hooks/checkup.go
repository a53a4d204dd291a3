package hooks

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Checkup is how one run of a check's command went.
type Checkup struct {
	Err  error  // why it does not pass; nil if it exited with 0
	Said string // the last line that it printed, fit for one line of text; empty: none

	group int // that hangs in the kernel; 0: nothing is left
}

const (
	// checkGrace is between TERM and KILL of a check that took too long. Arbitrary: a
	// question has nothing to clean up.
	checkGrace = 500 * time.Millisecond

	// maxSaid is what is told of a check's last line.
	maxSaid = 160
)

// CheckUp runs a check's command once, contained as hooks are: in a process group of its
// own, which is dead when it returns unless it hangs in the kernel. Its output is read and
// forgotten, but for the last line. ctx ends it early. The caller's goroutine must be
// locked to its thread: see start.
func CheckUp(ctx context.Context, name string, cmd Command, timeout time.Duration, socket string) (c Checkup) {
	if c.Err = Check(cmd); c.Err != nil {
		return c
	}
	l := newLeash(timeout, checkGrace)
	stop := context.AfterFunc(ctx, func() { l.pull(errStopping, time.Time{}) })
	defer stop()
	out := newOutput(hclog.NewNullLogger())
	p, err := start(cmd.argv(), checkEnviron(name, socket), nil, out)
	if err != nil {
		return Checkup{Err: err}
	}
	var res Result
	p.conclude(l, &res)
	p.drain()
	kept, _ := out.tail.bytes()
	c = Checkup{Err: res.Err, Said: lastLine(kept)}
	if res.Err != nil && len(living(p.group)) > 0 {
		c.group = p.group
	}
	return c
}

// Hangs reports whether something of the run is left that even KILL has not ended.
func (c Checkup) Hangs() bool { return c.group != 0 && len(living(c.group)) > 0 }

// Why says in one line why it did not pass.
func (c Checkup) Why() string {
	switch {
	case c.Err == nil:
		return ""
	case c.Said == "" || errors.Is(c.Err, errTimedOut):
		return oneLine(c.Err.Error())
	}
	return oneLine(c.Err.Error()) + ": " + c.Said
}

// checkEnviron is clean, as a hook's is, and says no more than which check this is.
func checkEnviron(name, socket string) []string {
	var env []string
	for _, v := range inherited {
		value := os.Getenv(v.name)
		if value == "" {
			value = v.fallback
		}
		env = append(env, v.name+"="+value)
	}
	return append(env, "BULLY_EVENT=check", "BULLY_CHECK="+safe(name), "BULLY_SOCKET="+safe(socket))
}

// lastLine gives the last line of text that is more than blanks, without what would end a
// line or drive a terminal.
func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	line := string(text[bytes.LastIndexByte(text, '\n')+1:])
	line = strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, line)
	if len(line) > maxSaid {
		line = strings.ToValidUTF8(line[:maxSaid], "") + "…"
	}
	return strings.TrimSpace(line)
}
