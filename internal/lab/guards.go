package lab

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// An agent that is killed while it leads leaves its guard, which runs the lose hook. Each guard holds the lock of its
// record for as long as it lives (package guard).

const (
	guardPause    = 5 * time.Millisecond
	guardPatience = 10 * time.Second // far more than the lab's hooks take, however long they are asked to
)

// awaitGuards returns when none of the guards works any more whose records are in dir.
func awaitGuards(dir string) {
	late := time.Now().Add(guardPatience)
	records, _ := filepath.Glob(filepath.Join(dir, "guards", "guard-*.json")) // the pattern is well-formed
	for _, path := range records {
		for isLocked(path) && time.Now().Before(late) {
			time.Sleep(guardPause)
		}
	}
}

// isLocked reports whether somebody holds the file's lock.
func isLocked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}
