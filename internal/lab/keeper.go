package lab

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// An agent that is killed while it leads leaves its keeper, which runs the lose hook. It holds the lock of its file for
// as long as it lives (package keeper).

const (
	keeperPause    = 5 * time.Millisecond
	keeperPatience = 10 * time.Second // far more than the lab's hooks take, however long they are asked to
)

// awaitKeeper returns when the keeper of the agent does not work any more whose state is in dir.
func awaitKeeper(dir string) {
	late := time.Now().Add(keeperPatience)
	for isLocked(filepath.Join(dir, "keeper.json")) && time.Now().Before(late) {
		time.Sleep(keeperPause)
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
