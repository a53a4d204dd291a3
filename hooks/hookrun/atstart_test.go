package hookrun

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/hooks"
)

// The hook of at_start runs, is ended with its group if that hangs, and leaves nothing due, good or bad.
func TestCleanUpAtAStart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script string
		ok     bool
	}{
		"it succeeds": {note + "echo $BULLY_CAUSE $BULLY_EPOCH:$BULLY_EPOCH_OWNER >cause", true},
		"it fails":    {note + "exit 3", false},
		"it hangs":    {note + "exec sleep 1000", false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Config: hooks.Config{Grace: shortGrace, Timeout: shortGrace}, Dir: t.TempDir()}
			if tt.ok {
				cfg.Timeout = patience
			}
			g := setUp(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: tt.script}, cfg)
			res := g.CleanUp(context.Background(), hooks.Event{AtStart: true, Cluster: "test"})
			if res.OK != tt.ok || !res.Ran || res.Kind != hooks.LoseLeadership || res.Epoch != 0 || res.Cause != hooks.CauseStarted {
				t.Errorf("result %+v", res)
			}
			if epoch, ok := g.Owed(); ok {
				t.Errorf("epoch %v is due", epoch)
			}
			if got := strings.Join(g.lines("cause"), " "); tt.ok && got != "started 0:" {
				t.Errorf("it was told %q", got)
			}
			cfg = g.config()
			cfg.Timeout = patience
			g.SetConfig(cfg)
			g.run()
			g.become(1)
			g.wants(hooks.BecomeLeader, 1, true, true)
		})
	}
}

// M18: one that was left behind by a kill is ended by the next life, also if that has no at_start.
func TestAHookOfAtStartThatIsLeftBehind(t *testing.T) {
	left, _ := orphanOf(t, hooks.Event{Kind: hooks.LoseLeadership, Cause: hooks.CauseStarted}, "exec sleep 1000")
	g := crashed(t, scripts{hooks.LoseLeadership: note}, Config{Config: hooks.Config{Grace: patience}}, left)
	g.run()
	g.Until("the end of the hook", func() bool { return !alive(left) })
	g.Until("the note to go", func() bool { _, err := os.Stat(g.hands.journal.path); return err != nil })
	if _, ok := g.Owed(); ok {
		t.Error("a leadership is due")
	}
}

// What a dead agent's keeper has run is not made up for; the hook of at_start runs all the same, as one of a start.
func TestAtStartAfterATakeOver(t *testing.T) {
	state := t.TempDir()
	g := startRig(t, scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}, Config{Dir: state})
	g.become(7)
	g.wants(hooks.BecomeLeader, 7, true, true)
	g.takesOver(0)
	g.rest()
	g.end()
	next := setUp(t, scripts{hooks.LoseLeadership: "echo $BULLY_CAUSE $BULLY_EPOCH:$BULLY_EPOCH_OWNER:$BULLY_LEADER:$BULLY_PREV_LEADER >cause"}, Config{Dir: state})
	ev := event(t, hooks.LoseLeadership, 7)
	ev.AtStart, ev.PrevLeader = true, hooks.Node{ID: "a1", Name: "alpha", Addr: "10.0.0.1:7950"}
	if res := next.CleanUp(context.Background(), ev); !res.OK || !res.Ran || res.TakenOver {
		t.Errorf("result %+v", res)
	}
	if got := strings.Join(next.lines("cause"), " "); got != hooks.CauseStarted+" 0:::" {
		t.Errorf("it was told %q", got)
	}
	if epoch, ok := next.Owed(); ok {
		t.Errorf("epoch %v is due", epoch)
	}
}
