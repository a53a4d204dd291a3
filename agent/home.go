package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// home is where the agent keeps its own files: state, receipts, history, and ledger of jobs. That is the
// state directory, where the keeper has its journal and records as well. Of an agent that gives
// up its rights it is a directory in that, the only one that it may write to then: the rest
// stays the keeper's.
type home struct {
	dir  string
	lock *os.File // of the state directory, held beside that of the home; nil: they are one
}

const homeName = "agent"

// homely are the files that move when an agent begins to give up its rights, or ceases to.
var homely = []string{historyName, ledgerName, receiptsName, stateName}

func (h home) close() {
	if h.lock != nil {
		h.lock.Close()
	}
}

// openHome finds the agent's files where its last life has left them.
func openHome(dir string, apart *Apart) (home, error) {
	inner := filepath.Join(dir, homeName)
	if _, err := os.Lstat(inner); apart == nil && errors.Is(err, os.ErrNotExist) {
		return home{dir: dir}, nil // openState makes it, and locks it
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return home{}, noPlace(dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return home{}, err
	}
	if apart == nil {
		defer lock.Close() // openState takes it
		return home{dir: dir}, moveHome(inner, dir, os.Geteuid(), os.Getegid())
	}
	h := home{dir: inner, lock: lock}
	err = checkKeepers(dir)
	if err == nil {
		err = h.build(dir, apart)
	}
	if err != nil {
		h.close()
		return home{}, err
	}
	return h, nil
}

// noPlace says why the state directory cannot be used: mostly the directory is not this
// user's, or one above it is closed to him.
func noPlace(dir string, err error) error {
	hint := "the directory must be one that this user may write: see --state-dir"
	if closed := closedAbove(dir); closed != "" && errors.Is(err, fs.ErrPermission) {
		hint = fmt.Sprintf("uid %d cannot pass through %s: chmod o+x it, or see --state-dir", os.Geteuid(), closed)
	}
	return refusal(hint, "state directory: %w", err)
}

// closedAbove finds the first directory on the way to this one that this user cannot pass
// through; empty: there is none.
func closedAbove(dir string) string {
	for i, c := range dir {
		if c != filepath.Separator || i == 0 {
			continue
		}
		if err := unix.Faccessat(unix.AT_FDCWD, dir[:i], unix.X_OK, unix.AT_EACCESS); errors.Is(err, unix.EACCES) {
			return dir[:i]
		}
	}
	return ""
}

// checkKeepers refuses a state directory in which the keeper would read or write what is
// another user's.
func checkKeepers(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return refusal("", "state directory: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || e.Name() == homeName {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
			return refusal(fmt.Sprintf("look at it, and chown -R %d %s", os.Geteuid(), dir),
				"%s is of uid %d: what the keeper of an agent with a user reads must be its own", filepath.Join(dir, e.Name()), stat.Uid)
		}
	}
	return nil
}

// build makes the directory, with what the agent had elsewhere.
func (h home) build(dir string, apart *Apart) error {
	steps := []func() error{
		func() error { return os.Lchown(dir, os.Geteuid(), apart.GID) },
		func() error { return os.Chmod(dir, 0o750) }, // the user passes through it, and reads what hooks have printed
		func() error { return makeHome(h.dir) },
		func() error { return moveHome(dir, h.dir, apart.UID, apart.GID) },
		func() error { return giveHome(h.dir, apart) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return refusal("", "state directory of user %d: %w", apart.UID, err)
		}
	}
	return nil
}

func makeHome(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is in the way: expected a directory", dir)
	}
	return err
}

// giveHome gives directory and files to the user, also if somebody has taken them, as a
// service manager does with a state directory.
func giveHome(dir string, apart *Apart) error {
	for _, name := range append([]string{lockName}, homely...) {
		if err := giveFile(filepath.Join(dir, name), apart.UID, apart.GID); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.Lchown(dir, apart.UID, apart.GID)
}

// moveHome moves the files to where they are now, and gives them to that user. What is there
// already stays.
func moveHome(from, to string, uid, gid int) error {
	for _, name := range homely {
		was, is := filepath.Join(from, name), filepath.Join(to, name)
		if _, err := os.Lstat(was); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if _, err := os.Lstat(is); err == nil {
			continue
		}
		if err := os.Rename(was, is); err != nil {
			return err
		}
		if err := giveFile(is, uid, gid); err != nil {
			return err
		}
	}
	return nil
}

// giveFile changes the owner of a file that can be nothing else: where another user may write,
// a name could be that of any file by now.
func giveFile(path string, uid, gid int) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !info.Mode().IsRegular() || stat.Nlink != 1 {
		return &fs.PathError{Op: "give", Path: path, Err: errors.New("it is no file with one name")}
	}
	return f.Chown(uid, gid)
}
