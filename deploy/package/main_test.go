package packaging

import (
	"os"
	"testing"

	"github.com/bully-agent/bully-agent/internal/test/waiting"
)

// TestMain has the shells of TestCompletionInShells typed into side by side: most of the time they are waited for.
func TestMain(m *testing.M) {
	waiting.Together(4)
	os.Exit(m.Run())
}
