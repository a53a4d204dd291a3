package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/test/making"
	"github.com/bully-agent/bully-agent/internal/test/waiting"
)

func TestBadOptions(t *testing.T) {
	tests := map[string]Options{
		"--nodes 0: expected 1 to 100":                     {Nodes: 0},
		"--nodes 101: expected 1 to 100":                   {Nodes: 101},
		`--fault "boom": expected kill, stop, pause, hand`: {Nodes: 3, Fault: "kill,boom"},
		"--fault carrier pulls a cable":                    {Nodes: 3, Fault: "carrier"},
		`--mode "maybe": expected available or quorum`:     {Nodes: 3, Mode: "maybe"},
		"--expect 3 is for quorum mode":                    {Nodes: 3, Mode: "available", Expect: 3},
		"--expect 2: a quorum needs 3 to 15 voters":        {Nodes: 2, Mode: "quorum"},
		"--expect 16: a quorum needs 3 to 15 voters":       {Nodes: 3, Expect: 16},
		`--algorithm "raft": expected classic`:             {Nodes: 3, Algorithm: "raft"},
		"--loss 100: expected a number of percent":         {Nodes: 3, Loss: 100},
		"--loss and --delay are done to a cable":           {Nodes: 3, Loss: 10},
		"--delay 1ms --jitter 2ms: expected":               {Nodes: 3, Delay: time.Millisecond, Jitter: 2 * time.Millisecond},
		"--watch looks on where nothing is done":           {Nodes: 3, Watch: time.Second, Fault: "kill"},
		"--busy makes a watch or a measurement harder":     {Nodes: 3, Busy: 1},
		"--lose-hook -1s: expected":                        {Nodes: 3, LoseHook: -time.Second},
		"--fault cut pulls a cable":                        {Nodes: 3, Fault: "cut"},
		"--fault kill with --nodes 1":                      {Nodes: 1, Fault: "kill"},
		"--fault and --script exclude each other":          {Nodes: 3, Fault: "kill", Script: "s"},
		"--repeat -1":  {Nodes: 3, Repeat: -1},
		"--settle -1s": {Nodes: 3, Settle: -time.Second},
		`--scheduling "fifo": expected auto, realtime or normal`: {Nodes: 3, Scheduling: "fifo"},
		`--profile "moon": expected lan, fast or wan`:            {Nodes: 3, Profile: "moon"},
		`--preempt "maybe": expected priority`:                   {Nodes: 3, Preempt: "maybe"},
		"read script: open /does/not/exist":                      {Nodes: 3, Script: "/does/not/exist"},
	}
	for want, o := range tests {
		err := Run(t.Context(), o)
		var exit *exitError
		if err == nil || !strings.HasPrefix(err.Error(), want) || !errors.As(err, &exit) || exit.ExitCode() != exitUsage {
			t.Errorf("%v, want exit code %d and %q", err, exitUsage, want)
		}
	}
}

func TestPauseAndCutAreMeasuredWithoutPreemption(t *testing.T) {
	for fault, want := range map[string]string{"": "priority", "kill,stop": "priority", "kill, pause": "never", "cut": "never", "stop,handover": "never"} {
		o := Options{Nodes: 3, Fault: fault}
		if o.fill(); o.Preempt != want {
			t.Errorf("--fault %q: preempt %s, want %s", fault, o.Preempt, want)
		}
	}
}

// together is how many labs run at a time: they wait for agents and browsers.
const together = 3

// programDir has the program, once a test has asked for it.
var programDir string

// TestMain removes the program in the end.
func TestMain(m *testing.M) {
	waiting.Together(together)
	code := m.Run()
	if programDir != "" {
		_ = os.RemoveAll(programDir) // of temporary files
	}
	os.Exit(code)
}

// built is the program that the lab is part of, built once for all tests of a run.
var built = sync.OnceValues(func() (path string, err error) {
	if programDir, err = os.MkdirTemp("", "lab"); err != nil {
		return "", err
	}
	path = filepath.Join(programDir, "bully-agent")
	return path, making.Program(path)
})

// buildAgent gives the path of the program.
func buildAgent(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The built-in script with real agents: n3 leads, is killed, n2 takes over, n3 comes back and bullies its way to the top.
func TestBuiltInScript(t *testing.T) {
	if testing.Short() {
		t.Skip("starts agents")
	}
	dir := shortDir(t)
	var out, log bytes.Buffer
	o := Options{Nodes: 3, place: dir, Binary: buildAgent(t), Profile: "lan", JSON: true, Out: &out, Err: &log}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := Run(ctx, o); err != nil {
		t.Fatalf("%v\n%s%s", err, log.String(), out.String())
	}
	var doc jsonReport
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatalf("the report is no JSON: %v\n%s", err, out.String())
	}
	var story []string
	for _, r := range doc.Timeline {
		if r.What == "became-leader" || r.What == "lost-leadership" || r.What == "kill" {
			story = append(story, r.Node+" "+r.What)
		}
	}
	// Whose hook is quicker after the kill, that of n3's guard or of n2, is open.
	const kill, comeback = "n3 became-leader, n3 kill, ", "n2 lost-leadership, n3 became-leader"
	const lost, taken = "n3 lost-leadership, ", "n2 became-leader, "
	if got := strings.Join(story, ", "); (got != kill+lost+taken+comeback && got != kill+taken+lost+comeback) || !doc.Held {
		t.Errorf("held %v, got\n%s", doc.Held, got)
	}
	expectNoRemains(t, dir)
}

// Three agents in quorum mode with real taps between them: who leads stays, and hands over when it is told to.
func TestBadWeather(t *testing.T) {
	if testing.Short() {
		t.Skip("starts agents")
	}
	if err := mayUseNamespaces(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skipf("skipped: no taps can be made here: %v", err)
	}
	dir := shortDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bad := Options{place: dir, Nodes: 3, Binary: buildAgent(t), Netns: true, Mode: "quorum", Loss: 2, Delay: 3 * time.Millisecond, Jitter: time.Millisecond, JSON: true}
	run := func(o Options) (doc jsonReport) {
		t.Helper()
		var out, log bytes.Buffer
		o.Out, o.Err = &out, &log
		if err := Run(ctx, o); err != nil {
			t.Fatalf("%v\n%s%s", err, log.String(), out.String())
		}
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatalf("the report is no JSON: %v\n%s", err, out.String())
		}
		return doc
	}
	watching := bad
	watching.Watch, watching.Busy = time.Second, 1
	if doc := run(watching); doc.Watch == nil || doc.Watch.Changes != 0 || doc.Mode != "quorum" || doc.Weather == "" {
		t.Errorf("watched %+v in mode %s, weather %s", doc.Watch, doc.Mode, doc.Weather)
	}
	measuring := bad
	measuring.Fault, measuring.Repeat = "handover", 2
	if doc := run(measuring); len(doc.Samples) != 1 || doc.Samples[0].Runs != 2 || *doc.Samples[0].LetGoFirst != 2 {
		t.Errorf("measured %+v", doc.Samples)
	}
	expectNoRemains(t, dir)
}

// An interrupted lab says so with its exit code, and takes its agents along.
func TestInterruptedLabLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts agents")
	}
	t.Parallel()
	dir := shortDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	out := &watcher{want: "became leader", found: cancel}
	err := Run(ctx, Options{place: dir, Nodes: 2, Binary: buildAgent(t), Out: out, Err: &log})
	var exit *exitError
	if !errors.As(err, &exit) || exit.ExitCode() != ExitInterrupted {
		t.Errorf("%v, want exit code %d", err, ExitInterrupted)
	}
	if !strings.Contains(out.all.String(), "\nverdict\n") {
		t.Errorf("no verdict:\n%s", out.all.String())
	}
	if len(out.pids) != 2 {
		t.Errorf("the timeline names the processes %v, want 2", out.pids)
	}
	for _, pid := range out.pids {
		if _, err := os.Stat("/proc/" + pid); err == nil {
			t.Errorf("agent %s still runs", pid)
		}
	}
	expectNoRemains(t, dir)
}

func expectNoRemains(t *testing.T, dir string) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(dir, "bully-lab-*")); err != nil || len(left) != 0 {
		t.Errorf("the lab left %v behind, %v", left, err)
	}
}

// watcher reads a timeline as it is printed. The journal's lock keeps its calls apart.
type watcher struct {
	want  string
	found func()
	pids  []string
	all   strings.Builder
}

func (w *watcher) Write(p []byte) (int, error) {
	line := string(p)
	w.all.WriteString(line)
	if _, after, ok := strings.Cut(line, "(pid "); ok {
		pid, _, _ := strings.Cut(after, ")")
		w.pids = append(w.pids, pid)
	}
	if strings.Contains(line, w.want) {
		w.found()
	}
	return len(p), nil
}

// shortDir is a directory whose name leaves room for a socket's path.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "lab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
