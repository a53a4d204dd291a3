package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// leftovers are the names of files that a crash leaves behind when it comes between
// the writing of a new file and its renaming: of the history and the ledger of jobs. The
// next write takes another name.
var leftovers = []string{".history.json*", ".jobs.ledger*"}

// keepersLeftovers are those of the hook journal, which a keeper of the last life that
// still works may be writing.
var keepersLeftovers = []string{"hook-journal.json.*.new", "hook-journal.json.try"}

// sweep removes them. No other agent writes here then: the directory is locked. But this
// one's keeper may: what the clean-up has noted in the journal is written in the
// background, under a name that has its number.
func (a *agent) sweep(names ...[]string) {
	keepers := fmt.Sprintf(".%d.new", a.runner.Status().Process)
	for _, pattern := range slices.Concat(names...) {
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
