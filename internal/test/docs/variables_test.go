package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/cli"
)

var variable = regexp.MustCompile(`\bBULLY_[A-Z_]+`)

// docs/hooks.md lists what a hook finds in its environment, no more and no less.
func TestVariablesOfHooks(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "agent.toml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BULLY_CONFIG", empty)
	t.Setenv("BULLY_ON_BECOME_LEADER", "env")
	var out strings.Builder
	if code := cli.Main([]string{"bully-agent", "hooks", "test", "become-leader"}, strings.NewReader(""), &out, &out); code != 0 {
		t.Fatalf("hooks test: exit code %d\n%s", code, out.String())
	}
	var listed []string
	for row := range strings.Lines(pageAt(t, "docs/hooks.md").prose()) {
		if cells := strings.Split(row, "|"); len(cells) > 1 {
			listed = append(listed, variable.FindAllString(cells[1], -1)...)
		}
	}
	if got, want := set(variable.FindAllString(out.String(), -1)), set(listed); !slices.Equal(got, want) {
		t.Errorf("a hook gets\n%q\nand docs/hooks.md has\n%q", got, want)
	}
}

// set is sorted, each once.
func set(words []string) []string {
	all := map[string]bool{}
	for _, w := range words {
		all[w] = true
	}
	return slices.Sorted(maps.Keys(all))
}
