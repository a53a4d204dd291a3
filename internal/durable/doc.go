// Package durable writes what must survive the loss of power. Each function
// returns when the disk has what it was given, the file's name included, and says
// so with a nil error, if it does not say otherwise; after an error either what was
// there before or the new content is found, never a mixture.
package durable

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
)

// Replace puts a file with this content in the place of what path names, readable by its
// owner alone. A crash may leave a file beside it whose name begins with a dot and its own.
func Replace(path string, content []byte) error {
	return ReplaceOf(path, content, os.Geteuid(), os.Getegid())
}

// ReplaceOf is Replace for a file that belongs to this user and group.
func ReplaceOf(path string, content []byte, uid, gid int) error {
	return settle(path, content, uid, gid, rename)
}

// Create makes a file with this content, readable by its owner alone, who is this user. If
// there is anything of that name, the error is os.ErrExist, and it stays as it is.
func Create(path string, content []byte, uid, gid int) error {
	return settle(path, content, uid, gid, func(fresh, path string) error {
		err := link(fresh, path) // a rename would take the place of what is there
		_ = Remove(fresh)
		return err
	})
}

// settle makes a file that has all of its content before it has its name.
func settle(path string, content []byte, uid, gid int, name func(fresh, path string) error) error {
	dir := filepath.Dir(path)
	fresh := filepath.Join(dir, "."+filepath.Base(path)+"-"+rand.Text())
	if err := fill(fresh, content, uid, gid, true); err != nil {
		return err
	}
	if err := name(fresh, path); err != nil {
		_ = Remove(fresh)
		return err
	}
	return SyncDir(dir)
}

// Swap is Replace by way of the file fresh, for one whose name need not last: after a loss
// of power what was there before may be found. If it is not synced, nothing or half of it
// may be found as well.
func Swap(path, fresh string, content []byte, synced bool) error {
	if err := fill(fresh, content, os.Geteuid(), os.Getegid(), synced); err != nil {
		return err
	}
	err := rename(fresh, path)
	if err != nil {
		_ = Remove(fresh)
	}
	return err
}

// fill makes a file, or nothing. It gets its owner, and content only then.
func fill(path string, content []byte, uid, gid int, synced bool) error {
	f, err := openFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if uid != os.Geteuid() || gid != os.Getegid() {
		err = f.Chown(uid, gid)
	}
	if err == nil {
		err = f.writeAt(content, 0)
	}
	if err == nil && synced {
		err = f.sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = Remove(path)
	}
	return err
}
