package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/identity"
)

// A state directory that others may write to is not used, and nothing is written.
func TestCase62StateDirectoryOfOthers(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := openState(dir, "test", identity.Machine{})
	if err == nil || !strings.Contains(err.Error(), "writable by everyone") || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v was written", left)
	}
}

// A lock or a state file that is a link is another file's name: that stays as it was.
func TestCase63LockIsALink(t *testing.T) {
	for _, name := range []string{lockName, stateName} {
		dir := t.TempDir()
		victim := filepath.Join(t.TempDir(), "victim")
		if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := openState(dir, "test", identity.Machine{}); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("%s: %v", name, err)
		}
		if text, _ := os.ReadFile(victim); string(text) != "precious" {
			t.Errorf("%s: the file is %q now", name, text)
		}
	}
}

// Files that are another's keep an agent with a user from starting: its keeper is root, and
// would read them.
func TestHomeWithFilesOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root can make a file another's")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hook-journal.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(dir, "hook-journal.json"), 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := openHome(dir, &Apart{UID: 12345, GID: 12345}); err == nil || !strings.Contains(err.Error(), "uid 12345") {
		t.Errorf("%v", err)
	}
}

// What a user who may write in a directory has put there in place of a file is not given
// away, and not believed.
func TestHomeGivesNoOtherFileAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root gives files away")
	}
	for name, trick := range map[string]func(victim, file string) error{"a link": os.Symlink, "another name": os.Link} {
		dir := t.TempDir()
		victim := filepath.Join(dir, "victim")
		inner := filepath.Join(dir, homeName)
		if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(inner, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := trick(victim, filepath.Join(inner, stateName)); err != nil {
			t.Fatal(err)
		}
		if _, err := openHome(dir, &Apart{UID: 12345, GID: 12345}); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := durable.ReadFile(victim); err != nil {
			t.Errorf("%s: the file was given away: %v", name, err)
		}
	}
}

// Whatever was written in the place of a process number does not reach a terminal.
func TestHolderOfTheLockIsANumber(t *testing.T) {
	dir := t.TempDir()
	s, err := openState(dir, "test", identity.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := os.WriteFile(filepath.Join(dir, lockName), []byte("\x1b[2J evil"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openState(dir, "test", identity.Machine{}); err == nil || strings.Contains(err.Error(), "evil") {
		t.Errorf("%v", err)
	}
}
