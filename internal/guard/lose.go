package guard

import (
	"context"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// Lose is the lose-leadership hook that a guard runs when its agent cannot.
type Lose struct {
	Command hooks.Command
	// Event is what the hook is told. Kind, Cause and Time are filled in when it
	// runs, and Within is set to what is left of the lease.
	Event hooks.Event
	// Timeout and Grace are those of the agent's hooks.
	Timeout, Grace time.Duration
	// Dir is the agent's state directory: a hook that the dead agent left running
	// is found there and ended first, and the output is kept there.
	Dir string
	// Socket is the agent's, for BULLY_SOCKET.
	Socket string
	// Takeover is how much longer than the lease others wait before they take
	// over (takeover_delay).
	Takeover time.Duration
}

// lose runs the hook, by the same code as the agent: orphaned hooks first, then
// this one, bounded, with its output in the ledger.
//
// hooks.Runner waits for its own children by their numbers, so nothing here may
// wait for any child until it has ended.
//
// A hook that has failed within the bound is run once more after it, without one:
// another leader is there then, and nobody else releases what this host holds.
func (g *guardian) lose() {
	l := g.order.Lose
	if l == nil {
		return
	}
	began := time.Duration(now())
	g.report.Lose = &Loss{Began: began, Exit: -1}
	g.tell(Losing)
	bound := g.within()
	res, err := l.run(bound)
	if bound > 0 && !res.OK {
		l.Event.Attempt += res.Attempts
		time.Sleep(g.within())
		res, err = l.run(0)
	}
	loss := Loss{Began: began, OK: res.OK, Ran: res.Ran, Exit: res.Exit, Took: res.Took}
	switch {
	case err != nil:
		loss.Err = err.Error()
	case res.Err != nil:
		loss.Err = res.Err.Error()
	}
	g.report.Lose = &loss
}

// within is what is left of the lease and the takeover delay; 0, which is no
// bound, if that has passed or there is none.
func (g *guardian) within() time.Duration {
	if g.deadline == 0 {
		return 0
	}
	return max(g.deadline.add(g.order.Lose.Takeover).sub(now()), 0)
}

func (l *Lose) run(within time.Duration) (hooks.Result, error) {
	grace := l.Grace
	if within > 0 {
		grace = min(grace, within/budgetShare) // for an orphaned hook, too
	}
	cfg := hooks.Config{Commands: map[hooks.Kind]hooks.Command{hooks.LoseLeadership: l.Command},
		Timeout: l.Timeout, Grace: grace, Dir: l.Dir, Socket: l.Socket, InGuard: true}
	runner, err := hooks.New(cfg)
	if err != nil { // the disk is full or gone: the hook matters more than its output
		cfg.Dir = ""
		runner, err = hooks.New(cfg)
	}
	if err != nil {
		return hooks.Result{Exit: -1}, err
	}
	ev := l.Event
	ev.Kind, ev.Cause, ev.Time, ev.Within = hooks.LoseLeadership, AgentDied, time.Now(), within
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- runner.Run(ctx) }()
	runner.Start(ev)
	res := <-runner.Results()
	stop()
	return res, <-ended
}
