package arch

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mapLine is a directory on the map of docs/architecture.md: two blanks for each that it is in, its name, what it is for if it
// has code of its own.
var mapLine = regexp.MustCompile(`^((?:  )*)([a-z0-9.-]+)/(?: |$)`)

// onTheMap are the directories that the map has, from the module's.
func onTheMap(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, drawn, _ := strings.Cut(string(text), "## The map\n\n```\n")
	drawn, _, _ = strings.Cut(drawn, "\n```")
	var at []string
	all := map[string]bool{}
	for line := range strings.Lines(drawn) {
		m := mapLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue // goes on about the line before, or is a file
		}
		at = append(at[:min(len(at), len(m[1])/2)], m[2])
		all[path.Join(at...)] = true
	}
	return all
}

// Each package has its line on the map, and each directory there is one.
func TestTheMapHasEachPackage(t *testing.T) {
	all := onTheMap(t)
	for dir := range layers {
		if dir != "." && !all[dir] && dir != "internal/manual/gen" { // gen/ stands beside manual
			t.Errorf("docs/architecture.md: the map has no %s", dir)
		}
	}
	for dir := range all {
		if info, err := os.Stat(filepath.Join(root, dir)); err != nil || !info.IsDir() {
			t.Errorf("docs/architecture.md: the map has %s, which is no directory: %v", dir, err)
		}
	}
	tests, err := filepath.Glob(filepath.Join(root, "internal/test/*"))
	if err != nil || len(tests) < 10 {
		t.Fatalf("%d directories of tests: %v", len(tests), err)
	}
	for _, dir := range tests {
		if name := "internal/test/" + filepath.Base(dir); !all[name] {
			t.Errorf("docs/architecture.md: the map has no %s", name)
		}
	}
}
