package run

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/trust"
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
// locked to its thread: see Start.
func CheckUp(ctx context.Context, name string, cmd hooks.Command, timeout time.Duration, socket string) Checkup {
	env := hooks.CleanEnviron(os.Getenv, "BULLY_EVENT=check", "BULLY_CHECK="+hooks.Safe(name), "BULLY_SOCKET="+hooks.Safe(socket))
	return consult(ctx, cmd, env, timeout, Silent())
}

// Ask runs a command once as CheckUp does, one that answers a question, and gives the
// beginning of what it wrote to its standard output: at most most bytes. It is given even if
// the command failed. Said is the last line of its standard error, if there was any.
func Ask(ctx context.Context, question string, cmd hooks.Command, timeout time.Duration, socket string, most int) (text []byte, c Checkup) {
	answer, complaint := &Head{Most: most}, &Tail{}
	out := Silent()
	out.Copy = map[string]io.Writer{"stdout": answer, "stderr": complaint}
	c = consult(ctx, cmd, hooks.CleanEnviron(os.Getenv, "BULLY_EVENT="+hooks.Safe(question), "BULLY_SOCKET="+hooks.Safe(socket)), timeout, out)
	if said, _ := complaint.Bytes(); len(said) > 0 {
		c.Said = LastLine(said)
	}
	return answer.Bytes(), c
}

// consult runs a command that answers a question once; out is its output's.
func consult(ctx context.Context, cmd hooks.Command, env []string, timeout time.Duration, out *Output) (c Checkup) {
	p, end := Once(ctx, cmd, env, nil, ending.Limit{Timeout: timeout, Grace: checkGrace}, out)
	c.Err = end.Err
	if p == nil {
		return c
	}
	kept, _ := out.Tail()
	c.Said = LastLine(kept)
	if end.Err != nil && len(Living(p.Group)) > 0 {
		c.group = p.Group
	}
	return c
}

// Once runs a command that may be run, until nothing of it is left and its output is read. ctx ends it
// early. nil is the process of one that was not started, with an end that says why. The caller's goroutine
// must be locked to its thread: see Start.
func Once(ctx context.Context, cmd hooks.Command, env []string, input []byte, l ending.Limit, out *Output) (p *Process, end ending.End) {
	err := trust.Check(cmd)
	if err == nil {
		p, err = Start(cmd.Words(), env, input, out)
	}
	if err != nil {
		return nil, ending.End{Err: err, Exit: -1}
	}
	leash := NewLeash(l, time.Now)
	stop := context.AfterFunc(ctx, func() { leash.Pull(hooks.ErrStopping) })
	defer stop()
	end = p.Conclude(leash)
	p.Drain()
	return p, end
}

// Await waits until all of the run is gone, also what even KILL has not ended at once: the next
// one is not to run beside it. It waits no longer than ctx lives.
func (c Checkup) Await(ctx context.Context) {
	for c.group != 0 && len(Living(c.group)) > 0 && rests(ctx, time.Second) {
		continue
	}
}

// Why says in one line why it did not pass.
func (c Checkup) Why() string {
	switch {
	case c.Err == nil:
		return ""
	case c.Said == "" || errors.Is(c.Err, ending.ErrTimedOut):
		return hooks.OneLine(c.Err.Error())
	}
	return hooks.OneLine(c.Err.Error()) + ": " + c.Said
}

// rests waits; it reports false if ctx ends before.
func rests(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
