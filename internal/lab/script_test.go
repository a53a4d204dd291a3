package lab

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestParseScript(t *testing.T) {
	const text = `
# what the lab does by itself
elect
  kill leader    # as hard as it gets
pause n2 1500ms
pause leader
continue n2
stop n1
restart n3
cut n3
plug n3
carrier n3
handover leader
wait 2s
expect leader n3
`
	commands, err := parseScript("s", strings.NewReader(text), 3, true)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&got, "%s %s\n", c.place, c)
	}
	const want = `s:3 elect
s:4 kill leader
s:5 pause n2 1.5s
s:6 pause leader
s:7 continue n2
s:8 stop n1
s:9 restart n3
s:10 cut n3
s:11 plug n3
s:12 carrier n3
s:13 handover leader
s:14 wait 2s
s:15 expect leader n3
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func TestBadScripts(t *testing.T) {
	tests := []struct{ text, want string }{
		{"elect\nexplode", `lab.txt:2: unknown command "explode", expected elect, kill, stop`},
		{"kill", `lab.txt:1: kill needs a node: expected "kill leader|nK"`},
		{"kill n4", "lab.txt:1: kill n4: no such node, expected leader or n1 to n3"},
		{"kill n0", "lab.txt:1: kill n0: no such node"},
		{"kill n01", "lab.txt:1: kill n01: no such node"},
		{"kill N1", "lab.txt:1: kill N1: no such node"},
		{"\n\nrestart leader", "lab.txt:3: restart leader: no such node, expected n1 to n3"},
		{"kill n1 n2", `lab.txt:1: "n2" after kill is too much: expected "kill leader|nK"`},
		{"elect now", `lab.txt:1: "now" after elect is too much`},
		{"wait", `lab.txt:1: wait needs a duration: expected "wait DURATION"`},
		{"wait 2", `lab.txt:1: wait: duration "2", expected for example 500ms or 2s`},
		{"wait -2s", `lab.txt:1: wait: duration "-2s"`},
		{"pause n1 soon", `lab.txt:1: pause: duration "soon"`},
		{"expect follower n1", `lab.txt:1: expect follower: expected "expect leader nK"`},
		{"expect leader", `lab.txt:1: expect needs a node`},
		{"expect", `lab.txt:1: expect needs a node`},
		{"expect leader leader", "lab.txt:1: expect leader: no such node"},
		{"cut n1", "lab.txt:1: cut needs agents with cables: start the lab with --netns"},
		{"# nothing\n", "lab.txt: no commands in it"},
	}
	for _, tt := range tests {
		_, err := parseScript("lab.txt", strings.NewReader(tt.text), 3, false)
		var exit *exitError
		switch {
		case err == nil || !strings.HasPrefix(err.Error(), tt.want):
			t.Errorf("%q: %v, want %s", tt.text, err, tt.want)
		case !errors.As(err, &exit) || exit.ExitCode() != exitUsage:
			t.Errorf("%q: exit code is not %d", tt.text, exitUsage)
		case strings.Contains(err.Error(), "\n"):
			t.Errorf("%q: the error has more than one line: %q", tt.text, err)
		}
	}
}

func TestBuiltInScriptsAreGood(t *testing.T) {
	for _, preempt := range []string{"priority", "always", "never"} {
		for _, n := range []int{1, 2, 5, mostNodes} {
			commands, err := parseScript("built-in", strings.NewReader(defaultScript(nodeName(n), n, preempt)), n, false)
			if err != nil {
				t.Errorf("%d nodes, preempt %s: %v", n, preempt, err)
				continue
			}
			last := commands[len(commands)-1]
			bullies := last.verb == "expect" && last.target == nodeName(n)
			if wants := preempt != "never" || n == 1; bullies != wants {
				t.Errorf("%d nodes, preempt %s: ends with %q", n, preempt, last)
			}
		}
	}
}
