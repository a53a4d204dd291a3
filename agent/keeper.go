package agent

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/discovery"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/internal/keeper"
	"github.com/bully-agent/bully-agent/internal/reader"
)

// newKeeper is the process that runs the commands, of an agent whose own files are at home.
func newKeeper(cfg Config, commands hooks.Config, home string, door *reader.Door, log hclog.Logger) *keeper.Client {
	return keeper.New(keeper.Config{Hooks: commands, Dir: cfg.StateDir, Logger: log, Clock: cfg.Now, Args: cfg.KeeperArgs, Environ: cfg.KeeperEnviron,
		Reader: door, Once: cfg.Apart != nil, Try: home})
}

// KeeperSettings is what the keeper of an agent with this configuration has to know, which
// it works out for itself. It takes a silent agent for dead half a stop budget before the
// lease's end: one that is well has begun its own end a whole one before. Others wait for
// the takeover delay on clocks that may be faster (protocol 2.5, M7).
func KeeperSettings(cfg Config) keeper.Settings {
	s := keeper.Settings{Hooks: cfg.Hooks, Jobs: map[string]keeper.Job{}, Budget: cfg.Election.StopBudget / 2,
		LeaseBound: LeaseBound(cfg.Election.Lease, cfg.Election.TakeoverDelay),
		Takeover:   lease.LeaderLength(cfg.Election.TakeoverDelay)}
	s.Dir, s.Socket = cfg.StateDir, cfg.Socket
	s.Programs, s.AskTimeout, s.AskMost = discovery.Programs(cfg.Seeds), discovery.Timeout, discovery.MaxText+1
	if cfg.Apart != nil {
		s.Readers = cfg.Apart.GID
	}
	for _, c := range cfg.Checks {
		s.Checks = append(s.Checks, c.Check)
	}
	for _, j := range cfg.Jobs {
		s.Jobs[j.Name] = keeper.Job{Command: j.Command, Timeout: j.Timeout, Tied: j.OnLoss == jobs.OnLossKill, AtOnce: j.AtOnce()}
	}
	return s
}

// LeaseBound is how long after the last renewal of a lease others have taken over; see keeper.Settings.
func LeaseBound(length, takeover time.Duration) time.Duration {
	return lease.LeaderLength(length+takeover) + time.Second
}

// showKeeper completes a status. A leadership that was ended in a silent agent's stead is
// not ready, whatever the loop knows of it.
func (a *agent) showKeeper(s *control.Status) {
	status := a.runner.Status()
	s.Keeper = &control.Keeper{Process: status.Process, Error: status.Err}
	if status.Silent {
		s.Ready = s.Ready && !s.LeaderIsSelf
	}
}
