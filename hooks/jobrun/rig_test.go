package jobrun

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/holder"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// patience bounds every wait: far above what is needed, so that a loaded machine
// fails no test.
const patience = 30 * time.Second

// This program is also the holders that it starts, and the agent that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case holder.Word:
			os.Exit(holder.Main())
		case "agent":
			actAgent(os.Args[2], os.Args[3], os.Args[4])
		}
	}
	os.Exit(m.Run())
}

// actAgent begins a run that is not tied to anything, and lives until it is
// killed.
func actAgent(dir, limit, line string) {
	timeout, err := time.ParseDuration(limit)
	if err != nil {
		panic(err)
	}
	r, err := New(Config{Dir: dir, Grace: 100 * time.Millisecond, Post: func(Result) {}})
	if err != nil {
		panic(err)
	}
	r.Begin(Order{ID: "j-1", Job: "j", Slot: slot, Attempt: 1, Timeout: timeout, Command: hooks.Command{Shell: line}})
	select {}
}

var slot = time.Date(2026, 11, 20, 2, 30, 0, 0, time.UTC)

func clock() time.Time {
	return sidecar.Now()
}

// rig is a Runner and a directory in which commands leave traces.
type rig struct {
	*Runner
	t       *testing.T
	dir     string
	results chan Result
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), results: make(chan Result, 16)}
	var err error
	r.Runner, err = New(Config{Dir: r.dir, Socket: "/run/a.sock", Grace: 200 * time.Millisecond, Post: func(res Result) { r.results <- res }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

// close ends what runs, once.
func (r *rig) close() {
	select {
	case <-r.ended:
	default:
		r.Close()
	}
	r.Rest()
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

// order runs a line of shell in which DIR is the rig's directory.
func (r *rig) order(id, line string) Order {
	return Order{ID: id, Job: "backup", Slot: slot, Attempt: 1, Timeout: time.Minute,
		Command: hooks.Command{Shell: strings.ReplaceAll(line, "DIR", r.dir)},
		Event:   hooks.Event{Kind: "job", Cause: "scheduled", Time: slot, Epoch: hooks.Epoch{Counter: 7, Owner: "a"}}}
}

// result waits for the next end.
func (r *rig) result() Result {
	r.t.Helper()
	select {
	case res := <-r.results:
		return res
	case <-time.After(patience):
		r.t.Fatal("no run has ended")
	}
	return Result{}
}

// eventually waits until a file holds something, and gives that.
func (r *rig) eventually(name string) string { return eventually(r.t, r.path(name)) }

func eventually(t *testing.T, path string) string {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(text), "\n") {
			return strings.TrimSpace(string(text))
		}
	}
	t.Fatalf("%s was never written", path)
	return ""
}

// lives reports whether the process whose number is text runs.
func lives(t *testing.T, text string) bool {
	t.Helper()
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + text + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return pid > 0 && !strings.HasPrefix(after, "Z")
}

func emptyOutput() *run.Output { return run.NewOutput(hclog.NewNullLogger(), "printed") }
