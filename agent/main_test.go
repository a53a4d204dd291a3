package agent

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has garbage collected less often: little is live, much is garbage.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
