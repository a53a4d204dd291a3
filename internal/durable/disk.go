package durable

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Op is one change of the disk that is about to be made by this package.
type Op struct {
	Kind    Kind
	Path    string
	To      string // of a Rename or Link
	Handle  uint64 // of the file, from its Open on; names change
	At      int64  // of a Write; the length, of a Truncate
	Content []byte // of a Write; the caller's
}

// Kind is what an Op does.
type Kind string

// All that this package does to a disk.
const (
	OpOpen     Kind = "open"   // of a file that is there
	OpCreate   Kind = "create" // or empty one
	OpWrite    Kind = "write"
	OpTruncate Kind = "truncate"
	OpSync     Kind = "sync"
	OpRename   Kind = "rename"
	OpLink     Kind = "link"
	OpUnlink   Kind = "unlink"
	OpNameSync Kind = "sync of names" // of a directory
)

// watcher hears of each Op before it is made; with an error it is not made. nil: nobody
// does. It is the only way by which a test can stop at each of them: a crash between two
// cannot be made from outside without a process for each.
var watcher atomic.Pointer[func(Op) error]

// Watch has a function called before each operation, on any goroutine, until stop. It is
// for tests.
func Watch(before func(Op) error) (stop func()) {
	watcher.Store(&before)
	return func() { watcher.Store(nil) }
}

func before(op Op) error {
	if watch := watcher.Load(); watch != nil {
		return (*watch)(op)
	}
	return nil
}

// file is an open file whose changes can be watched.
type file struct {
	*os.File
	handle uint64
}

var handles atomic.Uint64

// openFile is Open; with O_CREATE the file is empty then.
func openFile(path string, flag int) (*file, error) {
	f, kind := &file{handle: handles.Add(1)}, OpOpen
	if flag&os.O_CREATE != 0 {
		kind = OpCreate
	}
	if err := before(Op{Kind: kind, Path: path, Handle: f.handle}); err != nil {
		return nil, err
	}
	var err error
	if f.File, err = Open(path, flag); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *file) op(kind Kind) Op { return Op{Kind: kind, Path: f.Name(), Handle: f.handle} }

func (f *file) writeAt(b []byte, at int64) error {
	op := f.op(OpWrite)
	op.At, op.Content = at, b
	if err := before(op); err != nil {
		return err
	}
	_, err := f.WriteAt(b, at)
	return err
}

func (f *file) truncate(size int64) error {
	op := f.op(OpTruncate)
	op.At = size
	if err := before(op); err != nil {
		return err
	}
	return f.Truncate(size)
}

// sync has the disk take all of the file but its name.
func (f *file) sync() error {
	if err := before(f.op(OpSync)); err != nil {
		return err
	}
	return f.Sync()
}

// datasync is sync without what no reader needs, as the times.
func (f *file) datasync() error {
	if err := before(f.op(OpSync)); err != nil {
		return err
	}
	return unix.Fdatasync(int(f.Fd()))
}

func rename(from, to string) error {
	if err := before(Op{Kind: OpRename, Path: from, To: to}); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// link is a rename that takes nothing's place.
func link(from, to string) error {
	if err := before(Op{Kind: OpLink, Path: from, To: to}); err != nil {
		return err
	}
	return os.Link(from, to)
}

// Remove is os.Remove. After a loss of power the file may be there again.
func Remove(path string) error {
	if err := before(Op{Kind: OpUnlink, Path: path}); err != nil {
		return err
	}
	return os.Remove(path)
}

// SyncDir makes the names in a directory last.
func SyncDir(dir string) error {
	if err := before(Op{Kind: OpNameSync, Path: dir}); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
