package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSetsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.toml")
	for text, want := range map[string]bool{
		"": true, "\n# cluster = \"a\"\n": true, "[node]\n#priority = 1\n": true, "cluster = \"a\"\n": false, "node = {}\n": true,
		"node.priority = 1\n": false, "[[job]]\n": false, "unknown = 1\n": false, "[[other]]\n": false, "= 1\n": false, "\x00": false, "\xff": false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := SetsNothing(path); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if SetsNothing(filepath.Dir(path)) || SetsNothing(path+".none") {
		t.Error("what is no file sets nothing")
	}
}
