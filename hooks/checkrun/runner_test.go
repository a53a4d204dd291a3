package checkrun

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// It takes rise passes and fall failures in a row to change a state, whatever comes
// between.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name       string
		rise, fall int
		from       State
		runs, want string // p: passes, f: fails; the state after each run: . is pending, p, f
	}{
		{"one is enough", 1, 1, Pending, "pfp", "pfp"},
		{"rise", 3, 1, Pending, "ppp", "..p"},
		{"fall from the start", 1, 3, Pending, "fff", "..f"},
		{"a start that is not well", 2, 3, Pending, "ffpffpp", "......p"},
		{"flaps below both", 2, 2, Passes, "fpfpfpfp", "pppppppp"},
		{"falls, and rises", 2, 3, Passes, "ffffpfpp", "ppffffFp"},
	} {
		j := judge{rise: c.rise, fall: c.fall, state: c.from}
		var got strings.Builder
		for _, run := range c.runs {
			j.take(run == 'p')
			got.WriteByte(".pf"[j.state])
		}
		if want := strings.ToLower(c.want); got.String() != want {
			t.Errorf("%s: after runs %s it was %s, want %s", c.name, c.runs, got.String(), want)
		}
	}
}

// told gathers reports.
func told(t *testing.T) (*Runner, <-chan Report) {
	t.Helper()
	reports := make(chan Report, 100)
	r := New("", func(p Report) { reports <- p })
	t.Cleanup(r.Close)
	return r, reports
}

func await(t *testing.T, reports <-chan Report, state State) Report {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		select {
		case p := <-reports:
			if p.State == state {
				return p
			}
		case <-late:
			t.Fatalf("no report that says %v", state)
		}
	}
}

func shell(line string) Check {
	return Check{Name: "c", Command: hooks.Command{Shell: line}, Interval: 50 * time.Millisecond, Timeout: 10 * time.Second, Rise: 1, Fall: 1}
}

// The first run begins at once, and a check that is still pending does not wait for its
// interval.
func TestAHealthyHostIsNotDelayed(t *testing.T) {
	r, reports := told(t)
	c := shell("exit 0")
	c.Interval, c.Rise = time.Hour, 3
	r.Set([]Check{c}, true)
	await(t, reports, Passes)
}

// Why a check fails is told in one line, with what it said last, and told again only if
// that is something else.
func TestAFailureIsToldOnce(t *testing.T) {
	r, reports := told(t)
	count := filepath.Join(t.TempDir(), "count")
	r.Set([]Check{shell("echo . >> " + count + "; printf 'one\\nno \\033[31mroute\\n'; exit 7")}, true)
	if p := await(t, reports, Fails); p.Why != "exit status 7: no ?[31mroute" {
		t.Errorf("why is %q", p.Why)
	}
	for lines(t, count) < 5 {
		time.Sleep(5 * time.Millisecond)
	}
	if len(reports) > 0 {
		t.Errorf("told again: %v", <-reports)
	}
}

func lines(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// A check that hangs is ended, with the children that it has left behind, and counts as one
// that failed.
func TestACheckThatHangs(t *testing.T) {
	r, reports := told(t)
	pids := filepath.Join(t.TempDir(), "pids")
	c := shell(fmt.Sprintf("trap '' TERM; sleep 300 & echo $! >> %s; wait; sleep 300", pids))
	c.Timeout, c.Interval = 200*time.Millisecond, time.Hour
	r.Set([]Check{c}, true)
	if p := await(t, reports, Fails); !strings.HasPrefix(p.Why, "timed out") {
		t.Errorf("why is %q", p.Why)
	}
	text, _ := os.ReadFile(pids)
	pid := strings.Fields(string(text))[0]
	if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Errorf("its child %s lives: %s", pid, stat)
	}
}

// A check is never run twice at a time, however short its interval, and not even while it
// is replaced by another of its name.
func TestOneRunAtATime(t *testing.T) {
	r, reports := told(t)
	dir := t.TempDir()
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("flock of util-linux is not installed")
	}
	c := shell(fmt.Sprintf("exec 9> %[1]s/lock; flock -n 9 || touch %[1]s/twice; sleep 0.05", dir)) // a lock ends with its holders
	c.Interval = time.Millisecond
	for i := range 5 {
		c.Fall = i + 1
		r.Set([]Check{c}, i == 0)
		time.Sleep(70 * time.Millisecond) // whatever runs then
	}
	await(t, reports, Passes)
	r.Close()
	if _, err := os.Stat(filepath.Join(dir, "twice")); err == nil {
		t.Error("two runs went on at a time")
	}
}

// A check that a reload takes away ends, and runs no more.
func TestAFormerCheckEnds(t *testing.T) {
	r, _ := told(t)
	r.Set([]Check{shell("sleep 1000")}, true)
	former := r.tasks["c"]
	r.Set(nil, false)
	select {
	case <-former.ended:
	case <-time.After(30 * time.Second):
		t.Error("it goes on")
	}
}

// What is replaced has ended before the next one runs, also what takes no notice of TERM.
func TestAReplacedRunEndsFirst(t *testing.T) {
	r, reports := told(t)
	dir := t.TempDir()
	before := shell(fmt.Sprintf("trap '' TERM; echo $$ >%[1]s/new && mv %[1]s/new %[1]s/pid; while :; do sleep 0.01; done", dir))
	r.Set([]Check{before}, true)
	for lines(t, filepath.Join(dir, "pid")) == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	r.Set([]Check{shell(fmt.Sprintf("if kill -0 $(cat %[1]s/pid); then touch %[1]s/both; fi; exit 0", dir))}, true)
	await(t, reports, Passes)
	if _, err := os.Stat(filepath.Join(dir, "both")); err == nil {
		t.Error("it ran beside the one that it replaces")
	}
}

// A check that fails for another reason is told of again, though it fails as before.
func TestAnotherReasonIsTold(t *testing.T) {
	r, reports := told(t)
	other := filepath.Join(t.TempDir(), "other")
	r.Set([]Check{shell("test -e " + other + " && exit 2; exit 1")}, true)
	if p := await(t, reports, Fails); p.Why != "exit status 1" {
		t.Errorf("why is %q", p.Why)
	}
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := await(t, reports, Fails); p.Why != "exit status 2" {
		t.Errorf("why is %q", p.Why)
	}
}

// A reload keeps what is known: what is changed keeps its state, and what is new passes,
// until runs say otherwise.
func TestAReloadMovesNobody(t *testing.T) {
	r, reports := told(t)
	c := shell("exit 0")
	r.Set([]Check{c}, true)
	await(t, reports, Passes)
	failing := shell("exit 1")
	failing.Name = "failing"
	r.Set([]Check{c, failing}, false)
	await(t, reports, Fails)
	c.Command.Shell, failing.Command.Shell = "sleep 100", "sleep 100"
	added := shell("sleep 100")
	added.Name = "added"
	r.Set([]Check{c, failing, added}, false)
	for name, task := range r.tasks {
		want := Passes
		if name == "failing" {
			want = Fails
		}
		if got := task.state; got != want {
			t.Errorf("%s %v after a reload", name, got)
		}
	}
}

// A flood of output is read, and held nowhere.
func TestACheckThatFloods(t *testing.T) {
	r, reports := told(t)
	c := shell("yes flood | head -c 30000000; exit 3")
	r.Set([]Check{c}, true)
	if p := await(t, reports, Fails); len(p.Why) > 300 {
		t.Errorf("why has %d bytes", len(p.Why))
	}
}
