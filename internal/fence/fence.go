// Package fence keeps the highest epoch that a shared resource has seen in a
// file, and refuses lower ones (protocol 4.1, G1): a leader that was frozen and
// does not know yet that it has ended cannot write after its successor has.
//
// What Check promises, for any number of processes that use one file, also over
// crashes of any of them and of the machine:
//
//  1. Once it has accepted an epoch it accepts none with a lower counter, and
//     none with the same counter of another owner.
//  2. A crash at any moment leaves the epoch of before or the new one. Nothing is
//     accepted before it is on disk.
//  3. A file that is damaged, empty, or something else altogether is reported
//     and never written to.
//
// The file is locked (flock) and written in place, never replaced: so it can
// stand on a network file system beside the resource that it protects, where a
// lock on a file that was replaced meanwhile would protect nothing. The file
// system must support flock between all who use it: NFS since Linux 2.6.12 does.
//
// The check and the write that it protects are two steps. A process that is
// frozen between them writes late all the same: only a resource that compares
// epochs by itself is proof against that.
package fence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/durable"
)

// Refused is returned when the file has seen an epoch that the given one does
// not follow.
type Refused struct {
	Given, Highest Epoch
}

func (r *Refused) Error() string {
	if r.Given.Counter == r.Highest.Counter {
		return fmt.Sprintf("epoch %v refused: epoch %v, of another owner, has been here", r.Given, r.Highest)
	}
	return fmt.Sprintf("epoch %v refused: epoch %v has been here", r.Given, r.Highest)
}

var (
	// ErrBusy is returned when ctx ended before the file's lock could be had.
	ErrBusy = errors.New("another process holds its lock")

	errNotRegular = errors.New("not a regular file")
)

// Options say how the file is treated. The zero Options are for most.
type Options struct {
	// MustExist refuses to begin a new file where there is none: for a file on
	// storage that may not be mounted, where a new one would know nothing.
	MustExist bool
}

// Check accepts e, which is then on disk, or gives the reason why not: *Refused
// if a newer leader was here, ErrBusy if ctx ended first, else what is wrong with
// the file. A missing file is begun with e.
func Check(ctx context.Context, path string, e Epoch, o Options) error {
	if err := e.validate(); err != nil {
		return err
	}
	err := check(ctx, path, e, o)
	var refused *Refused
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return fmt.Errorf("fence file %s: %w", path, unwrapPath(err))
}

// unwrapPath takes off what names the file again.
func unwrapPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) && err == error(at) {
		return fmt.Errorf("%s: %w", at.Op, at.Err)
	}
	return err
}

// begins is how often Check tries to begin a file that others begin and remove
// at the same time. Arbitrary.
const begins = 5

func check(ctx context.Context, path string, e Epoch, o Options) error {
	for range begins {
		f, err := open(path)
		switch {
		case err == nil:
			defer f.Close()
			return compare(ctx, f, path, e)
		case !errors.Is(err, fs.ErrNotExist) || o.MustExist:
			return err
		}
		if err = begin(path, e); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return errors.New("it is there and cannot be opened: a symbolic link to nothing?")
}

// open does not wait for the other end of a named pipe, nor take one for a file.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		if err == nil {
			err = errNotRegular
		}
		return nil, err
	}
	return f, nil
}

// compare is the critical section: read, decide, write, sync. What is accepted
// is written even if it is there already: the process that wrote it may have
// been killed before its sync, or the sync may have failed, after which a later
// one reports success for pages that are not on disk.
func compare(ctx context.Context, f *os.File, path string, e Epoch) error {
	if err := lock(ctx, f); err != nil {
		return err
	}
	content, err := io.ReadAll(io.LimitReader(f, fileSize+1))
	if err != nil {
		return err
	}
	highest, writes, err := plan(content, e)
	if err != nil {
		return err
	}
	if !e.follows(highest) {
		return &Refused{Given: e, Highest: highest}
	}
	for _, w := range writes {
		if _, err := f.WriteAt(w.text, w.at); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return syncDir(path)
}

// lock waits for the exclusive lock, which goes with the open file. A wait that
// is given up goes on in the background, on a descriptor of its own, until the
// lock comes or the process ends.
func lock(ctx context.Context, f *os.File) error {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	got := make(chan error, 1)
	go func() {
		err := unix.Flock(fd, unix.LOCK_EX)
		for errors.Is(err, unix.EINTR) {
			err = unix.Flock(fd, unix.LOCK_EX)
		}
		if ctx.Err() != nil { // nobody waits any more: do not keep it
			_ = unix.Flock(fd, unix.LOCK_UN)
		}
		unix.Close(fd)
		got <- err
	}()
	select {
	case err = <-got:
	case <-ctx.Done():
		return ErrBusy
	}
	switch {
	case err != nil:
		return fmt.Errorf("lock: %w", err)
	case ctx.Err() != nil:
		return ErrBusy
	}
	return nil
}

// begin makes a file that holds e. It gets its name when it is whole, and only if
// nothing else has that name: so whoever finds it finds an epoch in it. A crash
// in between leaves a file .NAME.new-* that nobody reads.
func begin(path string, e Epoch) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(fresh(e))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := linkNew(f.Name(), path); err != nil {
		return err
	}
	return syncDir(path)
}

// linkNew names a file unless the name is taken. File systems without hard links
// have the other way.
func linkNew(from, to string) error {
	err := unix.Link(from, to)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
		err = unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	return nil
}

// syncDir makes the file's name durable, also when another process gave it and
// was killed then.
func syncDir(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("sync its directory: %w", err)
	}
	return durable.SyncDir(filepath.Dir(real))
}
