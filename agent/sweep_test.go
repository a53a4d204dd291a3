package agent

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
)

// What a crash has left half-written goes with the next start, and nothing else.
func TestStartSweepsWhatACrashLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		if err := os.MkdirAll(h.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		left := []string{"hook-journal.json.17.new", "hook-journal.json.try.17.new", "hook-journal.json.try", ".history.json123", ".jobs.ledger99"}
		ours := "hook-journal.json.4711.new" // this life's keeper writes it just now
		h.hooks.keeper.Process = 4711
		kept := []string{"hook-journal.json", ".history", "notes.new", ours}
		for _, name := range append(left, kept...) {
			if err := os.WriteFile(filepath.Join(h.dir, name), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c.start(h)
		c.agrees(h)
		for _, name := range left {
			if _, err := os.Stat(filepath.Join(h.dir, name)); err == nil {
				t.Errorf("%s is still there", name)
			}
		}
		for _, name := range kept {
			if _, err := os.Stat(filepath.Join(h.dir, name)); err != nil {
				t.Errorf("%s is gone: %v", name, err)
			}
		}
		c.stopAll()
	})
}
