package hookrun

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/run"
)

// asking is Hands without Lanes, which say what has come of questions.
func asking(t *testing.T) (*Hands, <-chan hooks.LaneEvent) {
	t.Helper()
	posted := make(chan hooks.LaneEvent, 10)
	h, _, err := Open(Config{Dir: t.TempDir(), Socket: "/s"}, Loop{Clock: time.Now, Post: func(ev hooks.LaneEvent) { posted <- ev }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.AwaitQuestions(patience) })
	return h, posted
}

// question is one that a line of shell answers within a time.
func question(line string, timeout time.Duration) hooks.Consult {
	return hooks.Consult{Lane: "check web", Seq: 7, Command: hooks.Command{Shell: line}, About: []string{"BULLY_EVENT=check"},
		Limit: ending.Limit{Timeout: timeout, Grace: 100 * time.Millisecond}}
}

func consulted(t *testing.T, posted <-chan hooks.LaneEvent) hooks.Reply {
	t.Helper()
	select {
	case ev := <-posted:
		e, isEnd := ev.(hooks.Consulted)
		if !isEnd || e.Lane != "check web" || e.Seq != 7 || e.Hangs {
			t.Fatalf("posted %+v", ev)
		}
		return e.Reply
	case <-time.After(patience):
		t.Fatal("it has not ended")
		return hooks.Reply{}
	}
}

// answers runs one to its end.
func answers(t *testing.T, q hooks.Consult) hooks.Reply {
	t.Helper()
	h, posted := asking(t)
	h.Do(q)
	return consulted(t, posted)
}

// Of what a command prints the last line counts, without what would drive a terminal, and of one that is asked for more the
// beginning of its standard output. Its environment is clean.
func TestWhatACommandAnswers(t *testing.T) {
	if r := answers(t, question("printf 'one\\nno \\033[31mroute\\n'; exit 7", patience)); r.Why() != "exit status 7: no ?[31mroute" || len(r.Text) > 0 {
		t.Errorf("%+v", r)
	}
	q := question("echo $BULLY_EVENT $BULLY_SOCKET; echo said aside >&2; exit 1", patience)
	q.Most = 8
	if r := answers(t, q); string(r.Text) != "check /s" || r.Said != "said aside" {
		t.Errorf("%+v", r)
	}
	if r := answers(t, question("exit 0", patience)); r.Why() != "" {
		t.Errorf("%+v", r)
	}
	if r := answers(t, question("/nonexistent", patience)); !strings.Contains(r.Why(), "no such file") {
		t.Errorf("%+v", r)
	}
}

// A command that hangs is ended, with the children that it has left behind, and counts as one
// that failed.
func TestAQuestionThatHangs(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	r := answers(t, question("trap '' TERM; sleep 300 & echo $! >"+pids+"; echo why; wait; sleep 300", 2*time.Second))
	if !strings.HasPrefix(r.Why(), "timed out") || r.Said != "why" {
		t.Errorf("%+v", r)
	}
	if lives(t, pids) {
		t.Error("its child lives")
	}
}

// One that is to end gets TERM though its time is not over.
func TestAQuestionIsEndedEarly(t *testing.T) {
	h, posted := asking(t)
	q := question("exec sleep 300", time.Hour)
	h.Do(q)
	q.Limit.Cut(time.Now(), hooks.ErrStopping, time.Time{})
	h.Do(hooks.Bound{Lane: q.Lane, Limit: q.Limit})
	if r := consulted(t, posted); !errors.Is(r.Err, hooks.ErrStopping) {
		t.Errorf("%+v", r)
	}
}

// A flood of output is read, and held nowhere.
func TestAQuestionThatFloods(t *testing.T) {
	r := answers(t, question("yes flood | head -c 30000000; exit 3", patience))
	if r.Err == nil || len(r.Why()) > 300 {
		t.Errorf("%d bytes: %v", len(r.Why()), r.Err)
	}
}

// Documented (docs/discovery.md): of a program that takes too long its group is dead then, and what has made a session of
// its own has left it and lives on. It has the answer's pipe open, and that holds up nobody.
func TestSetsidChildOfAQuestionEscapesAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	escaped, stays := filepath.Join(dir, "escaped"), filepath.Join(dir, "stays")
	q := question("setsid sh -c 'echo $$ >"+escaped+"; exec sleep 1000' & sh -c 'echo $$ >"+stays+"; exec sleep 1000' & echo alpha.lan; sleep 1000", 2*time.Second)
	q.Most = 1 << 10
	begun := time.Now()
	r := answers(t, q)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if !errors.Is(r.Err, ending.ErrTimedOut) || string(r.Text) != "alpha.lan\n" {
		t.Errorf("%+v", r)
	}
	if lives(t, stays) {
		t.Error("a child in its group has outlived it")
	}
	if !lives(t, escaped) {
		t.Error("a child in a session of its own was ended: say so in docs/discovery.md")
	}
	_ = unix.Kill(number(t, escaped), unix.SIGKILL)
}

func number(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	pid, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || bad != nil {
		t.Fatal(err, bad)
	}
	return pid
}

// lives reports whether the process runs whose number a file has.
func lives(t *testing.T, file string) bool {
	t.Helper()
	s, err := run.ReadStat(number(t, file))
	return err == nil && s.Runs()
}

// Of questions that have been answered nothing is kept.
func TestNothingIsKeptOfAnAnswer(t *testing.T) {
	h, posted := asking(t)
	q := question("true", patience)
	h.Do(q)
	h.Heard(hooks.Consulted{Lane: q.Lane, Seq: q.Seq, Hangs: true})
	if h.leashes[q.Lane] == nil {
		t.Error("what hangs is let go")
	}
	consulted(t, posted)
	h.Heard(hooks.Consulted{Lane: q.Lane, Seq: q.Seq})
	if len(h.leashes) > 0 {
		t.Error("its leash is kept")
	}
	h.Do(hooks.Bound{Lane: q.Lane, Limit: q.Limit}) // which nothing heeds
}
