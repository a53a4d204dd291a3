package hooks

import (
	"bytes"
	"context"
	"errors"
	"io"
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
// forgotten, except for the last line. ctx ends it early. The caller's goroutine must be
// locked to its thread: see start.
func CheckUp(ctx context.Context, name string, cmd Command, timeout time.Duration, socket string) Checkup {
	env := cleanEnviron("BULLY_EVENT=check", "BULLY_CHECK="+safe(name), "BULLY_SOCKET="+safe(socket))
	return consult(ctx, cmd, env, timeout, newOutput(hclog.NewNullLogger()))
}

// Ask runs a command once as CheckUp does, one that answers a question, and gives the
// beginning of what it wrote to its standard output: at most most bytes. It is given even if
// the command failed. Said is the last line of its standard error, if there was any.
func Ask(ctx context.Context, question string, cmd Command, timeout time.Duration, socket string, most int) (text []byte, c Checkup) {
	answer := &head{most: most}
	out := newOutput(hclog.NewNullLogger())
	var complaint tail
	out.also = map[string]io.Writer{"stdout": answer, "stderr": writerFunc(func(p []byte) (int, error) { complaint.write(p); return len(p), nil })}
	c = consult(ctx, cmd, cleanEnviron("BULLY_EVENT="+safe(question), "BULLY_SOCKET="+safe(socket)), timeout, out)
	if said, _ := complaint.bytes(); len(said) > 0 {
		c.Said = lastLine(said)
	}
	return answer.bytes(), c
}

// consult runs a command once; out is its output's.
func consult(ctx context.Context, cmd Command, env []string, timeout time.Duration, out *output) (c Checkup) {
	if c.Err = Check(cmd); c.Err != nil {
		return c
	}
	l := newLeash(timeout, checkGrace)
	stop := context.AfterFunc(ctx, func() { l.pull(errStopping, time.Time{}) })
	defer stop()
	p, err := start(cmd.argv(), env, nil, out)
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

// Await waits until all of the run is gone, also what even KILL has not ended at once: the next
// one is not to run beside it. It waits no longer than ctx lives.
func (c Checkup) Await(ctx context.Context) {
	for c.group != 0 && len(living(c.group)) > 0 && rests(ctx, time.Second) {
		continue
	}
}

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

// cleanEnviron is a hook's without what is said of events, and these.
func cleanEnviron(also ...string) []string {
	var env []string
	for _, v := range inherited {
		value := os.Getenv(v.name)
		if value == "" {
			value = v.fallback
		}
		env = append(env, v.name+"="+value)
	}
	return append(env, also...)
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
