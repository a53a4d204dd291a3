package hooks

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/bully-agent/bully-agent/internal/run"
)

// Checkup is how one run of a check's command went.
type Checkup struct {
	Err  error  // why it does not pass; nil if it exited with 0
	Said string // the last line that it printed, fit for one line of text; empty: none

	group int // that hangs in the kernel; 0: nothing is left
}

// checkGrace is between TERM and KILL of a check that took too long. Arbitrary: a question has
// nothing to clean up.
const checkGrace = 500 * time.Millisecond

// CheckUp runs a check's command once, contained as hooks are: in a process group of its
// own, which is dead when it returns unless it hangs in the kernel. Its output is read and
// forgotten, except for the last line. ctx ends it early. The caller's goroutine must be
// locked to its thread: see run.Start.
func CheckUp(ctx context.Context, name string, cmd Command, timeout time.Duration, socket string) Checkup {
	env := cleanEnviron("BULLY_EVENT=check", "BULLY_CHECK="+safe(name), "BULLY_SOCKET="+safe(socket))
	return consult(ctx, cmd, env, timeout, run.Silent())
}

// Ask runs a command once as CheckUp does, one that answers a question, and gives the
// beginning of what it wrote to its standard output: at most most bytes. It is given even if
// the command failed. Said is the last line of its standard error, if there was any.
func Ask(ctx context.Context, question string, cmd Command, timeout time.Duration, socket string, most int) (text []byte, c Checkup) {
	answer, complaint := &run.Head{Most: most}, &run.Tail{}
	out := run.Silent()
	out.Copy = map[string]io.Writer{"stdout": answer, "stderr": complaint}
	c = consult(ctx, cmd, cleanEnviron("BULLY_EVENT="+safe(question), "BULLY_SOCKET="+safe(socket)), timeout, out)
	if said, _ := complaint.Bytes(); len(said) > 0 {
		c.Said = run.LastLine(said)
	}
	return answer.Bytes(), c
}

// consult runs a command once; out is its output's.
func consult(ctx context.Context, cmd Command, env []string, timeout time.Duration, out *run.Output) (c Checkup) {
	if c.Err = Check(cmd); c.Err != nil {
		return c
	}
	l := newLeash(timeout, checkGrace)
	stop := context.AfterFunc(ctx, func() { l.pull(errStopping, time.Time{}) })
	defer stop()
	p, err := run.Start(cmd.argv(), env, nil, out)
	if err != nil {
		return Checkup{Err: err}
	}
	end := p.Conclude(l)
	p.Drain()
	kept, _ := out.Tail()
	c = Checkup{Err: end.Err, Said: run.LastLine(kept)}
	if end.Err != nil && len(run.Living(p.Group)) > 0 {
		c.group = p.Group
	}
	return c
}

// Await waits until all of the run is gone, also what even KILL has not ended at once: the next
// one is not to run beside it. It waits no longer than ctx lives.
func (c Checkup) Await(ctx context.Context) {
	for c.group != 0 && len(run.Living(c.group)) > 0 && rests(ctx, time.Second) {
		continue
	}
}

// Why says in one line why it did not pass.
func (c Checkup) Why() string {
	switch {
	case c.Err == nil:
		return ""
	case c.Said == "" || errors.Is(c.Err, run.ErrTimedOut):
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
