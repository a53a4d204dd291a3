package hookrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/run"
)

const (
	shortTimeout = 200 * time.Millisecond
	shortGrace   = 100 * time.Millisecond
)

// Hooks that do not end: each ends by timeout, grace and
// KILL at the latest, and leaves nothing of its group behind (the rig checks).
func TestHooksThatDoNotEnd(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"sleeps for ever", "sleep 1000; true"},
		{"sleeps for ever in its first process", "exec sleep 1000"},
		{"ignores TERM", "trap '' TERM; while :; do sleep 1; done"},
		{"ignores TERM, children too", "trap '' TERM; sleep 1000"},
		{"has stopped itself", "kill -STOP $$"},
		{"has 200 children", "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; wait"},
		{"forks without end", "f() { sleep 0.01; }; while :; do f & done"},
		{"prints without end", "exec yes"},
		{"closed its output", "exec >&- 2>&-; exec sleep 1000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := startRig(t, scripts{hooks.BecomeLeader: tt.script}, Config{Config: hooks.Config{Timeout: shortTimeout, Grace: shortGrace}})
			g.become(1)
			res := g.wants(hooks.BecomeLeader, 1, false, true)
			if !strings.Contains(res.Err.Error(), "timed out") {
				t.Errorf("err = %v, want a timeout", res.Err)
			}
			if res.Took < shortTimeout {
				t.Errorf("took %v, less than the timeout", res.Took)
			}
		})
	}
}

// A hook may use its grace; it failed all the same.
func TestTimedOutHookThatCleansUpHasFailed(t *testing.T) {
	t.Parallel()
	g := startRig(t, scripts{hooks.BecomeLeader: "trap 'echo x >clean; exit 0' TERM; while :; do sleep 0.01; done"},
		Config{Config: hooks.Config{Timeout: 2 * time.Second}}) // time enough to set the trap
	g.become(1)
	res := g.wants(hooks.BecomeLeader, 1, false, true)
	if res.Exit != 0 || len(g.lines("clean")) == 0 {
		t.Errorf("result %+v: the hook was not let clean up", res)
	}
}

// The first process ends at once and leaves children in its group, with its
// pipes: the runner ends them, politely first, and the hook has succeeded.
func TestBackgroundChildrenAreSwept(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, script string }{
		{"one child with the pipes", "sleep 1000 & echo hi"},
		{"children of children", "(sleep 1000 & sleep 1000 & wait) & true"},
		{"child that ignores TERM", "trap '' TERM; sleep 1000 & true"},
		{"child that forks on", "(while :; do sleep 0.01; done) & true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := startRig(t, scripts{hooks.BecomeLeader: tt.script}, Config{Config: hooks.Config{Grace: shortGrace}})
			g.become(1)
			if res := g.wants(hooks.BecomeLeader, 1, true, true); res.Took > patience/2 {
				t.Errorf("took %v: a background child held up the runner", res.Took)
			}
		})
	}
}

// Whoever wonders where a background child has gone finds it in the log.
func TestBackgroundChildIsNamedWhenItIsEnded(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: "sleep 1000 & echo $! >child"}, Config{})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.end()
	want := regexp.MustCompile(fmt.Sprintf(`WARN.*ended with it: .* processes="%s (sleep|sh)"`, g.lines("child")[0])) // the latter before its execve
	if got := g.log.String(); !want.MatchString(got) {
		t.Errorf("the log does not say %v:\n%s", want, got)
	}
}

func TestBackgroundChildMayCleanUp(t *testing.T) {
	g := startRig(t, scripts{
		hooks.BecomeLeader: "(trap 'echo x >clean; exit' TERM; echo x >armed; while :; do sleep 0.01; done) & while [ ! -s armed ]; do sleep 0.01; done",
	}, Config{})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	if len(g.lines("clean")) == 0 {
		t.Error("the background child got no TERM, or no time")
	}
}

// Documented: a setsid child is out of reach. It keeps the pipes open, and that
// holds up neither the runner nor the next hook.
func TestSetsidChildEscapesAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	g := startRig(t, scripts{
		hooks.BecomeLeader:   "setsid sh -c 'echo $$ >escaped; exec sleep 1000' & while [ ! -s escaped ]; do sleep 0.01; done",
		hooks.LoseLeadership: "kill -9 $(cat escaped)",
	}, Config{})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, true) // it was there to be killed
}

// A member list of a megabyte and a hook that never reads it: a pipe holds 64 KiB.
func TestUnreadInputBlocksNobody(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: "echo done", hooks.LoseLeadership: "wc -c >size"}, Config{})
	ev := event(t, hooks.BecomeLeader, 1)
	for i := range 10_000 {
		ev.Members = append(ev.Members, hooks.Member{ID: fmt.Sprint(i), Name: strings.Repeat("n", 60), Status: "alive"})
	}
	g.Start(ev)
	g.wants(hooks.BecomeLeader, 1, true, true)
	ev.Kind = hooks.LoseLeadership
	g.Start(ev)
	g.wants(hooks.LoseLeadership, 1, true, true)
	if size := g.lines("size")[0]; len(size) < 7 {
		t.Errorf("a hook that reads its input got %s bytes of it", size)
	}
}

// 100 MB, or four million lines, cost neither memory nor log, and the hook is not
// held up for them.
func TestOutputFloodIsBounded(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"lines", "yes 'a line of output that is repeated very often' | head -c 24000000; echo the end"},
		{"one line", "head -c 24000000 /dev/zero | tr '\\0' x; echo; echo the end"},
		{"on both streams", "yes | head -c 4000000 & yes | head -c 4000000 >&2; wait; echo the end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state := t.TempDir()
			g := startRig(t, scripts{hooks.BecomeLeader: tt.script}, Config{Dir: state})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			g.become(1)
			g.wants(hooks.BecomeLeader, 1, true, true)
			g.end()
			runtime.ReadMemStats(&after)
			if grown := int64(after.Sys) - int64(before.Sys); grown > 16<<20 {
				t.Errorf("%d bytes of memory for a hook's output", grown)
			}
			if n := len(g.log.String()); n > 2<<20 {
				t.Errorf("%d bytes of log for one hook", n)
			}
			kept, err := os.ReadFile(theOnlyFile(t, filepath.Join(state, ledgerName)))
			if err != nil || len(kept) < run.TailSize || len(kept) > run.TailSize+1024 {
				t.Errorf("kept %d bytes (%v), want the last %d", len(kept), err, run.TailSize)
			}
			if tt.name != "on both streams" && !strings.HasSuffix(string(kept), "the end\n") { // two pipes have no common order
				t.Error("what is kept is not the end")
			}
			if tt.name == "lines" && !strings.Contains(g.log.String(), "hook output dropped from the log") {
				t.Error("lines were dropped from the log silently")
			}
		})
	}
}

func theOnlyFile(t *testing.T, dir string) string {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s holds %v (%v), want one file", dir, found, err)
	}
	return filepath.Join(dir, found[0].Name())
}

func TestOutputIsLoggedWithHookEpochAndStream(t *testing.T) {
	g := startRig(t, scripts{hooks.BecomeLeader: "echo to people; echo of trouble >&2; printf unfinished"}, Config{})
	g.become(9)
	g.wants(hooks.BecomeLeader, 9, true, true)
	g.end()
	for _, want := range []string{
		"hook printed: epoch=9 hook=become-leader stream=stdout line=\"to people\"",
		"stream=stderr line=\"of trouble\"",
		"line=unfinished",
		"hook started: epoch=9 hook=become-leader cause=test",
		"hook ended: epoch=9 hook=become-leader",
	} {
		if !strings.Contains(g.log.String(), want) {
			t.Errorf("no %q in the log\n%s", want, g.log)
		}
	}
}

// What a hook finds: its own process group, "/", only the promised variables, the
// object on its input and then end of file.
func TestHookSurroundings(t *testing.T) {
	t.Setenv("SECRET", "of the agent")
	g := startRig(t, scripts{hooks.BecomeLeader: "cat >input; tr '\\0' '\\n' </proc/self/environ >vars; ps -o pgid= -p $$ >pgid; readlink /proc/$PPID/cwd"}, Config{})
	cfg := g.config()
	cfg.Commands[hooks.LoseLeadership] = hooks.Command{Argv: []string{"/bin/sh", "-c", "pwd >$0/cwd", g.Dir.Name}}
	g.SetConfig(cfg)
	g.become(3)
	g.wants(hooks.BecomeLeader, 3, true, true)
	g.lose(3)
	g.wants(hooks.LoseLeadership, 3, true, true)
	var doc struct {
		Event hooks.Kind
		Epoch struct{ Counter uint64 }
	}
	text, err := os.ReadFile(g.Path("input"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &doc); err != nil || doc.Epoch.Counter != 3 || doc.Event != hooks.BecomeLeader {
		t.Errorf("input %s (%v)", text, err)
	}
	vars := strings.Join(g.lines("vars"), "\n")
	if strings.Contains(vars, "SECRET") || !strings.Contains(vars, "BULLY_EPOCH=3") {
		t.Errorf("environment is not clean:\n%s", vars)
	}
	if got, want := g.lines("pgid")[0], g.lines("groups")[0]; got != want {
		t.Errorf("process group %s, want the hook's own, %s", got, want)
	}
	if got := g.lines("cwd")[0]; got != "/" {
		t.Errorf("cwd = %s", got)
	}
}

func TestSequenceNumberRisesWithEveryRunAndSurvivesRestart(t *testing.T) {
	state := t.TempDir()
	say := "echo $BULLY_SEQ >>seq"
	g := startRig(t, scripts{hooks.BecomeLeader: say, hooks.LoseLeadership: say}, Config{Dir: state})
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	g.lose(1)
	g.wants(hooks.LoseLeadership, 1, true, true)
	g.end()
	if got := strings.Join(g.lines("seq"), " "); got != "1 2" {
		t.Errorf("sequence %s, want 1 2", got)
	}
	next := startRig(t, scripts{hooks.BecomeLeader: say}, Config{Dir: state})
	next.become(2)
	next.wants(hooks.BecomeLeader, 2, true, true)
	if got := strings.Join(next.lines("seq"), " "); got != "3" {
		t.Errorf("sequence after restart %s, want 3", got)
	}
}

func TestLedgerKeepsTheLastRuns(t *testing.T) {
	dir := t.TempDir()
	g := setUp(t, scripts{}, Config{})
	l := ledger{dir: run.Archive(dir), backlog: &backlog{}, log: g.hands.log}
	for seq := range uint64(run.ArchiveSize + 5) {
		l.write(hooks.Run{Hook: hooks.BecomeLeader, Seq: seq + 1}, []byte("output"))
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != run.ArchiveSize || files[0].Name() != "000000000006-become-leader-0.log" {
		t.Errorf("ledger holds %d files from %v (%v), want the last %d", len(files), files[:1], err, run.ArchiveSize)
	}
}

// A path that was safe at the start is checked again at every run.
func TestCheckedAtEveryRun(t *testing.T) {
	g := startRig(t, scripts{}, Config{})
	file := g.Path("hook")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := g.config()
	cfg.Commands[hooks.BecomeLeader] = hooks.Command{Argv: []string{file}}
	g.SetConfig(cfg)
	g.become(1)
	g.wants(hooks.BecomeLeader, 1, true, true)
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	g.become(2)
	res := g.wants(hooks.BecomeLeader, 2, false, false)
	if !strings.Contains(res.Err.Error(), "chmod +x") {
		t.Errorf("err = %v", res.Err)
	}
}

// A goroutine may come late to what it is to start. What was ended meanwhile is not begun.
func TestWhatIsEndedBeforeItStarts(t *testing.T) {
	var posted []hooks.LaneEvent
	h := &Hands{log: hclog.NewNullLogger(), loop: Loop{Clock: time.Now, Post: func(ev hooks.LaneEvent) { posted = append(posted, ev) }}}
	h.begin = func([]string, []string, []byte, *run.Output) (*run.Process, error) {
		t.Error("it is begun")
		return nil, errors.New("begun")
	}
	leash := run.NewLeash(ending.Limit{Timeout: time.Minute}, time.Now)
	leash.Pull(hooks.ErrStopping)
	h.start(hooks.Start{Lane: hooks.Leadership, Seq: 3, Event: event(t, hooks.BecomeLeader, 7)}, leash, "")
	if want := (hooks.StartFailed{Lane: hooks.Leadership, Seq: 3, Err: hooks.ErrStopping}); len(posted) != 1 || posted[0] != want {
		t.Errorf("posted %v", posted)
	}
}
