package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrForeign is wrapped by the refusal of a file or directory that somebody else could have
// written: what it says is believed.
var ErrForeign = errors.New("others could have written it")

// CheckDir refuses a directory that belongs to neither this process's user nor root, or that
// others may write to.
func CheckDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no directory", dir)
	}
	return checkOwn(dir, info)
}

// Open opens a file as os.OpenFile does, for its owner alone if it is made. A link, what is
// no file, and a file that others own or may write to are refused.
func Open(path string, flag int) (*os.File, error) {
	// O_NONBLOCK: a FIFO must not hang. It means nothing to a file.
	f, err := os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link: %w: expected a file", path, ErrForeign)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", path)
	}
	if err == nil {
		err = checkOwn(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadFile reads a file that Open would open.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func checkOwn(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch uid := os.Geteuid(); {
	case !ok:
		return fmt.Errorf("%s has no owner that is known: %w", path, ErrForeign)
	case int(stat.Uid) != uid && stat.Uid != 0:
		return fmt.Errorf("%s belongs to uid %d: %w: expected uid %d; chown it, if its content is right", path, stat.Uid, ErrForeign, uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s may be written by others (mode %04o): %w: chmod go-w it, if its content is right", path, info.Mode().Perm(), ErrForeign)
	}
	return nil
}
