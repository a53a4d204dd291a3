package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// Leadership starts guards without a command, one for each leadership, for
// hooks.Runner.
type Leadership struct {
	Records  string           // as in Config; made if it is missing
	Clock    func() time.Time // as in Config
	Budget   time.Duration    // as in Config
	Takeover time.Duration    // as in Lose
	Program  []string         // as in Config
}

// answerPatience is how long a guard may take to answer, or half its budget if that
// is longer. It does nothing but wait, so one that takes longer is stopped or
// starved. Arbitrary: the end of a short lease leaves no more to spare.
const answerPatience = 50 * time.Millisecond

// stopPatience is the same where nobody waits for it.
const stopPatience = time.Second

// Start implements hooks.Guards.
func (l Leadership) Start(o hooks.GuardOrder) (hooks.Guard, error) {
	if err := os.MkdirAll(l.Records, 0o700); err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	lose := &Lose{Command: o.Command, Event: o.Lose, Timeout: o.Timeout, Grace: o.Grace, Dir: o.Dir, Socket: o.Socket, Takeover: l.Takeover}
	g, err := Start(Config{Name: "leadership", Epoch: o.Lose.Epoch, Deadline: o.Deadline, Clock: l.Clock, Budget: l.Budget,
		Grace: o.Grace, Lose: lose, Records: l.Records, Cgroup: NoCgroup, Program: l.Program})
	if err != nil {
		return nil, err
	}
	return leadership{Guard: g, patience: max(answerPatience, l.Budget/2)}, nil
}

// Recover implements hooks.Guards.
func (l Leadership) Recover(ctx context.Context, waits func(process int)) ([]hooks.GuardRecord, error) {
	found, err := recoverAll(ctx, l.Records, waits)
	var records []hooks.GuardRecord
	for _, r := range found {
		records = append(records, hooks.GuardRecord{Epoch: r.Epoch, Status: statusOf(r.Report), Forget: r.Remove})
	}
	return records, err
}

// leadership is a Guard as hooks.Runner sees it.
type leadership struct {
	*Guard
	patience time.Duration
}

func (g leadership) Yield() { g.Guard.Yield(g.patience) }

func (g leadership) Stop() { g.Guard.Stop("leadership-ended", stopPatience) }

func (g leadership) Release() { g.Guard.Release("leadership-ended", stopPatience) }

func (g leadership) Status() hooks.GuardStatus { return statusOf(g.Report()) }

func statusOf(r Report) hooks.GuardStatus {
	s := hooks.GuardStatus{Process: r.Guard, Reach: r.Reach, TookOver: r.TookOver(), Err: r.Err}
	if l := r.Lose; l != nil {
		s.Lose = hooks.Result{Kind: hooks.LoseLeadership, Cause: AgentDied, OK: l.OK, Ran: l.Ran, Exit: l.Exit, Took: l.Took}
		s.Began, s.HasEnded = l.Began, l.OK || l.Err != ""
		if l.Err != "" {
			s.Lose.Err = errors.New(l.Err)
		} else if !l.OK {
			s.Lose.Err = errUnknown
		}
	}
	return s
}

// errUnknown is how a hook ended whose guard was killed.
var errUnknown = errors.New("the guard was killed while it ran the hook")
