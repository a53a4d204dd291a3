package config

import (
	"strings"
	"testing"
)

func TestInstanceHasPlacesOfItsOwn(t *testing.T) {
	for name, tt := range map[string]struct {
		root          bool
		env           []string
		state, socket string
	}{
		"root": {true, nil, "/var/lib/bully-agent-web", "/run/bully-agent-web/agent.sock"},
		"user": {false, []string{"HOME", "/home/u", "XDG_RUNTIME_DIR", "/run/user/1"},
			"/home/u/.local/state/bully-agent-web", "/run/user/1/bully-agent-web/agent.sock"},
		"no runtime directory": {false, []string{"HOME", "/home/u", "XDG_STATE_HOME", "/s"},
			"/s/bully-agent-web", "/s/bully-agent-web/agent.sock"},
		"said": {true, []string{"BULLY_STATE_DIR", "/a", "BULLY_SOCKET", "/b/sock"}, "/a", "/b/sock"},
	} {
		h := alpha()
		h.root = tt.root
		c, err := load(Source{Env: environment(tt.env...), Instance: "web"}, h)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if c.Node.StateDir != tt.state || c.Control.Socket != tt.socket || c.Instance != "web" {
			t.Errorf("%s: instance %s, state %s, socket %s", name, c.Instance, c.Node.StateDir, c.Control.Socket)
		}
		if other, err := load(Source{Env: environment(tt.env...)}, h); err != nil || other.Network.Key != c.Network.Key {
			t.Errorf("%s: an instance has key %s of its own, not %s: %v", name, c.Network.Key, other.Network.Key, err)
		}
	}
}

func TestNamesOfInstances(t *testing.T) {
	for _, good := range []string{"web", "a", "0", "Web-2_x.y", "agents", strings.Repeat("n", 32)} {
		if err := CheckInstance(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"": "it is empty", "a/b": "is a file's", "..": "is none", "-web": "is none", ".web": "is none", "web.toml": "is a file's",
		"w\nb": `"w\nb" is none`, "wéb": "is none",
		"agent": "/etc/bully-agent/agent.toml is the file of the agent without a name: leave the name out, or take another", strings.Repeat("n", 33): "is none",
	} {
		if err := CheckInstance(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", bad, err, want)
		}
	}
}

// A variable that says which instance is meant is no slip for one of the settings, which it is near to.
func TestInstanceVariableIsNoSlip(t *testing.T) {
	c, err := load(Source{Names: []string{"BULLY_INSTANCE"}, Env: environment("BULLY_INSTANCE", "web")}, alpha())
	if err != nil || len(c.Notes) > 0 {
		t.Errorf("notes %q, %v", c.Notes, err)
	}
}
