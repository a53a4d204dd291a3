package cli

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/hookrun"
	"github.com/bully-agent/bully-agent/internal/config"
)

var hooksTestCommand = command{
	name: "test", usage: "run a hook with a made-up event, without an agent", args: "EVENT", maxArgs: 1, offer: hookEvents,
	about: `Runs the hook that run would be given here, with the same timeout, environment and input, and prints what it prints and
		how it ends. The event is made up: cause "test" (BULLY_CAUSE), epoch 0, this host as the leader. The hook does run: one
		that must not act has to look at BULLY_CAUSE. Needs no agent, and does not touch one that runs; nothing is kept.

		Exit codes: 0 it succeeded, 1 it failed, 7 the configuration is invalid.`,
	examples: []string{program + " hooks test become-leader", program + " hooks test --config ./agent.toml lose-leadership"},
	options: append([]option{configOption, jsonOption}, slicesOf(settingOptions(), "on-become-leader", "on-lose-leadership",
		"on-leader-change", "on-member-change", "hook-timeout", "hook-grace")...),
	action: testHook,
}

// slicesOf picks options by name.
func slicesOf(options []option, names ...string) []option {
	var picked []option
	for _, o := range options {
		for _, name := range names {
			if o.name == name {
				picked = append(picked, o)
			}
		}
	}
	return picked
}

// tried is what hooks test prints with --json, after the hook's own output on
// standard error.
type tried struct {
	Event  string  `json:"event"`
	OK     bool    `json:"ok"`
	Exit   int     `json:"exit"`
	TookMS float64 `json:"took_ms"`
	Error  string  `json:"error"`
}

func testHook(c *call) error {
	event, err := c.event()
	if err != nil {
		return err
	}
	src, err := c.source()
	if err != nil {
		return err
	}
	cfg, err := config.Load(src)
	if err != nil {
		return err
	}
	commands := hooksConfig(cfg)
	if commands.Commands[event].IsZero() {
		return &failure{code: exitNo, err: fmt.Errorf("no %s hook is configured", event),
			hint: fmt.Sprintf("give it as %s run was given it: --config, or --on-%s COMMAND", program, event)}
	}
	ctx, stop := signal.NotifyContext(c.Context.Context, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	res, err := tryHook(ctx, c, hookrun.Config{Config: commands, Socket: cfg.Control.Socket}, madeUp(event, cfg))
	if err != nil {
		return err
	}
	c.noteSandbox(config.Command(commands.Commands[event]))
	return c.tellTried(res)
}

// noteSandbox says to root that the service runs hooks otherwise, and which parts of this one it forbids.
func (c *call) noteSandbox(cmd config.Command) {
	u := c.service()
	if u == nil || c.Bool("json") {
		return
	}
	_, _ = fmt.Fprintf(c.err, "note: root ran this; %s runs it as user %s, with its limits\n", u.Name, u.User()) // there is nobody else to tell
	for _, f := range forbiddenTo(u, cmd) {
		_, _ = fmt.Fprintf(c.err, "note: under %s %s: %s\n", u.Name, f.Text, f.Do)
	}
}

// tryHook runs the hook. With --json standard output is for the JSON alone.
func tryHook(ctx context.Context, c *call, cfg hookrun.Config, ev hooks.Event) (hooks.Result, error) {
	if c.Bool("json") {
		return hookrun.Try(ctx, cfg, ev, c.err, c.err)
	}
	return hookrun.Try(ctx, cfg, ev, c.out, c.err)
}

// madeUp is an event as this host could have it when it leads alone.
func madeUp(kind hooks.Kind, cfg *config.Config) hooks.Event {
	self := hooks.Node{Name: cfg.Node.Name, Addr: cfg.Network.Bind.String()}
	ev := hooks.Event{Kind: kind, Time: time.Now(), Cluster: cfg.Cluster, Mode: "available", Role: "leader", Self: self, Leader: self,
		Members: []hooks.Member{{Name: self.Name, Addr: self.Addr, Status: "alive", Priority: int(cfg.Node.Priority), Voter: true}}}
	if cfg.Election.Expect > 0 {
		ev.Mode, ev.Quorum = "quorum", cfg.Election.Expect/2+1
	}
	if kind == hooks.LoseLeadership {
		ev.Role, ev.Leader, ev.PrevLeader = "follower", hooks.Node{}, self
	}
	return ev
}

func (c *call) tellTried(res hooks.Result) error {
	t := tried{Event: string(res.Kind), OK: res.OK, Exit: res.Exit, TookMS: float64(res.Took.Microseconds()) / 1000}
	text := fmt.Sprintf("%s hook succeeded in %s\n", res.Kind, span(res.Took))
	if !res.OK {
		t.Error = res.Err.Error()
		text = fmt.Sprintf("%s hook %s: %s, exit code %d\n", res.Kind, c.painted(red, "failed"), config.Printable(t.Error), t.Exit)
	}
	var err error
	if c.Bool("json") {
		err = c.printJSON(t)
	} else {
		err = c.print(text)
	}
	if err == nil && !res.OK {
		err = outcome(exitNo)
	}
	return err
}
