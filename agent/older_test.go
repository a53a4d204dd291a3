package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A host is started with a state directory of two lives ago: it is not heard, leads nobody,
// and says why.
func TestAnOlderCopyOfTheStateIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		for _, h := range c.hosts {
			c.start(h)
		}
		back, older := c.hosts[2], t.TempDir()
		c.agrees(back)
		c.kill(back)
		if err := os.CopyFS(older, os.DirFS(back.dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(older, stateName), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			c.start(back)
			c.agrees(back)
			c.kill(back)
		}
		back.dir = older
		c.start(back)
		time.Sleep(3 * time.Second)
		s := back.agent.Status()
		if notes := strings.Join(s.Notes, "\n"); s.LeaderIsSelf || !strings.Contains(notes, "the others know life 3 of this host, and do not hear life 2") {
			t.Errorf("leads: %v, notes: %s", s.LeaderIsSelf, notes)
		}
		c.stopAll()
	})
}
