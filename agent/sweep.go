package agent

import (
	"os"
	"path/filepath"
)

// leftovers are the names of files that a crash leaves behind when it comes between
// the writing of a new file and its renaming: of the history, the ledger of jobs and the receipts. The
// next write takes another name. Those of the hook journal are the keeper's.
var leftovers = []string{".history.json*", ".jobs.ledger*", ".receipts*"}

// sweep removes them. No other agent writes here then: the directory is locked.
func (a *agent) sweep() {
	for _, pattern := range leftovers {
		found, _ := filepath.Glob(filepath.Join(a.home.dir, pattern)) // fails for a bad pattern only
		for _, path := range found {
			if err := os.Remove(path); err != nil {
				a.log.Warn("unfinished file of the last run not removed", "err", err)
			}
		}
	}
}
