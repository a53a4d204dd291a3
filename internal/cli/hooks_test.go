package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

var hookNoon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func someRun() control.HookRun {
	return control.HookRun{Seq: 12, Event: "become-leader", Cause: "boot", Epoch: 7, Attempt: 3, Started: hookNoon, TookMS: 1500,
		Exit: 75, Error: "exit status 75 (try again), attempt 3", Printed: 5}
}

func TestHooksText(t *testing.T) {
	run := someRun()
	good := control.HookRun{Seq: 13, Event: "lose-leadership", OK: true, Started: hookNoon, TookMS: 12}
	text := (&console{}).hooksText([]control.HookSetting{
		{Event: "become-leader", Shell: "set -e\nip addr add x\n", Problem: "/x: no such file", Last: &run},
		{Event: "lose-leadership", Argv: []string{"/usr/local/bin/release", "--fast now"}, Running: true, Last: &good},
		{Event: "leader-change", Shell: "true"},
		{Event: "member-change"},
	}, hookNoon.Add(time.Minute))
	const want = `become-leader
  command   set -e
            ip addr add x
  check     would be refused: /x: no such file
  last run  failed after 1.5s: exit status 75 (try again), attempt 3, run 12, epoch 7, 1m0s ago

lose-leadership
  command   /usr/local/bin/release '--fast now', without a shell
  check     ok
  last run  runs now; before that: succeeded in 12ms, run 13, epoch 0, 1m0s ago

leader-change
  command   true
  check     ok
  last run  none in the ledger

member-change
  command   none
`
	if text != want {
		t.Errorf("got\n%sexpected\n%s", text, want)
	}
}

func TestRunsText(t *testing.T) {
	run := someRun()
	run.Output = "what it\nsaid\n"
	text := (&console{}).runsText([]control.HookRun{run, {Seq: 13, Event: "lose-leadership", Cause: "stopped", OK: true, Started: hookNoon}})
	for _, want := range []string{"SEQ  STARTED", "exit status 75 (try again), attempt 3\n  | what it\n  | said\n13   2026", " ok\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("expected %q in\n%s", want, text)
		}
	}
	if text := (&console{}).runsText(nil); text != "no hook has run yet\n" {
		t.Errorf("no runs: %q", text)
	}
}

// A hook may print anything; nothing of it moves the terminal's cursor.
func TestRunText(t *testing.T) {
	run := someRun()
	run.Printed, run.Output = 100, "a\x1b[2Jb\xff\r\n\tc"
	text := (&console{}).runText(run)
	const want = "the first 89 bytes that it printed are not kept\n  | a\uFFFD[2Jb\uFFFD\n  | \tc\n"
	if !strings.HasSuffix(text, want) || !strings.HasPrefix(text, "run 12: become-leader, cause boot, epoch 7, attempt 3, ") {
		t.Errorf("got %q", text)
	}
	if text := (&console{}).runText(control.HookRun{Event: "become-leader", Error: "no such file"}); strings.Contains(text, "run 0") {
		t.Errorf("a run that never was: %q", text)
	}
}

func TestLastLines(t *testing.T) {
	for text, want := range map[string]string{"": "", "a\n": "a\n", "a\nb\nc": "b\nc", "\n\n\n": "\n\n"} {
		if got := lastLines(text, 2); got != want {
			t.Errorf("of %q: %q, want %q", text, got, want)
		}
	}
}
