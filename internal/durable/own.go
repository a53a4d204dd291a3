package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/access"
)

// CheckWay refuses a directory that others could exchange for another: something on the way to it, which
// may be a link, belongs to neither this process's user nor root, or others may write to it.
func CheckWay(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	return access.OfThisProcess().Walk(dir)
}

// CheckDir is CheckWay, and refuses a directory that others may write to.
func CheckDir(dir string) error {
	if err := CheckWay(dir); err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(dir) // it is the directory that counts
	if err != nil {
		return err
	}
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
		return nil, fmt.Errorf("%s is a symbolic link, which others could have made: expected a file", path)
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

// ReadableError is returned for a file that others may read.
type ReadableError struct{ open *access.Error }

// Error is "readable by group 50 (mode -rw-r-----)".
func (e *ReadableError) Error() string { return e.open.Found }

// CheckPrivate refuses a file that others may read, with a *ReadableError, or write to.
func CheckPrivate(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if err := checkOwn(path, info); err != nil {
		return err
	}
	err = access.OfThisProcess().Private(path, info)
	var open *access.Error
	if errors.As(err, &open) {
		return &ReadableError{open}
	}
	return err
}

// checkOwn refuses what others could have written: what it says is believed.
func checkOwn(path string, info fs.FileInfo) error {
	if err := access.OfThisProcess().Own(path, info); err != nil {
		return fmt.Errorf("%w, if its content is right", err)
	}
	return nil
}
