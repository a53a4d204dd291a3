package keepalived

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/peers"
)

// The lose hook that is made tells scripts, for each cause that the election has, the state that bully-agent as keepalived tells
// them.
func TestLoseHookSaysTheStatesOfPeers(t *testing.T) {
	m := &maker{}
	for _, state := range []string{"STOP", "FAULT", "BACKUP"} {
		m.scripts = append(m.scripts, notice{on: state, command: "echo " + state})
	}
	script := strings.Join(m.loses(), "\n")
	source, err := os.ReadFile("../../election/effect.go")
	if err != nil {
		t.Fatal(err)
	}
	causes := regexp.MustCompile(`(?m)^\t\w+ +Cause = "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(causes) < 40 {
		t.Fatalf("only %d causes in election/effect.go", len(causes))
	}
	for _, c := range causes {
		sh := exec.Command("sh", "-c", script)
		sh.Env = append(os.Environ(), "BULLY_CAUSE="+c[1])
		out, err := sh.Output()
		want := peers.State(peers.Told{Kind: hooks.LoseLeadership, Cause: c[1]})
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: the hook says %q, %v, bully-agent as keepalived %s\n%s", c[1], got, err, want, script)
		}
	}
}
