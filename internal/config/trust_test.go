package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/trust"
)

// Root takes no configuration that somebody else could have written: itself, by its group, or
// by a directory on the way to it.
func TestCase61ConfigurationOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root can make a file another's")
	}
	root := alpha()
	root.root, root.trust = true, trust.CheckPath
	for name, change := range map[string]func(dir, file string) error{
		"its owner":         func(_, file string) error { return os.Chown(file, 12345, 0) },
		"its group":         func(_, file string) error { return firstOf(os.Chown(file, 0, 12345), os.Chmod(file, 0o660)) },
		"the directory's":   func(dir, _ string) error { return os.Chown(dir, 12345, 0) },
		"the open one's":    func(dir, _ string) error { return os.Chmod(dir, 0o777) },
		"a link's":          func(_, file string) error { return replaceByLink(file) },
		"nobody but root's": nil,
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "etc")
			file := filepath.Join(dir, "agent.toml")
			if err := firstOf(os.Mkdir(dir, 0o755), os.WriteFile(file, []byte("cluster = \"lab\"\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
			if change != nil {
				if err := change(dir, file); err != nil {
					t.Fatal(err)
				}
			}
			_, err := load(Source{Path: file}, root)
			switch {
			case change == nil && err != nil:
				t.Error(err)
			case change != nil && (err == nil || !strings.HasPrefix(err.Error(), file+": its hooks run as root, and somebody else could have written it: ")):
				t.Errorf("%v", err)
			}
		})
	}
}

// replaceByLink has the name be that of a file elsewhere, which is another's.
func replaceByLink(file string) error {
	elsewhere := file + ".real"
	return firstOf(os.Rename(file, elsewhere), os.Chown(elsewhere, 12345, 0), os.Symlink(elsewhere, file))
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
