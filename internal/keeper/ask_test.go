package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
)

// prints are settings with one program that names hosts, a shell script in the rig's directory.
func (r *rig) prints(script string) Settings {
	r.t.Helper()
	path := r.Path("peers")
	if err := os.WriteFile(path, []byte("#!/bin/sh\ncd "+r.Dir.Name+"\n"+script+"\n"), 0o755); err != nil {
		r.t.Fatal(err)
	}
	s := r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note})
	s.Programs, s.AskTimeout, s.AskMost = []string{path}, patience, 100
	return s
}

// answers asks it, and compares what comes: text, or an error that holds it.
func (d *desk) answers(program, text, failure string) {
	d.t.Helper()
	got, err := d.Ask(d.t.Context(), program)
	switch {
	case failure == "" && (err != nil || string(got) != text):
		d.t.Errorf("%q, %v; want %q", got, err, text)
	case failure != "" && (err == nil || !strings.Contains(err.Error(), failure) || len(got) > 0):
		d.t.Errorf("%q, %v; want the error %s", got, err, failure)
	}
}

// A program that names hosts is run as hooks are, with a clean environment and no arguments,
// and what it prints to its standard output is given, as far as it may be.
func TestAProgramThatNamesHosts(t *testing.T) {
	r := newRig(t)
	s := r.prints(`echo alpha; echo said aside >&2; echo "$#:$BULLY_EVENT:$PPID:$PWD" >told; env >env`)
	d := r.open(s)
	d.answers(s.Programs[0], "alpha\n", "")
	if told := r.Text("told"); !strings.HasPrefix(told, "0:join:") {
		t.Errorf("it was told %q", told)
	}
	known := []string{"PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_", "BULLY_EVENT", "BULLY_SOCKET"}
	for line := range strings.Lines(r.Text("env")) {
		if name, _, _ := strings.Cut(line, "="); !slices.Contains(known, name) {
			t.Errorf("its environment has %q", line)
		}
	}
	d.reload(r.prints("while echo 0123456789; do :; done | head -c 1000000"))
	d.answers(s.Programs[0], strings.Repeat("0123456789\n", 10)[:100], "")
}

// One that fails says why in one line, and nothing of what it printed counts.
func TestAProgramThatFails(t *testing.T) {
	r := newRig(t)
	s := r.prints("echo alpha; echo 'no \033[31mroute' >&2; exit 3")
	d := r.open(s)
	d.answers(s.Programs[0], "", "exit status 3: no ?[31mroute")
	if err := os.Remove(s.Programs[0]); err != nil {
		t.Fatal(err)
	}
	d.answers(s.Programs[0], "", "no such file on this host")
}

// One that hangs is ended with all that it has started, also what does not heed TERM.
func TestAProgramThatHangs(t *testing.T) {
	r := newRig(t)
	s := r.prints("echo alpha; sleep 1000 & echo $! >child; " + stubborn)
	s.AskTimeout = 200 * time.Millisecond
	d := r.open(s)
	d.answers(s.Programs[0], "", "timed out after ")
	if child := r.PID("child"); lives(child) {
		t.Errorf("its child, process %d, lives", child)
	}
}

// lives reports whether a process does more than wait to be reaped.
func lives(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(text), ") ")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// Whoever asks while it runs gets the same answer: it runs once at a time.
func TestAProgramRunsOnceAtATime(t *testing.T) {
	r := newRig(t)
	s := r.prints("echo x >>begun; while [ ! -e go ]; do sleep 0.01; done; echo alpha")
	d := r.open(s)
	answers := make(chan string)
	for range 3 {
		go func() {
			text, err := d.Ask(context.Background(), s.Programs[0])
			answers <- string(text) + errors.Join(err, errors.New("")).Error()
		}()
	}
	r.UntilFile("begun")
	if _, err := d.Ask(expired(), s.Programs[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("whoever does not wait has the error %v", err)
	}
	if err := os.WriteFile(r.Path("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := strings.TrimSpace(<-answers); got != "alpha" {
			t.Errorf("one was told %q", got)
		}
	}
}

func expired() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}

// What an agent names that the settings have not is not run, and neither is anything too often.
func TestKeeperRefusesAProgram(t *testing.T) {
	r := newRig(t)
	s := r.prints("echo x >>begun")
	d := r.open(s)
	d.answers("/bin/sh", "", "the keeper has not read of such a source")
	d.answers("", "", "the keeper has not read of such a source")
	begun, asked := time.Now(), 0
	for asked = range 10 * questionRate.burst {
		if _, err := d.Ask(t.Context(), s.Programs[0]); err != nil {
			if !strings.Contains(err.Error(), "asked too often") {
				t.Errorf("refused with %v", err)
			}
			return
		}
	}
	if rate := float64(asked) / time.Since(begun).Seconds(); rate < 1.2*float64(questionRate.refill) {
		t.Skipf("skipped: this machine runs %.0f programs a second, and %.0f are allowed", rate, questionRate.refill)
	}
	t.Error("nothing was refused")
}

// The keeper dies while a program runs: whoever asked hears of it, and the next keeper runs it.
func TestAProgramDiesWithItsKeeper(t *testing.T) {
	r := newRig(t)
	s := r.prints("[ -e begun ] && echo alpha && exit; echo x >begun; exec sleep 1000")
	d := r.open(s)
	answer := make(chan error)
	go func() { _, err := d.Ask(context.Background(), s.Programs[0]); answer <- err }()
	r.UntilFile("begun")
	r.kill(d.Status().Process, unix.SIGKILL)
	if err := <-answer; err == nil || !strings.Contains(err.Error(), ErrDied.Error()) {
		t.Errorf("the error is %v", err)
	}
	d.Until("an answer by the next keeper", func() bool {
		text, err := d.Ask(t.Context(), s.Programs[0])
		return err == nil && string(text) == "alpha\n"
	})
}

// The agent dies while a program hangs: nothing is left of it.
func TestAProgramDiesWithTheAgent(t *testing.T) {
	r := newRig(t)
	s := r.prints("sleep 1000 & echo $! >child; echo $$ >pid; wait")
	d := r.open(s)
	go func() { _, _ = d.Ask(context.Background(), s.Programs[0]) }()
	r.UntilFile("pid")
	d.end()
	r.noneLives()
}
