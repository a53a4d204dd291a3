package docs

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bully-agent/bully-agent/internal/test/making"
	"github.com/bully-agent/bully-agent/internal/test/waiting"
)

// programDir has the program, once a test has asked for it.
var programDir string

// sideBySide is how many tests run at a time: most of them wait for agents.
const sideBySide = 6

// TestMain removes the program in the end.
func TestMain(m *testing.M) {
	waiting.Together(sideBySide)
	code := m.Run()
	if programDir != "" {
		_ = os.RemoveAll(programDir) // of temporary files
	}
	os.Exit(code)
}

// made makes the program, once for all tests of a run.
var made = sync.OnceValues(func() (path string, err error) {
	if programDir, err = os.MkdirTemp("", "docs"); err != nil {
		return "", err
	}
	path = filepath.Join(programDir, "bully-agent")
	return path, making.Program(path)
})

// build gives the path of the program.
func build(t *testing.T) string {
	t.Helper()
	path, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
