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
		left := []string{".history.json123", ".jobs.ledger99"}
		kept := []string{"hook-journal.json", "hook-journal.json.new", ".history", "notes.new"} // the second is the keeper's, which writes over it
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
