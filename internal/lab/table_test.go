package lab

import (
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/screen"
)

func somePicture(t *testing.T) screen.Picture {
	p := screen.Picture{Title: []string{"3 agents"}, Head: head, Selected: 1, Message: "n1 does not run", Help: "q quit"}
	for _, r := range []row{
		{name: "n1", state: "signal: killed", cable: "-", hook: "lost leadership, epoch 1, 3s ago"},
		{name: "n2", pid: 42, role: "leader", leader: "n2", epoch: 2, state: "running", cable: "-"},
		{name: "n3", pid: 43, state: "paused", cable: "PULLED"},
	} {
		p.Rows = append(p.Rows, r.line())
	}
	for _, r := range history(t, "0.5 n1 became 1\n1.0 n1 killed\n1.4 n2 became 2") {
		p.Recent = append(p.Recent, r.String())
	}
	return p
}

func TestPicture(t *testing.T) {
	got := strings.Join(somePicture(t).Lines(100, 11), "\n")
	const want = `3 agents

  NAME  PID  ROLE    LEADER  EPOCH  STATE           CABLE   LAST HOOK
  n1    -    -       -       -      signal: killed  -       lost leadership, epoch 1, 3s ago
> n2    42   leader  n2      2      running         -       -
  n3    43   -       -       -      paused          PULLED  -

  +1.000 s  n1   kill -9
  +1.400 s  n2   became leader  epoch 2
n1 does not run
q quit`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Agents that are slow to start are not kept silent about.
func TestTheScreenSaysWhoAnswers(t *testing.T) {
	if got := waitingFor(3, 100); got != "3 of 100 agents that run answer" {
		t.Errorf("says %q", got)
	}
	if got := waitingFor(3, 3) + waitingFor(3, 2); got != "" {
		t.Errorf("says %q where all answer", got)
	}
}

// All keys are on the screen where it is as small as terminals come.
func TestAllKeysAreShown(t *testing.T) {
	p := somePicture(t)
	for _, p.Help = range []string{help, helpWithCable} {
		lines := p.Lines(80, 24)
		shown := strings.Join(lines[len(lines)-2:], " · ")
		if shown != p.Help {
			t.Errorf("the last lines are %q, want %q", shown, p.Help)
		}
	}
}

// Whatever the number of nodes: the selected one is in sight.
func TestTheSelectedNodeIsInSight(t *testing.T) {
	p := somePicture(t)
	p.Rows = nil
	for k := range mostNodes {
		p.Rows = append(p.Rows, row{name: nodeName(k + 1), state: "running"}.line())
	}
	for _, p.Selected = range []int{0, 50, mostNodes - 1} {
		lines := p.Lines(80, 24)
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "> "+nodeName(p.Selected+1)+" ") }) {
			t.Errorf("%s is selected and not shown", nodeName(p.Selected+1))
		}
	}
}

func TestDigitsSelect(t *testing.T) {
	s := &live{lab: &lab{nodes: make([]*node, 30)}}
	for _, step := range []struct {
		digit, want int
		pause       bool
	}{{3, 3, true}, {1, 1, true}, {2, 12, false}, {5, 5, false}, {0, 5, true}, {2, 2, true}, {9, 29, false}} {
		if step.pause {
			s.typed = s.typed.Add(-digitPause)
		}
		if s.digit(step.digit); s.selected+1 != step.want {
			t.Errorf("after %d n%d is selected, want n%d", step.digit, s.selected+1, step.want)
		}
	}
}
