package hookrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/test/traces"
)

const patience = traces.Patience

// shortPause is between two attempts, where a test does not say otherwise.
const shortPause = 5 * time.Millisecond

// rig is a loop with real hooks in /bin/sh. Every hook notes its process group
// first; when the test ends, none of these groups may have a living member.
type rig struct {
	*loop
	traces.Dir
	t    *testing.T
	log  *traces.Buffer
	stop context.CancelFunc
	done chan struct{}
}

// scripts are hooks by event, as shell lines; they run in the directory $D, the
// rig's own.
type scripts map[hooks.Kind]string

func (g *rig) commands(s scripts) map[hooks.Kind]hooks.Command {
	commands := make(map[hooks.Kind]hooks.Command)
	for kind, script := range s {
		commands[kind] = hooks.Command{Shell: fmt.Sprintf("echo $$ >>%[1]s/groups; D=%[1]s; cd $D; %[2]s", g.Dir.Name, script)}
	}
	return commands
}

// setUp makes a rig that does not run yet. Short bounds keep the tests quick; cfg
// may give others.
func setUp(t *testing.T, s scripts, cfg Config) *rig {
	t.Helper()
	return setUpWith(t, s, cfg, shortPause)
}

// setUpWith is setUp with a pause between two attempts.
func setUpWith(t *testing.T, s scripts, cfg Config, pause time.Duration) *rig {
	t.Helper()
	g := &rig{Dir: traces.New(t), t: t, log: &traces.Buffer{}, done: make(chan struct{})}
	cfg.Commands, cfg.Dir = g.commands(s), cmp.Or(cfg.Dir, t.TempDir())
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: g.log, Level: hclog.Debug})
	if cfg.Timeout == 0 {
		cfg.Timeout = patience
	}
	if cfg.Grace == 0 {
		cfg.Grace = patience
	}
	var err error
	if g.loop, err = newLoop(cfg, pause, 1000); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.noOrphans)
	t.Cleanup(func() { // before its directory goes
		g.await(func() bool { return true }) // a step may be under way, of which somebody has heard already
		g.hands.aftermath.Wait()
		g.hands.backlog.wait(patience)
	})
	return g
}

// startRig is setUp, running until the test ends.
func startRig(t *testing.T, s scripts, cfg Config) *rig {
	t.Helper()
	g := setUp(t, s, cfg)
	g.run()
	return g
}

func (g *rig) run() {
	var ctx context.Context
	ctx, g.stop = context.WithCancel(context.Background())
	go func() {
		defer close(g.done)
		g.Run(ctx)
	}()
	g.t.Cleanup(g.end)
}

// end stops the loop and waits for it.
func (g *rig) end() {
	g.t.Helper()
	g.stop()
	select {
	case <-g.done:
	case <-time.After(patience):
		g.t.Fatal("the loop did not end")
	}
}

// Start is an order without a lease, and without a bound.
func (g *rig) Start(ev hooks.Event) {
	g.loop.Start(hooks.Asked{Event: ev})
}

// rest waits until no hook of the leadership runs or is queued.
func (g *rig) rest() { g.await(g.lanes.AtRest) }

func (g *rig) become(epoch uint64) { g.Start(event(g.t, hooks.BecomeLeader, epoch)) }
func (g *rig) lose(epoch uint64)   { g.Start(event(g.t, hooks.LoseLeadership, epoch)) }

// leads begins a leadership without a become hook: there is something to lose.
func (g *rig) leads(epoch uint64) {
	g.t.Helper()
	g.become(epoch)
	g.wants(hooks.BecomeLeader, epoch, true, false)
}

func (g *rig) loseWithin(epoch uint64, d time.Duration) {
	g.loop.Start(hooks.Asked{Event: event(g.t, hooks.LoseLeadership, epoch), Due: time.Now().Add(d)})
}

// owner leads in this test. Neither another test nor another run of them has it: a clean-up ends what it finds of a leadership.
func owner(t testing.TB) string { return fmt.Sprintf("a%d-%s", os.Getpid(), t.Name()) }

func event(t testing.TB, kind hooks.Kind, epoch uint64) hooks.Event {
	return hooks.Event{Kind: kind, Cause: "test", Time: time.Now(), Epoch: hooks.Epoch{Counter: epoch, Owner: owner(t)}}
}

// result is the next one.
func (g *rig) result() hooks.Result {
	g.t.Helper()
	select {
	case res := <-g.results:
		return res
	case <-time.After(patience):
		g.t.Fatalf("no result\n%s", g.log)
		return hooks.Result{}
	}
}

// wants checks the next result's kind, epoch and outcome.
func (g *rig) wants(kind hooks.Kind, epoch uint64, ok, ran bool) hooks.Result {
	g.t.Helper()
	res := g.result()
	if res.Kind != kind || res.Epoch != epoch || res.OK != ok || res.Ran != ran {
		g.t.Fatalf("result %+v\nwant %s of epoch %d, ok %v, ran %v\n%s", res, kind, epoch, ok, ran, g.log)
	}
	if (res.Err == nil) != res.OK {
		g.t.Fatalf("result %+v: an error and only an error is a failure", res)
	}
	return res
}

// nothingMore checks that no result waits unasked for.
func (g *rig) nothingMore() {
	g.t.Helper()
	select {
	case res := <-g.results:
		g.t.Fatalf("one result too many: %+v", res)
	default:
	}
}

// state is Config.Dir.
func (g *rig) state() string { return filepath.Dir(g.hands.journal.path) }

// lines gives a file of the rig by line; a missing file has none.
func (g *rig) lines(name string) []string {
	g.t.Helper()
	text, err := os.ReadFile(g.Path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		g.t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// noOrphans checks that no hook of this rig left a living process in its group.
// Whether the zombies of its grandchildren are reaped is up to process 1.
func (g *rig) noOrphans() {
	for _, line := range g.lines("groups") {
		group, err := strconv.Atoi(line)
		if err != nil || group <= 1 {
			g.t.Fatalf("group %q: %v", line, err)
		}
		if err := unix.Kill(-group, 0); errors.Is(err, unix.ESRCH) {
			continue
		}
		if pids := run.Living(group); len(pids) > 0 {
			g.t.Errorf("hook group %d still has living members %v", group, pids)
			_ = run.Signal(group, unix.SIGKILL)
		}
	}
}

// mkfifo makes a gate at which a hook waits with "read go <gate".
func (g *rig) mkfifo(name string) {
	g.t.Helper()
	if err := unix.Mkfifo(g.Path(name), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// open lets one hook through a gate; it waits for the hook to be there.
func (g *rig) open(gate string) {
	g.t.Helper()
	opened := make(chan error, 1)
	go func() { opened <- os.WriteFile(g.Path(gate), []byte("go\n"), 0) }()
	select {
	case err := <-opened:
		if err != nil {
			g.t.Fatal(err)
		}
	case <-time.After(patience):
		g.t.Fatalf("no hook came to the gate %s", gate)
	}
}

func appendLine(t *testing.T, path, line string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		t.Error(err)
	}
}
