package access

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Denied is what keeps a user from reading a file, in one line.
type Denied struct {
	Part string // the file, or a directory on the way to it that the user cannot search
	IsOn bool   // it is on the way
}

func (d *Denied) Error() string {
	if d.IsOn {
		return d.Part + ": it cannot be searched"
	}
	return d.Part + ": it cannot be read"
}

// Readable asks the kernel, as root, whether a user of that group and no other could open a file for reading: what owner,
// mode and access control list say, of whatever kind, and on the way to it too. The error is a *Denied if they say no.
func Readable(path string, uid, gid int) error {
	asked := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread, which has become another's, ends with the goroutine
		asked <- readableHere(path, uid, gid)
	}()
	return <-asked
}

// readableHere makes the calling thread that user's for files, which takes its power over modes with it (capabilities(7)).
// The other threads stay as they are: hence a bare setgroups, where Go's own has all of them follow.
func readableHere(path string, uid, gid int) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return fmt.Errorf("look as uid %d: %w", uid, errno)
	}
	_, _ = unix.SetfsgidRetGid(gid) // these two say nothing of success
	_, _ = unix.SetfsuidRetUid(uid)
	if now, _ := unix.SetfsuidRetUid(-1); now != uid {
		return fmt.Errorf("look as uid %d: %w", uid, unix.EPERM)
	}
	at := "/"
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		next := filepath.Join(at, name)
		if _, err := os.Lstat(next); errors.Is(err, fs.ErrPermission) {
			return &Denied{Part: at, IsOn: true}
		}
		at = next
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EACCES):
		return &Denied{Part: path}
	case err != nil:
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return unix.Close(fd)
}
