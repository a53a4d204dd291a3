package lab

import (
	"slices"
	"strings"
	"testing"
)

func somePicture(t *testing.T) picture {
	return picture{title: "3 agents", selected: 1, message: "n1 does not run", help: "q quit",
		rows: []row{
			{name: "n1", state: "signal: killed", cable: "-", hook: "lost leadership, epoch 1, 3s ago"},
			{name: "n2", pid: 42, role: "leader", leader: "n2", epoch: 2, state: "running", cable: "-"},
			{name: "n3", pid: 43, state: "paused", cable: "PULLED"},
		},
		recent: history(t, "0.5 n1 became 1\n1.0 n1 killed\n1.4 n2 became 2")}
}

func TestPicture(t *testing.T) {
	got := strings.Join(somePicture(t).lines(100, 11), "\n")
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
	for _, p.help = range []string{help, helpWithCable} {
		lines := p.lines(80, 24)
		shown := strings.Join(lines[len(lines)-2:], " · ")
		if shown != p.help {
			t.Errorf("the last lines are %q, want %q", shown, p.help)
		}
	}
}

// Whatever the size of the terminal: nothing wraps or scrolls, and the selected node is in sight.
func TestPictureFitsTheScreen(t *testing.T) {
	p := somePicture(t)
	p.rows = nil
	for k := range mostNodes {
		p.rows = append(p.rows, row{name: nodeName(k + 1), state: "running"})
	}
	for _, size := range []struct{ width, height int }{{20, 7}, {80, 24}, {200, 60}, {80, 200}} {
		for _, p.selected = range []int{0, 50, mostNodes - 1} {
			lines := p.lines(size.width, size.height)
			if len(lines) > size.height {
				t.Errorf("%v: %d lines", size, len(lines))
			}
			if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "> "+nodeName(p.selected+1)+" ") }) {
				t.Errorf("%v: %s is selected and not shown", size, nodeName(p.selected+1))
			}
			for _, l := range lines {
				if n := len([]rune(l)); n > size.width {
					t.Errorf("%v: a line of %d characters: %q", size, n, l)
				}
			}
		}
	}
}

func TestKeys(t *testing.T) {
	tests := map[string][]key{
		"k":            {'k'},
		"12":           {'1', '2'},
		"\x1b[A\x1b[B": {keyUp, keyDown},
		"\x1bOAq":      {keyUp, 'q'},
		"\x1b":         nil,
		"\x1b[":        nil,
		"\x1b[C":       nil, // right
		"\x1b[1;5A":    {keyUp},
		"\x1b[3~k":     {'k'}, // delete
		"\x03":         {keyCtrlC},
		"\x1b[1":       nil,
	}
	for typed, want := range tests {
		if got := decodeKeys([]byte(typed)); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", typed, got, want)
		}
	}
	keys := readKeys(strings.NewReader("s"), t.Context().Done())
	if a, b := <-keys, <-keys; a != 's' || b != keyEnd {
		t.Errorf("a keyboard that ends: %v, %v", a, b)
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
