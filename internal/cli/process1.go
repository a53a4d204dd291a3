package cli

import (
	"os"

	"github.com/bully-agent/bully-agent/internal/reaper"
)

// runAsProcess1 runs this command line once more, as a child, where this process
// must look after all orphans: in a container without an init of its own.
func runAsProcess1() error {
	useOneCore()
	code, err := reaper.Run(os.Args)
	if err != nil || code == 0 {
		return err
	}
	return outcome(code)
}
