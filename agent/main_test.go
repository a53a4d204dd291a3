package agent

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/bully-agent/bully-agent/internal/test/waiting"
)

// TestMain has garbage collected less often: little is live, much is garbage. Time is not real, but syncs are: hundreds of them on a
// disk took longer than all else.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	waiting.InMemory()
	os.Exit(m.Run())
}
