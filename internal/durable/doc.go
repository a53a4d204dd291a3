// Package durable writes what must survive the loss of power. Each function
// returns when the disk has what it was given, the file's name included, and says
// so with a nil error; after an error either what was there before or the new
// content is found, never a mixture.
package durable

import (
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Replace puts a file with this content in the place of what path names, readable by its
// owner alone.
func Replace(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := renameio.WriteFile(path, content, 0o600, renameio.WithTempDir(dir)); err != nil {
		return err
	}
	return SyncDir(dir) // renameio syncs the content, and not the name
}

// SyncDir makes the names in a directory last.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
