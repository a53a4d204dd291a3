package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bully-agent/bully-agent/hooks"
)

// The programs that name hosts to join run in the keeper, too: the agent may have given up
// the right to start any, and whoever takes it over is not to choose what is run. An order
// names a program, which runs if the settings have it, once at a time.

// reply is what a program printed.
type reply struct {
	Program string
	Text    []byte
	Err     string
}

// ask runs a program, unless it runs.
func (k *keeper) ask(program string) {
	why := ""
	switch s := k.settings; {
	case !slices.Contains(s.Programs, program):
		why = "the keeper has not read of such a source"
	case !k.bounds.question.AllowN(now(), 1):
		why = "it is asked too often"
	default:
		k.step(hooks.Inquired{Program: program, Timeout: s.AskTimeout, Most: s.AskMost})
		return
	}
	k.noteRefusal(string(toAsk), why)
	k.say(report{Say: sayReply, Reply: &reply{Program: program, Err: why}})
}

// sayReply tells what a program has answered. Of one that failed nothing counts but why.
func (k *keeper) sayReply(e hooks.TellReply) {
	r := reply{Program: e.Program, Text: e.Reply.Text, Err: e.Reply.Why()}
	if r.Err != "" {
		r.Text = nil
	}
	k.say(report{Say: sayReply, Reply: &r})
}

// question is a program whose end somebody waits for.
type question struct {
	answered chan struct{} // closed when the rest is there
	text     []byte
	err      error
}

// errNoKeeper is the answer before there is one.
var errNoKeeper = errors.New("no keeper runs that could run it")

// Ask lets the keeper run a program of the settings that names hosts to join, and gives what it
// wrote to its standard output. Of one that failed or took too long there is nothing but the
// error. ctx ends the waiting, and not the program.
func (c *Client) Ask(ctx context.Context, program string) ([]byte, error) {
	c.mu.Lock()
	q := c.asks[program]
	switch {
	case q != nil:
	case c.keeper == nil:
		c.mu.Unlock()
		return nil, errNoKeeper
	default:
		q = &question{answered: make(chan struct{})}
		c.asks[program] = q
		c.give(order{Do: toAsk, Program: program})
	}
	c.mu.Unlock()
	select {
	case <-q.answered:
		return q.text, q.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the keeper: %w", ctx.Err())
	}
}

// onReply answers whoever has asked; the caller holds mu.
func (c *Client) onReply(r reply) {
	q := c.asks[r.Program]
	if q == nil {
		return
	}
	delete(c.asks, r.Program)
	q.text = r.Text
	if r.Err != "" {
		q.err = errors.New(r.Err)
	}
	close(q.answered)
}

// forgetAsked answers all, when a keeper has died; the caller holds mu.
func (c *Client) forgetAsked() {
	for program := range c.asks {
		c.onReply(reply{Program: program, Err: ErrDied.Error()})
	}
}
