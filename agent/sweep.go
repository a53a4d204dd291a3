package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// leftovers are the names of files that a crash leaves behind when it comes between
// the writing of a new file and its renaming: of the hook journal, the history and the
// ledger of jobs. The next write takes another name.
var leftovers = []string{"hook-journal.json.*.new", "hook-journal.json.try", ".history.json*", ".jobs.ledger*"}

// sweep removes them. No other agent writes here then: the directory is locked, and the
// keeper of the last life has ended. But this one's may: what the clean-up has noted in
// the journal is written in the background, under a name that has its number.
func (a *agent) sweep() {
	keepers := fmt.Sprintf(".%d.new", a.runner.Status().Process)
	for _, pattern := range leftovers {
		found, _ := filepath.Glob(filepath.Join(a.cfg.StateDir, pattern)) // fails for a bad pattern only
		for _, path := range found {
			if strings.HasSuffix(path, keepers) {
				continue
			}
			if err := os.Remove(path); err != nil {
				a.log.Warn("unfinished file of the last run not removed", "err", err)
			}
		}
	}
}
