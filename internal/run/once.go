package run

import (
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/trust"
)

// Once runs a command that may be run, within its leash, until nothing of it is left and its output is read. nil is the process
// of one that was not started, with an end that says why. The caller's goroutine must be locked to its thread: see Start.
func Once(l *Leash, cmd hooks.Command, env []string, input []byte, out *Output) (p *Process, end ending.End) {
	err := trust.Check(cmd)
	if err == nil {
		err = l.Limit().Reason
	}
	if err == nil {
		p, err = Start(cmd.Words(), env, input, out)
	}
	if err != nil {
		return nil, ending.End{Err: err, Exit: -1}
	}
	end = p.Conclude(l)
	p.Drain()
	return p, end
}
