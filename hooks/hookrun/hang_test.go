package hookrun

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/run"
)

// A start that hangs in a file system keeps no lose hook from running. Should it come to run after all, it is killed at once,
// and until that is known nothing begins beside it.
func TestAStartThatHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hangs, goesOn := make(chan bool), make(chan bool)
	late := filepath.Join(dir, "late")
	cfg := Config{Dir: dir, Config: hooks.Config{Commands: map[hooks.Kind]hooks.Command{
		hooks.BecomeLeader:   {Shell: "trap '' TERM; sleep 0.05; echo >" + late},
		hooks.LoseLeadership: {Shell: "true"},
	}, Grace: 100 * time.Millisecond}}
	l, err := newLoop(cfg, time.Millisecond, 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before its directory goes
		l.hands.aftermath.Wait()
		l.hands.backlog.wait(patience)
	})
	l.hands.begin = func(argv, env []string, input []byte, out *run.Output) (*run.Process, error) {
		if argv[len(argv)-1] != "true" {
			close(hangs)
			<-goesOn
		}
		return run.Start(argv, env, input, out)
	}
	l.step(hooks.Opened{})
	l.step(hooks.Asked{Event: event(t, hooks.BecomeLeader, 7)})
	<-hangs
	l.step(hooks.Asked{Event: event(t, hooks.LoseLeadership, 7), Due: time.Now().Add(10 * time.Second)})
	if res := l.next(t); res.Kind != hooks.BecomeLeader || res.OK {
		t.Errorf("result %+v", res)
	}
	if res := l.next(t); res.Kind != hooks.LoseLeadership || !res.OK {
		t.Errorf("result %+v", res)
	}
	l.step(hooks.Asked{Event: event(t, hooks.BecomeLeader, 8)})
	if res := l.next(t); res.OK {
		t.Error("a leadership begins beside a start that hangs")
	}
	close(goesOn)
	l.await(func() bool { return l.runs == 2 }) // the lose hook's is one
	if _, err := os.Stat(late); err == nil {
		t.Error("what was given up has run")
	}
}

// next waits for a result.
func (l *loop) next(t *testing.T) hooks.Result {
	t.Helper()
	select {
	case res := <-l.results:
		return res
	case <-time.After(30 * time.Second):
		t.Fatal("no result")
		return hooks.Result{}
	}
}
