package keeper

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/run"
)

// The programs that name hosts to join run in the keeper, too: the agent may have given up
// the right to start any, and whoever takes it over is not to choose what is run. An order
// names a program, which runs if the settings have it, once at a time.

// inquiry is a program that runs, or that even KILL has not ended.
type inquiry struct{ isTold bool }

// reply is what a program printed.
type reply struct {
	Program string
	Text    []byte
	Err     string
}

// ask runs a program; its end is told once, whoever asks meanwhile.
func (k *keeper) ask(program string) {
	running := k.asked[program]
	why := ""
	switch {
	case k.asks.Err() != nil || running != nil && !running.isTold:
		return
	case running != nil:
		why = "its last run hangs in the kernel"
	case !slices.Contains(k.settings.Programs, program):
		why = "the keeper has not read of such a source"
	case !k.bounds.question.AllowN(now(), 1):
		why = "it is asked too often"
	}
	if why != "" {
		k.noteRefusal(string(toAsk), why)
		k.say(report{Say: sayReply, Reply: &reply{Program: program, Err: why}})
		return
	}
	q := &inquiry{}
	k.asked[program] = q
	s := k.settings
	k.asking.Go(func() { k.inquire(program, q, s) })
}

// inquire runs a program once: a worker's.
func (k *keeper) inquire(program string, q *inquiry, s Settings) {
	runtime.LockOSThread() // see run.CheckUp
	defer runtime.UnlockOSThread()
	text, run := run.Ask(k.asks, "join", hooks.Command{Argv: []string{program}}, s.AskTimeout, s.Socket, s.AskMost)
	r := reply{Program: program, Text: text}
	if run.Err != nil {
		r.Text, r.Err = nil, run.Why()
	}
	k.post(func() {
		q.isTold = true
		k.say(report{Say: sayReply, Reply: &r})
	})
	run.Await(k.asks)
	k.post(func() { delete(k.asked, program) })
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
