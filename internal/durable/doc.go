// Package durable writes what must survive the loss of power. Each function
// returns when the disk has what it was given, the file's name included, and says
// so with a nil error; after an error either what was there before or the new
// content is found, never a mixture.
package durable

import (
	"errors"
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

// ReplaceOf is Replace for a file that belongs to this user and group.
func ReplaceOf(path string, content []byte, uid, gid int) error {
	dir := filepath.Dir(path)
	fresh, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithPermissions(0o600))
	if err != nil {
		return err
	}
	defer func() { _ = fresh.Cleanup() }() // of what was not put in place
	if err := fill(fresh.File, content, uid, gid); err != nil {
		return err
	}
	if err := fresh.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return SyncDir(dir)
}

// Create makes a file with this content, readable by its owner alone, who is this user. If
// there is anything of that name, the error is os.ErrExist, and it stays as it is.
func Create(path string, content []byte, uid, gid int) error {
	dir := filepath.Dir(path)
	fresh, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(fresh.Name()) }()
	err = errors.Join(fill(fresh, content, uid, gid), fresh.Sync(), fresh.Close())
	if err == nil {
		err = os.Link(fresh.Name(), path) // a rename would take the place of what is there
	}
	if err != nil {
		return err
	}
	return SyncDir(dir)
}

// fill gives a file its owner, and content only then.
func fill(f *os.File, content []byte, uid, gid int) error {
	if uid != os.Geteuid() || gid != os.Getegid() {
		if err := f.Chown(uid, gid); err != nil {
			return err
		}
	}
	_, err := f.Write(content)
	return err
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
